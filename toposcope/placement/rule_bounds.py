"""Upper bounds on how many pods of a kind the rules between them allow, for any scheduler."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from toposcope.integrations.framework.pod_rules import Rule
from toposcope.placement.board import RuledRoom, Stuck
from toposcope.placement.rule_state import Spreads


class RuleBounds:
    """Upper bounds on the pods of one board."""

    def __init__(self, board: RuledRoom) -> None:
        self._board = board

    def exceeded(self) -> Stuck | None:
        """The first kind with more pods than its bound; None if no bound is exceeded."""
        board = self._board
        for kind, wanted in enumerate(board.wanted):
            most = self.most(kind)
            if most < wanted:
                placed = list(board.wanted)
                placed[kind] = most
                rules = Counter({self._first_rule(kind): len(board.nodes)})
                return Stuck(tuple(placed), kind, rules)
        return None

    def _first_rule(self, kind: int) -> Rule:
        """A rule between pods of this kind."""
        state = self._board.state
        if state.follows[kind]:
            return Rule.AFFINITY
        if state.shares_no_node[kind]:
            return Rule.PORTS
        if state.avoids[kind]:
            return Rule.ANTI_AFFINITY
        return Rule.SPREAD

    def most(self, kind: int) -> int:
        """Upper bound on the pods of a kind, if they were alone."""
        board = self._board
        barred = board.state.barred[kind]
        open_nodes = [node for node in board.nodes if board.name(node) not in barred]
        follows = board.state.follows[kind]
        if follows is None or follows.mates != {kind} or follows.has_running:
            return self.most_on(kind, open_nodes)
        most = 0
        for domain in board.domains(follows.keys, open_nodes):
            in_domain = self.most_on(kind, domain)
            most = max(most, in_domain)
        return most

    def most_on(self, kind: int, nodes: Sequence[int]) -> int:
        """Upper bound on the pods of a kind on these nodes: the lowest that a single rule gives."""
        state = self._board.state
        most = 0
        for node in nodes:
            most += self.cap(kind, node)
        for avoided in state.avoids[kind]:
            if kind in avoided.kinds:
                apart = self._most_apart(kind, nodes, avoided.key)
                most = min(most, apart)
        for spreads in state.spreads[kind]:
            if spreads.kinds == {kind}:
                caps = self._caps(kind, nodes, spreads.rule.key)
                spread = _most_spread(spreads, caps)
                most = min(most, spread)
        return most

    def cap(self, kind: int, node: int) -> int:
        """How many pods of a kind fit on a node, by its room and their host ports."""
        slots = self._board.slots(kind, node)
        if kind in self._board.state.shares_no_node[kind]:
            return min(slots, 1)
        return slots

    def _most_apart(self, kind: int, nodes: Iterable[int], key: str) -> int:
        """How many pods of a kind fit if no two share a label value."""
        values: set[str] = set()
        most = 0
        for node in nodes:
            cap = self.cap(kind, node)
            value = self._board.value(key, node)
            if value is None:
                most += cap
            elif cap:
                values.add(value)
        return most + len(values)

    def _caps(self, kind: int, nodes: Iterable[int], key: str) -> Mapping[str, int]:
        """How many pods of a kind fit into each domain of a label."""
        caps: Counter[str] = Counter()
        for node in nodes:
            value = self._board.value(key, node)
            if value is not None:
                caps[value] += self.cap(kind, node)
        return caps


def _most_spread(spreads: Spreads, caps: Mapping[str, int]) -> int:
    """How many pods a spread constraint allows, given the room of each domain.

    Once the domain with the fewest pods is full, no other gets more than `maxSkew` above it.
    """
    fewest = 0
    if len(spreads.pods) >= spreads.rule.min_domains:
        fullest = []
        for value, count in spreads.pods.items():
            cap = caps.get(value, 0)
            fullest.append(count + cap)
        fewest = min(fullest, default=0)
    highest = fewest + spreads.rule.max_skew
    most = 0
    for value, count in spreads.pods.items():
        allowed = max(0, highest - count)
        cap = caps.get(value, 0)
        most += min(cap, allowed)
    return most
