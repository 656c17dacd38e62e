"""Places pods one after the other, as kube-scheduler does, under the rules between pods.

It answers two questions. Is there an order and a choice of nodes by which all pods find a place?
And do all pods find one whatever the scheduler chooses: it never takes a choice back. Small
clusters get an exact answer, by trying every state that can be reached. Others get one where
the rules are of a kind for which the answer is known, else none.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from toposcope.errors import ToposcopeError
from toposcope.integrations.framework.packing import times
from toposcope.integrations.framework.pod_rules import Rule
from toposcope.placement.room import Room, Shape
from toposcope.placement.rule_state import Follows, RuleState, Spreads

LOOKS: Final = 200_000
"""How many nodes may be looked at before there are too many states: a second on a slow machine."""
_DEEPEST: Final = 200
"""The most pods of which every state is tried."""
_STARTS: Final = 64
"""Domains in which a workload is started, of those that have the most room."""
_MOST_STARTS: Final = 256
"""Of more domains it is not tried whether each of them will do for several kinds of pods."""

Spot = tuple[int, int]
"""A kind of pods, and a node of the room."""


@dataclass(frozen=True, slots=True)
class Stuck:
    """Pods that found no node."""

    placed: tuple[int, ...]
    """By kind."""
    kind: int
    """One of those that are left."""
    rules: Counter[Rule]
    """What keeps it from nodes that have room for it, and from how many each."""

    @property
    def rule(self) -> Rule | None:
        """What keeps it from the most nodes; None: there is no room for it anywhere."""
        for rule, _ in self.rules.most_common(1):
            return rule
        return None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is known of a workload."""

    placed: tuple[tuple[Spot, int], ...] | None = None
    """Where its pods can go, all of them; None: no way was found."""
    is_impossible: bool = False
    """Whether there surely is none."""
    is_certain: bool = False
    """Whether every choice of the scheduler leads to one."""
    stuck: Stuck | None = None
    """How it can fail: of those that are known, with the most pods placed."""


@dataclass(frozen=True, slots=True)
class _Known:
    """Whether all pods surely find a place, else how that fails, where this is known."""

    is_certain: bool
    stuck: Stuck | None = None


class _TooManyError(ToposcopeError):
    """There are more states than may be looked at."""


@dataclass(slots=True)
class _Seen:
    """What was found among the states that can be reached."""

    placed: tuple[tuple[Spot, int], ...] | None = None
    stuck: Stuck | None = None
    states: set[object] = field(default_factory=set)


