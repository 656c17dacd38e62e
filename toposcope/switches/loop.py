"""The program's loop: receive frames, check the ports, query the fabric, write.

The caller waits between two turns.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from toposcope.hardware.neighbours import Neighbour, Neighbours, neighbours_text
from toposcope.hardware.rails import Miscabled
from toposcope.kube.backoff import Backoff, Schedule
from toposcope.kube.confinement import Confinement
from toposcope.kube.errors import KubeError
from toposcope.kube.runtime import REAL, Runtime
from toposcope.switches.hearing import Hearing
from toposcope.switches.infiniband import MadError
from toposcope.switches.lldp import LldpError, decode
from toposcope.switches.packets import LldpSockets
from toposcope.switches.ports import NicPorts
from toposcope.switches.publish import SwitchesPublisher

log = logging.getLogger("switches")

SETTLE_SECONDS: Final = 120.0
"""How long to listen before "no neighbour" is true: the default time to live, four of the usual
intervals."""
WRITE_SECONDS: Final = 60.0
"""The least time between two writes: a flapping port must not become a stream of them."""
RESYNC_SECONDS: Final = 600.0
"""How often the program reads its own Node, to repair what others changed, and a page of
ClusterTopologies."""
_RESYNC_FACTOR: Final = (1.0, 1.2)
_RETRIES: Final = Schedule(first_seconds=5.0, longest_seconds=600.0)
_DEVICES: Final = "/dev/infiniband"
PAUSE_SECONDS: Final = 0.1
"""Between two turns, so that a flood of frames costs little.

