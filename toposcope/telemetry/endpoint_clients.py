"""The clients of the node endpoint: who has how many connections, and what was refused."""

import logging
from collections import Counter
from collections.abc import Iterator
from enum import Enum, auto
from typing import Final, Protocol

from toposcope.text import plural

log = logging.getLogger(__name__)

_MAPPED: Final = "::ffff:"
"""Before an IPv4 address on a socket of both families."""


class Connection(Protocol):
    """What ends at once when asked."""

    def abort(self) -> None:
        """End the connection."""


class OpenConnections:
    """The connections by the address of their client, those of one address oldest first."""

    def __init__(self) -> None:
        self._by_address: dict[str, dict[Connection, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Connection]:
        for connections in self._by_address.values():
            yield from connections

    def add(self, address: str, connection: Connection) -> None:
        """A connection that is not open yet."""
        self._by_address.setdefault(address, {})[connection] = None
        self._count += 1

    def discard(self, address: str, connection: Connection) -> None:
        """A connection that has ended, if it is known."""
        connections = self._by_address.get(address, {})
        if connection not in connections:
            return
        del connections[connection]
        self._count -= 1
        if not connections:
            del self._by_address[address]

    def busiest(self) -> tuple[str, int]:
        """The address with most connections, and how many; empty and 0 without any."""
        address = max(self._by_address, key=self._count_of, default="")
        return address, self._count_of(address)

    def make_room(self, address: str) -> bool:
        """End a connection in favor of a new one of `address`; whether that is fair.

        It is where another address has at least two more: so no client can keep out the others.
        """
        busiest, count = self.busiest()
        if count < self._count_of(address) + 2:
            return False
        oldest = next(iter(self._by_address[busiest]))
        self.discard(busiest, oldest)
        oldest.abort()
        return True

    def _count_of(self, address: str) -> int:
        return len(self._by_address.get(address, ()))


def client_address(peer: object) -> str:
    """The address in a socket's peer name; empty where the client has gone already."""
    if not isinstance(peer, tuple):
        return ""
    return str(peer[0]).removeprefix(_MAPPED)


class Refusal(Enum):
    """Why a client did not get what it wanted."""

    FULL = auto()
    """Too many connections were open: its own was not accepted."""
    DISPLACED = auto()
    """Its connection made room for one of a client with fewer."""
    UNDESCRIBED = auto()
    """There was no document yet."""
    LATE = auto()
    """Its request did not end in time."""
    UNREAD = auto()
    """It did not read the answer in time."""
    INVALID = auto()
    """Its request is not one that is served."""


class RefusalLog:
    """Counts refusals, and logs them from time to time."""

    def __init__(self) -> None:
        self._counts: Counter[Refusal] = Counter()

    def count(self, refusal: Refusal) -> None:
        """One more."""
        self._counts[refusal] += 1

    def report(self, seconds: float, connections: OpenConnections) -> None:
        """Log what was counted within the last `seconds`."""
        counts, self._counts = self._counts, Counter()
        refused, closed = counts[Refusal.FULL], counts[Refusal.DISPLACED]
        if refused or closed:
            address, count = connections.busiest()
            log.warning(
                "%s refused and %d closed for others within %.0f s: %d are open, %d of them from "
                "%s; let pods close connections after use",
                _counted(refused, "connection"),
                closed,
                seconds,
                len(connections),
                count,
                address or "nobody",
            )
        undescribed = counts[Refusal.UNDESCRIBED]
        if undescribed:
            log.warning(
                "%s answered 503 within %.0f s: the agent has not described this node yet; read "
                "the log of its container",
                _counted(undescribed, "request"),
                seconds,
            )
        late, unread, invalid = (
            counts[Refusal.LATE],
            counts[Refusal.UNREAD],
            counts[Refusal.INVALID],
        )
        if late or unread or invalid:
            log.info(
                "within %.0f s: %s too slow, %s not read, %s invalid",
                seconds,
                _counted(late, "request"),
                _counted(unread, "answer"),
                _counted(invalid, "request"),
            )


def _counted(count: int, what: str) -> str:
    return f"{count} {plural(count, what)}"
