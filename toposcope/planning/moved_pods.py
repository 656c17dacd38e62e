"""Whether pods that are given other nodes may be there, beside the pods that run."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from toposcope.integrations.framework.constraints import Pods
from toposcope.integrations.framework.placement import kind_of_pod
from toposcope.integrations.framework.pod_rules import Rule
from toposcope.placement.neighbours import Neighbours
from toposcope.placement.nodes import nodes_of
from toposcope.placement.rule_state import RuleState
from toposcope.planning.rehoming import Rehomed
from toposcope.snapshot.model import PodView, Snapshot


def by_rules(snapshot: Snapshot, rehomed: Sequence[Rehomed]) -> tuple[Rehomed, ...]:
    """What becomes of gangs, with the rules that some of their pods would break where they go.

    The snapshot is without the pods that move. The search for their nodes does not go by rules
    between pods, so another way may break none.
    """
    moved: list[PodView] = []
    for gang in rehomed:
        moved += gang.placed
    kinds = _Kinds(moved)
    nodes = list(nodes_of(snapshot, None, {}))
    neighbours = Neighbours(snapshot.pods or (), {node.name: node for node in nodes})
    if not kinds.have_rules and not neighbours.repelling:
        return tuple(rehomed)

    state = RuleState(kinds.kinds, nodes, neighbours)
    checked = []
    for gang in rehomed:
        broken = dict.fromkeys(_broken(state, kinds, gang.placed))
        checked.append(replace(gang, broken=tuple(broken)))
    return tuple(checked)


class _Kinds:
    """The different pods among many."""

    def __init__(self, pods: Iterable[PodView]) -> None:
        self.have_rules = False
        self.kinds: list[Pods] = []
        self._numbers: dict[object, int] = {}
        for pod in pods:
            kind = kind_of_pod(pod)
            self.have_rules = self.have_rules or not kind.rules.asks_nothing
            key = kind, kind.rules.labels
            if key not in self._numbers:
                self._numbers[key] = len(self.kinds)
                self.kinds.append(kind)

    def number_of(self, pod: PodView) -> int:
        """The number of a pod's kind."""
        kind = kind_of_pod(pod)
        return self._numbers[kind, kind.rules.labels]


def _broken(state: RuleState, kinds: _Kinds, pods: Sequence[PodView]) -> Iterator[Rule]:
    """The rules that keep these pods from their nodes, in whatever order they come there."""
    waiting = list(pods)
    before = -1
    while waiting and len(waiting) != before:
        before = len(waiting)
        waiting = _still_waiting(state, kinds, waiting)
    for pod in waiting:
        rule = state.blocked(kinds.number_of(pod), state.number_of[pod.node])
        if rule:
            yield rule


def _still_waiting(state: RuleState, kinds: _Kinds, pods: Iterable[PodView]) -> list[PodView]:
    waiting = []
    for pod in pods:
        kind = kinds.number_of(pod)
        node = state.number_of[pod.node]
        if state.blocked(kind, node):
            waiting.append(pod)
        else:
            state.put(kind, node)
    return waiting
