"""Who was heard on each interface, for as long as it wants to be remembered."""

from typing import Final

from toposcope.hardware.neighbours import Neighbour
from toposcope.switches.lldp import Lldpdu

_MOST: Final = 4
"""Senders remembered on one interface; beside the switch a NIC's firmware may speak."""


class Hearing:
    """LLDP's remote systems by interface; times are those of one monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._heard: dict[str, dict[bytes, tuple[float, Lldpdu]]] = {}

    def take(self, netdev: str, lldpdu: Lldpdu, now: float) -> None:
        """Remember what was said until its time to live ends; a time to live of 0 ends at once."""
        senders = self._alive(netdev, now)
        sender = lldpdu.msap
        if sender in senders or len(senders) < _MOST:
            until = now + lldpdu.ttl
            senders[sender] = (until, lldpdu)
        self._heard[netdev] = senders

    def forget(self, netdev: str) -> None:
        """Forget an interface, whose link is down.

        Whoever is at the other end next says so again.
        """
        self._heard.pop(netdev, None)

    def neighbour(self, netdev: str, now: float) -> Neighbour | None:
        """The switch on an interface: of several the one heard first.

        A sender that says that it forwards wins. One that says that it does not is a host.
        """
        alive = [lldpdu for _, lldpdu in self._alive(netdev, now).values()]
        for forwards in (True, None):
            for lldpdu in alive:
                if lldpdu.forwards is forwards:
                    return Neighbour(lldpdu.switch, lldpdu.id, lldpdu.port, "lldp")
        return None

    def _alive(self, netdev: str, now: float) -> dict[bytes, tuple[float, Lldpdu]]:
        alive = {}
        for msap, (until, lldpdu) in self._heard.get(netdev, {}).items():
            if until > now:
                alive[msap] = (until, lldpdu)
        return alive
