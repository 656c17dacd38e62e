"""The plan that agents follow on their own Nodes.

What belongs in it, its ConfigMap, and who has not written yet.

The controller writes no Node. Where two topologies want different values on one node, the older
one's count. A level that is not in effect says nothing, and its labels stay.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.conditions import SLINKY_ANNOTATED, UNIQUE_VALUES_WRITTEN, Condition
from toposcope.api.label_keys import SLINKY, SLINKY_KEPT, is_own_input, unique_key
from toposcope.controller.assess.assessment import Assessment
from toposcope.controller.publishing.dry_run import DRY_RUN
from toposcope.hierarchy.node import OWN_VALUES, NodeFacts
from toposcope.hierarchy.table import Table
from toposcope.integrations.node_plan import NodePlan, PlannedKeys, PlannedTopology
from toposcope.integrations.slurm.topology import slurm_names
from toposcope.text import plural


def planned(topology: Topology, assessment: Assessment) -> PlannedTopology:
    """What the plan says of a topology, also where Slinky's annotation is only a dry run."""
    names = None
    if topology.slinky and assessment.unexpired:
        names = slurm_names(assessment.unexpired, assessment.selected)
    levels = []
    for level in assessment.effective.levels:
        if not is_own_input(level.key):
            levels.append(level)
    return PlannedTopology(
        name=topology.name,
        selector=topology.selector,
        levels=tuple(levels),
        unique=topology.unique,
        annotates=topology.slinky,
        slurm=names,
    )


def plan_of(
    topologies: Sequence[Topology],
    planned_by_name: Mapping[str, PlannedTopology],
    placeholders: frozenset[str],
    *,
    complete: bool,
) -> NodePlan:
    """The plan of all topologies (the oldest first), given the entry of each by name.

    Dry runs are not in it.
    """
    entries = []
    for topology in topologies:
        entry = planned_by_name.get(topology.name)
        if entry is None:
            continue
        if topology.mode("slinky") == DRY_RUN:
            entry = replace(entry, annotates=False, slurm=None)
        entries.append(entry)
    return NodePlan(tuple(entries), placeholders, complete, has_all_paths=complete)


@dataclass(frozen=True, slots=True)
class Unwritten:
    """Nodes that are not yet as the plan wants them."""

    nodes: int = 0
    first: str = ""
    wanted: str = ""
    """What the first of them should carry; empty: nothing."""
    found: str = ""
    """What it carries; empty: nothing."""

    @property
    def example(self) -> str:
        """How many nodes, and the first with what it carries, in words."""
        nodes = plural(self.nodes, "node")
        text = f"{self.nodes} {nodes}, first {self.first}"
        if self.found:
            text += f", which carries {self.found!r}"
        return text


ALL_WRITTEN: Final = Unwritten()


def unwritten_values(
    topology: Topology, entry: PlannedTopology, nodes: Table, topologies: Sequence[Topology]
) -> Unwritten:
    """Selected nodes whose labels of unique values differ from the plan.

    `topologies`: all, the oldest first.
    """
    return _sum(_different_values(entry, nodes, _older(topology, topologies)))


def _different_values(
    entry: PlannedTopology, nodes: Table, older: Sequence[Topology]
) -> Iterator[Unwritten]:
    """Each node with a value that differs, but for those that an older topology decides."""
    for node, wanted in _each(entry, nodes):
        for domain in entry.unique:
            key = unique_key(domain)
            value, present = wanted.labels.get(key), node.label(key)
            if wanted.keeps(key) or value == present:
                continue
            decided = any(domain in other.unique and other.selects(node) for other in older)
            if not decided:
                yield Unwritten(1, node.name, value or "", present or "")
                break


def unwritten_annotations(
    topology: Topology, entry: PlannedTopology, nodes: Table, topologies: Sequence[Topology]
) -> Unwritten:
    """Selected nodes whose Slinky annotation differs from the plan.

    `topologies` as in `unwritten_values`.
    """
    if entry.slurm is None:
        return ALL_WRITTEN
    deciding = []
    for older in _older(topology, topologies):
        if older.slinky:
            deciding.append(older)
    return _sum(_different_annotations(entry, nodes, deciding))


