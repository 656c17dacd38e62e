"""`check` never says that something fits which the scheduler leaves pending, nor that it cannot fit where it is placed.

`make schedulers CASES=1000 SEED=7` for more than CI does: the seeds are printed, and each draws the same cluster and
workloads everywhere.
"""

import os
import random
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.schedulers import clusters, play
from tests.support.api import ApiUnderTest

SEED = int(os.environ.get("SEED") or "20261122")
EACH = 10
"""Workloads a cluster."""


def cases(default: int) -> int:
    return int(os.environ.get("CASES") or default)


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
        for seed in range(SEED, SEED + -(-cases(100) // EACH)):
            rng = random.Random(seed)
            cluster = clusters.cluster(rng)
            workloads = [clusters.plain_job(rng, f"job-{seed}-{number}") for number in range(EACH)]
            said = lambda workload, cluster=cluster: play.verdict(folder, cluster, [], workload)  # noqa: E731
            yield from play.play(kube_scheduler, cluster, seed, workloads, play.on_kube_scheduler, said)

    _judge(comparisons())


def test_gangs_of_kube_scheduler(gang_scheduler: ApiUnderTest, folder: Path) -> None:
    def comparisons() -> Iterator[play.Comparison]:
        for seed in range(SEED, SEED + -(-cases(100) // EACH)):
            rng = random.Random(seed)
            cluster = clusters.cluster(rng)
            workloads = [{"items": clusters.gang(rng, f"gang-{seed}-{number}")} for number in range(EACH)]

            def said(workload: clusters.Object, cluster: clusters.Cluster = cluster) -> str:
                group, *pods = workload["items"]
                return play.verdict(folder, cluster, pods, group)

            yield from play.play(gang_scheduler, cluster, seed, workloads, play.on_gang_scheduler, said)

    _judge(comparisons())


def test_kueue(kueue: ApiUnderTest, folder: Path) -> None:
    def comparisons() -> Iterator[play.Comparison]:
        for seed in range(SEED, SEED + -(-cases(200) // EACH)):
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
