"""Which nodes running pods keep a waiting pod from, and which pods do so, for `explain`.

Unlike in a verdict, the pod's own workload counts: its mates already run.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from toposcope.integrations.framework.placement import kind_of_pod
from toposcope.integrations.framework.pod_rules import SCHEDULER_SAYS, PodTerm, Rule, conflict
from toposcope.placement.neighbours import Neighbours
from toposcope.placement.nodes import nodes_of
from toposcope.placement.room import RoomNode
from toposcope.placement.rule_state import RuleState
from toposcope.snapshot.model import PodView, Snapshot


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a pod cannot use a node, however much room it has."""

    rule: Rule
    pods: tuple[str, ...] = ()
    """The pods that are in the way, as `namespace/name`; empty if mates are missing."""

    @property
    def says(self) -> str:
        """The reason in kube-scheduler's words."""
        return SCHEDULER_SAYS[self.rule]


@dataclass(frozen=True, slots=True)
class Followed:
    """A domain that a pod has to join, because the pods that its affinity asks for run there."""

    key: str
    """The node label."""
    value: str
    nodes: tuple[str, ...]
    """All nodes with that value."""
    mates: tuple[str, ...]
    """The pods that run there, as `namespace/name`."""


class WaitingPod:
    """A pod of a cluster that has no node."""

    def __init__(self, snapshot: Snapshot, pod: PodView) -> None:
        self._pods: list[PodView] = []
        for running in snapshot.pods or ():
            if running.node in snapshot.by_name:
                self._pods.append(running)
        self._nodes: dict[str, RoomNode] = {}
        for node in nodes_of(snapshot, None, {}):
            self._nodes[node.name] = node
        self._neighbours = Neighbours(self._pods, self._nodes)
        self._kind = kind_of_pod(pod)

    def refusals(self) -> dict[str, Refusal]:
        """Why running pods keep it from a node, by node; nodes open to it are not listed."""
        nodes = list(self._nodes.values())
        state = RuleState([self._kind], nodes, self._neighbours)
        refusals = {}
        for number, node in enumerate(nodes):
            rule = state.blocked(0, number)
            if rule:
                pods = tuple(self._in_the_way(rule, node.name))
                refusals[node.name] = Refusal(rule, pods)
        return refusals

    def followed(self) -> tuple[Followed, ...]:
        """The domains that its affinity allows, for each label; empty if no mate runs."""
        affinity = self._kind.rules.affinity
        near: Collection[str] = self._neighbours.near(affinity) if affinity else ()
        followed = []
        for term in affinity:
            values = self._neighbours.values(near, term.key)
            for value in sorted(values):
                domain = self._domain(term, value, near)
                followed.append(domain)
        return tuple(followed)

    def _domain(self, term: PodTerm, value: str, near: Collection[str]) -> Followed:
        nodes = []
        for name, node in self._nodes.items():
            if node.labels.get(term.key) == value:
                nodes.append(name)
        nodes_with_mates = set(nodes).intersection(near)
        mates = []
        for pod in self._pods:
            if pod.node in nodes_with_mates and self._neighbours.is_mate(
                self._kind.rules, pod.pod_labels
            ):
                mates.append(_name(pod))
        return Followed(term.key, value, tuple(nodes), tuple(mates))

    def _in_the_way(self, rule: Rule, node: str) -> Iterator[str]:
        """The pods because of which the rule keeps it from a node."""
        for pod in self._pods:
            if self._is_in_the_way(rule, pod, node):
                yield _name(pod)

    def _is_in_the_way(self, rule: Rule, pod: PodView, node: str) -> bool:
        rules = self._kind.rules
        match rule:
            case Rule.PORTS:
                return pod.node == node and conflict(rules.ports, pod.ports) is not None
            case Rule.ANTI_AFFINITY:
                terms = rules.anti_affinity
                labels = pod.pod_labels
            case Rule.OTHERS:
                terms = pod.repels
                labels = rules.labels
            case _:
                return False
        for term in terms:
            if not self._neighbours.is_about(term, labels):
                continue
            around = self._neighbours.around([pod.node], term.key)
            if node in around:
                return True
        return False


def _name(pod: PodView) -> str:
    return f"{pod.namespace}/{pod.name}"
