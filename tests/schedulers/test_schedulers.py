"""`check` never says that something fits which the scheduler leaves pending, nor that it cannot fit where it is placed.

`make schedulers CASES=1000 SEED=7` for more than CI does: the seeds are printed, and each draws the same cluster and
workloads everywhere.
"""

import json
import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.schedulers import clusters, play
from tests.support.api import ApiUnderTest
from toposcope.planning.capacity import Capacity
from toposcope.planning.freeing import freeings
from toposcope.planning.gangs import Gang, gangs_of
from toposcope.planning.rehoming import Outcome
from toposcope.planning.whatif import Changes, NewNodes, WhatIf, whatif
from toposcope.snapshot.files import load_files
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.scope import select_scope

pytestmark = pytest.mark.slow

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


def _drawn(default: int) -> Iterator[tuple[int, random.Random, clusters.Cluster]]:
    """A cluster for each seed, and what draws its workloads."""
    for seed in range(SEED, SEED + -(-cases(default) // EACH)):
        rng = random.Random(seed)
        yield seed, rng, clusters.cluster(rng)


def test_kube_scheduler(kube_scheduler: ApiUnderTest, folder: Path) -> None:
    def comparisons() -> Iterator[play.Comparison]:
        for seed, rng, cluster in _drawn(100):
            workloads = [clusters.plain_job(rng, f"job-{seed}-{number}") for number in range(EACH)]
            yield from play.play(kube_scheduler, cluster, seed, workloads, play.on_kube_scheduler, folder)

    _judge(comparisons())


def test_claims_of_kube_scheduler(kube_scheduler: ApiUnderTest, folder: Path) -> None:
    def comparisons() -> Iterator[play.Comparison]:
        for seed, rng, cluster in _drawn(150):
            offered = clusters.offered(rng, cluster)
            workloads = [clusters.claiming(rng, f"claim-{seed}-{number}") for number in range(EACH)]
            yield from play.play(kube_scheduler, offered, seed, workloads, play.on_claims, folder)

    _judge(comparisons())


def test_gangs_of_kube_scheduler(gang_scheduler: ApiUnderTest, folder: Path) -> None:
    def comparisons() -> Iterator[play.Comparison]:
        for seed, rng, cluster in _drawn(100):
            workloads = [{"items": clusters.gang(rng, f"gang-{seed}-{number}")} for number in range(EACH)]
            yield from play.play(gang_scheduler, cluster, seed, workloads, play.on_gang_scheduler, folder)

    _judge(comparisons())


def test_kueue(kueue: ApiUnderTest, folder: Path) -> None:
    def comparisons() -> Iterator[play.Comparison]:
        for seed, rng, cluster in _drawn(200):
            queue = f"q-{seed}"
            own = clusters.kueue_objects(rng, queue)
            play.create(kueue, own)
            configured = [*clusters.kueue_topologies(), clusters.limit_range(), *own]
            workloads = [clusters.kueue_workload(rng, f"w-{seed}-{number}", queue) for number in range(EACH)]
            holders = [clusters.kueue_workload(rng, f"h-{seed}-{number}", queue) for number in range(rng.randint(0, 2))]
            ask = partial(play.on_kueue, flavors=sum(obj["kind"] == "ResourceFlavor" for obj in own))
            yield from play.play(kueue, cluster, seed, workloads, ask, folder, configured, holders)

    _judge(comparisons())


# What `toposcope whatif` foresees is what happens: drain, admit, then look at what the schedulers do.


def _cluster(rng: random.Random) -> clusters.Cluster:
    """Of nodes that carry every label: those that lack one are no part of a plan."""
    drawn, keys = clusters.cluster(rng), {*clusters.LEVELS, "gpu.topology/gpus"}
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in drawn.nodes}
    whole = {name for name, own in labels.items() if keys <= own.keys() and "no-topology" not in own.values()}
    nodes = [node for node in drawn.nodes if node["metadata"]["name"] in whole]
    return clusters.Cluster(nodes, [pod for pod in drawn.pods if pod["spec"]["nodeName"] in whole])


def _loaded(folder: Path, objects: Sequence[Any]) -> tuple[Snapshot, tuple[Gang, ...], Capacity]:
    saved = folder / "planned.json"
    saved.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*objects]}), encoding="utf-8")
    snapshot = load_files([str(saved)])
    gangs = gangs_of(snapshot)
    return snapshot, gangs, Capacity(snapshot, select_scope(snapshot), gangs)


