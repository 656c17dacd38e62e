"""The metrics of planning, counted from a snapshot; docs/metrics.md explains each."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import accumulate
from math import inf
from typing import Final

import msgspec

from toposcope.planning.plan import Plan
from toposcope.planning.score import Score
from toposcope.snapshot.model import Snapshot
from toposcope.telemetry.families import Family, Samples, exposition, family, histogram
from toposcope.ui.planning import plan_of

_PREFIX: Final = "toposcope_planning_"
_BOUNDS: Final = (0.25, 0.5, 0.75, 0.9, 1.0, inf)
_MOST_SCHEDULERS: Final = 10
_MOST_TOPOLOGIES: Final = 10
_OTHER: Final = "_other"


class Misplaced(msgspec.Struct, frozen=True):
    """A misplaced gang, and since when it is known to be, in Unix time."""

    topology: str
    kind: str
    handle: str
    since: float


class Counted(msgspec.Struct, frozen=True):
    """What was counted once."""

    text: str
    """As a scrape gets it."""
    misplaced: list[Misplaced]
    """For the next count."""


def counted(
    snapshot: Snapshot, worst: int, now: float, since: Mapping[tuple[str, str, str], float]
) -> Counted:
    """The metrics of a cluster.

    `worst` gangs are named, `now` is Unix time, and `since` says by topology, kind and handle since
    when a gang is known to be misplaced. Raises NoPlanError.
    """
    names: list[str | None] = [
        topology.name for topology in snapshot.topologies if not topology.owner
    ]
    plans = {name or "": plan_of(snapshot, name) for name in (names or [None])[:_MOST_TOPOLOGIES]}
    metrics = _Metrics(worst, now, since)
    text = exposition(metrics.families(plans)).decode()
    return Counted(text, metrics.misplaced)


def families(plans: Mapping[str, Plan], worst: int) -> Iterator[Family]:
    """All but those about the counting itself."""
    return _Metrics(worst, 0.0, {}).families(plans)


def of_the_count(at: float, seconds: float) -> Iterator[Family]:
    """When it was, in Unix time, and how long it took."""
    text = "When these metrics were counted, in Unix time."
    yield _gauge("last_run_timestamp_seconds", text, (), [((), at)])
    yield _gauge("run_duration_seconds", "How long that took.", (), [((), seconds)])


class _Metrics:
    def __init__(self, worst: int, now: float, since: Mapping[tuple[str, str, str], float]) -> None:
        self._worst = worst
        self._now = now
        self._since = since
        self.misplaced: list[Misplaced] = []

    def families(self, plans: Mapping[str, Plan]) -> Iterator[Family]:
        """All but those about the counting itself."""
        scores = [(name, score) for name, plan in plans.items() for score in plan.scores]
        ranked = [
            name for name, _ in Counter(score.gang.scheduler for _, score in scores).most_common()
        ]
        schedulers = {name: name for name in ranked[:_MOST_SCHEDULERS]}
        placed = [
            (name, schedulers.get(score.gang.scheduler, _OTHER), score) for name, score in scores
        ]
        shares: dict[tuple[str, ...], list[float]] = {}
        for topology, scheduler, score in placed:
            for tier in score.spreads:
                if tier.empty < tier.worst:
                    shares.setdefault((topology, scheduler, tier.level.domain), []).append(
                        tier.empty / tier.spans
                    )
        yield histogram(
            f"{_PREFIX}gang_score",
            "Fewest domains of the level that a running gang could span on an empty cluster / domains it spans.",
            ("topology", "scheduler", "domain"),
            [(key, _buckets(values), sum(values)) for key, values in shares.items()],
        )
        misplaced = [gang for gang in placed if gang[2].misplaced]
        counts = Counter({(topology, scheduler): 0 for topology, scheduler, _ in placed})
        counts.update((topology, scheduler) for topology, scheduler, _ in misplaced)
        text = "Running gangs that would span at most half the domains of some level if they were placed now."
        yield _gauge("misplaced_gangs", text, ("topology", "scheduler"), counts.items())
        text = "When this server first saw the longest-misplaced gang misplaced, in Unix time."
        since = self._oldest(misplaced)
        yield _gauge("misplaced_since_timestamp_seconds", text, ("topology", "scheduler"), since)
        worst = [
            (
                (topology, scheduler, score.gang.namespace, score.gang.kind, score.gang.name),
                score.value,
            )
            for topology, scheduler, score in sorted(placed, key=lambda one: one[2].value)[
                : self._worst
            ]
        ]
        labels = ("topology", "scheduler", "namespace", "kind", "gang")
        yield _gauge(
            "worst_gang_score", "Score of each of the gangs that are placed worst.", labels, worst
        )
        rows = [
            ((name, row.level.domain, str(row.gpus)), row)
            for name, plan in plans.items()
            for row in plan.slots
        ]
        fitting = [
            ((*key, view.value), count) for key, row in rows for view, count in row.fitting.items()
        ]
        text = "Gangs of this many GPUs that fit into single domains of the level."
        yield _gauge("slots", text, ("topology", "domain", "gpus", "when"), fitting)
        text = "Share of the free GPUs that no gang of this many GPUs can use within domains of the level, from 0 to 1."
        unusable = [(key, row.fragmented) for key, row in rows]
        yield _gauge("unusable_ratio", text, ("topology", "domain", "gpus"), unusable)

    def _oldest(self, misplaced: list[tuple[str, str, Score]]) -> Samples:
        oldest: dict[tuple[str, ...], float] = {}
        for topology, scheduler, score in misplaced:
            kind, handle = score.gang.kind, score.gang.handle
            since = self._since.get((topology, kind, handle), self._now)
            self.misplaced.append(Misplaced(topology, kind, handle, since))
            oldest[topology, scheduler] = min(since, oldest.get((topology, scheduler), since))
        return oldest.items()


def _gauge(name: str, text: str, labels: tuple[str, ...], samples: Samples) -> Family:
    return family("gauge", f"{_PREFIX}{name}", text, labels, samples)


def _buckets(values: list[float]) -> list[tuple[float, int]]:
    counts = Counter(bisect_left(_BOUNDS, value) for value in values)
    return [*zip(_BOUNDS, accumulate(counts[place] for place in range(len(_BOUNDS))), strict=True)]
