"""In which order nodes or domains can go down together, at the least cost in slots, running gangs and budgets.

Each step takes, of what is left, the unit that costs the least while all units before it are down: so the first N steps
are a set that can be down at the same time, until a PodDisruptionBudget blocks.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Pods
from toposcope.integrations.framework.packing import Path
from toposcope.planning.budgets import Budgets
from toposcope.planning.capacity import Capacity, View
from toposcope.planning.gangs import Gang
from toposcope.planning.slots import shape_of
from toposcope.snapshot.filters import FAULTS, marks
from toposcope.snapshot.model import NodeView, Snapshot

_Table = tuple[int, Sequence[int], dict[Path, int]]
"""Pods of a kind that fit: the depth of a level, by node, and by domain of the level without what is down."""
_Part = tuple[list[int], list[tuple[Path, int]]]
"""Pods that fit into a unit: into each domain that is wholly its own, and into its part of each other one."""
_GOOD: Final = re.compile(r"(?<!Not)(?:Healthy|Ready|Available)$")
_LONGEST_TYPE: Final = 316
"""Characters of a condition's type: a prefix of 253, a slash and a name."""
# linear: `_faulty` applies it to names of bounded length
_BAD: Final = re.compile(
    r"^(?:Corrupt|Frequent|Missing|MultipleRemediations$|Repeated|SysLogs|Unhealthy|XID)"
    r"|^(?:Gpu\w+Watch|(?:Ethernet|InfiniBand)\w+Check)$|Not(?:Available|Healthy|Ready)$"
    r"|^(?!(?:.*[a-z])?No[A-Z]).*(?:BadBlock|Deadlock|Degradation|Degraded|Down|Drain|Error|EventScheduled|Exhausted"
    r"|Failed|Failure|Fatal|Flapping|Hang|Hung|Inactive|Issue|Lost|Maintenance(?:Scheduled)?|Missing|Offline|Pressure"
    r"|Problem|Read[Oo]nly(?:\w*File[Ss]ystem)?|Shutdown|Stuck|Suspected|Throttling|Unavailable|Unhealthy)s?$"
)
"""Conditions that should be True, as EKS' are, and those that should not: those of the kubelet,
node-problem-detector, NVSentinel (docs/INTEGRATIONS.md, rules of health-events-analyzer), AKS,
Nebius, Soperator, and what is called alike."""


@dataclass(frozen=True)
class Unit:
    """What goes down at once: a node, or a domain."""

    name: str
    nodes: tuple[int, ...]
    """Numbers of `Capacity.nodes`."""
    needs: tuple[str, ...] = ()
    """Why it needs maintenance: faults that its nodes show."""
    gangs: tuple[Gang, ...] = ()
    """Those with a pod there: they stop, or go on without it."""
    budgets: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By namespace and name of a PodDisruptionBudget: pods there that count to it."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Slots that go."""

    gpus: int
    level: Level
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Step:
    """One unit, after all before it."""

    unit: Unit
    losses: tuple[Loss, ...]
    """The largest gangs first; slots free now."""
    blocked: tuple[str, ...]
    """PodDisruptionBudgets `NAMESPACE/NAME` that do not let its pods go once the units before it are down."""


def faults(node: NodeView) -> tuple[str, ...]:
    """What is wrong with a node: our own marks, and conditions that others set.

    The API does not say which status of a condition is the bad one, so its name does. One with
    another name, such as `EtcdIsVoter` of k3s and RKE2, is no fault whatever its status.
    """
    found = [mark.value for mark in marks(node) if mark in FAULTS]
    for kind, status in sorted(node.conditions.items()):
        if kind != "Ready" and status == _faulty(kind):  # a mark says it of Ready
            found.append(kind)
    return tuple(found)


@lru_cache(1024)
def _faulty(kind: str) -> str | None:
    """The status of such a condition that is a fault."""
    if len(kind) > _LONGEST_TYPE:
        return None
    return "False" if _GOOD.search(kind) else "True" if _BAD.search(kind) else None