def _foreseen(folder: Path, objects: Sequence[Any], drained: str, admit: Sequence[Any] = ()) -> WhatIf:
    snapshot, gangs, before = _loaded(folder, objects)
    return whatif(snapshot, None, before, gangs, Changes(drain=frozenset({drained}), admit=tuple(admit)))


def _cordoned(nodes: Sequence[clusters.Object], name: str) -> list[clusters.Object]:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    return [
        {**node, "spec": {"unschedulable": True, "taints": [*(t for t in node["spec"]["taints"] if t != taint), taint]}}
        if node["metadata"]["name"] == name
        else node
        for node in nodes
    ]


def test_kube_scheduler_places_what_a_drain_displaces_as_foreseen(kube_scheduler: ApiUnderTest, folder: Path) -> None:
    outcomes = set()
    for seed in range(SEED, SEED + -(-cases(200) // 10)):
        rng = random.Random(seed)
        cluster, job = _cluster(rng), clusters.plain_job(rng, f"gang-{seed}")
        spec = job["spec"]["template"]["spec"]
        spec["tolerations"] = [clusters.GPU_TOLERATION]  # as the admission plugin ExtendedResourceToleration adds it
        spec.pop("nodeSelector", None)
        drained = rng.choice([node["metadata"]["name"] for node in cluster.nodes])
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"gang-{seed}", "uid": "1", "controller": True}
        on_it, state = {**spec, "nodeName": drained}, {"phase": "Running"}
        numbers = range(job["spec"]["parallelism"])
        lost = [clusters.made("Pod", f"{number}", on_it, status=state, ownerReferences=[owner]) for number in numbers]
        others = [pod for pod in cluster.pods if pod["spec"]["nodeName"] != drained]
        (rehomed,) = _foreseen(folder, [*cluster.nodes, *others, *lost], drained).rehomed
        play.create(kube_scheduler, [*_cordoned(cluster.nodes, drained), *others])
        answer, message = play.on_kube_scheduler(kube_scheduler, job)
        assert (answer == "pending") == (rehomed.outcome is Outcome.WAITS), f"seed {seed}: {rehomed.sentence} {message}"
        outcomes.add(answer)
        play.remove(kube_scheduler, [*others, *cluster.nodes])
    assert outcomes == {"placed", "pending"}


def test_kube_scheduler_places_what_fits_once_work_ends_and_nodes_come(
    kube_scheduler: ApiUnderTest, folder: Path
) -> None:
    answers = set()
    for seed in range(SEED, SEED + -(-cases(100) // 5)):
        rng = random.Random(seed)
        cluster, rack = _cluster(rng), {clusters.RACK: "r-new"}
        jobs = [clusters.plain_job(rng, f"plan-{seed}-{number}") for number in range(5)]
        for job in jobs[:2]:
            job["spec"]["template"]["spec"]["nodeSelector"] = rack
        snapshot, gangs, before = _loaded(folder, [*cluster.nodes, *cluster.pods])
        finish = tuple(gang for gang in gangs if rng.random() < 0.5)
        like = rng.choice(cluster.nodes)
        add = NewNodes(rng.randint(1, 3), snapshot.by_name[like["metadata"]["name"]], rack)
        changes = [Changes(finish=finish, add=add, admit=(job,)) for job in jobs]
        foreseen = [whatif(snapshot, None, before, gangs, change).admitted for change in changes]
        ended = {pod.name for gang in finish for pod in gang.pods}
        running = [pod for pod in cluster.pods if pod["metadata"]["name"] not in ended]
        nodes = [*cluster.nodes, *(clusters.new_node(like, number, rack) for number in range(1, add.count + 1))]
        play.create(kube_scheduler, [*nodes, *running])
        for job, (said,) in zip(jobs, foreseen, strict=True):
            answer, message = play.on_kube_scheduler(kube_scheduler, job)
            assert said.fits == (answer == "placed"), f"seed {seed}: {said.answer} {message}\n{json.dumps(job)}"
            answers.add(answer)
        play.remove(kube_scheduler, [*running, *nodes])
    assert answers == {"placed", "pending"}


def test_kube_scheduler_places_a_gang_where_moved_pods_make_room(kube_scheduler: ApiUnderTest, folder: Path) -> None:
    outcomes = set()
    for seed in range(SEED, SEED + -(-cases(200) // 10)):
        rng = random.Random(seed)
        cluster, depth, per_pod = _cluster(rng), rng.choice((1, 2)), rng.choice((2, 4, 8))
        gpus = per_pod * rng.randint(1, 4)
        for pod in cluster.pods:
            pod["spec"]["tolerations"] = [clusters.GPU_TOLERATION]
        snapshot, _, before = _loaded(folder, [*cluster.nodes, *cluster.pods])
        freeing = next(
            freeings(before, snapshot.pods or (), gpus, per_pod=per_pod, depth=depth, movable=lambda _: True), None
        )
        leaving = {pod.name for pod in freeing.pods} if freeing else {pod["metadata"]["name"] for pod in cluster.pods}
        moved = [pod for pod in cluster.pods if pod["metadata"]["name"] in leaving]
        running = [pod for pod in cluster.pods if pod not in moved]
        domain = freeing.domain if freeing else rng.choice(before.paths)[:depth]
        job = clusters.gang_of(
            f"gang-{seed}", gpus // per_pod, per_pod, dict(zip(clusters.LEVELS, domain, strict=False))
        )
        play.create(kube_scheduler, [*cluster.nodes, *running])
        answer, message = play.on_kube_scheduler(kube_scheduler, job)
        assert (answer == "placed") == bool(freeing), f"seed {seed}: {domain} {leaving} {message}"
        outcomes.add((answer, bool(moved)))
        play.remove(kube_scheduler, [*running, *cluster.nodes])
    assert {("placed", True), ("placed", False), ("pending", True)} <= outcomes


def test_kueue_admits_after_a_drain_what_was_foreseen(kueue: ApiUnderTest, folder: Path) -> None:
    answers = set()
    for seed in range(SEED, SEED + -(-cases(100) // 10)):
        rng = random.Random(seed)
        cluster, queue = _cluster(rng), f"plan-{seed}"
        own = clusters.kueue_objects(rng, queue)
        configured = [*clusters.kueue_topologies(), clusters.limit_range(), *own]
        play.create(kueue, own)
        drained = rng.choice([node["metadata"]["name"] for node in cluster.nodes])
        workloads = [clusters.kueue_workload(rng, f"p-{seed}-{number}", queue) for number in range(5)]
        running = [*cluster.nodes, *cluster.pods]
        foreseen = [_foreseen(folder, [*running, *configured], drained, [workload]) for workload in workloads]
        moved = {pod.name: pod.node for gang in foreseen[0].rehomed for pod in gang.placed}
        left = [
            {**pod, "spec": {**pod["spec"], "nodeName": moved.get(pod["metadata"]["name"], pod["spec"]["nodeName"])}}
            for pod in cluster.pods
            if pod["spec"]["nodeName"] != drained or pod["metadata"]["name"] in moved
        ]
        play.create(kueue, [*_cordoned(cluster.nodes, drained), *left])
        for workload, said in zip(workloads, foreseen, strict=True):
            answer, message = play.on_kueue(kueue, workload, flavors=3)
            fits = bool(said.admitted) and all(foretold.fits for foretold in said.admitted)
            expected = [foretold.answer for foretold in said.admitted]
            told = f"seed {seed}: {expected}, but {answer}: {message}\n{json.dumps(workload)}"
            assert fits == (answer == "placed"), told
            answers.add(answer)
        play.remove(kueue, [*left, *cluster.nodes])
    assert {"placed", "pending"} <= answers
