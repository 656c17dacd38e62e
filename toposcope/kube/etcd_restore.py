"""A cluster that was set back to an older state, as etcd restored from a backup is: known to all who follow it.

resourceVersions of one collection can be compared, newer ones are larger (KEP-5504). Where the server's newest is older
than one that it gave out, what it stores from now on is another history: a watch from the old one's end would be kept
waiting until the versions get there, and then go on as if nothing had happened in between.
"""

import threading
from typing import Protocol
from weakref import WeakSet


class Follower(Protocol):
    """Whoever keeps a copy of something in the cluster."""

    def relist(self, reason: str) -> None:
        """Read it again in whole; called from another thread."""


class Restores:
    """Tells all followers when one of them has noticed. A quiet collection shows nothing: its own versions are old."""

    def __init__(self) -> None:
        self._followers: WeakSet[Follower] = WeakSet()
        self._lock = threading.Lock()

    def tell(self, follower: Follower) -> None:
        """Have this one told for as long as it lives."""
        with self._lock:
            self._followers.add(follower)

    def noticed(self) -> None:
        """Have everybody read everything again."""
        with self._lock:
            followers = list(self._followers)
        for follower in followers:
            follower.relist("restored")


def went_back(known: str, now: str) -> bool:
    """Whether a server whose newest version is `now` has lost the version `known`. What is no number tells nothing."""
    return known.isdecimal() and now.isdecimal() and int(now) < int(known)
