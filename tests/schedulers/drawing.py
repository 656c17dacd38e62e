"""Clusters and workloads drawn from seeds, and what `check` says of them beside a scheduler's answers.

The seeds are printed, and each draws the same cluster and workloads everywhere.
"""

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, Final

from tests.schedulers import clusters, play
from tests.support.api import ApiUnderTest

SEED: Final = int(os.environ.get("SEED") or "20261122")
IS_USUAL: Final = not os.environ.get("SEED") and not os.environ.get("CASES")
"""Whether the cases are those that always ran, of which it is known what they draw."""
EACH: Final = 10
"""Workloads a cluster."""


def seeds(default: int, *, per_seed: int) -> range:
    """The seeds that draw `default` cases (or $CASES), `per_seed` each."""
    cases = int(os.environ.get("CASES") or default)
    return range(SEED, SEED + ceil(cases / per_seed))


def drawn(default: int) -> Iterator[tuple[int, random.Random, clusters.Cluster]]:
    """A cluster for each seed, and what draws its workloads."""
    for seed in seeds(default, per_seed=EACH):
        rng = random.Random(seed)
        yield seed, rng, clusters.cluster(rng)


def draw(rng: random.Random, draw_one: Callable[[random.Random, str], Any], prefix: str) -> list[Any]:
    """Ten workloads of one kind."""
    workloads = []
    for number in range(EACH):
        workloads.append(draw_one(rng, f"{prefix}-{number}"))
    return workloads


def _as_it_is(_rng: random.Random, cluster: clusters.Cluster) -> clusters.Cluster:
    return cluster


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """Workloads of one kind, the clusters around them, and who is asked about them."""

    workload: Callable[[random.Random, str], clusters.Object]
    """Draws one of this name."""
    prefix: str
    """Of the workloads' names."""
    ask: play.Ask
    cluster: Callable[[random.Random, clusters.Cluster], clusters.Cluster] = _as_it_is
    """What is made of a cluster of plain nodes and pods."""
    around: Sequence[clusters.Object] = ()
    """What else there is, which `check` is to know."""

    def assert_check_agrees(self, api: ApiUnderTest, folder: Path, *, cases: int) -> None:
        """Play `cases` cases (or $CASES) and assert that no confident verdict is wrong."""
        assert_no_contradiction(self._played(api, folder, cases))

    def _played(self, api: ApiUnderTest, folder: Path, cases: int) -> Iterator[play.Comparison]:
        for seed, rng, plain in drawn(cases):
            cluster = self.cluster(rng, plain)
            yield from play.play(
                api,
                cluster,
                seed=seed,
                workloads=draw(rng, self.workload, f"{self.prefix}-{seed}"),
                ask=self.ask,
                folder=folder,
                around=self.around,
            )


def assert_no_contradiction(comparisons: Iterator[play.Comparison]) -> None:
    """No confident verdict is wrong; the usual seed draws what is placed and what is not."""
    counts: Counter[tuple[str, str, str]] = Counter()
    wrong = []
    for comparison in comparisons:
        where = "emptied" if comparison.emptied else "as it is"
        counts[where, comparison.verdict, comparison.answer] += 1
        if comparison.contradiction:
            wrong.append(str(comparison))
    assert not wrong, "\n\n".join([*wrong, str(counts)])
    answers = {answer for _, _, answer in counts}
    assert_drawn({"placed", "pending"}, answers)


def assert_drawn(expected: set[Any], drawn_answers: set[Any]) -> None:
    """The usual seed draws all of these; another one may miss some by chance, and has compared no less."""
    if IS_USUAL:
        assert expected <= drawn_answers