See `packets.FRAMES_PER_SECOND` too.
"""


class Switches:
    """Finds this node's neighbours and keeps them on its Node."""

    def __init__(
        self,
        read_ports: Callable[[], Sequence[NicPorts]],
        receiver: LldpSockets,
        first_hop: Callable[[str, int], Neighbour | None],
        publisher: SwitchesPublisher,
        *,
        interval: float,
        confinement: Confinement | None = None,
        runtime: Runtime = REAL,
    ) -> None:
        """`interval` is how many seconds pass between two looks at the ports."""
        self._read_ports = read_ports
        self._receiver = receiver
        self._first_hop = first_hop
        self._publisher = publisher
        self._interval = interval
        self._confinement = confinement
        self._runtime = runtime
        self._rng = runtime.rng()
        self._backoff = Backoff(_RETRIES, self._rng)
        self._hearing = Hearing()
        self._began = self._scan_at = runtime.monotonic()
        self._read_at = self._write_at = self._ask_at = self._began
        self._is_settled = False
        self._ports: Sequence[NicPorts] = ()
        self._netdevs: list[str] = []
        """The interfaces of the ports."""
        self._fabric: dict[str, Neighbour | None] = {}
        """What the fabric says about InfiniBand ports, by NIC."""
        self._told: dict[str, str] = {}
        """What was logged last, by what it is about."""
        self._miscabled: Mapping[str, Miscabled] = {}

    def seconds_until_turn(self) -> float:
        """Seconds until `turn` has something to do even if no frame comes."""
        wait = self._scan_at - self._runtime.monotonic()
        return max(PAUSE_SECONDS, wait)

    def turn(self) -> None:
        """Process the received frames; check the ports and write if that is due."""
        now = self._runtime.monotonic()
        is_due = now >= self._scan_at
        if is_due:
            self._scan_at = now + self._interval
            self._scan()
        self._hear(now)
        if is_due:
            self._look_up_neighbours(now)

    def _scan(self) -> None:
        """Check the ports, and query the fabric for those of InfiniBand."""
        self._ports = self._read_ports()
        self._netdevs = []
        self._fabric = {}
        for port in self._ports:
            self._netdevs += port.netdevs
            if port.netdev and not port.has_carrier:
                self._hearing.forget(port.netdev)
        self._receiver.join(self._netdevs)
        for port in self._ports:
            if port.umads:
                self._fabric[port.nic] = self._ask_fabric(port)

    def _hear(self, now: float) -> None:
        """Process the received frames."""
        for netdev, frame in self._receiver.frames():
            if netdev not in self._netdevs:
                continue
            try:
                self._hearing.take(netdev, decode(frame), now)
            except LldpError:
                self._tell(netdev, "dropping frames that are not valid LLDPDUs")

    def _look_up_neighbours(self, now: float) -> None:
        """Find the neighbour of each port, and write them once they are settled."""
        neighbours = {}
        for port in self._ports:
            neighbours[port.nic] = self._neighbour(port, now)
        for nic, neighbour in neighbours.items():
            words = _words(neighbour)
            self._tell(nic, words)

        waited = now - self._began
        if waited >= SETTLE_SECONDS or all(neighbours.values()):
            self._is_settled = True
        if self._is_settled and now >= self._write_at:
            self._publish(neighbours, now)

    def _ask_fabric(self, port: NicPorts) -> Neighbour | None:
        for device, number in port.umads:
            try:
                neighbour = self._first_hop(f"{_DEVICES}/{device}", number)
            except (OSError, MadError) as error:
                words = f"cannot query its neighbour: {error}"
                self._tell(f"{port.nic} port {number}", words, logging.WARNING)
                continue
            if neighbour:
                return neighbour
        return None

    def _neighbour(self, port: NicPorts, now: float) -> Neighbour | None:
        of_fabric = self._fabric.get(port.nic)
        if of_fabric and not port.is_aggregated:
            return of_fabric
        heard = [self._hearing.neighbour(netdev, now) for netdev in port.netdevs]
        if port.is_aggregated and not _is_same_switch(port, heard):
            # traffic takes any of the cables: which switch comes first would be a guess
            return None
        return heard[0] if heard else None

    def _tell(self, what: str, words: str, level: int = logging.INFO) -> None:
        """Log a text if it differs from the last one about the same subject."""
        if self._told.get(what) == words:
            return
        self._told[what] = words
        log.log(level, "%s: %s", what, words)

    def _publish(self, neighbours: Neighbours, now: float) -> None:
        try:
            if not self._can_write():
                return
            if now >= self._read_at:
                self._publisher.forget()
                self._read_at = now + self._resync_seconds()
            if now >= self._ask_at:
                self._read_miscabled(now)
            text = neighbours_text(neighbours, self._miscabled) if neighbours else None
            if self._publisher.publish(text):
                self._write_at = now + WRITE_SECONDS
        except KubeError as error:
            self._read_at = self._write_at = now + self._backoff.failed(error)
            self._tell("cannot publish", str(error), logging.WARNING)
        else:
            self._backoff.reset()
            self._told.pop("cannot publish", None)

    def _can_write(self) -> bool:
        """Whether the admission policies confine this program. Raises KubeError."""
        if self._confinement is None:
            return True
        self._confinement.check()
        if self._confinement.is_confined:
            return True
        self._tell("not writing", self._confinement.ready(), logging.WARNING)
        return False

    def _read_miscabled(self, now: float) -> None:
        """Ask the cluster which cables are wrong, less often the more there is to read.

        A failure is logged, and the last answer stays.
        """
        pages = 1
        try:
            self._miscabled, pages = self._publisher.miscabled()
        except KubeError as error:
            self._tell("cannot read which cables are wrong", str(error), logging.WARNING)
        self._ask_at = now + pages * self._resync_seconds()

    def _resync_seconds(self) -> float:
        return RESYNC_SECONDS * self._rng.uniform(*_RESYNC_FACTOR)


def _words(neighbour: Neighbour | None) -> str:
    if neighbour is None:
        return "no neighbour"
    switch = neighbour.switch or neighbour.id
    return f"{switch} {neighbour.port} ({neighbour.by})"


def _is_same_switch(port: NicPorts, heard: Sequence[Neighbour | None]) -> bool:
    """Whether all ports that a NIC aggregates are known, and end in one switch."""
    switches = set()
    for neighbour in heard:
        if neighbour is None:
            return False
        switches.add(neighbour.id)
    return bool(port.others) and len(switches) == 1
