"""Durations as Go writes them: `4h`, `1m30s`, `-1s`.

Source of the rules: Go's time.ParseDuration, by which the API machinery reads a metav1.Duration.
"""

import re
from typing import Final

from toposcope.errors import ToposcopeError

_UNITS: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "\u00b5s": 1e-6,
    "\u03bcs": 1e-6,
    "ms": 1e-3,
    "s": 1,
    "m": 60,
    "h": 3600,
}
_PART: Final = r"(?:[0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})"
_UNIT: Final = "ns|us|\u00b5s|\u03bcs|ms|s|m|h"
_WHOLE: Final = re.compile(rf"[-+]?(?:{_PART}(?:{_UNIT}))+", re.ASCII)
_PARTS: Final = re.compile(rf"({_PART})({_UNIT})", re.ASCII)


class DurationError(ToposcopeError):
    """A text is no duration."""


def seconds_of(text: str) -> float:
    """The duration in seconds. Raises DurationError."""
    if text.lstrip("+-") == "0":
        return 0
    if not _WHOLE.fullmatch(text):
        raise DurationError(text)
    seconds = 0.0
    for number, unit in _PARTS.findall(text):
        seconds += float(number) * _UNITS[unit]
    return -seconds if text.startswith("-") else seconds
