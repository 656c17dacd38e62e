"""`check` never says that something fits which the scheduler leaves pending, nor that it cannot fit where it is placed.

`make schedulers CASES=1000 SEED=7` for more than CI does: the seeds are printed, and each draws the same cluster and
workloads everywhere.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.schedulers import build, clusters, play, programs
from tests.schedulers.conftest import unavailable
from tools.apiserver.build import BuildError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.api import ApiUnderTest

SEED = int(os.environ.get("SEED") or "20261122")
EACH = 10
"""Workloads a cluster."""


def _cases(default: int) -> int:
    return int(os.environ.get("CASES") or default)


@pytest.fixture
def kueue(folder: Path) -> Iterator[ApiUnderTest]:
    try:
        installed = build.kueue()
    except BuildError as error:
        unavailable(error)
    with programs.api_server(folder) as api, programs.kueue(installed, api, folder):
        play.create(api, [*clusters.kueue_topologies(), clusters.limit_range()])
        yield api


def _judge(comparisons: Iterator[play.Comparison]) -> None:
    counts: Counter[tuple[str, str, str]] = Counter()
    wrong = []
    for comparison in comparisons:
        counts["emptied" if comparison.emptied else "as it is", comparison.verdict, comparison.answer] += 1
        if comparison.contradiction:
            wrong.append(str(comparison))
    assert not wrong, "\n\n".join([*wrong, str(counts)])
    answers = {answer for _, _, answer in counts}
    assert {"placed", "pending"} <= answers, counts


def test_kube_scheduler(kube_scheduler: ApiUnderTest, folder: Path) -> None:
    def comparisons() -> Iterator[play.Comparison]:
        for seed in range(SEED, SEED + -(-_cases(100) // EACH)):
            rng = random.Random(seed)
            cluster = clusters.cluster(rng)
            workloads = [clusters.plain_job(rng, f"job-{seed}-{number}") for number in range(EACH)]
            said = lambda workload, cluster=cluster: play.verdict(folder, cluster, [], workload)  # noqa: E731
            yield from play.play(kube_scheduler, cluster, seed, workloads, play.on_kube_scheduler, said)

    _judge(comparisons())


def test_kueue(kueue: ApiUnderTest, folder: Path) -> None:
    def comparisons() -> Iterator[play.Comparison]:
        for seed in range(SEED, SEED + -(-_cases(200) // EACH)):
            rng = random.Random(seed)
            cluster, queue = clusters.cluster(rng), f"q-{seed}"
            own = clusters.kueue_objects(rng, queue)
            play.create(kueue, own)
            others = [*clusters.kueue_topologies(), clusters.limit_range(), *own]
            workloads = [clusters.kueue_workload(rng, f"w-{seed}-{number}", queue) for number in range(EACH)]
            holders = [clusters.kueue_workload(rng, f"h-{seed}-{number}", queue) for number in range(rng.randint(0, 2))]

            def said(workload: clusters.Object, cluster: clusters.Cluster = cluster, others: list[Any] = others) -> str:
                return play.verdict(folder, cluster, [*others, *play.workloads_of_kueue(kueue)], workload)

            flavors = sum(one["kind"] == "ResourceFlavor" for one in own)
            ask = partial(play.on_kueue, flavors=flavors)
            yield from play.play(kueue, cluster, seed, workloads, ask, said, holders)

    _judge(comparisons())