def units_of(
    snapshot: Snapshot, capacity: Capacity, gangs: Iterable[Gang], budgets: Budgets, depth: int
) -> list[Unit]:
    """The domains of a level (`depth`: 1 is the broadest), or with 0 the nodes.

    Of cordoned nodes only those that still run gangs: NVSentinel cordons what it finds broken
    before it is drained.
    """
    running: dict[str, dict[int, Gang]] = {}
    for gang in gangs:
        for pod in gang.placed:
            running.setdefault(pod.node, {})[id(gang)] = gang
    members: dict[tuple[str, ...], list[int]] = {}
    for number, (node, path) in enumerate(zip(capacity.nodes, capacity.paths, strict=True)):
        if node.obstacle != "cordoned" or node.name in running:
            members.setdefault(path[:depth] if depth else (node.name,), []).append(number)
    counts = _counts(snapshot, budgets)
    units = []
    for path, numbers in members.items():
        names = [capacity.nodes[number].name for number in numbers]
        stopping = {key: gang for name in names for key, gang in running.get(name, {}).items()}
        held = sum((counts[name] for name in names if name in counts), Counter[tuple[str, str]]())
        needs = tuple(
            dict.fromkeys(fault for name in names for fault in faults(snapshot.by_name[name]))
        )
        units.append(Unit("/".join(path), tuple(numbers), needs, tuple(stopping.values()), held))
    return units


def _counts(snapshot: Snapshot, budgets: Budgets) -> dict[str, Counter[tuple[str, str]]]:
    """By node: how many pods count to each budget."""
    counts: dict[str, Counter[tuple[str, str]]] = {}
    for pod in snapshot.pods or () if budgets.budgets else ():
        for budget in budgets.of(f"{pod.namespace}/{pod.name}"):
            counts.setdefault(pod.node, Counter())[budget.namespace, budget.name] += 1
    return counts


def over_budget(
    snapshot: Snapshot, budgets: Budgets, down: Collection[str]
) -> dict[str, tuple[int, int]]:
    """The budgets that keep pods on these nodes: how many pods there count to each, and how many it lets go now."""
    held = sum(
        (counts for node, counts in _counts(snapshot, budgets).items() if node in down), Counter()
    )
    allowed = {(budget.namespace, budget.name): budget.allowed for budget in budgets.budgets}
    return {
        "/".join(key): (held[key], allowed[key]) for key in sorted(held) if held[key] > allowed[key]
    }


