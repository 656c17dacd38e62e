"""The metrics of planning, counted from a snapshot; docs/metrics.md explains each."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from toposcope.planning.kept import KeptResult
from toposcope.planning.plan import Plan
from toposcope.planning.required import RequiredLevels
from toposcope.planning.score import Score
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.reach import Blocker
from toposcope.telemetry.families import Family, exposition, histogram
from toposcope.ui.planning import plan_of
from toposcope.ui.planning_count import PREFIX, Counted, Misplaced, gauge

_SCORE_BOUNDS: Final = (0.25, 0.5, 0.75, 0.9, 1.0, inf)
_MOST_SCHEDULERS: Final = 10
_MOST_TOPOLOGIES: Final = 10
_OTHER_SCHEDULERS: Final = "_other"


def counted(
    snapshot: Snapshot,
    required: RequiredLevels,
    worst: int,
    now: float,
    since: Mapping[tuple[str, str, str], float],
) -> Counted:
    """The metrics of a cluster. Raises NoPlanError.

    `worst` gangs are named, `now` is Unix time, and `since` says when a gang was first seen
    misplaced, by topology, kind and handle.
    """
    names: list[str | None] = []
    for topology in snapshot.topologies:
        if not topology.owner:
            names.append(topology.name)

    if not names:
        names.append(None)
    plans = {}
    for name in names[:_MOST_TOPOLOGIES]:
        plans[name or ""] = plan_of(snapshot, name, required)

    metrics = _Metrics(worst, now, since)
    text = exposition(metrics.families(plans)).decode()
    return Counted(text, metrics.misplaced)


@dataclass(frozen=True, slots=True)
class _Placed:
    """A running gang."""

    topology: str
    scheduler: str
    """The name that metrics use for it."""
    score: Score


def families(plans: Mapping[str, Plan], worst: int) -> Iterator[Family]:
    """All but those about the counting itself."""
    return _Metrics(worst, 0.0, {}).families(plans)


class _Metrics:
    def __init__(self, worst: int, now: float, since: Mapping[tuple[str, str, str], float]) -> None:
        self._worst = worst
        self._now = now
        self._since = since
        self.misplaced: list[Misplaced] = []

    def families(self, plans: Mapping[str, Plan]) -> Iterator[Family]:
        """All but those about the counting itself."""
        placed = list(_placed(plans))
        yield _scores(placed)
        yield from self._misplaced(placed)
        yield self._worst_gangs(placed)
        yield _kept(plans)
        yield from _slots(plans)
        yield from _reach(plans)

    def _misplaced(self, placed: Sequence[_Placed]) -> Iterator[Family]:
        counts: dict[tuple[str, str], int] = {}
        oldest: dict[tuple[str, ...], float] = {}
        for gang in placed:
            key = gang.topology, gang.scheduler
            is_misplaced = gang.score.is_misplaced
            counts[key] = counts.get(key, 0) + is_misplaced
            if is_misplaced:
                since = self._since_when(gang)
                oldest[key] = min(since, oldest.get(key, since))

        labels = ("topology", "scheduler")
        text = (
            "Running gangs that would span at most half the domains of some level "
            "if they were placed now."
        )
        yield gauge("misplaced_gangs", text, labels, counts.items())
        text = "When this server first saw the longest-misplaced gang misplaced, in Unix time."
        yield gauge("misplaced_since_timestamp_seconds", text, labels, oldest.items())

    def _since_when(self, placed: _Placed) -> float:
        """When the gang was first seen misplaced; noted for the next count."""
        gang = placed.score.gang
        key = placed.topology, gang.kind, gang.handle
        since = self._since.get(key, self._now)
        self.misplaced.append(Misplaced(*key, since))
        return since

    def _worst_gangs(self, placed: Sequence[_Placed]) -> Family:
        samples = []
        ranked = sorted(placed, key=lambda gang: gang.score.value)
        for worst in ranked[: self._worst]:
            gang = worst.score.gang
            key = (worst.topology, worst.scheduler, gang.namespace, gang.kind, gang.name)
            samples.append((key, worst.score.value))

        labels = ("topology", "scheduler", "namespace", "kind", "gang")
        text = "Score of each of the gangs that are placed worst."
        return gauge("worst_gang_score", text, labels, samples)


def _placed(plans: Mapping[str, Plan]) -> Iterator[_Placed]:
    """All running gangs; rare schedulers share a name."""
    counts: Counter[str] = Counter()
    for plan in plans.values():
        for score in plan.scores:
            counts[score.gang.scheduler] += 1

    most_common = counts.most_common(_MOST_SCHEDULERS)
    named = {scheduler for scheduler, _ in most_common}
    for topology, plan in plans.items():
        for score in plan.scores:
            scheduler = score.gang.scheduler
            if scheduler not in named:
                scheduler = _OTHER_SCHEDULERS
            yield _Placed(topology, scheduler, score)


def _scores(placed: Sequence[_Placed]) -> Family:
    shares: dict[tuple[str, ...], list[float]] = {}
    for gang in placed:
        for spread in gang.score.spreads:
            if spread.empty < spread.worst:
                key = (gang.topology, gang.scheduler, spread.level.domain)
                shares.setdefault(key, []).append(spread.empty / spread.spans)

    samples = []
    for labels, values in shares.items():
        samples.append((labels, _buckets(values), sum(values)))
    return histogram(
        f"{PREFIX}gang_score",
        "Fewest domains of the level that a running gang could span on an empty cluster "
        "divided by the domains that it spans.",
        ("topology", "scheduler", "domain"),
        samples,
    )


def _kept(plans: Mapping[str, Plan]) -> Family:
    """The gangs that require a level, by what is observed; each result always has a count."""
    samples = []
    for name, plan in plans.items():
        counts = Counter(kept.result for kept in plan.kept)
        for result in KeptResult:
            samples.append(((name, result.value), counts[result]))
    results = ", ".join(KeptResult)
    text = f"Running gangs that require a level, by whether they share a domain of it: {results}."
    return gauge("gang_placement_kept", text, ("topology", "result"), samples)


def _slots(plans: Mapping[str, Plan]) -> Iterator[Family]:
    fitting: list[tuple[tuple[str, ...], float]] = []
    unusable: list[tuple[tuple[str, ...], float]] = []
    for name, plan in plans.items():
        for row in plan.slots:
            key = name, row.level.domain, str(row.gpus)
            unusable.append((key, row.fragmented_share))
            for view, count in row.fitting.items():
                key_of_view = (*key, view.value)
                fitting.append((key_of_view, count))

    labels = ("topology", "domain", "gpus")
    text = "Gangs of this many GPUs that fit into single domains of the level."
    yield gauge("slots", text, (*labels, "when"), fitting)
    text = (
        "Share of the free GPUs that no gang of this many GPUs can use "
        "within domains of the level, from 0 to 1."
    )
    yield gauge("unusable_ratio", text, labels, unusable)


def _reach(plans: Mapping[str, Plan]) -> Iterator[Family]:
    """The idle GPUs, by what keeps a pod of typical shape from them."""
    reachable: list[tuple[tuple[str, ...], float]] = []
    blocked: list[tuple[tuple[str, ...], float]] = []
    for name, plan in plans.items():
        reachable.append(((name,), plan.reachable_gpus))
        counts: Counter[Blocker] = Counter()
        for block in plan.blocks:
            counts[block.why] += block.gpus
        for why in Blocker:
            blocked.append(((name, why.value), counts[why]))

    text = "Free GPUs that a pod like the median of those with GPUs can get."
    yield gauge("reachable_gpus", text, ("topology",), reachable)
    reasons = ", ".join(Blocker)
    text = f"Idle GPUs that such a pod cannot get, by what keeps it from them: {reasons}."
    yield gauge("blocked_gpus", text, ("topology", "reason"), blocked)


def _buckets(values: list[float]) -> list[tuple[float, int]]:
    """How many values are at most each bound."""
    counts = Counter(bisect_left(_SCORE_BOUNDS, value) for value in values)
    buckets = []
    total = 0
    for place, bound in enumerate(_SCORE_BOUNDS):
        total += counts[place]
        buckets.append((bound, total))
    return buckets
