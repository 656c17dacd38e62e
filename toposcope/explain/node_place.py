"""The checks on a node's place: its levels, its cables, and whether it takes pods."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from toposcope.api.label_keys import PREFIX
from toposcope.api.levels import Level
from toposcope.hierarchy.coverage import crossings
from toposcope.integrations.framework.features import CheckStep, failed, passed
from toposcope.integrations.registry import LEAVING_OUT
from toposcope.snapshot.filters import lacking, repelling, value_at, wrong_cables
from toposcope.snapshot.model import NodeView, Snapshot
from toposcope.snapshot.scope import Scope, select_scope
from toposcope.text import Command, enumerated, plural, shell

_SCHEDULERS: Final = enumerated(LEAVING_OUT)


@dataclass(frozen=True, slots=True)
class _Place:
    """A node in the scope of one ClusterTopology, or of the labels alone."""

    scope: Scope
    node: NodeView

    def value(self, level: Level) -> str | None:
        """The node's domain at a level; None if it has none."""
        return value_at(self.scope, self.node, level.key)


def check_kubelet(_: Snapshot, node: NodeView) -> CheckStep:
    """Whether the node is Ready."""
    if node.is_ready:
        return passed("it is Ready")
    return failed(
        "it is not Ready: its kubelet does not answer, or reports a fault; no pods start on it",
        commands=(_describe(node),),
    )


def check_place(snapshot: Snapshot, node: NodeView) -> CheckStep:
    """Whether it carries each level, in one domain with those that it belongs to."""
    if not node.has_gpus:
        return passed("it has no GPUs, so it needs no place")
    places = list(_places(snapshot, node))
    if not places:
        return passed("no ClusterTopology selects it")

    # In insertion order, each once: topologies of segments repeat what is wrong in their parent.
    commands_by_fault: dict[str, Command] = {}
    for place in places:
        for fault in _faults(place):
            commands_by_fault.setdefault(fault.sentence, fault.command)
    if commands_by_fault:
        commands = dict.fromkeys(commands_by_fault.values())
        return failed(*commands_by_fault, commands=tuple(commands))
    return passed(_path(places[0]))


@dataclass(frozen=True, slots=True)
class _Fault:
    """Something wrong with a place, and the command that shows it."""

    sentence: str
    command: Command


def _faults(place: _Place) -> Iterator[_Fault]:
    for level in _lacked(place):
        of_topology = f" of ClusterTopology {place.scope.name}" if place.scope.name else ""
        sentence = (
            f"it lacks level {level.domain}{of_topology} (label {level.key}): "
            f"{_SCHEDULERS} leave it out"
        )
        yield _Fault(sentence, shell("kubectl get nodes -L {}", level.key))
    for sentence in _misplacements(place):
        yield _Fault(sentence, _levels(place))
    name = place.node.name
    for sentence in wrong_cables(place.scope, place.node):
        yield _Fault(sentence, shell("toposcope nodes {} -o wide", name))


def check_scheduling(_: Snapshot, node: NodeView) -> CheckStep:
    """Whether new pods may be scheduled on it."""
    reasons = []
    commands = []
    if not node.is_schedulable:
        reasons.append("it is cordoned: no new pods are scheduled on it")
        commands.append(shell("kubectl uncordon {}", node.name))
    taints = repelling(node)
    if taints:
        names = enumerated([str(taint) for taint in taints])
        them = plural(len(taints), "taint", "taints")
        reasons.append(f"it has the {them} {names}: only pods that tolerate this are scheduled")
        commands.append(_describe(node))
    if reasons:
        return failed(*reasons, commands=tuple(commands))
    return passed("it is not cordoned, and has no taint that keeps GPU pods away")


def _describe(node: NodeView) -> Command:
    return shell("kubectl describe node {}", node.name)


def _levels(place: _Place) -> Command:
    if place.scope.name:
        return shell("toposcope levels {}", place.scope.name)
    return shell("toposcope levels")


def _places(snapshot: Snapshot, node: NodeView) -> Iterator[_Place]:
    """The node's place in each ClusterTopology that selects it; by labels if there is none."""
    if not snapshot.topologies:
        yield _Place(select_scope(snapshot), node)
        return
    for topology in snapshot.topologies:
        if topology.selects(node):
            yield _Place(select_scope(snapshot, topology.name), node)


def _lacked(place: _Place) -> Iterator[Level]:
    """The levels that it lacks, but for those of an agent that has not labelled it."""
    missing = frozenset(lacking(place.scope, place.node))
    for level in place.scope.levels:
        is_of_agent = level.key.startswith(PREFIX)
        if level.domain in missing and not (is_of_agent and place.node.is_without_agent):
            yield level


def _path(place: _Place) -> str:
    """Where it is, broadest level first."""
    parts = [f"{level.domain} {place.value(level)}" for level in place.scope.levels]
    return ", ".join(parts) or "there are no levels"


def _misplacements(place: _Place) -> Iterator[str]:
    """A sentence for each of its domains that has most of its other nodes elsewhere."""
    levels = place.scope.levels
    crossed_keys = set()
    for crossing in crossings(levels, place.scope.table()):
        # Names that each block reuses are ordinary; levels about to change places are no fault.
        if not crossing.is_reused and not crossing.is_turned:
            crossed_keys.add(crossing.key)
    for position, narrow in enumerate(levels):
        if narrow.key in crossed_keys:
            yield from _elsewhere(place, narrow, levels[:position])


def _elsewhere(place: _Place, narrow: Level, above: Sequence[Level]) -> Iterator[str]:
    """The sentence about the nearest level above in which most nodes of its domain are elsewhere.

    Where they are divided evenly, it is unknown which are misplaced, so each of them is reported.
    """
    domain = place.value(narrow)
    if domain is None:
        return
    for broad in reversed(above):
        parents = _parents(place.scope, narrow, domain, broad)
        own = place.value(broad)
        alone = parents.pop(own, 0) if own else 0
        if not alone or not parents:
            continue
        most, others = parents.most_common(1)[0]
        if alone > others:
            continue
        here = plural(alone, "this node alone", f"{alone} nodes with this one")
        yield (
            f"it may be misplaced: {narrow.domain} {domain} lies under {broad.domain} {own} by "
            f"{here}, and under {most} by {others} {plural(others, 'other')}; "
            "correct its label or its cables"
        )
        return


def _parents(scope: Scope, narrow: Level, domain: str, broad: Level) -> Counter[str]:
    """How many nodes of a domain are in each domain of a broader level."""
    table = scope.table()
    parents: Counter[str] = Counter()
    pairs = zip(table.values(narrow.key), table.values(broad.key), strict=True)
    for value, parent in pairs:
        if value == domain and parent is not None:
            parents[parent] += 1
    return parents
