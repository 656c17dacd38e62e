"""Only the leader writes, and only in the term of leadership in which the write was decided.

A pass over all topologies takes a while: leadership may be lost in the middle of it, and even
regained. What was decided before may be wrong by then, so each request is checked right before it
is sent.
"""

from collections.abc import Callable
from typing import Protocol

from toposcope.kube.client import ApiClient, Observe, Request, unobserved
from toposcope.kube.credentials import ClusterAccess
from toposcope.kube.errors import KubeError
from toposcope.kube.runtime import REAL, Runtime


class Leadership(Protocol):
    """Whether this process leads; may be asked from any thread."""

    @property
    def term(self) -> int:
        """Never the same in two stretches of time in which this process leads."""

    def can_write(self) -> bool:
        """Whether this process leads at this moment."""


class NoElection:
    """Without --leader-elect there is only one controller, and it leads."""

    term = 1

    def can_write(self) -> bool:
        """Always."""
        return True


class NotLeaderError(KubeError):
    """A write was not sent because another process may be the leader by now."""


class Fence:
    """Open during the term that was entered last. One thread enters it; any may ask."""

    def __init__(self, leadership: Leadership) -> None:
        self._leadership = leadership
        self._term = 0

    def enter(self) -> int:
        """Enter the current term; 0 if another process leads."""
        # In this order: a term that begins in between may be entered.
        leads = self._leadership.can_write()
        self._term = self._leadership.term if leads else 0
        return self._term

    def is_open(self) -> bool:
        """Whether the entered term still lasts."""
        # In this order: at a new term's beginning the number changes first.
        return self._leadership.can_write() and self._leadership.term == self._term


class FencedClient(ApiClient):
    """Sends writes only while `can_write`. `timeout` must end before another process may lead."""

    def __init__(
        self,
        cluster: ClusterAccess,
        user_agent: str,
        timeout: float,
        *,
        can_write: Callable[[], bool],
        observe: Observe = unobserved,
        runtime: Runtime = REAL,
    ) -> None:
        super().__init__(cluster, user_agent, timeout, observe=observe, runtime=runtime)
        self._can_write = can_write

    def _about_to_send(self, request: Request) -> None:
        """Raise NotLeaderError for a write while this process does not lead."""
        if request.method == "GET" or self._can_write():
            return
        what = f"{request.method} {request.path}"
        raise NotLeaderError(f"{what} is not sent, because this process is not the leader")