class OneByOne:
    """One workload in one room, which is as before when an answer is given."""

    def __init__(self, room: Room, state: RuleState) -> None:
        self._room = room
        self._state = state
        self._shapes: list[Shape] = [room.shapes[pods] for pods in state.kinds]
        self._wanted = [pods.count for pods in state.kinds]
        self._nodes = [state.number_of[name] for name in room.names]
        """By number of the room: the number that the rules know a node by."""
        self._spots: list[Spot] = []
        self._looks = LOOKS

    def outcome(self) -> Outcome:
        """What becomes of the workload."""
        seen = self._explored()
        if seen is not None:
            is_possible = seen.placed is not None
            return Outcome(
                placed=seen.placed,
                is_impossible=not is_possible,
                is_certain=is_possible and seen.stuck is None,
                stuck=seen.stuck,
            )
        best = self._best_run()
        if best.placed is None:
            is_impossible = self.bounds().is_impossible
            return Outcome(is_impossible=is_impossible, stuck=best.stuck)
        known = self._known()
        return Outcome(best.placed, is_certain=known.is_certain, stuck=known.stuck)

    def bounds(self) -> Outcome:
        """Whether some kind needs more than there can be at the very most, whoever places it."""
        for kind, wanted in enumerate(self._wanted):
            most = self.most(kind)
            if most < wanted:
                placed = list(self._wanted)
                placed[kind] = most
                rules = Counter({self._first_rule(kind): len(self._nodes)})
                return Outcome(is_impossible=True, stuck=Stuck(tuple(placed), kind, rules))
        return Outcome()

    def _first_rule(self, kind: int) -> Rule:
        """A rule that its pods have among each other."""
        state = self._state
        if state.follows[kind]:
            return Rule.AFFINITY
        if state.shares_no_node[kind]:
            return Rule.PORTS
        return Rule.ANTI_AFFINITY if state.avoids[kind] else Rule.SPREAD

    # every state

    def _explored(self) -> _Seen | None:
        """Everything that can be reached; None: too much."""
        if sum(self._wanted) > _DEEPEST:
            return None
        seen = _Seen()
        alike = self._alike()
        try:
            self._explore(seen, alike)
        except _TooManyError:
            return None
        finally:
            self._take_all_back()
        return seen

    def _explore(self, seen: _Seen, alike: Sequence[int]) -> None:
        """Depth first; nodes that are alike are tried once."""
        key = self._key(alike)
        if key in seen.states:
            return
        seen.states.add(key)
        self._looks -= len(self._nodes)
        if self._looks < 0:
            raise _TooManyError
        missing = self._missing()
        if not missing:
            seen.placed = seen.placed or self._where()
            return
        choices = self._choices(missing, alike)
        for spot in choices:
            self._put(spot)
            self._explore(seen, alike)
            self._take_back()
            if seen.placed and seen.stuck:
                return
        if not choices:
            self._note_stuck(seen, missing)

    def _note_stuck(self, seen: _Seen, missing: Sequence[int]) -> None:
        """Keep how it fails because of rules; what different sizes lead to is not their doing."""
        stuck = self._stuck(missing)
        if stuck.rules and _is_closer(stuck, seen.stuck):
            seen.stuck = stuck

    def _choices(self, missing: Iterable[int], alike: Sequence[int]) -> list[Spot]:
        """Where one of the missing pods can go now; of equal nodes to the first."""
        choices = []
        looked: set[object] = set()
        for kind in missing:
            for number, node in enumerate(self._nodes):
                look = kind, alike[number], self._state.on(node)
                if look in looked:
                    continue
                looked.add(look)
                if self._can(kind, number):
                    choices.append((kind, number))
        return choices

    def _key(self, alike: Sequence[int]) -> object:
        """The same for states that differ only in which of equal nodes has which pods."""
        rows: Counter[tuple[int, tuple[int, ...]]] = Counter()
        for number, node in enumerate(self._nodes):
            row = alike[number], self._state.on(node)
            rows[row] += 1
        return frozenset(rows.items())

    def _alike(self) -> list[int]:
        """By node: a number that nodes share which differ in nothing that rules go by."""
        numbers: dict[object, int] = {}
        alike = []
        single = self._single_keys()
        for number, node in enumerate(self._nodes):
            values = []
            for key, of_nodes in self._state.values.items():
                value = of_nodes[node]
                if value is not None and key in single:
                    value = ""
                values.append(value)
            look = (
                tuple(values),
                tuple(self._room.free[number]),
                self._room.eligible[number],
                tuple(self._own_facts(node)),
            )
            next_number = len(numbers)
            alike.append(numbers.setdefault(look, next_number))
        return alike

    def _own_facts(self, node: int) -> Iterator[object]:
        """What rules know of a node besides its labels."""
        name = self._state.nodes[node].name
        for kind, barred in enumerate(self._state.barred):
            yield barred.get(name)
            follows = self._state.follows[kind]
            if follows:
                for key, found in zip(follows.keys, follows.found, strict=True):
                    yield self._state.values_of(key)[node] in found
            for spreads in self._state.spreads[kind]:
                value = self._state.values_of(spreads.rule.key)[node] or ""
                yield spreads.is_counted[node], spreads.pods.get(value)

    def _single_keys(self) -> frozenset[str]:
        """Labels of which no two nodes of the cluster share a value, such as the hostname."""
        single = set()
        for key, values in self._state.values.items():
            known = [value for value in values if value is not None]
            if len(set(known)) == len(known):
                single.add(key)
        return frozenset(single)

    # one way after the other

    def _best_run(self) -> Outcome:
        """The first way that works, or the one that places the most pods."""
        best = Outcome()
        for nodes in self._orders():
            for kinds in self._kind_orders():
                outcome = self._run(kinds, nodes)
                if outcome.placed is not None:
                    return outcome
                if outcome.stuck and _is_closer(outcome.stuck, best.stuck):
                    best = outcome
        return best

    def _kind_orders(self) -> list[list[int]]:
        """Leaders before those that follow them, and both ways round."""
        kinds = list(range(len(self._wanted)))
        followers_last = sorted(kinds, key=self._follows_others)
        return [followers_last, list(reversed(followers_last))] if len(kinds) > 1 else [kinds]

    def _follows_others(self, kind: int) -> bool:
        follows = self._state.follows[kind]
        return follows is not None and kind not in follows.mates

    def _orders(self) -> Iterator[list[int]]:
        """Nodes in the order in which they are taken."""
        everything = list(range(len(self._nodes)))
        for domain in self._starts()[:_STARTS]:
            rest = set(everything).difference(domain)
            yield [*domain, *sorted(rest)]
        fullest = sorted(everything, key=self._slots)
        yield fullest
        yield list(reversed(fullest))

    def _slots(self, number: int) -> int:
        return sum(self._room.slots[number])

    def _starts(self) -> list[list[int]]:
        """The domains that the first pod can fix for all that follow it, the largest first."""
        starter = self._starter()
        if starter is None:
            return []
        kind, follows = starter
        domains: dict[tuple[str | None, ...], list[int]] = {}
        for number, node in enumerate(self._nodes):
            if self._can(kind, number):
                values = [self._state.values_of(key)[node] for key in follows.keys]
                domains.setdefault(tuple(values), []).append(number)
        return sorted(domains.values(), key=lambda nodes: -self._bound(kind, nodes))

    def _starter(self) -> tuple[int, Follows] | None:
        """The first kind that follows its own like, with no mate that runs already."""
        for kind, follows in enumerate(self._state.follows):
            if follows and kind in follows.mates and not follows.has_running:
                return kind, follows
        return None

    def _run(self, kinds: Sequence[int], nodes: Sequence[int]) -> Outcome:
        """Take the first node that will do for each pod, until none is left or none will do."""
        try:
            before = -1
            while before < len(self._spots):
                before = len(self._spots)
                for kind in kinds:
                    self._fill(kind, nodes)
            missing = self._missing()
            if missing:
                return Outcome(stuck=self._stuck(missing))
            return Outcome(self._where())
        finally:
            self._take_all_back()

    def _fill(self, kind: int, nodes: Sequence[int]) -> None:
        """Put as many pods of a kind as find a node.

        Those that a spread constraint keeps from a node may get there when others have more pods.
        """
        waiting = list(nodes)
        has_progress = True
        while has_progress and waiting:
            has_progress = False
            later = []
            for number in waiting:
                while self._state.count[kind] < self._wanted[kind] and self._can(kind, number):
                    self._put((kind, number))
                    has_progress = True
                if self._room.slots[number][self._shapes[kind].number] > 0:
                    later.append(number)
            waiting = later if self._state.spreads[kind] else []

    # what is known of rules of some kinds

    def _known(self) -> _Known:
        """Whether every choice leads to a place for all pods, given that some do."""
        involved = self._involved()
        if self._only_avoid(involved):
            return _Known(all(self._has_slack(kind) for kind in involved))
        if not all(self._is_undisturbed(kind, involved) for kind in involved):
            return _Known(is_certain=False)
        starter = self._starter()
        if starter is None:
            return _Known(len(involved) == 1 and self._has_one_rule(involved[0]))
        kind, leading = starter
        if not all(self._follows_only(other, leading) for other in involved):
            return _Known(is_certain=False)
        if involved == [kind]:
            return self._each_start(kind)
        return self._each_run()

    def _is_undisturbed(self, kind: int, others: Iterable[int]) -> bool:
        """Whether pods that are not among these take no room from a kind."""
        strangers = [each for each in range(len(self._wanted)) if each not in others]
        for number in range(len(self._nodes)):
            room_for = min(self._cap(kind, number), self._wanted[kind])
            if self._slots_beside(kind, number, strangers) < room_for:
                return False
        return True

    def _slots_beside(self, kind: int, number: int, others: Iterable[int]) -> int:
        """How many pods of a kind a node takes at least, whatever it has of the others."""
        free = list(self._room.free[number])
        for other in others:
            shape = self._shapes[other]
            slots = max(0, self._room.slots[number][shape.number])
            most = min(slots, self._wanted[other])
            for column, amount in enumerate(shape.amounts):
                free[column] -= amount * most
        shape = self._shapes[kind]
        if not self._room.eligible[number][shape.number]:
            return 0
        return max(0, times(free, shape.amounts))

    def _each_start(self, kind: int) -> _Known:
        """Whether each domain that the first pod may choose has room for all."""
        for domain in reversed(self._starts()):
            if self._bound(kind, domain) < self._wanted[kind]:
                outcome = self._run([kind], domain)
                return _Known(is_certain=False, stuck=outcome.stuck)
        return _Known(is_certain=True)

    def _each_run(self) -> _Known:
        """Whether all kinds find room from each domain that the first pod may choose."""
        starts = self._starts()
        if len(starts) > _MOST_STARTS:
            return _Known(is_certain=False)
        everything = set(range(len(self._nodes)))
        for domain in reversed(starts):
            rest = sorted(everything.difference(domain))
            for kinds in self._kind_orders():
                outcome = self._run(kinds, [*domain, *rest])
                if outcome.placed is None:
                    return _Known(is_certain=False, stuck=outcome.stuck)
        return _Known(is_certain=True)

    def _involved(self) -> list[int]:
        """The kinds that rules are about."""
        state = self._state
        involved = []
        for kind in range(len(self._wanted)):
            has_rules = bool(state.avoids[kind] or state.spreads[kind] or state.follows[kind])
            if has_rules or state.shares_no_node[kind] or self._is_counted(kind):
                involved.append(kind)
        return involved

    def _is_counted(self, kind: int) -> bool:
        for of_kind in self._state.spreads:
            for spreads in of_kind:
                if kind in spreads.kinds:
                    return True
        return any(follows and kind in follows.mates for follows in self._state.follows)

    def _only_avoid(self, kinds: Iterable[int]) -> bool:
        """Whether nothing but anti-affinity and ports binds these."""
        for kind in kinds:
            follows = self._state.follows[kind]
            is_bound = follows and (not follows.has_running or follows.mates - {kind})
            if is_bound or self._state.spreads[kind]:
                return False
        return True

    def _has_slack(self, kind: int) -> bool:
        """Whether a pod finds a place whatever the others take that it must not meet."""
        state = self._state
        rivals = {*state.shares_no_node[kind]}
        keys = set()
        for avoided in state.avoids[kind]:
            rivals |= avoided.kinds
            if avoided.key not in self._single_keys():
                keys.add(avoided.key)
        if not rivals:
            return True
        if len(keys) > 1:
            return False
        taken = sum(self._wanted[rival] for rival in rivals)
        if kind not in rivals:
            taken += self._wanted[kind]
        return self._places(kind, next(iter(keys), None)) >= taken

    def _places(self, kind: int, key: str | None) -> int:
        """The domains of a label, or the nodes, on which such a pod can start.

        Only those count in which the other kinds leave it room.
        """
        places: set[object] = set()
        others = [each for each in range(len(self._wanted)) if each != kind]
        for number, node in enumerate(self._nodes):
            if self._can(kind, number) and self._slots_beside(kind, number, others):
                value = self._state.values_of(key)[node] if key else number
                places.add(number if value is None else value)
        return len(places)

    def _has_one_rule(self, kind: int) -> bool:
        """Whether all orders come to the same: one spread constraint, and one pod a node or more.

        Then the domain with the fewest pods, once it is full, says how many the others get.
        """
        state = self._state
        single = self._single_keys()
        for avoided in state.avoids[kind]:
            if avoided.key not in single:
                return False
        return len(state.spreads[kind]) == 1 and state.follows[kind] is None

    def _follows_only(self, kind: int, leading: Follows) -> bool:
        """Whether a kind goes where the leaders are, and has one pod a node at most besides."""
        state = self._state
        single = self._single_keys()
        for avoided in state.avoids[kind]:
            if avoided.key not in single:
                return False
        follows = state.follows[kind]
        if follows is None or state.spreads[kind]:
            return False
        return follows.keys == leading.keys and follows.mates == leading.mates

    # bounds

    def most(self, kind: int) -> int:
        """At most so many pods of a kind find a place, were they alone."""
        everything = range(len(self._nodes))
        usable = [number for number in everything if self._is_open(kind, number)]
        follows = self._state.follows[kind]
        if follows is None or follows.mates != {kind} or follows.has_running:
            return self._bound(kind, usable)
        most = 0
        for domain in self._by_values(usable, follows.keys):
            most = max(most, self._bound(kind, domain))
        return most

    def _is_open(self, kind: int, number: int) -> bool:
        """Whether running pods leave the node to this kind."""
        node = self._nodes[number]
        return self._state.nodes[node].name not in self._state.barred[kind]

    def _by_values(self, numbers: Iterable[int], keys: Sequence[str]) -> Iterable[list[int]]:
        domains: dict[tuple[str | None, ...], list[int]] = {}
        for number in numbers:
            node = self._nodes[number]
            values = tuple([self._state.values_of(key)[node] for key in keys])
            if None not in values:
                domains.setdefault(values, []).append(number)
        return domains.values()

    def _bound(self, kind: int, numbers: Sequence[int]) -> int:
        """At most so many fit on these nodes by each single rule of anti-affinity and spread."""
        most = sum(self._cap(kind, number) for number in numbers)
        for avoided in self._state.avoids[kind]:
            if kind in avoided.kinds:
                most = min(most, self._apart(kind, numbers, avoided.key))
        for spreads in self._state.spreads[kind]:
            if spreads.kinds == {kind}:
                caps: Counter[str] = Counter()
                for number in numbers:
                    value = self._state.values_of(spreads.rule.key)[self._nodes[number]]
                    if value is not None:
                        caps[value] += self._cap(kind, number)
                most = min(most, _most_spread(spreads, caps))
        return most

    def _cap(self, kind: int, number: int) -> int:
        slots = max(0, self._room.slots[number][self._shapes[kind].number])
        if kind in self._state.shares_no_node[kind]:
            return min(slots, 1)
        return slots

    def _apart(self, kind: int, numbers: Iterable[int], key: str) -> int:
        """How many fit where no two share a value of a label."""
        values: set[str] = set()
        most = 0
        for number in numbers:
            cap = self._cap(kind, number)
            value = self._state.values_of(key)[self._nodes[number]]
            if value is None:
                most += cap
            elif cap:
                values.add(value)
        return most + len(values)

    # steps

    def _can(self, kind: int, number: int) -> bool:
        if self._room.slots[number][self._shapes[kind].number] <= 0:
            return False
        return self._state.blocked(kind, self._nodes[number]) is None

    def _put(self, spot: Spot) -> None:
        kind, number = spot
        self._room.put(number, self._shapes[kind], 1)
        self._state.put(kind, self._nodes[number])
        self._spots.append(spot)

    def _take_back(self) -> None:
        kind, number = self._spots.pop()
        self._room.put(number, self._shapes[kind], -1)
        self._state.put(kind, self._nodes[number], -1)

    def _take_all_back(self) -> None:
        while self._spots:
            self._take_back()

    def _missing(self) -> list[int]:
        missing = []
        for kind, wanted in enumerate(self._wanted):
            if self._state.count[kind] < wanted:
                missing.append(kind)
        return missing

    def _where(self) -> tuple[tuple[Spot, int], ...]:
        return tuple(Counter(self._spots).items())

    def _stuck(self, missing: Sequence[int]) -> Stuck:
        """Why the missing pods find no node: of those that rules keep away the first kind."""
        stuck = None
        for kind in missing:
            rules = self._kept_off(kind)
            if stuck is None or (rules and not stuck.rules):
                stuck = Stuck(tuple(self._state.count), kind, rules)
        return stuck or Stuck(tuple(self._state.count), 0, Counter())

    def _kept_off(self, kind: int) -> Counter[Rule]:
        """How many nodes with room for such a pod each rule keeps it from."""
        rules: Counter[Rule] = Counter()
        for number, node in enumerate(self._nodes):
            if self._room.slots[number][self._shapes[kind].number] > 0:
                rule = self._state.blocked(kind, node)
                if rule:
                    rules[rule] += 1
        return rules


def _is_closer(stuck: Stuck, best: Stuck | None) -> bool:
    """Whether more pods are placed."""
    return best is None or sum(stuck.placed) > sum(best.placed)


def _most_spread(spreads: Spreads, caps: Mapping[str, int]) -> int:
    """How many pods a spread constraint allows in domains that have room for so many.

    Once the domain with the fewest pods is full, none of the others gets more than `maxSkew` above.
    """
    fewest = 0
    if len(spreads.pods) >= spreads.rule.min_domains:
        fullest = [count + caps.get(value, 0) for value, count in spreads.pods.items()]
        fewest = min(fullest, default=0)
    highest = fewest + spreads.rule.max_skew
    most = 0
    for value, count in spreads.pods.items():
        most += min(caps.get(value, 0), max(0, highest - count))
    return most
