"""Misbehaviour on demand: what a client must survive, switched on by a test."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toposcope.simulator.apiserver.errors import StatusError
from toposcope.simulator.apiserver.requests import Response

if TYPE_CHECKING:
    from collections.abc import Callable

    from toposcope.simulator.apiserver.requests import Request
    from toposcope.simulator.apiserver.store import Store

_MESSAGES = {
    429: ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
    500: ("InternalError", "an error on the server has prevented the request from succeeding"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
}


@dataclass(slots=True)
class _Rejection:
    code: int
    left: int
    retry_after: int | None
    applies: Callable[[Request], bool]


@dataclass
class Faults:
    """Faults of one server, and the requests it has seen as (method, path)."""

    store: Store
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    _rejections: list[_Rejection] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _thawed: threading.Event = field(default_factory=threading.Event)
    _cuts: int = 0

    def __post_init__(self) -> None:
        self._thawed.set()

    def reject(
        self,
        code: int,
        times: int = 1,
        *,
        retry_after: int | None = None,
        applies: Callable[[Request], bool] = lambda _request: True,
    ) -> None:
        """Answer the next `times` requests that `applies` accepts with an error; `retry_after` in seconds."""
        with self._lock:
            self._rejections.append(_Rejection(code, times, retry_after, applies))

    def stop_rejecting(self) -> None:
        """Undo every `reject`."""
        with self._lock:
            self._rejections.clear()

    def expire_history(self) -> None:
        """Forget all changes: any resourceVersion given out so far is too old (410)."""
        self.store.expire_history()

    def cut_watches(self) -> None:
        """Break every running watch in the middle of a line."""
        self._cuts += 1
        self.store.wake_watches()

    def freeze(self) -> None:
        """Stop sending anything while connections stay open, as a half-open connection does."""
        self._thawed.clear()

    def thaw(self) -> None:
        """Undo `freeze`."""
        self._thawed.set()

    @property
    def cuts(self) -> int:
        """How often watches were cut so far; a stream compares it with the count at its start."""
        return self._cuts

    def wait_while_frozen(self) -> None:
        """Block as long as the server is frozen."""
        self._thawed.wait()

    def answer(self, request: Request) -> Response | None:
        """Count the request; return the failure it meets, if any."""
        with self._lock:
            self.requests[request.method, request.path] += 1
            rejection = next((r for r in self._rejections if r.applies(request)), None)
            if rejection is None:
                return None
            rejection.left -= 1
            if not rejection.left:
                self._rejections.remove(rejection)
        reason, message = _MESSAGES.get(rejection.code, ("", "injected fault"))
        details: dict[str, object] = {}
        headers = {}
        if rejection.retry_after is not None:
            details["retryAfterSeconds"] = rejection.retry_after
            headers["Retry-After"] = str(rejection.retry_after)
        return Response.of(StatusError(rejection.code, reason, message, details=details, headers=headers))
