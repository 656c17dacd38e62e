"""Stands between the publishers and the API server: a refused write is not sent with every pass."""

from collections.abc import Hashable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from toposcope.integrations.framework.published import RETRY_SECONDS, can_pass
from toposcope.kube.backoff import Schedule
from toposcope.kube.client import Caller, Request
from toposcope.kube.errors import ApiError, RefusedError
from toposcope.kube.runtime import Runtime

_REFUSED: Final = Schedule(first_seconds=30.0, longest_seconds=600.0, jitter=(1.0, 1.1))
_UNAVAILABLE: Final = Schedule(first_seconds=RETRY_SECONDS, longest_seconds=60.0, jitter=(1.0, 1.1))


@dataclass(frozen=True, slots=True)
class _Refusal:
    attempts: int
    due: float
    at: datetime
    error: ApiError


class WriteBackoff:
    """Sends a refused write again only after a pause.

    Until then the refusal is the answer, as `RefusedError`. Pauses double from 30 s to 10 minutes,
    from 5 s to 1 minute where a server or webhook is unavailable, each up to a tenth longer and
    never shorter than Retry-After. A write is known by its path, its body and `subject`: another
    one is sent at once. The memory only saves requests.
    """

    def __init__(self, client: Caller, runtime: Runtime) -> None:
        self._client = client
        self._runtime = runtime
        self._rng = runtime.rng()
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
        refusal = self._refusals.get(write)
        now = self._runtime.monotonic()
        if refusal is None or refusal.due <= now:
            try:
                answer = self._client.call(request)
            except ApiError as error:
                if error.is_not_found:  # its kind is gone, and may be back at any moment
                    raise
                refusal = self._refused(error, refusal, now)
                self._forget_old(now)
                self._refusals[write] = refusal
            else:
                self._refusals.pop(write, None)
                return answer

        seconds_left = refusal.due - now
        raise RefusedError(refusal.error, seconds_left, refusal.at)

    def _refused(self, error: ApiError, before: _Refusal | None, now: float) -> _Refusal:
        attempts = 0
        if before is not None:
            attempts = before.attempts + 1
        schedule = _schedule(error)
        pause = schedule.pause(attempts, self._rng, error)
        at = self._runtime.now() + timedelta(seconds=pause)
        return _Refusal(attempts, due=now + pause, at=at, error=error)

    def _forget_old(self, now: float) -> None:
        """Forget refusals of other times and subjects."""
        for write, refusal in list(self._refusals.items()):
            kept_until = refusal.due + _REFUSED.longest_seconds
            if kept_until <= now:
                del self._refusals[write]


def _schedule(error: ApiError) -> Schedule:
    """When to try again; a Retry-After takes the place of the first pause."""
    schedule = _UNAVAILABLE if can_pass(error) else _REFUSED
    first = error.retry_after
    if not first:
        return schedule
    longest = max(first, schedule.longest_seconds)
    return schedule._replace(first_seconds=first, longest_seconds=longest)
