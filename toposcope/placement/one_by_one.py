"""Places pods one by one, as kube-scheduler does, under the rules between pods.

It answers two questions. Is there an order and a choice of nodes that places all pods? And are all
pods placed whatever the scheduler chooses, which never takes a choice back? Small clusters get an
exact answer, by trying every reachable state (`every_order`). Others get one only for kinds of
rules whose answer is known.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from toposcope.placement.board import Placement, RuledRoom, Spot, Stuck, is_closer
from toposcope.placement.every_order import EveryOrder
from toposcope.placement.room import Room
from toposcope.placement.rule_bounds import RuleBounds
from toposcope.placement.rule_state import Follows, RuleState

_STARTS: Final = 64
"""How many domains a run may start in, those with the most room first."""
_MOST_STARTS: Final = 256
"""With more domains it stays unknown whether several kinds of pods fit from each start."""


@dataclass(frozen=True, slots=True)
class OneByOneResult:
    """Whether and how a workload's pods can be placed."""

    placement: Placement | None = None
    """Where all of its pods can go; None if no way was found."""
    is_impossible: bool = False
    """Whether it is proven that no placement exists."""
    is_certain: bool = False
    """Whether every choice of the scheduler leads to a placement."""
    stuck: Stuck | None = None
    """How it can fail: the known failure with the most pods placed."""


@dataclass(frozen=True, slots=True)
class _Certainty:
    """Whether all pods are surely placed, else how that can fail, if known."""

    is_certain: bool
    stuck: Stuck | None = None


_UNKNOWN: Final = _Certainty(is_certain=False)


