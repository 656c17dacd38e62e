"""Slurm's hostlist expressions: `node[001-018,020],login` for names that end in numbers.

Source: slurm.conf(5), NodeName: brackets hold only the number at the end of a name; a range has as
many digits as its first number.
"""

import re
from collections.abc import Iterable
from itertools import groupby
from typing import Final

from toposcope.text import by_numbers

_NUMBERED: Final = re.compile(r"(.*[^0-9])([0-9]{1,9})", re.ASCII)
_MAX_NAMES_IN_RANGE: Final = 60_000
"""Names in one range: Slurm's parser accepts 65,536."""


def hostlist(names: Iterable[str]) -> str:
    """All names as one expression, in natural order, without repeats."""
    ordered = sorted(set(names), key=by_numbers)
    parts = []
    for prefix, group in groupby(ordered, key=_prefix):
        members = list(group)
        if prefix is None or len(members) == 1:
            parts += members
            continue

        numbers = [name.removeprefix(prefix) for name in members]
        ranges = _ranges(numbers)
        joined = ",".join(ranges)
        parts.append(f"{prefix}[{joined}]")
    return ",".join(parts)


def _prefix(name: str) -> str | None:
    """What precedes the number at the end; None if there is no number."""
    match = _NUMBERED.fullmatch(name)
    if match is None:
        return None
    return match[1]


def _ranges(numbers: Iterable[str]) -> list[str]:
    """Numbers with leading zeros as ranges, such as `001-018` and `020`."""
    runs: list[list[str]] = []
    runs_by_next: dict[str, list[str]] = {}
    for number in sorted(numbers, key=lambda text: (int(text), len(text))):
        run = runs_by_next.pop(number, None)
        if run is None or len(run) >= _MAX_NAMES_IN_RANGE:
            run = []
            runs.append(run)
        run.append(number)

        digits = len(run[0])
        following = int(number) + 1
        name = str(following).zfill(digits)
        runs_by_next[name] = run

    ranges = []
    for run in runs:
        first = run[0]
        last = run[-1]
        if len(run) == 1:
            ranges.append(first)
        else:
            ranges.append(f"{first}-{last}")
    return ranges
