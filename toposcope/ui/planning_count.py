"""The result of one count of planning, and the metrics about the count itself.

The page's server needs no more of planning than this: its worker counts.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from toposcope.telemetry.families import Family, Samples, family

PREFIX: Final = "toposcope_planning_"


class Misplaced(msgspec.Struct, frozen=True):
    """A misplaced gang, and when it was first seen misplaced, in Unix time."""

    topology: str
    kind: str
    handle: str
    since: float


class Counted(msgspec.Struct, frozen=True):
    """The result of one count."""

    text: str
    """The exposition that a scrape gets."""
    misplaced: list[Misplaced]
    """For the next count."""


def of_the_count(at: float, seconds: float) -> Iterator[Family]:
    """The metrics about the count: when it was, in Unix time, and how long it took."""
    text = "When these metrics were counted, in Unix time."
    yield gauge("last_run_timestamp_seconds", text, (), [((), at)])
    yield gauge(
        "run_duration_seconds", "How long it took to count these metrics.", (), [((), seconds)]
    )


def gauge(name: str, text: str, labels: tuple[str, ...], samples: Samples) -> Family:
    """A metric of planning."""
    return family("gauge", f"{PREFIX}{name}", text, labels, samples)
