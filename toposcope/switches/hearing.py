"""Remembers which senders were heard on each interface, until their time to live ends."""

from typing import Final, NamedTuple, TypeAlias

from toposcope.hardware.neighbours import Neighbour
from toposcope.switches.lldp import Lldpdu

_MOST_SENDERS: Final = 4
"""Senders remembered on one interface; beside the switch a NIC's firmware may speak."""


class _Heard(NamedTuple):
    """What a sender announced, and when its time to live ends."""

    until: float
    lldpdu: Lldpdu


_Senders: TypeAlias = dict[bytes, _Heard]
"""By chassis id and port id, in the order in which they were heard first."""


class Hearing:
    """LLDP's remote systems by interface; times are those of one monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._heard: dict[str, _Senders] = {}

    def take(self, netdev: str, lldpdu: Lldpdu, now: float) -> None:
        """Remember an announcement until its time to live ends; 0 forgets the sender at once."""
        senders = self._alive(netdev, now)
        sender = lldpdu.msap
        if sender in senders or len(senders) < _MOST_SENDERS:
            until = now + lldpdu.ttl
            senders[sender] = _Heard(until, lldpdu)
        self._heard[netdev] = senders

    def forget(self, netdev: str) -> None:
        """Forget an interface whose link is down: it may come back with another switch."""
        self._heard.pop(netdev, None)

    def neighbour(self, netdev: str, now: float) -> Neighbour | None:
        """The switch on an interface: of several senders the one that was heard first.

        Senders that say that they forward come before those that say nothing; those that say that
        they don't are hosts.
        """
        silent = None
        for heard in self._alive(netdev, now).values():
            lldpdu = heard.lldpdu
            if lldpdu.is_forwarding:
                return _neighbour(lldpdu)
            if lldpdu.is_forwarding is None and silent is None:
                silent = lldpdu
        if silent is None:
            return None
        return _neighbour(silent)

    def _alive(self, netdev: str, now: float) -> _Senders:
        senders = self._heard.get(netdev, {})
        alive = {}
        for sender, heard in senders.items():
            if heard.until > now:
                alive[sender] = heard
        return alive


def _neighbour(lldpdu: Lldpdu) -> Neighbour:
    return Neighbour(
        switch=lldpdu.switch,
        id=lldpdu.id,
        port=lldpdu.port,
        by="lldp",
    )
