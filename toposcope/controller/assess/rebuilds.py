"""NVLink fabrics that were rebuilt: the nodes of a chassis have another cluster UUID than before.

A rack's fabric gets a new cluster UUID when it is set up anew (NVIDIA/infra-controller#6420). Its
nodes register with the new one together or one by one, and on the way there one chassis holds two
fabrics, as it does for good where it is partitioned (#4132). What a node was in before tells the
two apart, so it is remembered here: a controller that starts in the middle of a rebuild sees the
rest of it, and one that starts afterwards sees none.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from toposcope.api.cluster_topology import Topology
from toposcope.hierarchy.node import Hardware, fabric_of
from toposcope.hierarchy.table import Table
from toposcope.hierarchy.timers import Timers
from toposcope.text import listing, plural

MOST_REBUILDS: Final = 5
"""How many rebuilds a status lists, the newest first."""
MOST_CHASSIS: Final = 4
"""How many chassis of a rebuild are named."""


class RebuildProgress(NamedTuple):
    """How far a rebuild is: another one after each move."""

    before: str
    after: str
    nodes: int
    nodes_left: int


@dataclass(frozen=True, slots=True)
class Rebuild:
    """Nodes that left one fabric for another and stayed in their chassis."""

    before: str
    """The cluster UUID that they had."""
    after: str
    """The cluster UUID that they have."""
    nodes: int
    """Nodes that are in `after` now."""
    nodes_left: int
    """Nodes that are still in `before`, or have left it for no other fabric yet."""
    chassis: tuple[str, ...] = ()
    """The first names, sorted; none where NVML does not name them."""
    other_chassis: int = 0
    """How many more there are."""

    @property
    def pair(self) -> tuple[str, str]:
        """What tells it from other rebuilds."""
        return self.before, self.after

    @property
    def progress(self) -> RebuildProgress:
        """How far it is."""
        return RebuildProgress(
            before=self.before,
            after=self.after,
            nodes=self.nodes,
            nodes_left=self.nodes_left,
        )

    @property
    def place(self) -> str:
        """The chassis in words."""
        if not self.chassis:
            return "an NVLink fabric"
        total = len(self.chassis) + self.other_chassis
        return f"the NVLink fabric of chassis {listing(self.chassis, MOST_CHASSIS, total)}"

    @property
    def sentence(self) -> str:
        """What happened."""
        place = self.place
        place = place[0].upper() + place[1:]
        unit = plural(self.nodes, "node")
        text = (
            f"{place} was rebuilt: "
            f"cluster UUID {self.before} "
            f"became {self.after} "
            f"on {self.nodes} {unit}"
        )
        if not self.nodes_left:
            return text
        are = plural(self.nodes_left, "node is", "nodes are")
        return f"{text}; {self.nodes_left} {are} not in the new one"


@dataclass(frozen=True, slots=True)
class Rebuilds:
    """The rebuilds that the nodes of one topology are part of."""

    under_way: tuple[Rebuild, ...] = ()
    """Nodes are still moving, or have stopped for less than the grace period."""
    over: tuple[Rebuild, ...] = ()
    """Nobody is left in the old fabric, or nothing has moved for the grace period."""

    @property
    def moving(self) -> frozenset[str]:
        """The cluster UUIDs of the fabrics that nodes are leaving and joining.

        Nothing is concluded from them yet.
        """
        uuids: set[str] = set()
        for rebuild in self.under_way:
            uuids.update(rebuild.pair)
        return frozenset(uuids)


NO_REBUILDS: Final = Rebuilds()


class _Seat(NamedTuple):
    """Where a node is: equal seats share a fabric and a chassis."""

    chassis: str
    fabric: str


class FabricHistory:
    """Remembers the fabric of each node from one pass to the next. One for all topologies."""

    def __init__(self) -> None:
        self._counts: Mapping[_Seat, int] = {}
        """Nodes by seat in the last pass: while they are equal, no node is looked at."""
        self._seats: dict[str, _Seat] = {}
        """The last seat of each node; it stays while a node is in no fabric."""
        self._origins: dict[str, str] = {}
        """The fabric that a node came from, of nodes that have moved."""
        self._over: set[tuple[str, str]] = set()
        """Rebuilds that have left nobody behind, or were reported as over."""
        self._rebuilds: tuple[Rebuild, ...] = ()

    def observe(self, nodes: Table) -> tuple[Rebuild, ...]:
        """Look at all nodes, and return the rebuilds that any has been part of, sorted by UUID."""
        counts = _counts(nodes)
        if counts == self._counts:
            return self._rebuilds
        self._counts = counts
        self._look_at(nodes)
        self._rebuilds = self._rebuilds_now()
        current = set()
        for rebuild in self._rebuilds:
            current.add(rebuild.pair)
            if not rebuild.nodes_left:
                self._over.add(rebuild.pair)
        self._over &= current
        return self._rebuilds

    def report(self, rebuilds: Iterable[Rebuild]) -> None:
        """Note that these are over for a topology: nodes that go back make a new rebuild."""
        for rebuild in rebuilds:
            self._over.add(rebuild.pair)

    def _look_at(self, nodes: Table) -> None:
        """Note where each node is, and which of them have moved."""
        fabrics_before = {seat.fabric for seat in self._seats.values()}
        shared: dict[_Seat, _Seat] = {}
        seats: dict[str, _Seat] = {}
        for node in nodes:
            name = node.name
            before = self._seats.get(name)
            seat = _seat(node.traits.hardware, before)
            if seat is None:
                continue
            seats[name] = shared.setdefault(seat, seat)
            if before is not None and before != seat:
                self._moved(name, before, seat, fabrics_before)
        self._seats = seats

        gone = self._origins.keys() - seats.keys()
        for name in gone:
            del self._origins[name]

    def _moved(self, name: str, before: _Seat, seat: _Seat, fabrics_before: set[str]) -> None:
        """Note where a node came from, unless it is a machine in another place now."""
        origin = self._origins.pop(name, "")
        if before.chassis != seat.chassis:
            return
        if not origin or (origin, before.fabric) in self._over:
            origin = before.fabric
        # Without a chassis a node may have been carried to another rack, whose fabric was there
        # before.
        was_there_before = seat.fabric in fabrics_before
        if not seat.chassis and was_there_before and not self._is_under_way(origin, seat.fabric):
            return
        # Back where it came from before the others followed: nothing was rebuilt.
        if origin != seat.fabric:
            self._origins[name] = origin

    def _is_under_way(self, before: str, after: str) -> bool:
        pair = before, after
        return any(rebuild.pair == pair for rebuild in self._rebuilds)

    def _rebuilds_now(self) -> tuple[Rebuild, ...]:
        moved = self._moved_by_chassis()
        if not moved:
            return ()
        counts = Counter(self._seats.values())
        in_fabric: Counter[str] = Counter()
        for seat, count in counts.items():
            in_fabric[seat.fabric] += count
        rebuilds = []
        for before, after in sorted(moved):
            by_chassis = moved[before, after]
            chassis = sorted(name for name in by_chassis if name)
            rebuild = Rebuild(
                before=before,
                after=after,
                nodes=_arrived(after, by_chassis, counts),
                nodes_left=in_fabric[before],
                chassis=tuple(chassis[:MOST_CHASSIS]),
                other_chassis=len(chassis[MOST_CHASSIS:]),
            )
            rebuilds.append(rebuild)
        return tuple(rebuilds)

    def _moved_by_chassis(self) -> dict[tuple[str, str], Counter[str]]:
        """How many nodes moved in each chassis, by the fabric they had and the one they have."""
        moved: dict[tuple[str, str], Counter[str]] = {}
        for name, origin in self._origins.items():
            seat = self._seats[name]
            pair = origin, seat.fabric
            by_chassis = moved.setdefault(pair, Counter())
            by_chassis[seat.chassis] += 1
        return moved


def _arrived(after: str, moved: Mapping[str, int], counts: Mapping[_Seat, int]) -> int:
    """The nodes of a fabric in the chassis in which nodes have moved.

    Nodes that moved before anybody looked are among them.
    """
    nodes = 0
    for chassis, seen_moving in moved.items():
        nodes += counts[_Seat(chassis, after)] if chassis else seen_moving
    return nodes


def _counts(nodes: Table) -> dict[_Seat, int]:
    counts: dict[_Seat, int] = {}
    for hardware, count in nodes.machines:
        if hardware.domain is None:
            continue
        fabric = fabric_of(hardware.domain)
        seat = _Seat(hardware.chassis, fabric)
        before = counts.get(seat, 0)
        counts[seat] = before + count
    return counts


def _seat(hardware: Hardware, before: _Seat | None) -> _Seat | None:
    """A node's seat; outside all fabrics it keeps the last one, unless its chassis has changed."""
    if hardware.domain is not None:
        return _Seat(hardware.chassis, fabric_of(hardware.domain))
    if before is not None and hardware.chassis in ("", before.chassis):
        return before
    return None


