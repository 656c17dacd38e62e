"""What the API server has refused is asked for ever more rarely, and at once when something else is wanted."""

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
    wish: Hashable
    attempts: int
    due: float
    answer: Published


class Backoff:
    """Remembers, by name, the last wish that failed. Losing this costs one more attempt.

    A wish is everything that the attempt depends on: what should be written, the object that is there, the generation
    of the ClusterTopology (so that an admin who edits it gets an attempt at once).
    """

    def __init__(self, monotonic: Clock) -> None:
        self._monotonic = monotonic
        self._refusals: dict[str, _Refusal] = {}

    def standing(self, name: str, wish: Hashable) -> Published | None:
        """The answer to repeat while the same wish must wait; None: try it."""
        refusal = self._refusals.get(name)
        left = refusal.due - self._monotonic() if refusal is not None and refusal.wish == wish else 0.0
        return replace(refusal.answer, again_in=left) if refusal is not None and left > 0 else None

    def note(self, name: str, wish: Hashable, answer: Published) -> Published:
        """Take down how an attempt ended; the answer, which says when the next attempt is due.

        Refused (`Rejected`): after 30 s, twice as long each time, at most 10 minutes. `Waiting` names its own time.
        """
        if answer.reason not in {"Rejected", "Waiting"}:
            self.forget(name)
            return answer
        before = self._refusals.get(name)
        attempts = before.attempts + 1 if before is not None and before.wish == wish else 0
        if answer.reason == "Waiting":
            wait = answer.again_in or _FIRST
        else:
            wait = min(_FIRST * 2.0 ** min(attempts, 16), _LONGEST)
        self._refusals[name] = _Refusal(wish, attempts, self._monotonic() + wait, answer)
        return replace(answer, again_in=wait)

    def forget(self, name: str) -> None:
        """Nothing is refused any more."""
        self._refusals.pop(name, None)
