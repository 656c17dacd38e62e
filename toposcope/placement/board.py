"""Nodes on which pods are placed one by one: what is free, and what rules allow."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from toposcope.integrations.framework.packing import times
from toposcope.integrations.framework.pod_rules import Rule
from toposcope.placement.room import Room
from toposcope.placement.rule_state import Follows, RuleState


class Spot(NamedTuple):
    """Where one pod is."""

    kind: int
    node: int
    """Its number in the room."""


Placement = Mapping[Spot, int]
"""How many pods are at each spot."""


@dataclass(frozen=True, slots=True)
class Stuck:
    """Pods that found no node."""

    placed: tuple[int, ...]
    """By kind."""
    kind: int
    """A kind with pods that found no node."""
    rules: Counter[Rule]
    """The rules that keep it from nodes with room for it, and from how many nodes each."""

    @property
    def rule(self) -> Rule | None:
        """The rule that keeps it from the most nodes; None if no node has room for it."""
        for rule, _ in self.rules.most_common(1):
            return rule
        return None


class RuledRoom:
    """A room and the rules between pods; placed pods can be taken back."""

    def __init__(self, room: Room, state: RuleState) -> None:
        self.room = room
        self.state = state
        self.kinds = range(len(state.kinds))
        self.nodes = range(len(room.names))
        self.wanted = [pods.count for pods in state.kinds]
        self._shapes = [room.shapes[pods] for pods in state.kinds]
        self._rule_numbers = [state.number_of[name] for name in room.names]
        """By node number of the room: the node's number in the rules."""
        self._spots: list[Spot] = []

    @property
    def put_so_far(self) -> int:
        """How many pods are placed."""
        return len(self._spots)

    def value(self, key: str, node: int) -> str | None:
        """The value of a node's label."""
        values = self.state.values_of(key)
        rule_number = self._rule_numbers[node]
        return values[rule_number]

    def name(self, node: int) -> str:
        """The name of a node."""
        return self.room.names[node]

    def is_counted(self, node: int, counted: Sequence[bool]) -> bool:
        """Whether pods on a node count; `counted` is by the node's number in the rules."""
        return counted[self._rule_numbers[node]]

    def on(self, node: int) -> tuple[int, ...]:
        """How many pods of each kind are on a node."""
        return self.state.on(self._rule_numbers[node])

    def slots(self, kind: int, node: int) -> int:
        """How many more pods of a kind a node has room for."""
        shape = self._shapes[kind]
        slots = self.room.slots[node][shape.number]
        return max(0, slots)

    def slots_beside(self, kind: int, node: int, others: Iterable[int]) -> int:
        """How many pods of a kind a node surely has room for, whatever it gets of the others."""
        shape = self._shapes[kind]
        if not self.room.eligible[node][shape.number]:
            return 0
        free = list(self.room.free[node])
        for other in others:
            most = min(self.slots(other, node), self.wanted[other])
            amounts = self._shapes[other].amounts
            for column, amount in enumerate(amounts):
                free[column] -= amount * most
        slots = times(free, shape.amounts)
        return max(0, slots)

    def refusal(self, kind: int, node: int) -> Rule | None:
        """The rule that keeps one more pod of a kind from a node."""
        rule_number = self._rule_numbers[node]
        return self.state.blocked(kind, rule_number)

    def can_take(self, kind: int, node: int) -> bool:
        """Whether one more pod of a kind may go to a node."""
        return self.slots(kind, node) > 0 and self.refusal(kind, node) is None

    def put(self, spot: Spot) -> None:
        """Place a pod."""
        self._change(spot, 1)
        self._spots.append(spot)

    def take_back(self) -> None:
        """Take back the pod that was placed last."""
        spot = self._spots.pop()
        self._change(spot, -1)

    def _change(self, spot: Spot, count: int) -> None:
        shape = self._shapes[spot.kind]
        rule_number = self._rule_numbers[spot.node]
        self.room.put(spot.node, shape, count)
        self.state.put(spot.kind, rule_number, count)

    def clear(self) -> None:
        """Take back all pods."""
        while self._spots:
            self.take_back()

    @property
    def placement(self) -> Placement:
        """Where the pods are."""
        return Counter(self._spots)

    def is_missing(self, kind: int) -> bool:
        """Whether pods of a kind are still unplaced."""
        return self.state.count[kind] < self.wanted[kind]

    def missing(self) -> list[int]:
        """The kinds with unplaced pods."""
        return [kind for kind in self.kinds if self.is_missing(kind)]

    def stuck(self) -> Stuck:
        """Why unplaced pods find no node: for the first kind that rules keep away, if any."""
        placed = tuple(self.state.count)
        stuck = None
        for kind in self.missing():
            rules = self._refusals(kind)
            if stuck is None or (rules and not stuck.rules):
                stuck = Stuck(placed, kind, rules)
        return stuck or Stuck(placed, 0, Counter())

    def _refusals(self, kind: int) -> Counter[Rule]:
        """From how many nodes with room for such a pod each rule keeps it."""
        rules: Counter[Rule] = Counter()
        for node in self.nodes:
            if not self.slots(kind, node):
                continue
            rule = self.refusal(kind, node)
            if rule:
                rules[rule] += 1
        return rules

    def domains(self, keys: Sequence[str], nodes: Iterable[int]) -> list[list[int]]:
        """The nodes grouped by the values of these labels; nodes that lack one are left out."""
        domains: dict[tuple[str, ...], list[int]] = {}
        for node in nodes:
            values = []
            for key in keys:
                value = self.value(key, node)
                if value is not None:
                    values.append(value)
            if len(values) == len(keys):
                beside = domains.setdefault(tuple(values), [])
                beside.append(node)
        return list(domains.values())

    def starter(self) -> tuple[int, Follows] | None:
        """The first kind whose affinity matches its own pods, none of whose mates run yet."""
        for kind, follows in enumerate(self.state.follows):
            if follows and kind in follows.mates and not follows.has_running:
                return kind, follows
        return None


def is_closer(stuck: Stuck, best: Stuck | None) -> bool:
    """Whether more pods are placed than in `best`."""
    return best is None or sum(stuck.placed) > sum(best.placed)
