"""How rules between pods change a verdict: affinity, anti-affinity, spread and host ports.

What running pods forbid becomes part of each pod's node filter (`with_barred`), so that the search
and every scheduler's own procedure respect it. What the pods of a workload forbid each other is
decided afterwards (`by_pod_rules`): pod by pod, as kube-scheduler does, where it places them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from toposcope.integrations.framework.constraints import Decision, Group, Pods, Workload, pods_in
from toposcope.integrations.framework.node_affinity import Barred, NodeFilter
from toposcope.integrations.framework.pod_rules import (
    SCHEDULER_SAYS,
    PodLabels,
    PodRules,
    PodTerm,
    Rule,
    without_spread,
)
from toposcope.integrations.framework.verdict import Kind, Placed, Verdict
from toposcope.placement.board import Stuck
from toposcope.placement.cluster import Question
from toposcope.placement.neighbours import Neighbours
from toposcope.placement.one_by_one import OneByOne, OneByOneResult
from toposcope.placement.room import Room
from toposcope.placement.rule_state import RuleState, has_rules
from toposcope.text import listing, plural

_OLD_FILE: Final = (
    "its pods have rules about other pods, but an earlier version saved the cluster's file without "
    "what these rules need; save it again: toposcope save FILE"
)
_MOST_NAMES: Final = 3
_UNNAMED: Final = frozenset({"", "pod", "pods"})
"""Names of pods in workloads that don't name them."""


def with_barred(question: Question) -> Question:
    """The question without the nodes that running pods keep the workload's pods from."""
    workload = question.workload
    neighbours = question.on.neighbours
    if not has_rules(_all_groups(workload)) and not neighbours.repelling:
        return question

    kinds = list(dict.fromkeys(pods_in(workload.groups)))
    filters: dict[Pods, NodeFilter] = {}
    for pods in kinds:
        others = [other for other in kinds if other is not pods]
        keys = pods.rules.keys
        if question.ignores_spread:
            keys = without_spread(pods.rules).keys
        filters[pods] = _barred(pods.node_filter, keys, neighbours.barred(pods, others))
    everybody = list(filters.values())
    barring = _Barring(filters, everybody)
    barred = replace(
        workload,
        groups=barring.groups(workload.groups),
        pod_groups=barring.groups(workload.pod_groups),
        certain=barring.groups(workload.certain),
        certain_too=barring.groups(workload.certain_too),
    )
    return replace(question, workload=barred)


def _all_groups(workload: Workload) -> Iterator[Group]:
    yield from workload.groups
    yield from workload.pod_groups


def _barred(node_filter: NodeFilter, keys: tuple[str, ...], barred: Barred) -> NodeFilter:
    return replace(node_filter, keys=keys, barred=barred)


@dataclass(frozen=True, slots=True)
class _Barring:
    """The node filters of a workload's pods, with what running pods forbid."""

    filters: Mapping[Pods, NodeFilter]
    everybody: Sequence[NodeFilter]

    def groups(self, groups: Iterable[Group]) -> tuple[Group, ...]:
        """The groups with these filters."""
        barred = []
        for group in groups:
            pods = [self._pods(kind) for kind in group.pods]
            below = self.groups(group.groups)
            barred.append(replace(group, pods=tuple(pods), groups=below))
        return tuple(barred)

    def _pods(self, pods: Pods) -> Pods:
        node_filter = self.filters.get(pods)
        if node_filter is None:
            node_filter = self._for_all(pods)
        return replace(pods, node_filter=node_filter)

    def _for_all(self, pods: Pods) -> NodeFilter:
        """The filter of pods that represent several kinds: nodes that each of these may use."""
        keys: dict[str, None] = {}
        barred: Barred = ()
        for node_filter in self.everybody:
            keys.update(dict.fromkeys(node_filter.keys))
            barred += node_filter.barred
        return _barred(pods.node_filter, tuple(keys), barred)


def by_pod_rules(question: Question, verdict: Verdict) -> Verdict:
    """The verdict once the rules between the workload's own pods are applied."""
    groups = _all_groups(question.workload)
    neighbours = question.on.neighbours
    if not has_rules(groups) and not neighbours.repelling:
        return verdict
    if verdict.kind == "never" and not verdict.limitation:
        return verdict
    if not question.on.snapshot.knows_pod_rules and question.on.snapshot.pods:
        return _unknown(verdict, _OLD_FILE)

    trial = _Trial(question, neighbours)
    state = trial.state(emptied=False)
    for why in state.unclear:
        return _unknown(verdict, why)
    if state.is_static:
        return verdict
    return trial.verdict(verdict)


def _unknown(verdict: Verdict, why: str) -> Verdict:
    return verdict if verdict.refuses else verdict.limited("unclear", why)


