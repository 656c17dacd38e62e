"""The order in which nodes or domains can go down together, at the least cost in slots and gangs.

Each step takes the unit that costs the least while all units before it are down: so the first N
steps are a set that can be down at the same time, until a PodDisruptionBudget blocks.
"""

import re
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Pods
from toposcope.integrations.framework.packing import Path
from toposcope.planning.budgets import Budgets
from toposcope.planning.capacity import Capacity, FreeBasis
from toposcope.planning.gangs import Gang
from toposcope.planning.slots import shape_of
from toposcope.snapshot.filters import FAULTS, marks
from toposcope.snapshot.model import NodeView, Snapshot
from toposcope.snapshot.reach import PodShape

BudgetKey = tuple[str, str]
"""Namespace and name of a PodDisruptionBudget."""
_HEALTHY_IF_TRUE: Final = re.compile(r"(?<!Not)(?:Healthy|Ready|Available)$")
_MAX_TYPE_CHARACTERS: Final = 316
"""Characters of a condition's type: a prefix of 253, a slash and a name."""
# linear: `_faulty_status` applies it to names of bounded length
_FAULTY_IF_TRUE: Final = re.compile(
    r"^(?:Corrupt|Frequent|Missing|MultipleRemediations$|Repeated|SysLogs|Unhealthy|XID)"
    r"|^(?:Gpu\w+Watch|(?:Ethernet|InfiniBand)\w+Check)$|Not(?:Available|Healthy|Ready)$"
    r"|^(?!(?:.*[a-z])?No[A-Z]).*(?:BadBlock|Deadlock|Degradation|Degraded|Down|Drain|Error"
    r"|EventScheduled|Exhausted|Failed|Failure|Fatal|Flapping|Hang|Hung|Inactive|Issue|Lost"
    r"|Maintenance(?:Scheduled)?|Missing|Offline|Pressure|Problem|Read[Oo]nly(?:\w*File[Ss]ystem)?"
    r"|Shutdown|Stuck|Suspected|Throttling|Unavailable|Unhealthy)s?$"
)
"""Conditions that should be True, as EKS' are, and those that should not: those of the kubelet,
node-problem-detector, NVSentinel (docs/INTEGRATIONS.md, rules of health-events-analyzer), AKS,
Nebius, Soperator, and conditions with similar names."""


class _Table(NamedTuple):
    """Pods of a kind that fit into the domains of a level."""

    depth: int
    slots: Sequence[int]
    """By node."""
    sums: dict[Path, int]
    """By domain, without what is down."""


class _Part(NamedTuple):
    """Pods that fit into a unit."""

    own: list[int]
    """Into each domain that is wholly its own."""
    shared: list[tuple[Path, int]]
    """Into its part of each other domain."""


class _Column(NamedTuple):
    """What slots are counted of."""

    gpus: int
    wanted: int
    """Pods of a gang."""
    table: int
    """The number of the table that counts such pods."""


@dataclass(frozen=True)
class DrainUnit:
    """What goes down at once: a node, or a domain."""

    name: str
    nodes: tuple[int, ...]
    """Numbers of `Capacity.nodes`."""
    needs: tuple[str, ...] = ()
    """Why it needs maintenance: faults that its nodes show."""
    gangs: tuple[Gang, ...] = ()
    """The gangs with a pod there: they stop, or go on without it."""
    budgets: Mapping[BudgetKey, int] = field(default_factory=dict)
    """By namespace and name of a PodDisruptionBudget: pods there that count to it."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Slots that go."""

    gpus: int
    level: Level
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class DrainStep:
    """One unit that goes down after all before it."""

    unit: DrainUnit
    losses: tuple[Loss, ...]
    """The largest gangs first; slots free now."""
    blocked: tuple[str, ...]
    """PodDisruptionBudgets `NAMESPACE/NAME` that keep its pods once those before it are down."""


def faults(node: NodeView) -> tuple[str, ...]:
    """What is wrong with a node: our own marks, and conditions that others set.

    The API does not say which status of a condition is the bad one, so its name does. One with
    another name, such as `EtcdIsVoter` of k3s and RKE2, is no fault whatever its status.
    """
    reasons = []
    for mark in marks(node):
        if mark in FAULTS:
            reasons.append(mark.value)
    conditions = sorted(node.conditions.items())
    for kind, status in conditions:
        if kind == "Ready":
            continue  # a mark says it
        if status == _faulty_status(kind):
            reasons.append(kind)
    return tuple(reasons)


