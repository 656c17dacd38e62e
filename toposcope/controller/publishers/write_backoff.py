"""A refused write is not sent again with every pass: this stands between the publishers and the API server."""

import random
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from toposcope.integrations.framework.published import RETRY_SECONDS, may_pass
from toposcope.kube.client import Caller, Request
from toposcope.kube.errors import ApiError, RefusedError

_FIRST: Final = 30.0
_LONGEST: Final = 600.0
_LONGEST_UNAVAILABLE: Final = 60.0
_JITTER: Final = 1.1


@dataclass(frozen=True, slots=True)
class _Refusal:
    attempts: int
    due: float
    at: datetime
    error: ApiError


class WriteBackoff:
    """Sends a refused write again only after a pause; until then the refusal is the answer, as `RefusedError`.

    Pauses double from 30 s to 10 minutes, from 5 s to 1 minute where a server or webhook is unavailable, each up to a
    tenth longer and never shorter than Retry-After. A write is known by its path, its body and `subject`: another one
    is sent at once. The memory only saves requests.
    """

    def __init__(
        self,
        client: Caller,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        rng: random.Random | None = None,
    ) -> None:
        self._client = client
        self._monotonic = monotonic
        self._now = now
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, protects nothing
        self._refusals: dict[Hashable, _Refusal] = {}
        self.subject: Hashable = None
        """What else a refusal depends on; when it changes, everything is tried at once."""

    def call(self, request: Request) -> Any:
        """Send a request.

        Raises KubeError as a client does, RefusedError for a write that is refused.
        """
        if request.method == "GET":
            return self._client.call(request)
        write = (self.subject, request.method, request.path, request.body)
        refusal, now = self._refusals.get(write), self._monotonic()
        if refusal is None or refusal.due <= now:
            try:
                answer = self._client.call(request)
            except ApiError as error:
                if error.not_found:  # its kind is gone, and may be back at any moment
                    raise
                refusal = self._refused(error, refusal.attempts + 1 if refusal else 0, now)
                # Those of other times and subjects go.
                recent = {
                    key: old for key, old in self._refusals.items() if old.due + _LONGEST > now
                }
                self._refusals = {**recent, write: refusal}
            else:
                self._refusals.pop(write, None)
                return answer
        raise RefusedError(refusal.error, refusal.due - now, refusal.at)

    def _refused(self, error: ApiError, attempts: int, now: float) -> _Refusal:
        passes = may_pass(error)
        first = error.retry_after or (RETRY_SECONDS if passes else _FIRST)
        longest = max(first, _LONGEST_UNAVAILABLE if passes else _LONGEST)
        pause = min(first * 2.0 ** min(attempts, 16), longest) * self._rng.uniform(1.0, _JITTER)
        return _Refusal(attempts, now + pause, self._now() + timedelta(seconds=pause), error)
