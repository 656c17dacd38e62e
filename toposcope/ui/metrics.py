"""How well gangs are placed and what still fits, as metrics; docs/metrics.md explains each.

A scrape gets what was counted last and has it counted again, in a thread: a large cluster takes longer than Prometheus
waits. So nothing is counted for nobody.
"""

import logging
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from math import inf
from typing import Final

from toposcope.planning.plan import Plan
from toposcope.planning.score import Score
from toposcope.snapshot.model import Snapshot
from toposcope.telemetry.families import CONTENT_TYPE, Family, Samples, exposition, family, histogram
from toposcope.telemetry.handler import Page
from toposcope.ui.planning import NoPlanError, plan_of

log = logging.getLogger(__name__)

_PREFIX: Final = "toposcope_planning_"
_BOUNDS: Final = (0.25, 0.5, 0.75, 0.9, 1.0, inf)
_PAUSE: Final = 25.0
_PAUSE_FACTOR: Final = 10.0
"""Seconds from one count to the next: at least so many, and so many times as long as it takes."""
_MOST_SCHEDULERS: Final = 10
_MOST_TOPOLOGIES: Final = 10
_OTHER: Final = "_other"


class PlanningMetrics:
    """The metrics of `snapshot`; `worst` gangs are named. `now` is Unix time."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        worst: int = 0,
        ready: Callable[[], bool] = lambda: True,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._snapshot = snapshot
        self._worst = worst
        self._ready = ready
        self._now = now
        self._monotonic = monotonic
        self._since: dict[tuple[str, str, str], float] = {}
        """Since when each misplaced gang of a topology is known to be, in Unix time."""
        self._text = b""
        self._next = 0.0
        self._counting = threading.Lock()

    def page(self) -> Page:
        """The answer to a scrape."""
        if self._ready() and self._monotonic() >= self._next and self._counting.acquire(blocking=False):
            threading.Thread(target=self._count_again, name="planning metrics", daemon=True).start()
        return self._text, CONTENT_TYPE

    def _count_again(self) -> None:
        try:
            self.count()
        except Exception as error:
            self._text = b""
            log.warning("no metrics of planning: %s", error, exc_info=not isinstance(error, NoPlanError))
        finally:
            self._counting.release()

    def count(self) -> None:
        """Count everything again, for the next scrape. Raises NoPlanError."""
        began = self._monotonic()
        snapshot = self._snapshot()
        names: list[str | None] = [topology.name for topology in snapshot.topologies if not topology.owner]
        plans = {name or "": plan_of(snapshot, name) for name in (names or [None])[:_MOST_TOPOLOGIES]}
        families = [*self.families(plans)]
        seconds = self._monotonic() - began
        self._next = self._monotonic() + max(_PAUSE, _PAUSE_FACTOR * seconds)
        self._text = exposition([*families, *self.of_the_count(seconds)])

    def of_the_count(self, seconds: float) -> Iterator[Family]:
        """When it was, and how long it took."""
        at = "When these metrics were counted, in Unix time."
        yield _gauge("last_run_timestamp_seconds", at, (), [((), self._now())])
        yield _gauge("run_duration_seconds", "How long that took.", (), [((), seconds)])

    def families(self, plans: Mapping[str, Plan]) -> Iterator[Family]:
        """All but those about the counting itself."""
        scores = [(name, score) for name, plan in plans.items() for score in plan.scores]
        ranked = [name for name, _ in Counter(score.gang.scheduler for _, score in scores).most_common()]
        schedulers = {name: name for name in ranked[:_MOST_SCHEDULERS]}
        placed = [(name, schedulers.get(score.gang.scheduler, _OTHER), score) for name, score in scores]
        shares: dict[tuple[str, ...], list[float]] = {}
        for topology, scheduler, score in placed:
            for tier in score.spreads:
                if tier.empty < tier.worst:
                    shares.setdefault((topology, scheduler, tier.level.domain), []).append(tier.empty / tier.spans)
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
            ((topology, scheduler, score.gang.namespace, score.gang.kind, score.gang.name), score.value)
            for topology, scheduler, score in sorted(placed, key=lambda one: one[2].value)[: self._worst]
        ]
        labels = ("topology", "scheduler", "namespace", "kind", "gang")
        yield _gauge("worst_gang_score", "Score of each of the gangs that are placed worst.", labels, worst)
        rows = [((name, row.level.domain, str(row.gpus)), row) for name, plan in plans.items() for row in plan.slots]
        fitting = [((*key, view.value), count) for key, row in rows for view, count in row.fitting.items()]
        text = "Gangs of this many GPUs that fit into single domains of the level."
        yield _gauge("slots", text, ("topology", "domain", "gpus", "when"), fitting)
        text = "Share of the free GPUs that no gang of this many GPUs can use within domains of the level, from 0 to 1."
        unusable = [(key, row.fragmented) for key, row in rows]
        yield _gauge("unusable_ratio", text, ("topology", "domain", "gpus"), unusable)

    def _oldest(self, misplaced: list[tuple[str, str, Score]]) -> Samples:
        now, before = self._now(), self._since
        self._since = {}
        oldest: dict[tuple[str, ...], float] = {}
        for topology, scheduler, score in misplaced:
            key = topology, score.gang.kind, score.gang.handle
            since = self._since[key] = before.get(key, now)
            oldest[topology, scheduler] = min(since, oldest.get((topology, scheduler), since))
        return oldest.items()


def _gauge(name: str, text: str, labels: tuple[str, ...], samples: Samples) -> Family:
    return family("gauge", f"{_PREFIX}{name}", text, labels, samples)


def _buckets(values: list[float]) -> list[tuple[float, int]]:
    counts = Counter(bisect_left(_BOUNDS, value) for value in values)
    return [*zip(_BOUNDS, accumulate(counts[place] for place in range(len(_BOUNDS))), strict=True)]
