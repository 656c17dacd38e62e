"""Whether pods that are given other nodes may be there, beside the pods that run."""

from collections.abc import Collection, Iterable, Sequence

from toposcope.integrations.framework.constraints import Pods
from toposcope.integrations.framework.placement import kind_of_pod
from toposcope.integrations.framework.pod_rules import Rule
from toposcope.placement.neighbours import Neighbours
from toposcope.placement.nodes import nodes_of
from toposcope.placement.rule_state import RuleState
from toposcope.snapshot.model import PodView, Snapshot


class MovingRules:
    """The rules between pods that are moved, and those of and about the others that run."""

    def __init__(self, snapshot: Snapshot, moving: Sequence[PodView]) -> None:
        """Those of `moving` that the snapshot has, too, count as put where they are."""
        names = {(pod.namespace, pod.name) for pod in moving}
        others = []
        put = []
        for pod in snapshot.pods or ():
            if (pod.namespace, pod.name) in names:
                put.append(pod)
            else:
                others.append(pod)
        nodes = list(nodes_of(snapshot, None, {}))
        neighbours = Neighbours(others, {node.name: node for node in nodes})
        self._kinds = _Kinds(moving)
        self.has_rules = self._kinds.has_rules or bool(neighbours.repelling)
        self._state = RuleState(self._kinds.kinds, nodes, neighbours)
        self.put(put)

    @property
    def doubt(self) -> str:
        """Why it is not known which pods a rule is about; empty: it is."""
        return next(iter(self._state.unclear), "")

    def put(self, pods: Iterable[PodView], times: int = 1) -> None:
        """Put pods on the nodes where they are, or with -1 take them away."""
        for pod in pods:
            node = self._state.number_of.get(pod.node)
            if node is not None:
                self._state.put(self._kinds.number_of(pod), node, times)

    def blocked(self, pod: PodView, node: str) -> Rule | None:
        """The rule that keeps a pod from a node now; None: there is none."""
        kind = self._kinds.number_of(pod)
        return self._state.blocked(kind, self._state.number_of[node])

    def is_barred(self, pod: PodView, nodes: Collection[str]) -> bool:
        """Whether pods that run and stay keep a pod from all of these nodes."""
        kind = self._kinds.number_of(pod)
        return self._state.barred[kind].keys() >= set(nodes)

    def broken_by(self, pods: Sequence[PodView]) -> Rule | None:
        """The first rule that keeps these pods from their nodes, in whatever order they come."""
        waiting = list(pods)
        placed: list[PodView] = []
        before = -1
        while waiting and len(waiting) != before:
            before = len(waiting)
            waiting = self._still_waiting(waiting, placed)
        rule = None
        if waiting:
            rule = self.blocked(waiting[0], waiting[0].node)
        self.put(placed, -1)
        return rule

    def _still_waiting(self, pods: Iterable[PodView], placed: list[PodView]) -> list[PodView]:
        """The pods that may not be on their nodes yet; the others are put, and are `placed`."""
        waiting = []
        for pod in pods:
            if self.blocked(pod, pod.node):
                waiting.append(pod)
            else:
                self.put([pod])
                placed.append(pod)
        return waiting


class _Kinds:
    """The different pods among many."""

    def __init__(self, pods: Iterable[PodView]) -> None:
        self.has_rules = False
        self.kinds: list[Pods] = []
        self._numbers: dict[object, int] = {}
        for pod in pods:
            kind = kind_of_pod(pod)
            self.has_rules = self.has_rules or not kind.rules.asks_nothing
            key = kind, kind.rules.labels
            if key not in self._numbers:
                self._numbers[key] = len(self.kinds)
                self.kinds.append(kind)

    def number_of(self, pod: PodView) -> int:
        """The number of a pod's kind."""
        kind = kind_of_pod(pod)
        return self._numbers[kind, kind.rules.labels]