def rebuilds_of(
    topology: Topology,
    nodes: Table,
    rebuilds: Sequence[Rebuild],
    timers: Timers[RebuildProgress],
    now: float,
) -> Rebuilds:
    """The rebuilds that selected nodes are part of, parted by whether they are over.

    `now` is in monotonic seconds.
    """
    if not rebuilds:
        timers.clear()
        return NO_REBUILDS
    here = fabrics(nodes)
    under_way = []
    over = []
    unfinished = []
    for rebuild in rebuilds:
        if rebuild.after not in here:
            continue
        if rebuild.nodes_left:
            unfinished.append(rebuild.progress)
        if rebuild.nodes_left and not timers.is_overdue(
            rebuild.progress, now, topology.grace_seconds
        ):
            under_way.append(rebuild)
        else:
            over.append(rebuild)
    timers.keep_only(unfinished)
    return Rebuilds(tuple(under_way), tuple(over))


def fabrics(nodes: Table) -> set[str]:
    """The cluster UUIDs of the fabrics that nodes are in."""
    uuids = set()
    for hardware, _ in nodes.machines:
        if hardware.domain is not None:
            uuids.add(fabric_of(hardware.domain))
    return uuids


def under_way_words(rebuilds: Iterable[Rebuild]) -> str:
    """What `FabricHealthy` says of rebuilds that are not over; empty without any."""
    texts = []
    for rebuild in rebuilds:
        nodes_have = plural(rebuild.nodes, "node has", "nodes have")
        others_have = plural(rebuild.nodes_left, "has", "have")
        texts.append(
            f"{rebuild.place}: "
            f"{rebuild.nodes} {nodes_have} moved "
            f"from cluster UUID {rebuild.before} "
            f"to {rebuild.after}, "
            f"{rebuild.nodes_left} {others_have} not"
        )
    if not texts:
        return ""
    return f"being rebuilt, no fault: {listing(texts, MOST_REBUILDS)}"
