"""The program's loop: hear, look at the ports, ask the fabric, write.

The caller does the waiting.
"""

import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from toposcope.hardware.neighbours import Neighbour, Neighbours, neighbours_text
from toposcope.hardware.rails import Miscabled
from toposcope.kube.backoff import Backoff, Schedule
from toposcope.kube.confinement import Confinement
from toposcope.kube.errors import KubeError
from toposcope.switches.hearing import Hearing
from toposcope.switches.infiniband import MadError
from toposcope.switches.lldp import LldpError, decode
from toposcope.switches.packets import LldpSockets
from toposcope.switches.ports import NicPorts
from toposcope.switches.publish import Publisher

log = logging.getLogger("switches")

SETTLE_SECONDS: Final = 120.0
"""How long to listen before "no neighbour" is true: the default time to live, four of the usual
intervals."""
WRITE_SECONDS: Final = 60.0
"""The least time between two writes: a flapping port must not become a stream of them."""
RESYNC_SECONDS: Final = 600.0
"""How often the program reads its own Node, to repair what others changed, and a page of
ClusterTopologies."""
_RETRIES: Final = Schedule(first=5.0, longest=600.0)
_RESYNC_FACTOR: Final = (1.0, 1.2)
_DEVICES: Final = "/dev/infiniband"
PAUSE: Final = 0.1
"""Seconds between two turns, so that a flood of frames costs little: see
`packets.FRAMES_PER_SECOND` too."""


class Switches:
    """Finds this node's neighbours and keeps them on its Node; `monotonic` never goes back."""

    def __init__(
        self,
        read_ports: Callable[[], Sequence[NicPorts]],
        receiver: LldpSockets,
        first_hop: Callable[[str, int], Neighbour | None],
        publisher: Publisher,
        interval: float,
        confinement: Confinement | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self._read_ports = read_ports
        self._receiver = receiver
        self._first_hop = first_hop
        self._publisher = publisher
        self._interval = interval
        self._confinement = confinement
        self._monotonic = monotonic
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not a secret
        self._hearing = Hearing()
        self._began = self._scan_at = self._read_at = self._write_at = self._ask_at = monotonic()
        self._settled = False
        self._ports: Sequence[NicPorts] = ()
        self._fabric: dict[str, Neighbour | None] = {}
        self._said: dict[str, str] = {}
        self._miscabled: Mapping[str, Miscabled] = {}
        self._backoff = Backoff(_RETRIES, self._rng)

    def seconds_until_turn(self) -> float:
        """Seconds until `turn` has something to do even if no frame comes."""
        return max(PAUSE, self._scan_at - self._monotonic())

    def turn(self) -> None:
        """Take the frames that have come.

        If it is time, look at the ports and write what has changed.
        """
        now = self._monotonic()
        due = now >= self._scan_at
        if due:
            self._scan_at = now + self._interval
            self._scan()
        ours = {netdev for port in self._ports for netdev in port.netdevs}
        for netdev, frame in self._receiver.frames():
            if netdev in ours:
                try:
                    self._hearing.take(netdev, decode(frame), now)
                except LldpError:
                    self._say(netdev, "frames that are no valid LLDPDUs are dropped")
        if not due:
            return
        neighbours = {port.nic: self._neighbour(port, now) for port in self._ports}
        for nic, peer in neighbours.items():
            self._say(
                nic, f"{peer.switch or peer.id} {peer.port} ({peer.by})" if peer else "no neighbour"
            )
        self._settled |= all(neighbours.values()) or now >= self._began + SETTLE_SECONDS
        if self._settled:
            self._publish(neighbours, now)

    def _scan(self) -> None:
        """Look at the ports, and ask the fabric about those of InfiniBand."""
        self._ports = self._read_ports()
        self._receiver.join(netdev for port in self._ports for netdev in port.netdevs)
        for port in self._ports:
            if port.netdev and not port.carrier:
                self._hearing.forget(port.netdev)
        self._fabric = {port.nic: self._hop(port) for port in self._ports if port.umads}

    def _hop(self, port: NicPorts) -> Neighbour | None:
        for device, number in port.umads:
            try:
                if found := self._first_hop(f"{_DEVICES}/{device}", number):
                    return found
            except (OSError, MadError) as error:
                self._say(
                    f"{port.nic} port {number}",
                    f"cannot ask for its neighbour: {error}",
                    logging.WARNING,
                )
        return None

    def _neighbour(self, port: NicPorts, now: float) -> Neighbour | None:
        hop = self._fabric.get(port.nic)
        if hop and not port.aggregated:
            return hop
        heard = [self._hearing.neighbour(netdev, now) for netdev in port.netdevs]
        if port.aggregated and not _same_switch(port, heard):
            # traffic takes any of the cables: which switch comes first would be a guess
            return None
        return heard[0] if heard else None

    def _say(self, what: str, words: str, level: int = logging.INFO) -> None:
        """Log what has changed; at rest nothing is logged."""
        if self._said.get(what) != words:
            self._said[what] = words
            log.log(level, "%s: %s", what, words)

    def _publish(self, neighbours: Neighbours, now: float) -> None:
        if now < self._write_at:
            return
        try:
            if self._confinement:
                self._confinement.check()
                if not self._confinement.confined:
                    self._say("nothing is written", self._confinement.ready(), logging.WARNING)
                    return
            if now >= self._read_at:
                self._publisher.forget()
                self._read_at = now + RESYNC_SECONDS * self._rng.uniform(*_RESYNC_FACTOR)
            if now >= self._ask_at:
                self._ask(now)
            if self._publisher.publish(
                neighbours_text(neighbours, self._miscabled) if neighbours else None
            ):
                self._write_at = now + WRITE_SECONDS
        except KubeError as error:
            self._read_at = self._write_at = now + self._backoff.failed(error)
            self._say("cannot publish", str(error), logging.WARNING)
        else:
            self._backoff.reset()
            self._said.pop("cannot publish", None)

    def _ask(self, now: float) -> None:
        """Ask the cluster which cables are wrong, less often the more there is to read.

        No failure is an obstacle.
        """
        pages = 1
        try:
            self._miscabled, pages = self._publisher.miscabled()
        except KubeError as error:
            self._say("cannot read which cables are wrong", str(error), logging.WARNING)
        self._ask_at = now + pages * RESYNC_SECONDS * self._rng.uniform(*_RESYNC_FACTOR)


def _same_switch(port: NicPorts, heard: Sequence[Neighbour | None]) -> bool:
    """Whether all ports that a NIC aggregates are known, and end in one switch."""
    switches = {neighbour.id if neighbour else None for neighbour in heard}
    return bool(port.others) and len(switches) == 1 and None not in switches
