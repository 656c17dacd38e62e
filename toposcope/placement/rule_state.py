"""Which pods may still go to which node while a workload is placed, by the rules between pods.

Rules: Kubernetes' scheduler (InterPodAffinity, PodTopologySpread, NodePorts). A pod without mates
may start anywhere if it matches its own affinity; anti-affinity applies in both directions; a
spread constraint compares with the domain that has the fewest pods, and with 0 if there are fewer
domains than `minDomains`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from toposcope.integrations.framework.constraints import Group, Pods, pods_in
from toposcope.integrations.framework.pod_rules import Rule, SpreadRule, conflict, without_spread
from toposcope.placement.neighbours import UNKNOWN_LABELS, Neighbours
from toposcope.placement.room import RoomNode

Values = Sequence[str | None]
"""By node: the value of one label."""


@dataclass(frozen=True, slots=True)
class Avoids:
    """Pods of these kinds never share a domain of a label, whichever is placed first."""

    kinds: frozenset[int]
    key: str


@dataclass(frozen=True, slots=True)
class Follows:
    """Pods go where their mates are."""

    keys: tuple[str, ...]
    mates: frozenset[int]
    """Kinds that match all terms."""
    running_values: tuple[frozenset[str], ...]
    """By key: the values of domains with running mates."""

    @property
    def has_running(self) -> bool:
        """Whether a mate already runs."""
        return any(self.running_values)


@dataclass(slots=True, eq=False)
class Spreads:
    """A spread constraint, with how many pods it counts in each domain."""

    rule: SpreadRule
    kinds: frozenset[int]
    """The kinds of pods that it counts."""
    is_counted: Sequence[bool]
    """By node: whether pods there count."""
    pods: dict[str, int]
    """By domain."""
    domains: Counter[int] = field(default_factory=Counter)
    """By number of pods: how many domains have it."""

    def add(self, value: str, count: int) -> None:
        """Count pods in a domain; a negative count takes them back."""
        before = self.pods[value]
        self.pods[value] = before + count
        self.domains[before] -= 1
        if not self.domains[before]:
            del self.domains[before]
        self.domains[before + count] += 1

    @property
    def fewest(self) -> int:
        """The number of pods that each domain is compared with."""
        if len(self.pods) < self.rule.min_domains:
            return 0
        return min(self.domains, default=0)

    def allows(self, value: str, *, counts_itself: bool) -> bool:
        """Whether one more pod may go to a domain."""
        pods = self.pods.get(value, 0) + counts_itself
        return pods - self.fewest <= self.rule.max_skew


class RuleState:
    """The rules of some kinds of pods on some nodes, while pods are placed and taken back."""

    def __init__(
        self, kinds: Sequence[Pods], nodes: Sequence[RoomNode], neighbours: Neighbours | None
    ) -> None:
        """`nodes` are all of the cluster; `neighbours` the running pods, None as if none ran."""
        self.kinds = kinds
        self.nodes = nodes
        self._is_emptied = neighbours is None
        self._neighbours = neighbours or Neighbours((), {})
        self.number_of: dict[str, int] = {}
        for number, node in enumerate(nodes):
            self.number_of[node.name] = number
        self.values: dict[str, Values] = {}
        """By label that rules use."""
        self.count: list[int] = [0] * len(kinds)
        """How many pods of each kind are placed."""
        self._put: Counter[tuple[int, int]] = Counter()
        """By kind and node."""
        self._in_domain: Counter[tuple[int, str, str]] = Counter()
        """By kind, label and value."""

        self.barred: list[Mapping[str, Rule]] = []
        self.avoids: list[list[Avoids]] = []
        self.follows: list[Follows | None] = []
        self.spreads: list[list[Spreads]] = []
        self.shares_no_node: list[frozenset[int]] = []
        """By kind: the kinds with which it shares a host port."""
        for pods in kinds:
            self._read(pods)
        self._keys = self._keys_of_interest()

    def _read(self, pods: Pods) -> None:
        barred = self._barred_nodes(pods)
        avoids = self._avoided(pods)
        follows = self._followed(pods)
        spreads = self._spread(pods)
        rivals = self._port_rivals(pods)
        self.barred.append(barred)
        self.avoids.append(avoids)
        self.follows.append(follows)
        self.spreads.append(spreads)
        self.shares_no_node.append(rivals)

    @property
    def unclear(self) -> Iterable[str]:
        """Why it is unknown which pods a rule matches."""
        return self._neighbours.unclear

    def values_of(self, key: str) -> Values:
        """By node: the value of a label."""
        values = self.values.get(key)
        if values is None:
            values = [node.labels.get(key) for node in self.nodes]
            self.values[key] = values
        return values

    def _barred_nodes(self, pods: Pods) -> Mapping[str, Rule]:
        """The nodes that running pods keep such a pod from, and by which rule."""
        barred: dict[str, Rule] = {}
        if self._is_emptied:
            return barred
        rules = pods.rules
        avoided = self._neighbours.avoided(rules)
        repelled = self._neighbours.repelled(rules.labels)
        without_port = self._neighbours.without_port(rules.ports)
        barred.update(dict.fromkeys(avoided, Rule.ANTI_AFFINITY))
        barred.update(dict.fromkeys(repelled, Rule.OTHERS))
        barred.update(dict.fromkeys(without_port, Rule.PORTS))
        return barred

    def _avoided(self, pods: Pods) -> list[Avoids]:
        """The kinds that pods of a kind avoid, and those that avoid them."""
        by_key: dict[str, set[int]] = {}
        for number, other in enumerate(self.kinds):
            for key in self._kept_apart_by(pods, other):
                kinds = by_key.setdefault(key, set())
                kinds.add(number)
        avoids = []
        for key, kinds in by_key.items():
            avoids.append(Avoids(frozenset(kinds), key))
        return avoids

    def _kept_apart_by(self, pods: Pods, other: Pods) -> Iterator[str]:
        """The labels whose value two pods never share, by the anti-affinity of either."""
        for owner, target in ((pods, other), (other, pods)):
            for term in owner.rules.anti_affinity:
                if self._neighbours.is_about(term, target.rules.labels):
                    yield term.key

    def _followed(self, pods: Pods) -> Follows | None:
        rules = pods.rules
        if not rules.affinity:
            return None
        mates = set()
        for number, other in enumerate(self.kinds):
            if self._neighbours.is_mate(rules, other.rules.labels):
                mates.add(number)
        if self._is_emptied and not mates:
            return None  # pods of another workload may be the mates
        near = self._neighbours.near(rules.affinity)
        keys = []
        running_values = []
        for term in rules.affinity:
            values = self._neighbours.values(near, term.key)
            keys.append(term.key)
            running_values.append(frozenset(values))
        return Follows(tuple(keys), frozenset(mates), tuple(running_values))

    def _spread(self, pods: Pods) -> list[Spreads]:
        spreads = []
        for rule in pods.rules.spread:
            spreads.append(self._counted(pods, rule))
        return spreads

    def _counted(self, pods: Pods, rule: SpreadRule) -> Spreads:
        """A constraint, with the domains that count and the running pods in them."""
        namespace = pods.rules.labels.namespace
        running = self._neighbours.counted(rule, namespace)
        values = self.values_of(rule.key)
        is_counted = []
        domains: dict[str, int] = {}
        for node, value in zip(self.nodes, values, strict=True):
            counts = value is not None and _counts(node, pods, rule)
            is_counted.append(counts)
            if value is not None and counts:
                before = domains.get(value, 0)
                domains[value] = before + running[node.name]
        return Spreads(
            rule=rule,
            kinds=frozenset(self._counted_kinds(rule, namespace)),
            is_counted=is_counted,
            pods=domains,
            domains=Counter(domains.values()),
        )

    def _counted_kinds(self, rule: SpreadRule, namespace: str) -> Iterator[int]:
        if not rule.selector:
            return  # the empty one counts nothing
        for number, other in enumerate(self.kinds):
            matches = rule.matches(other.rules.labels, namespace)
            if matches is None:
                self._neighbours.unclear[UNKNOWN_LABELS] = None
            if matches is not False:
                yield number

    def _port_rivals(self, pods: Pods) -> frozenset[int]:
        """The kinds that use one of these pods' host ports."""
        rivals = set()
        for number, other in enumerate(self.kinds):
            if conflict(pods.rules.ports, other.rules.ports):
                rivals.add(number)
        return frozenset(rivals)

    def _keys_of_interest(self) -> dict[str, Values]:
        keys: dict[str, Values] = {}
        for key in self._keys_of_rules():
            keys[key] = self.values_of(key)
        return keys

    def _keys_of_rules(self) -> Iterator[str]:
        for avoids in self.avoids:
            for avoided in avoids:
                yield avoided.key
        for follows in self.follows:
            if follows:
                yield from follows.keys

    def single_keys(self) -> frozenset[str]:
        """Labels of which no two nodes of the cluster share a value, such as the hostname."""
        single = set()
        for key, values in self.values.items():
            present = [value for value in values if value is not None]
            different = set(present)
            if len(different) == len(present):
                single.add(key)
        return frozenset(single)

    def blocked(self, kind: int, node: int) -> Rule | None:
        """The rule that keeps one more pod of a kind from a node; None if none does."""
        name = self.nodes[node].name
        rule = self.barred[kind].get(name)
        if rule:
            return rule
        for rival in self.shares_no_node[kind]:
            if self._put[rival, node]:
                return Rule.PORTS
        if self._is_avoided(kind, node):
            return Rule.ANTI_AFFINITY
        if not self._is_beside_mates(kind, node):
            return Rule.AFFINITY
        if not self._is_spread(kind, node):
            return Rule.SPREAD
        return None

    def _is_avoided(self, kind: int, node: int) -> bool:
        for avoided in self.avoids[kind]:
            value = self._keys[avoided.key][node]
            if value is None:
                continue
            for other in avoided.kinds:
                if self._in_domain[other, avoided.key, value]:
                    return True
        return False

    def _is_beside_mates(self, kind: int, node: int) -> bool:
        follows = self.follows[kind]
        if follows is None:
            return True
        is_beside = True
        for key, running_values in zip(follows.keys, follows.running_values, strict=True):
            value = self._keys[key][node]
            if value is None:
                return False
            if value not in running_values and not self._has_mate(follows, key, value):
                is_beside = False
        return is_beside or self._starts(kind, follows)

    def _has_mate(self, follows: Follows, key: str, value: str) -> bool:
        return any(self._in_domain[mate, key, value] for mate in follows.mates)

    def _starts(self, kind: int, follows: Follows) -> bool:
        """Whether it is the first of pods that match each other's affinity."""
        if follows.has_running or kind not in follows.mates:
            return False
        return not any(self.count[mate] for mate in follows.mates)

    def _is_spread(self, kind: int, node: int) -> bool:
        for spreads in self.spreads[kind]:
            values = self.values_of(spreads.rule.key)
            value = values[node]
            if value is None:
                return False
            counts_itself = kind in spreads.kinds
            if not spreads.allows(value, counts_itself=counts_itself):
                return False
        return True

    def put(self, kind: int, node: int, count: int = 1) -> None:
        """Place pods on a node; a negative count takes them back."""
        self.count[kind] += count
        self._put[kind, node] += count
        for key, values in self._keys.items():
            value = values[node]
            if value is not None:
                self._in_domain[kind, key, value] += count
        for of_kind in self.spreads:
            for spreads in of_kind:
                self._count_in(spreads, kind, node, count)

    def _count_in(self, spreads: Spreads, kind: int, node: int, count: int) -> None:
        if kind not in spreads.kinds or not spreads.is_counted[node]:
            return
        values = self.values_of(spreads.rule.key)
        value = values[node]
        if value is not None:
            spreads.add(value, count)

    def on(self, node: int) -> tuple[int, ...]:
        """How many pods of each kind are on a node."""
        pods = []
        for kind in range(len(self.kinds)):
            pods.append(self._put[kind, node])
        return tuple(pods)

    @property
    def is_static(self) -> bool:
        """Whether only running pods matter: no placed pod changes where another may go."""
        if any(self.avoids) or any(self.spreads) or any(self.shares_no_node):
            return False
        for kind, follows in enumerate(self.follows):
            if follows is None or not follows.mates:
                continue
            if follows.mates != {kind} or not follows.has_running:
                return False
        return True