@lru_cache(1024)
def _faulty_status(kind: str) -> str | None:
    """The status of such a condition that is a fault."""
    if len(kind) > _MAX_TYPE_CHARACTERS:
        return None
    if _HEALTHY_IF_TRUE.search(kind):
        return "False"
    if _FAULTY_IF_TRUE.search(kind):
        return "True"
    return None


def units_of(
    snapshot: Snapshot, capacity: Capacity, gangs: Iterable[Gang], budgets: Budgets, depth: int
) -> list[DrainUnit]:
    """The domains of a level (`depth`: 1 is the broadest), or with 0 the nodes.

    Cordoned nodes count only while they run gangs: NVSentinel cordons what it finds broken before
    it is drained.
    """
    running = _running_on(gangs)
    budgets_of = _budgets_by_node(snapshot, budgets)
    units = []
    members = _members(capacity, running, depth)
    for path, numbers in members.items():
        needs: dict[str, None] = {}
        stopping: dict[int, Gang] = {}
        held = Counter[BudgetKey]()
        for number in numbers:
            name = capacity.nodes[number].name
            node = snapshot.by_name[name]
            needs.update(dict.fromkeys(faults(node)))
            stopping.update(running.get(name, {}))
            held.update(budgets_of.get(name, {}))

        unit = DrainUnit(
            name="/".join(path),
            nodes=tuple(numbers),
            needs=tuple(needs),
            gangs=tuple(stopping.values()),
            budgets=held,
        )
        units.append(unit)
    return units


def _running_on(gangs: Iterable[Gang]) -> dict[str, dict[int, Gang]]:
    """By node: the gangs with a pod there, each once."""
    running: dict[str, dict[int, Gang]] = {}
    for gang in gangs:
        for pod in gang.placed:
            gangs_there = running.setdefault(pod.node, {})
            gangs_there[id(gang)] = gang
    return running


def _members(capacity: Capacity, running: Container[str], depth: int) -> dict[Path, list[int]]:
    """By unit: its nodes that may have to be drained."""
    members: dict[Path, list[int]] = {}
    for number, node in enumerate(capacity.nodes):
        if node.obstacle == "cordoned" and node.name not in running:
            continue
        unit: Path = (node.name,)
        if depth:
            path = capacity.paths[number]
            unit = path[:depth]
        in_unit = members.setdefault(unit, [])
        in_unit.append(number)
    return members


def _budgets_by_node(snapshot: Snapshot, budgets: Budgets) -> dict[str, Counter[BudgetKey]]:
    """By node: how many pods count to each budget."""
    counts: dict[str, Counter[BudgetKey]] = {}
    if not budgets.budgets:
        return counts
    for pod in snapshot.pods or ():
        for budget in budgets.of(f"{pod.namespace}/{pod.name}"):
            key = budget.namespace, budget.name
            on_node = counts.setdefault(pod.node, Counter())
            on_node[key] += 1
    return counts


def over_budget(
    snapshot: Snapshot, budgets: Budgets, down: Collection[str]
) -> dict[str, tuple[int, int]]:
    """The budgets that keep pods on these nodes.

    For each: how many pods there count to it, and how many of them it lets go now.
    """
    held = Counter[BudgetKey]()
    by_node = _budgets_by_node(snapshot, budgets)
    for node, counts in by_node.items():
        if node in down:
            held.update(counts)

    allowed = _allowed_by(budgets)
    over = {}
    for key in sorted(held):
        count = held[key]
        let_go = allowed[key]
        if count > let_go:
            name = "/".join(key)
            over[name] = count, let_go
    return over


def _allowed_by(budgets: Budgets) -> dict[BudgetKey, int]:
    """How many pods each budget lets go now."""
    allowed = {}
    for budget in budgets.budgets:
        key = budget.namespace, budget.name
        allowed[key] = budget.allowed
    return allowed