def _different_annotations(
    entry: PlannedTopology, nodes: Table, older: Sequence[Topology]
) -> Iterator[Unwritten]:
    """Each node whose annotation differs, but for those that an older topology decides."""
    for node, wanted in _each(entry, nodes):
        present = node.label(SLINKY_KEPT)
        if present == wanted.annotation:
            continue
        decided = any(other.selects(node) for other in older)
        if not decided:
            yield Unwritten(1, node.name, wanted.annotation or "", present or "")


def _sum(differences: Iterable[Unwritten]) -> Unwritten:
    """The first node with a difference, and how many there are."""
    first = ALL_WRITTEN
    count = 0
    for unwritten in differences:
        if not count:
            first = unwritten
        count += 1
    return replace(first, nodes=count)


def _older(topology: Topology, topologies: Sequence[Topology]) -> list[Topology]:
    older = []
    for other in topologies:
        if other.uid == topology.uid:
            break
        older.append(other)
    return older


def _each(entry: PlannedTopology, nodes: Table) -> Iterator[tuple[NodeFacts, PlannedKeys]]:
    """What this topology alone wants on each of its nodes.

    Worked out once for nodes that are alike.
    """
    plan = NodePlan((entry,), nodes.placeholders)
    keys = sorted(entry.input_keys())
    planned_by_values: dict[tuple[str | None, ...], PlannedKeys] = {}
    for node in nodes:
        values = tuple([node.traits.label(key) for key in keys])
        wanted = planned_by_values.get(values) or plan.wanted(node.name, node)
        if OWN_VALUES.isdisjoint(values):
            planned_by_values[values] = wanted
        yield node, wanted


def values_condition(
    topology: Topology, entry: PlannedTopology | None, unwritten: Unwritten, refusal: str
) -> Condition | None:
    """The `UniqueValuesWritten` condition; None where the spec asks for none."""
    if entry is None or not topology.unique:
        return None
    if refusal:
        return Condition(UNIQUE_VALUES_WRITTEN, "False", "Rejected", refusal)
    in_effect = {level.domain for level in entry.levels}
    missing = []
    for domain in topology.unique:
        if domain not in in_effect:
            missing.append(domain)
    if missing:
        text = (
            f"spec.uniqueValues: level {', '.join(missing)} is not in effect; "
            "its labels stay unchanged"
        )
        return Condition(UNIQUE_VALUES_WRITTEN, "False", "LevelMissing", text)
    keys = ", ".join(map(unique_key, topology.unique))
    by = "the component unique-values must be installed"
    return _progress(UNIQUE_VALUES_WRITTEN, keys, unwritten, by=by)


def slinky_condition(
    topology: Topology, entry: PlannedTopology | None, unwritten: Unwritten, refusal: str
) -> Condition | None:
    """The `SlinkyAnnotated` condition; None where the spec asks for none."""
    if entry is None or not topology.slinky:
        return None
    if entry.slurm is None:
        text = "No level is in effect yet, so annotations stay unchanged"
        return Condition(SLINKY_ANNOTATED, "Unknown", "NoLevels", text)
    if topology.mode("slinky") == DRY_RUN:
        return Condition(SLINKY_ANNOTATED, "True", DRY_RUN, _dry_run_text(unwritten))
    if refusal:
        return Condition(SLINKY_ANNOTATED, "False", "Rejected", refusal)
    by = "the component slinky must be installed; annotations of other owners stay unchanged"
    return _progress(SLINKY_ANNOTATED, SLINKY, unwritten, by=by)


def _progress(kind: str, keys: str, unwritten: Unwritten, *, by: str) -> Condition:
    """The condition of keys that the agents may write; `by` says what they need for it."""
    if unwritten.nodes:
        text = f"{keys} is not up to date yet on {unwritten.example}; the agents write it: {by}"
        return Condition(kind, "Unknown", "Writing", text)
    text = f"Every selected node with these levels carries {keys}"
    return Condition(kind, "True", "InSync", text)


def _dry_run_text(unwritten: Unwritten) -> str:
    count = unwritten.nodes
    nodes = plural(count, "node")
    text = f"Dry run, nothing is written: {SLINKY} of {count} {nodes}"
    if count:
        wanted = unwritten.wanted or "none"
        text += f", first {unwritten.first}: {wanted}"
    return text
