"""How long a state has lasted: a level gone, a segment new, a rail miscabled."""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Timers(Generic[Key]):
    """When each key's state began, in monotonic seconds; each kind of state has its own instance.

    A restart forgets them, which only delays a verdict.
    """

    def __init__(self) -> None:
        self._since: dict[Key, float] = {}

    def is_overdue(self, key: Key, now: float, grace: float, *, is_running: bool = True) -> bool:
        """Whether the timer of `key` has run for more than `grace` seconds (0: whether it runs).

        It starts at the first call, and stops when it is no longer `is_running`.
        """
        if not is_running:
            self.stop(key)
            return False
        since = self._since.setdefault(key, now)
        return now - since > grace or not grace

    def stop(self, key: Key) -> None:
        """Forget one key."""
        self._since.pop(key, None)

    def keep_only(self, keys: Iterable[Key]) -> None:
        """Forget all keys but these."""
        if not self._since:
            return
        kept = set(keys)
        for key in [*self._since]:
            if key not in kept:
                del self._since[key]

    def clear(self) -> None:
        """Forget all keys."""
        self._since.clear()

    def next_deadline(self, grace: float, now: float) -> float | None:
        """Seconds until the next timer has run for `grace` seconds; None if none will."""
        soonest = None
        for since in self._since.values():
            wait = since + grace - now
            if wait < 0:
                continue
            if soonest is None or wait < soonest:
                soonest = wait
        return soonest
