"""How the time of every reader grows with its text.

Eight times the text may cost forty times the processor time.

Quadratic time would be sixty-four times as much. Each reader runs in a child process, which the
kernel ends where one text takes too long; `python -m tools.fuzz.growth` shows a table, and names of
readers limit it.
"""

import json
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.bench.report import aligned, number
from tools.fuzz.run import python
from toposcope.errors import ToposcopeError

SMALL_BYTES: Final = 2 << 10
FACTOR: Final = 8
MOST_GROWTH: Final = 40
UNMEASURABLE_SECONDS: Final = 0.2
"""Seconds of processor time: less counts as nothing, whatever it was for the small text."""
_BUSY_SECONDS: Final = 10
"""Seconds of processor time, after which a text counts as one without end."""
_ASLEEP_SECONDS: Final = 1_800.0
"""Seconds by the clock for one reader, on a busy machine."""

Unit = tuple[str, str, str]
"""Head, pump and tail of a text."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one unit took: seconds of processor time for the small and for the large text."""

    unit: Unit
    small: float
    large: float

    @property
    def grows(self) -> bool:
        """Whether it takes more than it may."""
        return self.large > max(UNMEASURABLE_SECONDS, MOST_GROWTH * self.small)


def text_of(unit: Unit, size: int) -> str:
    """A text of about this many characters."""
    head, pump, tail = unit
    return head + pump * (size // len(pump)) + tail


def measure(
    read: Callable[[str], object],
    units: Iterable[Unit],
    note: Callable[[Unit], None] = lambda _: None,
    clock: Callable[[], float] = time.process_time,
) -> Measured:
    """The unit that grows, or the one that takes longest where none does.

    `note` gets each before it is tried.

    A reader may refuse a text with a ValueError or one of our own errors; anything else it raises
    is passed on.
    """
    worst: Measured | None = None
    for unit in units:
        note(unit)
        times = []
        for size in (SMALL_BYTES, FACTOR * SMALL_BYTES):
            text = text_of(unit, size)
            began = clock()
            _attempt(read, text)
            times.append(clock() - began)
        measured = Measured(unit, *times)
        if measured.grows:
            return measured
        if worst is None or measured.large > worst.large:
            worst = measured
    if worst is None:
        raise ValueError("no unit to measure")
    return worst


def _attempt(read: Callable[[str], object], text: str) -> None:
    with suppress(ToposcopeError, ValueError):  # a refusal
        read(text)


def in_child(name: str, module: str = "tools.fuzz.growth") -> tuple[Measured | None, str]:
    """What a reader took at most, in a child process; and the finding, empty for none."""
    with tempfile.TemporaryDirectory(prefix="growth-") as folder:
        note = Path(folder) / "unit"
        done = python(
            folder,
            _ASLEEP_SECONDS,
            module,
            "--child",
            name,
            str(note),
        )
        tried = "none"
        if note.exists():
            tried = note.read_text(encoding="utf-8")

    if done.returncode == -signal.SIGXCPU:
        return None, f"{name}: still at it after {_BUSY_SECONDS} s: {tried}"
    if done.returncode != 0:
        end = done.stderr[-2000:].rstrip()
        return None, f"{name}: {end}: {tried}"

    unit, small, large = json.loads(done.stdout)
    measured = Measured(tuple(unit), small, large)
    if not measured.grows:
        return measured, ""

    times = large / max(small, 1e-6)
    growth = f"{FACTOR} times the text took {times:.0f} times as long ({large:.2f} s)"
    text = shown(measured.unit)
    return measured, f"{name}: {growth}: {text}"


def shown(unit: Unit) -> str:
    """A unit for people."""
    head, pump, tail = unit
    return f"{head!r} + {pump!r} * n + {tail!r}"


def child(read: Callable[[str], object], units: Sequence[Unit], path: Path) -> Measured:
    """Measure in this process, which ends where one text takes too long.

    `path` names that text then.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)

    def note(unit: Unit) -> None:
        path.write_text(shown(unit), encoding="utf-8")
        limit = int(time.process_time()) + _BUSY_SECONDS
        resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))

    _attempt(read, "")  # loads what is loaded late
    return measure(read, units, note)


def main(arguments: Sequence[str]) -> int:
    """The table of all readers, or of those named; 1 where one of them grows too much."""
    from tools.fuzz.readers import READERS  # noqa: PLC0415 - they are what may fail

    readers = {reader.name: reader for reader in READERS}
    if arguments[:1] == ["--child"]:
        _, name, path = arguments
        reader = readers[name]
        measured = child(reader.read, reader.units(), Path(path))
        answer = (measured.unit, measured.small, measured.large)
        json.dump(answer, sys.stdout)
        return 0
    return _measure(arguments or list(readers))


def _measure(names: Sequence[str]) -> int:
    """The table of some readers; 1 where one of them grows too much."""
    small_kib = SMALL_BYTES >> 10
    large_kib = FACTOR * SMALL_BYTES >> 10
    rows: list[tuple[str, ...]] = [("reader", f"{small_kib} KiB", f"{large_kib} KiB", "of")]
    findings = []
    for name in names:
        measured, finding = in_child(name)
        if measured:
            small = f"{number(measured.small)} s"
            large = f"{number(measured.large)} s"
            text = shown(measured.unit)
            rows.append((name, small, large, text))
        if finding:
            findings.append(finding)

    print(aligned(rows))
    for finding in findings:
        print(f"\n{finding}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