class _Trial:
    """A workload whose pods have rules about each other."""

    def __init__(self, question: Question, neighbours: Neighbours) -> None:
        self.question = question
        self.neighbours = neighbours
        self.kinds = list(_kinds_of(question))

    @property
    def is_plain(self) -> bool:
        """Whether kube-scheduler places the pods, and only their own rules constrain them."""
        workload = self.question.workload
        decision = self.question.decision
        if decision is not None and decision.topology is not None:
            return False
        if workload.gang is not None or workload.doubt:
            return False
        return not workload.pod_groups and all(group.is_unconstrained for group in workload.groups)

    def state(self, *, emptied: bool) -> RuleState:
        """The rules on the nodes of the cluster."""
        neighbours = None if emptied else self.neighbours
        return RuleState(self.kinds, self.question.nodes, neighbours)

    def _room(self, *, emptied: bool) -> Room:
        return Room(
            self.question.levels,
            self.question.nodes,
            [Group("workload", tuple(self.kinds))],
            emptied=emptied,
            opened=emptied,
            can_lack_levels=self.question.can_lack_levels,
        )

    def _pods(self, *, emptied: bool) -> OneByOne:
        return OneByOne(self._room(emptied=emptied), self.state(emptied=emptied))

    def verdict(self, verdict: Verdict) -> Verdict:
        """The verdict with the rules; `verdict` is the one without them."""
        pods = self._pods(emptied=False)
        outcome = pods.outcome() if self.is_plain else pods.bounds()
        if outcome.is_impossible:
            return self._refused(verdict, outcome)
        if verdict.refuses:
            return verdict
        if not self.is_plain:
            return self._by_procedure(verdict)
        if outcome.placement is None:
            return verdict.limited("unclear", _undecided(self.kinds))
        if not outcome.is_certain:
            return verdict.limited("unclear", self._doubt(outcome))
        return replace(
            verdict,
            kind="fits",
            placed=self._placed(outcome),
            roomy=0,
            best=None,
            limitation="",
        )

    def _refused(self, verdict: Verdict, outcome: OneByOneResult) -> Verdict:
        pods = self._pods(emptied=True)
        empty = pods.outcome() if self.is_plain else pods.bounds()
        kind: Kind = "full"
        if empty.is_impossible:
            kind = "never"
            outcome = empty
        if verdict.kind == kind and not verdict.limitation:
            return verdict  # there is no room, whatever the rules
        stuck = outcome.stuck
        if stuck is None or stuck.rule is None:
            fields = _fields(self.kinds)
            return verdict.limited(kind, f"not all of its pods can be placed under {fields}")
        return verdict.limited(kind, self._shortage(stuck, stuck.rule))

    def _shortage(self, stuck: Stuck, rule: Rule) -> str:
        """`2 of 3 pods of w find a node: podAntiAffinity allows one per rack; ...`."""
        pods_find = self._how_many_find(stuck)
        pods = self.kinds[stuck.kind]
        asks = _asks(pods, rule)
        count = stuck.rules[rule]
        nodes = plural(count, "node")
        says = SCHEDULER_SAYS[rule]
        return f"{pods_find} a node: {asks}; {count} {nodes} {says}"

    def _doubt(self, outcome: OneByOneResult) -> str:
        stuck = outcome.stuck
        if stuck is None or stuck.rule is None:
            return _undecided(self.kinds)
        asks = _asks(self.kinds[stuck.kind], stuck.rule)
        return (
            "every pod can get a node, but kube-scheduler places pods one by one: if the first "
            f"ones take the wrong nodes, only {self._how_many_find(stuck)} a node ({asks})"
        )

    def _how_many_find(self, stuck: Stuck) -> str:
        """`2 of 3 pods of w find`."""
        kind = self.kinds[stuck.kind]
        placed = stuck.placed[stuck.kind]
        pods = plural(kind.count, "pod")
        find = plural(placed, "finds", "find")
        if kind.name in _UNNAMED:
            return f"{placed} of {kind.count} {pods} {find}"
        return f"{placed} of {kind.count} {pods} of {kind.name} {find}"

    def _placed(self, outcome: OneByOneResult) -> tuple[Placed, ...]:
        """Each kind of pods as its own group, with its nodes."""
        names = self._room(emptied=False).names
        by_kind: dict[int, list[tuple[str, int]]] = {}
        for spot, count in (outcome.placement or {}).items():
            nodes = by_kind.setdefault(spot.kind, [])
            nodes.append((names[spot.node], count))
        placed = []
        for kind, nodes in by_kind.items():
            pods = self.kinds[kind]
            name = pods.name
            if name in _UNNAMED:
                name = self.question.workload.groups[0].name
            placed.append(Placed(Group(name, (pods,)), (), tuple(nodes)))
        return tuple(placed)

    def _by_procedure(self, verdict: Verdict) -> Verdict:
        """The verdict where another scheduler places the pods, or levels constrain them."""
        workload = self.question.workload
        if verdict.kind != "fits" or workload.gang is not None:
            return verdict  # its own procedure applied the rules
        decision = self.question.decision
        fields = _fields(self.kinds)
        if decision is None:
            why = f"toposcope's search for {workload.system} does not evaluate {fields}"
            return verdict.limited("unclear", why)
        if self._holds(decision):
            return verdict
        why = (
            f"{workload.system} ignores {fields} when it assigns nodes, "
            "and its pods would stay pending there"
        )
        return verdict.limited("unclear", why)

    def _holds(self, decision: Decision) -> bool:
        """Whether the pods may go to their assigned nodes, in some order."""
        state = self.state(emptied=False)
        number_of = {pods.name: number for number, pods in enumerate(state.kinds)}
        unplaced = []
        for pods, name, count in decision.placed:
            if pods.name not in number_of or name not in state.number_of:
                return False
            spot = number_of[pods.name], state.number_of[name]
            unplaced += [spot] * count
        while unplaced:
            later = []
            for kind, node in unplaced:
                if state.blocked(kind, node):
                    later.append((kind, node))
                else:
                    state.put(kind, node)
            if len(later) == len(unplaced):
                return False
            unplaced = later
        return bool(decision.placed)