class DrainOrder:
    """The order, step by step."""

    def __init__(
        self,
        capacity: Capacity,
        budgets: Budgets,
        sizes: Sequence[int],
        per_pod: int,
        like: PodShape,
    ) -> None:
        """`sizes` are those of gangs, of pods with `per_pod` GPUs, otherwise `like` this one."""
        self._levels = capacity.levels
        self._paths = capacity.paths
        self._allowed = _allowed_by(budgets)
        self._tables: list[_Table] = []
        self._columns: list[_Column] = []
        """The largest gangs and the narrowest levels first."""
        gangs = []
        for gpus in sorted(sizes, reverse=True):
            pods, wanted = shape_of(gpus, per_pod, like)
            gangs.append((gpus, pods, wanted))
        self._lay_out(capacity, gangs)
        self._members = self._count_members()
        """By domain: its nodes."""
        self._shared = [self._shared_domain(path) for path in self._paths]
        """By node: its narrowest domain with other nodes in it."""
        self._different = self._different_slots()
        """The slots by node that some table counts by."""
        self._parts: list[dict[str, _Part]] = [{} for _ in self._tables]
        self._fitting = [self._count_fitting(column) for column in self._columns]

    def _lay_out(self, capacity: Capacity, gangs: Iterable[tuple[int, Pods, int]]) -> None:
        """Make the columns, and one table for those that count the same pods at the same level."""
        numbers: dict[tuple[Pods, int], int] = {}
        depths = range(len(self._levels), 0, -1)
        for gpus, pods, wanted in gangs:
            for depth in depths:
                key = pods, depth
                if key not in numbers:
                    numbers[key] = len(self._tables)
                    sums = capacity.sums(FreeBasis.NOW, pods, depth)
                    table = _Table(
                        depth=depth,
                        slots=capacity.slots(FreeBasis.NOW, pods),
                        sums=dict(sums),
                    )
                    self._tables.append(table)
                column = _Column(
                    gpus=gpus,
                    wanted=wanted,
                    table=numbers[key],
                )
                self._columns.append(column)

    def _different_slots(self) -> list[Sequence[int]]:
        different = {}
        for table in self._tables:
            different[id(table.slots)] = table.slots
        return list(different.values())

    def _count_members(self) -> Counter[Path]:
        members = Counter[Path]()
        for path in self._paths:
            for depth in range(len(path) + 1):
                domain = path[:depth]
                members[domain] += 1
        return members

    def _shared_domain(self, path: Path) -> Path:
        for depth in range(len(path) - 1, 0, -1):
            domain = path[:depth]
            if self._members[domain] > 1:
                return domain
        return ()

    def _count_fitting(self, column: _Column) -> int:
        """How many gangs fit now."""
        table = self._tables[column.table]
        fitting = 0
        for count in table.sums.values():
            fitting += count // column.wanted
        return fitting

    def steps(self, units: Iterable[DrainUnit]) -> Iterator[DrainStep]:
        """All units; those that need maintenance first, those that a budget blocks last."""
        kinds: dict[object, list[DrainUnit]] = {}
        last_name_first = sorted(units, key=_name, reverse=True)
        for unit in last_name_first:
            kind = self._kind(unit)
            of_kind = kinds.setdefault(kind, [])
            of_kind.append(unit)
        ranks = {kind: _rank(of_kind[-1]) for kind, of_kind in kinds.items()}

        while kinds:
            blocked = self._blocked_kinds(kinds)
            candidates = _first_class(kinds, blocked, ranks)
            cheapest = self._cheapest(candidates)
            best = self._kind(cheapest)
            of_kind = kinds[best]
            unit = of_kind.pop()
            if not of_kind:
                del kinds[best]

            losses = []
            for column in self._columns:
                losses += self._losses([unit], column)
            yield DrainStep(
                unit=unit,
                losses=tuple(self._losses_by_size(losses)),
                blocked=blocked.get(best, ()),
            )
            self._take_down(unit, losses)

    def _kind(self, unit: DrainUnit) -> object:
        """Nodes without pods that cost the same are of one kind: one of them is checked."""
        if unit.gangs or unit.budgets or unit.needs:
            return unit.name
        if len(unit.nodes) > 1:
            return unit.name
        (number,) = unit.nodes
        slots = [counted[number] for counted in self._different]
        return self._shared[number], tuple(slots)

    def _cheapest(self, units: list[DrainUnit]) -> DrainUnit:
        """The one that costs the fewest slots of the largest size, then of the next."""
        for column, fitting in zip(self._columns, self._fitting, strict=True):
            if not fitting or len(units) == 1:
                continue
            losses = self._losses(units, column)
            least = min(losses)
            cheapest = []
            for unit, loss in zip(units, losses, strict=True):
                if loss == least:
                    cheapest.append(unit)
            units = cheapest
        return min(units, key=_gpus_that_stop)

    def _losses(self, units: Iterable[DrainUnit], column: _Column) -> list[int]:
        """Slots of a column that go with each of the units."""
        wanted = column.wanted
        parts = self._parts[column.table]
        table = self._tables[column.table]
        losses = []
        for unit in units:
            part = parts.get(unit.name)
            if part is None:
                part = self._part(unit, table)
                parts[unit.name] = part

            loss = 0
            for count in part.own:
                loss += count // wanted
            for domain, count in part.shared:
                before = table.sums[domain]
                after = before - count
                loss += before // wanted - after // wanted
            losses.append(loss)
        return losses

    def _part(self, unit: DrainUnit, table: _Table) -> _Part:
        """What the unit has of each domain; the same however much else is down."""
        slots: dict[Path, int] = {}
        nodes: dict[Path, int] = {}
        for number in unit.nodes:
            path = self._paths[number]
            domain = path[: table.depth]
            slots[domain] = slots.get(domain, 0) + table.slots[number]
            nodes[domain] = nodes.get(domain, 0) + 1

        part = _Part([], [])
        for domain, count in slots.items():
            if not count:
                continue
            if nodes[domain] == self._members[domain]:
                part.own.append(count)
            else:
                part.shared.append((domain, count))
        return part

    def _blocked_kinds(
        self, kinds: Mapping[object, Sequence[DrainUnit]]
    ) -> dict[object, tuple[str, ...]]:
        """By kind of unit that budgets block: these budgets. Most units have none."""
        blocked = {}
        for kind, of_kind in kinds.items():
            unit = of_kind[-1]
            if not unit.budgets:
                continue
            budgets = self._blocked(unit)
            if budgets:
                blocked[kind] = budgets
        return blocked

    def _blocked(self, unit: DrainUnit) -> tuple[str, ...]:
        """The budgets that do not let its pods go now."""
        blocking = []
        for key, count in unit.budgets.items():
            allowed = self._allowed.get(key, 0)
            if count > allowed:
                name = "/".join(key)
                blocking.append(name)
        return tuple(blocking)

    def _losses_by_size(self, losses: Sequence[int]) -> Iterator[Loss]:
        """The loss of each size, at the narrowest level at which it loses slots."""
        reported_sizes = set()
        for column, before, loss in zip(self._columns, self._fitting, losses, strict=True):
            if not loss or column.gpus in reported_sizes:
                continue
            reported_sizes.add(column.gpus)
            table = self._tables[column.table]
            yield Loss(
                gpus=column.gpus,
                level=self._levels[table.depth - 1],
                before=before,
                after=before - loss,
            )

    def _take_down(self, unit: DrainUnit, losses: Sequence[int]) -> None:
        for column, loss in enumerate(losses):
            self._fitting[column] -= loss

        for table in self._tables:
            for number in unit.nodes:
                path = self._paths[number]
                domain = path[: table.depth]
                table.sums[domain] -= table.slots[number]

        for key, count in unit.budgets.items():
            allowed = self._allowed.get(key, 0)
            self._allowed[key] = allowed - count


_Rank = tuple[bool, bool]


def _first_class(
    kinds: Mapping[object, Sequence[DrainUnit]],
    blocked: Container[object],
    ranks: Mapping[object, _Rank],
) -> list[DrainUnit]:
    """One unit of each kind that comes before all others."""
    first: tuple[bool, _Rank] | None = None
    candidates: list[DrainUnit] = []
    for kind, of_kind in kinds.items():
        own = kind in blocked, ranks[kind]
        if first is None or own < first:
            first = own
            candidates = []
        if own == first:
            unit = of_kind[-1]
            candidates.append(unit)
    return candidates


def _name(unit: DrainUnit) -> str:
    return unit.name


def _gpus_that_stop(unit: DrainUnit) -> tuple[int, str]:
    """How many GPUs stop with it; of equal ones the name decides."""
    gpus = 0
    for gang in unit.gangs:
        gpus += gang.gpus
    return gpus, unit.name


def _rank(unit: DrainUnit) -> _Rank:
    """The lower, the sooner: what needs maintenance, then what runs nothing."""
    return not unit.needs, bool(unit.gangs)