class DrainOrder:
    """The order, step by step."""

    def __init__(
        self, capacity: Capacity, budgets: Budgets, sizes: Sequence[int], per_pod: int
    ) -> None:
        self._levels = capacity.levels
        self._paths = capacity.paths
        self._allowed = {
            (budget.namespace, budget.name): budget.allowed for budget in budgets.budgets
        }
        self._tables: list[_Table] = []
        self._columns: list[tuple[int, int, int]] = []
        """What slots are counted of: GPUs, pods, and number of the table; the largest and narrowest first."""
        numbers: dict[tuple[Pods, int], int] = {}
        for gpus in sorted(sizes, reverse=True):
            pods, wanted = shape_of(gpus, per_pod)
            for depth in range(len(self._levels), 0, -1):
                table = numbers.setdefault((pods, depth), len(self._tables))
                self._columns.append((gpus, wanted, table))
                if table == len(self._tables):
                    counted = dict(capacity.sums(View.NOW, pods, depth))
                    self._tables.append((depth, capacity.slots(View.NOW, pods), counted))
        self._members = Counter(
            path[:depth] for path in self._paths for depth in range(len(path) + 1)
        )
        """By domain: its nodes."""
        self._shared = [
            next(
                (
                    path[:depth]
                    for depth in range(len(path) - 1, 0, -1)
                    if self._members[path[:depth]] > 1
                ),
                (),
            )
            for path in self._paths
        ]
        """By node: its narrowest domain with other nodes in it."""
        self._different = list({id(slots): slots for _, slots, _ in self._tables}.values())
        self._parts: list[dict[str, _Part]] = [{} for _ in self._tables]
        self._fitting = [
            sum(count // wanted for count in self._tables[table][2].values())
            for _, wanted, table in self._columns
        ]

    def steps(self, units: Iterable[Unit]) -> Iterator[Step]:
        """All units; those that need maintenance first, those that a budget blocks last."""
        kinds: dict[object, list[Unit]] = {}
        for unit in sorted(units, key=lambda unit: unit.name, reverse=True):
            kinds.setdefault(self._kind(unit), []).append(unit)
        ranks = {
            kind: (not alike[-1].needs, bool(alike[-1].gangs)) for kind, alike in kinds.items()
        }
        while kinds:
            bound = ((kind, alike[-1]) for kind, alike in kinds.items() if alike[-1].budgets)
            blocked = {kind: budgets for kind, unit in bound if (budgets := self._blocked(unit))}
            classes = {kind: (kind in blocked, *ranks[kind]) for kind in kinds}
            first = min(classes.values())
            best = self._kind(
                self._cheapest([kinds[kind][-1] for kind, of in classes.items() if of == first])
            )
            unit = kinds[best].pop()
            if not kinds[best]:
                del kinds[best]
            losses = [self._losses([unit], wanted, table)[0] for _, wanted, table in self._columns]
            yield Step(unit, tuple(self._told(losses)), blocked.get(best, ()))
            self._take_down(unit, losses)

    def _kind(self, unit: Unit) -> object:
        """Nodes without pods that cost the same are as good as each other: one of them is looked at."""
        if unit.gangs or unit.budgets or unit.needs or len(unit.nodes) > 1:
            return unit.name
        (number,) = unit.nodes
        return self._shared[number], tuple(slots[number] for slots in self._different)

    def _cheapest(self, units: list[Unit]) -> Unit:
        """The one that costs the fewest slots of the largest size, then of the next."""
        for (_, wanted, table), fitting in zip(self._columns, self._fitting, strict=True):
            if fitting and len(units) > 1:
                losses = self._losses(units, wanted, table)
                least = min(losses)
                units = [unit for unit, loss in zip(units, losses, strict=True) if loss == least]
        return min(units, key=lambda unit: (sum(gang.gpus for gang in unit.gangs), unit.name))

    def _losses(self, units: Iterable[Unit], wanted: int, table: int) -> list[int]:
        """Slots of so many pods that go with each of the units."""
        known, counted = self._parts[table], self._tables[table][2]
        losses = []
        for unit in units:
            part = known.get(unit.name)
            if part is None:
                part = known[unit.name] = self._part(unit, table)
            own, shared = part
            loss = 0
            for count in own:
                loss += count // wanted
            for domain, count in shared:
                loss += counted[domain] // wanted - (counted[domain] - count) // wanted
            losses.append(loss)
        return losses

    def _part(self, unit: Unit, table: int) -> "_Part":
        """What the unit has of each domain; the same however much else is down."""
        depth, slots, _ = self._tables[table]
        taken: dict[Path, int] = {}
        nodes: dict[Path, int] = {}
        for number in unit.nodes:
            domain = self._paths[number][:depth]
            taken[domain] = taken.get(domain, 0) + slots[number]
            nodes[domain] = nodes.get(domain, 0) + 1
        own = [
            count
            for domain, count in taken.items()
            if count and nodes[domain] == self._members[domain]
        ]
        return own, [
            (at, count) for at, count in taken.items() if count and nodes[at] < self._members[at]
        ]

    def _blocked(self, unit: Unit) -> tuple[str, ...]:
        return tuple(
            "/".join(key)
            for key, count in unit.budgets.items()
            if count > self._allowed.get(key, 0)
        )

    def _told(self, losses: Sequence[int]) -> Iterator[Loss]:
        """Each size at the narrowest level at which it loses slots."""
        told = set()
        for (gpus, _, table), before, loss in zip(
            self._columns, self._fitting, losses, strict=True
        ):
            if loss and gpus not in told:
                told.add(gpus)
                yield Loss(gpus, self._levels[self._tables[table][0] - 1], before, before - loss)

    def _take_down(self, unit: Unit, losses: Sequence[int]) -> None:
        self._fitting = [before - loss for before, loss in zip(self._fitting, losses, strict=True)]
        for depth, slots, counted in self._tables:
            for number in unit.nodes:
                counted[self._paths[number][:depth]] -= slots[number]
        for key, count in unit.budgets.items():
            self._allowed[key] = self._allowed.get(key, 0) - count
