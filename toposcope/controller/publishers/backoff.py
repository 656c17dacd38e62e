"""Retries of refused writes with exponential back-off, and at once when something else is to be written."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Final

from toposcope.integrations.framework.published import Published

Clock = Callable[[], float]
"""Monotonic seconds."""

_FIRST: Final = 30.0
_LONGEST: Final = 600.0


@dataclass(frozen=True, slots=True)
class _Refusal:
    attempt: Hashable
    attempts: int
    due: float
    answer: Published


class Backoff:
    """Remembers, by name, the last attempt that failed. Losing this costs one more attempt.

    An attempt is identified by everything that it depends on: what should be written, the existing object, the
    generation of the ClusterTopology (so that an admin who edits it gets an attempt at once).
    """

    def __init__(self, monotonic: Clock) -> None:
        self._monotonic = monotonic
        self._refusals: dict[str, _Refusal] = {}

    def standing(self, name: str, attempt: Hashable) -> Published | None:
        """The answer to repeat while the same attempt must wait; None: try it."""
        refusal = self._refusals.get(name)
        left = refusal.due - self._monotonic() if refusal is not None and refusal.attempt == attempt else 0.0
        return replace(refusal.answer, again_in=left) if refusal is not None and left > 0 else None

    def note(self, name: str, attempt: Hashable, answer: Published) -> Published:
        """Record how an attempt ended; the answer with the time until the next attempt.

        Refused (`Rejected`): after 30 s, twice as long each time, at most 10 minutes. `Waiting` names its own time.
        """
        if answer.reason not in {"Rejected", "Waiting"}:
            self.forget(name)
            return answer
        before = self._refusals.get(name)
        attempts = before.attempts + 1 if before is not None and before.attempt == attempt else 0
        if answer.reason == "Waiting":
            wait = answer.again_in or _FIRST
        else:
            wait = min(_FIRST * 2.0 ** min(attempts, 16), _LONGEST)
        self._refusals[name] = _Refusal(attempt, attempts, self._monotonic() + wait, answer)
        return replace(answer, again_in=wait)

    def forget(self, name: str) -> None:
        """The last attempt succeeded, or nothing is to be written."""
        self._refusals.pop(name, None)
