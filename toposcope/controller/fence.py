"""Writes only by the one that leads, and only in the term in which they were decided.

A pass over all topologies takes a while: leadership may end in the middle of it, and even come back. What was decided
before that may be wrong by then, so each request is checked when nothing is left but to send it.
"""

from collections.abc import Callable
from typing import Protocol

from toposcope.kube.client import ApiClient, Observe, Request, unobserved
from toposcope.kube.config import Cluster
from toposcope.kube.errors import KubeError


class Leadership(Protocol):
    """Whose turn it is; to be asked from any thread."""

    @property
    def term(self) -> int:
        """Never the same in two stretches of time in which this process leads."""

    def may_write(self) -> bool:
        """Whether this process leads at this moment."""


class NoElection:
    """There is only one controller, and it leads."""

    term = 1

    def may_write(self) -> bool:
        """Say yes."""
        return True


class NotLeaderError(KubeError):
    """A write was held back because another process may be leader by now."""


class Fence:
    """Open during the term that was entered last. To be entered by one thread, asked by any."""

    def __init__(self, leadership: Leadership) -> None:
        self._leadership = leadership
        self._term = 0

    def enter(self) -> int:
        """Take up the term of the moment; 0 when another process leads."""
        # In this order: a term that begins in between is one that we may take up.
        self._term = self._leadership.term if self._leadership.may_write() else 0
        return self._term

    def is_open(self) -> bool:
        """Whether the term that was entered still lasts."""
        # In this order: at a new term's beginning the number changes first.
        return self._leadership.may_write() and self._leadership.term == self._term


class FencedClient(ApiClient):
    """A client whose writes are sent only while `may_write` says so: leadership may end between any two of them.

    `timeout` must not be longer than the others wait after the last moment at which this process may write.
    """

    def __init__(
        self,
        cluster: Cluster,
        user_agent: str,
        timeout: float,
        may_write: Callable[[], bool],
        observe: Observe = unobserved,
    ) -> None:
        super().__init__(cluster, user_agent, timeout, observe)
        self._may_write = may_write

    def _about_to_send(self, request: Request) -> None:
        """Raise NotLeading for what would change something while this process does not lead."""
        if request.method != "GET" and not self._may_write():
            raise NotLeaderError(f"this process does not lead, so it does not send {request.method} {request.path}")
