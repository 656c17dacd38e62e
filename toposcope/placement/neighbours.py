"""The running pods of a cluster, as the rules of other pods see them."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final

from toposcope.integrations.framework.constraints import Pods
from toposcope.integrations.framework.node_affinity import Barred, Exclusion, ExclusionKind
from toposcope.integrations.framework.pod_rules import (
    SCHEDULER_SAYS,
    HostPort,
    PodLabels,
    PodRules,
    PodTerm,
    Rule,
    SpreadRule,
    conflict,
)
from toposcope.placement.room import RoomNode
from toposcope.snapshot.model import PodView

UNREAD_NAMESPACES: Final = "a namespaceSelector selects by namespace labels, which are not read"
UNKNOWN_LABELS: Final = "a labelSelector uses a label that a controller adds to pods"


class Neighbours:
    """Running pods, grouped by their labels, as many pods have the same labels."""

    def __init__(self, pods: Iterable[PodView], nodes: Mapping[str, RoomNode]) -> None:
        """`pods` on other nodes than `nodes` are left out."""
        self._pods = [pod for pod in pods if pod.node in nodes]
        self._nodes = nodes
        self.unclear: dict[str, None] = {}
        """Why it is unknown which pods a rule matches."""

    @cached_property
    def _by_labels(self) -> Mapping[PodLabels, Counter[str]]:
        """How many pods each node has, by the pods' labels."""
        places: dict[tuple[int, str], Counter[str]] = {}
        labels: dict[tuple[int, str], PodLabels] = {}
        for pod in self._pods:
            key = id(pod.selectable), pod.namespace
            if key not in places:
                places[key] = Counter()
                labels[key] = pod.pod_labels
            places[key][pod.node] += 1

        by_labels: dict[PodLabels, Counter[str]] = {}
        for key, counts in places.items():
            own = labels[key]
            total = by_labels.setdefault(own, Counter())
            total.update(counts)
        return by_labels

    @cached_property
    def repelling(self) -> Mapping[tuple[PodTerm, ...], Collection[str]]:
        """The nodes of pods with required anti-affinity, by its terms."""
        repelling: dict[tuple[PodTerm, ...], set[str]] = {}
        for pod in self._pods:
            if not pod.repels:
                continue
            nodes = repelling.setdefault(pod.repels, set())
            nodes.add(pod.node)
        return repelling

    @cached_property
    def ports(self) -> Mapping[str, list[HostPort]]:
        """By node: the host ports that are taken."""
        ports: dict[str, list[HostPort]] = {}
        for pod in self._pods:
            if not pod.ports:
                continue
            on_node = ports.setdefault(pod.node, [])
            on_node += pod.ports
        return ports

    def near(self, terms: tuple[PodTerm, ...]) -> Counter[str]:
        """The nodes of pods that match all of these terms, and how many each has."""
        nodes: Counter[str] = Counter()
        for labels, counts in self._by_labels.items():
            is_near = True
            for term in terms:
                is_near = self.is_about(term, labels) and is_near
            if is_near:
                nodes.update(counts)
        return nodes

    def counted(self, rule: SpreadRule, namespace: str) -> Counter[str]:
        """The nodes of pods that a spread constraint counts, and how many each has."""
        nodes: Counter[str] = Counter()
        if not rule.selector:
            return nodes  # the empty one counts nothing
        for labels, counts in self._by_labels.items():
            matches = rule.matches(labels, namespace)
            if self._is_match(matches, UNKNOWN_LABELS):
                nodes.update(counts)
        return nodes

    def is_about(self, term: PodTerm, labels: PodLabels) -> bool:
        """Whether a term matches such pods; if that is unknown, `unclear` says why."""
        why = UNKNOWN_LABELS
        if term.reads_namespace_labels:
            why = UNREAD_NAMESPACES
        matches = term.matches(labels)
        return self._is_match(matches, why)

    def _is_match(self, matches: bool | None, why: str) -> bool:
        if matches is None:
            self.unclear[why] = None
        return bool(matches)

    def without_port(self, ports: Iterable[HostPort]) -> frozenset[str]:
        """The nodes on which one of these ports is taken."""
        wanted = tuple(ports)
        if not wanted:
            return frozenset()
        nodes = set()
        for node, taken_ports in self.ports.items():
            if conflict(wanted, taken_ports):
                nodes.add(node)
        return frozenset(nodes)

    def repelled(self, labels: PodLabels) -> frozenset[str]:
        """The nodes from which running pods keep pods with these labels."""
        nodes: set[str] = set()
        for terms, places in self.repelling.items():
            for term in terms:
                if self.is_about(term, labels):
                    nodes |= self.around(places, term.key)
        return frozenset(nodes)

    def avoided(self, rules: PodRules) -> frozenset[str]:
        """The nodes that pods with these rules avoid because of running pods."""
        nodes: set[str] = set()
        for term in rules.anti_affinity:
            places = self.near((term,))
            nodes |= self.around(places, term.key)
        return frozenset(nodes)

    def around(self, places: Iterable[str], key: str) -> set[str]:
        """All nodes that share a label value with one of these."""
        values = self.values(places, key)
        around = set()
        for name, node in self._nodes.items():
            value = node.labels.get(key)
            if value in values:
                around.add(name)
        return around

    def values(self, places: Iterable[str], key: str) -> set[str]:
        """The values of a label that these nodes have."""
        values = set()
        for name in places:
            node = self._nodes[name]
            value = node.labels.get(key)
            if value is not None:
                values.add(value)
        return values

    def far(self, rules: PodRules) -> frozenset[str]:
        """The nodes that are surely outside the domains of the running pods they ask for."""
        near = self._may_be_near(rules)
        everywhere = frozenset(self._nodes)
        nodes: set[str] = set()
        for term in rules.affinity:
            beside = self.around(near, term.key)
            nodes |= everywhere - beside
        return frozenset(nodes)

    def _may_be_near(self, rules: PodRules) -> set[str]:
        """The nodes of pods that match the affinity of the rules, or may."""
        nodes: set[str] = set()
        for labels, counts in self._by_labels.items():
            if self._may_be_mate(rules, labels):
                nodes.update(counts)
        return nodes

    def barred(self, pods: Pods, others: Iterable[Pods]) -> Barred:
        """The nodes that running pods keep these pods from, wherever the `others` go.

        `others` are the other kinds of pods that are placed together with them.
        """
        rules = pods.rules
        by_rule: dict[Rule, frozenset[str]] = {}
        by_rule[Rule.PORTS] = self.without_port(rules.ports)
        by_rule[Rule.OTHERS] = self.repelled(rules.labels)
        by_rule[Rule.ANTI_AFFINITY] = self.avoided(rules)
        if rules.affinity and not self._may_follow(rules, others):
            by_rule[Rule.AFFINITY] = self.far(rules)
        return tuple(_barred(by_rule))

    def _may_follow(self, rules: PodRules, others: Iterable[Pods]) -> bool:
        """Whether its affinity can be met without running pods: by its own kind or the others."""
        for other in others:
            labels = other.rules.labels
            if self._may_be_mate(rules, labels):
                return True
        return self._may_be_mate(rules, rules.labels) and not self.has_mates(rules)

    def has_mates(self, rules: PodRules) -> bool:
        """Whether pods that the affinity asks for run on nodes with one of its topology keys."""
        near = self.near(rules.affinity)
        for term in rules.affinity:
            if self.values(near, term.key):
                return True
        return False

    def is_mate(self, rules: PodRules, labels: PodLabels) -> bool:
        """Whether pods with these labels match the affinity of the rules."""
        if not rules.affinity:
            return False
        is_match = True
        for term in rules.affinity:
            is_match = self.is_about(term, labels) and is_match
        return is_match

    def _may_be_mate(self, rules: PodRules, labels: PodLabels) -> bool:
        """Whether such pods match the affinity of the rules, or whether that is unknown."""
        for term in rules.affinity:
            if not self.is_about(term, labels) and term.matches(labels) is False:
                return False
        return True


def _barred(by_rule: Mapping[Rule, frozenset[str]]) -> Iterator[tuple[Exclusion, frozenset[str]]]:
    for rule, nodes in by_rule.items():
        if nodes:
            says = SCHEDULER_SAYS[rule]
            exclusion = Exclusion(ExclusionKind.NEIGHBOURS, says)
            yield exclusion, nodes