def _kinds_of(question: Question) -> Iterator[Pods]:
    """The distinct pods of a workload, with the count of all copies."""
    counts: dict[Pods, int] = {}
    for group in question.workload.groups:
        for pods in group.all_pods():
            kind = replace(pods, count=1)
            if question.ignores_spread:
                kind = replace(kind, rules=without_spread(kind.rules))
            counts[kind] = counts.get(kind, 0) + pods.count
    for kind, count in counts.items():
        yield replace(kind, count=count)


def _fields(kinds: Iterable[Pods]) -> str:
    """The fields of these pods that have rules about other pods."""
    fields: dict[str, None] = {}
    for pods in kinds:
        rules = pods.rules
        for rule, rules_of_kind in (
            (Rule.AFFINITY, rules.affinity),
            (Rule.ANTI_AFFINITY, rules.anti_affinity),
            (Rule.SPREAD, rules.spread),
            (Rule.PORTS, rules.ports),
        ):
            if rules_of_kind:
                fields[rule.value] = None
    return listing(list(fields), len(fields))


def _undecided(kinds: Iterable[Pods]) -> str:
    fields = _fields(kinds)
    return (
        f"kube-scheduler places pods one by one, and with {fields} it is unknown whether its "
        "choices leave nodes for the last ones"
    )


def _asks(pods: Pods, rule: Rule) -> str:
    """What a rule of these pods allows."""
    rules = pods.rules
    match rule:
        case Rule.PORTS:
            ports = listing([str(port) for port in rules.ports], _MOST_NAMES)
            port = plural(len(rules.ports), "port")
            return f"only one pod per node can have host {port} {ports} (hostPort)"
        case Rule.AFFINITY:
            return _affinity_asks(rules)
        case Rule.SPREAD:
            skews = [f"{each.max_skew} over {each.key}" for each in rules.spread]
            return f"topologySpreadConstraints allow a skew of {listing(skews, _MOST_NAMES)}"
        case Rule.ANTI_AFFINITY if rules.anti_affinity:
            return _anti_affinity_asks(rules)
        case _:
            return "podAntiAffinity of other pods keeps them away"


def _affinity_asks(rules: PodRules) -> str:
    own, others = _keys(rules.affinity, rules.labels)
    parts = []
    if own:
        parts.append(f"in one {own}")
    if others:
        parts.append(f"in a {others} with pods that it selects")
    return f"podAffinity keeps them {' and '.join(parts)}"


def _anti_affinity_asks(rules: PodRules) -> str:
    own, others = _keys(rules.anti_affinity, rules.labels)
    parts = []
    if own:
        parts.append(f"allows one per {own}")
    if others:
        parts.append(f"keeps them out of each {others} with pods that it selects")
    return f"podAntiAffinity {' and '.join(parts)}"


def _keys(terms: Iterable[PodTerm], labels: PodLabels) -> tuple[str, str]:
    """The labels of terms that surely select the pods with the terms, and those of all others."""
    own = []
    others = []
    for term in terms:
        if term.matches(labels):
            own.append(term.key)
        else:
            others.append(term.key)
    return listing(own, _MOST_NAMES), listing(others, _MOST_NAMES)
