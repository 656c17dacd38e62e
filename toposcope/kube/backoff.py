"""How long to leave an API server alone after it failed."""

import random
from typing import Final

from toposcope.kube.errors import ApiError, KubeError

_LEAST: Final = 0.5
"""The smallest part of a pause that chance may leave, so that many clients do not come back together."""


class Backoff:
    """Pauses that double from `first` to `longest` seconds, each cut at random, and none shorter than was asked for."""

    def __init__(self, first: float, longest: float, dice: random.Random | None = None) -> None:
        self._first = first
        self._longest = longest
        self._dice = dice or random.Random()  # noqa: S311 - spreads load, protects nothing
        self._next = first
        self.pause = 0.0
        """Seconds to wait after the last failure; 0 when there was none since the last success."""

    def failed(self, error: KubeError) -> float:
        """Seconds to wait after this failure."""
        asked = error.retry_after or 0.0 if isinstance(error, ApiError) else 0.0
        self.pause = max(asked, self._next * self._dice.uniform(_LEAST, 1.0))
        self._next = min(self._next * 2, self._longest)
        return self.pause

    def reset(self) -> None:
        """All is well again: begin anew."""
        self._next = self._first
        self.pause = 0.0