class OneByOne:
    """One workload in one room, which is unchanged after each answer."""

    def __init__(self, room: Room, state: RuleState) -> None:
        self._board = RuledRoom(room, state)
        self._bounds = RuleBounds(self._board)

    def outcome(self) -> OneByOneResult:
        """The result if kube-scheduler places the workload."""
        ends = EveryOrder(self._board).ends()
        if ends is not None:
            is_possible = ends.placement is not None
            return OneByOneResult(
                placement=ends.placement,
                is_impossible=not is_possible,
                is_certain=is_possible and ends.stuck is None,
                stuck=ends.stuck,
            )
        best = self._best_run()
        if best.placement is None:
            is_impossible = self._bounds.exceeded() is not None
            return OneByOneResult(is_impossible=is_impossible, stuck=best.stuck)
        certainty = self._certainty()
        return OneByOneResult(
            best.placement, is_certain=certainty.is_certain, stuck=certainty.stuck
        )

    def bounds(self) -> OneByOneResult:
        """Whether some kind exceeds an upper bound that holds for every scheduler."""
        stuck = self._bounds.exceeded()
        return OneByOneResult(is_impossible=stuck is not None, stuck=stuck)

    # trying orders

    def _best_run(self) -> OneByOneResult:
        """The first run that places all pods, or the one that places the most."""
        best = OneByOneResult()
        for nodes in self._node_orders():
            for kinds in self._kind_orders():
                outcome = self._run(kinds, nodes)
                if outcome.placement is not None:
                    return outcome
                if outcome.stuck and is_closer(outcome.stuck, best.stuck):
                    best = outcome
        return best

    def _kind_orders(self) -> list[list[int]]:
        """Orders of the kinds: leaders before their followers, and the reverse."""
        kinds = sorted(self._board.kinds, key=self._follows_others)
        if len(kinds) == 1:
            return [kinds]
        return [kinds, kinds[::-1]]

    def _follows_others(self, kind: int) -> bool:
        follows = self._board.state.follows[kind]
        return follows is not None and kind not in follows.mates

    def _node_orders(self) -> Iterator[list[int]]:
        """Orders in which nodes are filled."""
        for domain in self._starts()[:_STARTS]:
            yield self._starting_in(domain)
        fullest = sorted(self._board.nodes, key=self._slots)
        yield fullest
        yield fullest[::-1]

    def _slots(self, node: int) -> int:
        return sum(self._board.room.slots[node])

    def _starting_in(self, domain: Sequence[int]) -> list[int]:
        """All nodes, those of the domain first."""
        other_nodes = set(self._board.nodes)
        other_nodes.difference_update(domain)
        return [*domain, *sorted(other_nodes)]

    def _starts(self) -> list[list[int]]:
        """The domains that the first pod can choose for its followers, the largest first.

        The first pod may be of any kind that the followers follow.
        """
        board = self._board
        starter = board.starter()
        if starter is None:
            return []
        kind, follows = starter
        starts = []
        for domain in board.domains(follows.keys, board.nodes):
            if self._can_start_in(domain, follows):
                starts.append(domain)
        starts.sort(key=lambda nodes: self._bounds.most_on(kind, nodes), reverse=True)
        return starts

    def _can_start_in(self, domain: Iterable[int], follows: Follows) -> bool:
        for node in domain:
            for mate in follows.mates:
                if self._board.can_take(mate, node):
                    return True
        return False

    def _run(self, kinds: Sequence[int], nodes: Sequence[int]) -> OneByOneResult:
        """Give each pod the first node that it may use, until all are placed or none is left."""
        board = self._board
        try:
            before = -1
            while before < board.put_so_far:
                before = board.put_so_far
                for kind in kinds:
                    self._fill(kind, nodes)
            if board.missing():
                return OneByOneResult(stuck=board.stuck())
            return OneByOneResult(board.placement)
        finally:
            board.clear()

    def _fill(self, kind: int, nodes: Sequence[int]) -> None:
        """Place as many pods of a kind as possible.

        A spread constraint may allow a node again when other domains have more pods.
        """
        board = self._board
        is_spread = bool(board.state.spreads[kind])
        waiting = list(nodes)
        before = -1
        while waiting and before < board.put_so_far:
            before = board.put_so_far
            for node in waiting:
                while board.is_missing(kind) and board.can_take(kind, node):
                    board.put(Spot(kind, node))
            if not is_spread:
                break
            waiting = [node for node in waiting if board.slots(kind, node)]

    # answers that are known for some kinds of rules

    def _certainty(self) -> _Certainty:
        """Whether every choice places all pods, given that some do."""
        involved = self._involved()
        if self._has_only_avoidance(involved):
            has_slack = all(self._has_slack(kind) for kind in involved)
            return _Certainty(has_slack)
        for kind in involved:
            if not self._is_undisturbed(kind, involved):
                return _UNKNOWN
        starter = self._board.starter()
        if starter is None:
            is_simple = len(involved) == 1 and self._has_one_rule(involved[0])
            return _Certainty(is_simple)
        kind, leading = starter
        for other in involved:
            if not self._follows_only(other, leading):
                return _UNKNOWN
        if involved == [kind]:
            return self._each_start(kind)
        return self._each_run()

    def _involved(self) -> list[int]:
        """The kinds that have rules, or that rules count."""
        state = self._board.state
        involved = []
        for kind in self._board.kinds:
            asks = [*state.avoids[kind], *state.spreads[kind], *state.shares_no_node[kind]]
            if asks or state.follows[kind] or self._is_counted(kind):
                involved.append(kind)
        return involved

    def _is_counted(self, kind: int) -> bool:
        """Whether some rule counts pods of this kind."""
        state = self._board.state
        for of_kind in state.spreads:
            for spreads in of_kind:
                if kind in spreads.kinds:
                    return True
        for follows in state.follows:
            if follows and kind in follows.mates:
                return True
        return False

    def _has_only_avoidance(self, kinds: Iterable[int]) -> bool:
        """Whether only anti-affinity and host ports constrain these kinds."""
        state = self._board.state
        for kind in kinds:
            if state.spreads[kind]:
                return False
            follows = state.follows[kind]
            if follows and (not follows.has_running or follows.mates - {kind}):
                return False
        return True

    def _has_slack(self, kind: int) -> bool:
        """Whether a pod is placed wherever the pods go that it must avoid."""
        board = self._board
        rivals = self._rivals(kind)
        if not rivals:
            return True
        keys = {avoided.key for avoided in board.state.avoids[kind]}
        keys -= board.state.single_keys()
        if len(keys) > 1:
            return False
        rivals.add(kind)
        taken_places = sum(board.wanted[rival] for rival in rivals)
        return self._places(kind, next(iter(keys), None)) >= taken_places

    def _rivals(self, kind: int) -> set[int]:
        """The kinds that pods of a kind must avoid, by anti-affinity or host ports."""
        rivals = set(self._board.state.shares_no_node[kind])
        for avoided in self._board.state.avoids[kind]:
            rivals |= avoided.kinds
        return rivals

    def _places(self, kind: int, key: str | None) -> int:
        """How many domains of a label, or nodes, such a pod can start on.

        Only those count in which the other kinds leave it room.
        """
        board = self._board
        others = [other for other in board.kinds if other != kind]
        places: set[object] = set()
        for node in board.nodes:
            if not board.can_take(kind, node) or not board.slots_beside(kind, node, others):
                continue
            value = board.value(key, node) if key else None
            places.add(node if value is None else value)
        return len(places)

    def _is_undisturbed(self, kind: int, others: Sequence[int]) -> bool:
        """Whether pods of kinds outside `others` take no room from a kind."""
        board = self._board
        strangers = [stranger for stranger in board.kinds if stranger not in others]
        for node in board.nodes:
            room_for = min(self._bounds.cap(kind, node), board.wanted[kind])
            if board.slots_beside(kind, node, strangers) < room_for:
                return False
        return True

    def _has_one_rule(self, kind: int) -> bool:
        """Whether all orders place as many pods: one spread constraint, no other rule but by node.

        Then the domain with the fewest pods, once it is full, limits what the others get.
        """
        state = self._board.state
        if len(state.spreads[kind]) != 1 or state.follows[kind]:
            return False
        return self._is_kept_off_nodes_only(kind)

    def _is_kept_off_nodes_only(self, kind: int) -> bool:
        """Whether anti-affinity of this kind applies to single nodes only."""
        single = self._board.state.single_keys()
        for avoided in self._board.state.avoids[kind]:
            if avoided.key not in single:
                return False
        return True

    def _follows_only(self, kind: int, leading: Follows) -> bool:
        """Whether a kind's only rules are to follow the leaders and rules by node."""
        state = self._board.state
        follows = state.follows[kind]
        if follows is None or state.spreads[kind] or not self._is_kept_off_nodes_only(kind):
            return False
        return follows.keys == leading.keys and follows.mates == leading.mates

    def _each_start(self, kind: int) -> _Certainty:
        """Whether each domain that the first pod may choose has room for all."""
        wanted = self._board.wanted[kind]
        for domain in reversed(self._starts()):
            if self._bounds.most_on(kind, domain) < wanted:
                outcome = self._run([kind], domain)
                return _Certainty(is_certain=False, stuck=outcome.stuck)
        return _Certainty(is_certain=True)

    def _each_run(self) -> _Certainty:
        """Whether all kinds find room from each domain that the first pod may choose."""
        starts = self._starts()
        if len(starts) > _MOST_STARTS:
            return _UNKNOWN
        tight = [domain for domain in starts if not self._have_slack_in(domain)]
        for domain in reversed(tight):
            nodes = self._starting_in(domain)
            for kinds in self._kind_orders():
                outcome = self._run(kinds, nodes)
                if outcome.placement is None:
                    return _Certainty(is_certain=False, stuck=outcome.stuck)
        return _Certainty(is_certain=not tight)

    def _have_slack_in(self, domain: Sequence[int]) -> bool:
        """Whether a domain has room for all pods, however the kinds share its nodes."""
        return all(self._has_slack_in(domain, kind) for kind in self._involved())

    def _has_slack_in(self, domain: Iterable[int], kind: int) -> bool:
        """Whether a domain has room for a kind, even if its rivals get the nodes with the most."""
        board = self._board
        rivals = self._rivals(kind)
        others = [other for other in board.kinds if other != kind and other not in rivals]
        caps = []
        for node in domain:
            cap = board.slots_beside(kind, node, others)
            if kind in rivals:
                cap = min(cap, 1)
            caps.append(cap)
        caps.sort(reverse=True)
        lost_nodes = sum(board.wanted[rival] for rival in rivals if rival != kind)
        return sum(caps[lost_nodes:]) >= board.wanted[kind]