def _counts(node: RoomNode, pods: Pods, rule: SpreadRule) -> bool:
    """Whether a node's pods and its domain count for a spread constraint of these pods."""
    for other in pods.rules.spread:
        if other.key not in node.labels:
            return False
    node_filter = pods.node_filter
    if rule.honors_affinity and not node_filter.selects(node.name, node.labels):
        return False
    if not rule.honors_taints:
        return True
    return all(node_filter.tolerates(taint) for taint in node.taints)


def has_rules(groups: Iterable[Group]) -> bool:
    """Whether some of these pods have rules about other pods."""
    return any(not pods.rules.asks_nothing for pods in pods_in(groups))


class Beside:
    """The rules of the pods of some groups, for a scheduler's own procedure."""

    def __init__(
        self,
        groups: Iterable[Group],
        nodes: Sequence[RoomNode],
        neighbours: Neighbours | None,
        *,
        ignores_spread: bool,
    ) -> None:
        self._numbers: dict[Pods, int] = {}
        kinds: list[Pods] = []
        for pods in pods_in(groups):
            kind = replace(pods, count=1)
            if kind in self._numbers:
                continue
            self._numbers[kind] = len(kinds)
            if ignores_spread:
                kind = replace(kind, rules=without_spread(kind.rules))
            kinds.append(kind)
        self._state = RuleState(kinds, nodes, neighbours)

    def allows(self, pods: Pods, node: int) -> bool:
        """Whether one more of these pods may go to a node, by its position."""
        return self._state.blocked(self._number(pods), node) is None

    def put(self, pods: Pods, node: int, count: int) -> None:
        """Record pods on a node; a negative count takes them back."""
        self._state.put(self._number(pods), node, count)

    def _number(self, pods: Pods) -> int:
        return self._numbers[replace(pods, count=1)]
