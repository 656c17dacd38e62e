"""What `toposcope whatif` foresees is what happens: drain, admit, then look at what the schedulers do."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.schedulers import clusters, play
from tests.schedulers.test_schedulers import SEED, cases
from tests.support.api import ApiUnderTest
from toposcope.planning.capacity import Capacity
from toposcope.planning.gangs import gangs_of
from toposcope.planning.rehoming import Outcome
from toposcope.planning.whatif import Changes, WhatIf, whatif
from toposcope.snapshot.files import load_files
from toposcope.snapshot.scope import select_scope


def _cluster(rng: random.Random) -> clusters.Cluster:
    """Of nodes that carry every label: those that lack one are no part of a plan."""
    drawn, keys = clusters.cluster(rng), {*clusters.LEVELS, "gpu.topology/gpus"}
    labels = {one["metadata"]["name"]: one["metadata"]["labels"] for one in drawn.nodes}
    whole = {name for name, own in labels.items() if keys <= own.keys() and "no-topology" not in own.values()}
    nodes = [one for one in drawn.nodes if one["metadata"]["name"] in whole]
    return clusters.Cluster(nodes, [pod for pod in drawn.pods if pod["spec"]["nodeName"] in whole])


def _foreseen(folder: Path, objects: Sequence[Any], drained: str, admit: Sequence[Any] = ()) -> WhatIf:
    saved = folder / "planned.json"
    saved.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*objects]}), encoding="utf-8")
    snapshot = load_files([str(saved)])
    gangs = gangs_of(snapshot)
    before = Capacity(snapshot, select_scope(snapshot), gangs)
    return whatif(snapshot, None, before, gangs, Changes(drain=frozenset({drained}), admit=tuple(admit)))


def _cordoned(nodes: Sequence[clusters.Object], name: str) -> list[clusters.Object]:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    return [
        {**one, "spec": {"unschedulable": True, "taints": [*(t for t in one["spec"]["taints"] if t != taint), taint]}}
        if one["metadata"]["name"] == name
        else one
        for one in nodes
    ]


def test_kube_scheduler_places_what_a_drain_displaces_as_foreseen(kube_scheduler: ApiUnderTest, folder: Path) -> None:
    outcomes = set()
    for seed in range(SEED, SEED + -(-cases(200) // 10)):
        rng = random.Random(seed)
        cluster, job = _cluster(rng), clusters.plain_job(rng, f"gang-{seed}")
        spec = job["spec"]["template"]["spec"]
        spec["tolerations"] = [clusters.GPU_TOLERATION]  # as the admission plugin ExtendedResourceToleration adds it
        spec.pop("nodeSelector", None)
        drained = rng.choice([one["metadata"]["name"] for one in cluster.nodes])
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"gang-{seed}", "uid": "1", "controller": True}
        metadata = {"namespace": "default", "ownerReferences": [owner]}
        lost = [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "status": {"phase": "Running"},
                "metadata": {**metadata, "name": f"{number}"},
                "spec": {**spec, "nodeName": drained},
            }
            for number in range(job["spec"]["parallelism"])
        ]
        others = [pod for pod in cluster.pods if pod["spec"]["nodeName"] != drained]
        (rehomed,) = _foreseen(folder, [*cluster.nodes, *others, *lost], drained).rehomed
        play.create(kube_scheduler, [*_cordoned(cluster.nodes, drained), *others])
        answer, message = play.on_kube_scheduler(kube_scheduler, job)
        assert (answer == "pending") == (rehomed.outcome is Outcome.WAITS), f"seed {seed}: {rehomed.sentence} {message}"
        outcomes.add(answer)
        play.remove(kube_scheduler, [*others, *cluster.nodes])
    assert outcomes == {"placed", "pending"}


def test_kueue_admits_after_a_drain_what_was_foreseen(kueue: ApiUnderTest, folder: Path) -> None:
    answers = set()
    for seed in range(SEED, SEED + -(-cases(100) // 10)):
        rng = random.Random(seed)
        cluster, queue = _cluster(rng), f"plan-{seed}"
        own = clusters.kueue_objects(rng, queue)
        configured = [*clusters.kueue_topologies(), clusters.limit_range(), *own]
        play.create(kueue, own)
        drained = rng.choice([one["metadata"]["name"] for one in cluster.nodes])
        workloads = [clusters.kueue_workload(rng, f"p-{seed}-{number}", queue) for number in range(5)]
        running = [*cluster.nodes, *cluster.pods]
        foreseen = [_foreseen(folder, [*running, *configured], drained, [one]) for one in workloads]
        moved = {pod.name: pod.node for one in foreseen[0].rehomed for pod in one.placed}
        left = [
            {**pod, "spec": {**pod["spec"], "nodeName": moved.get(pod["metadata"]["name"], pod["spec"]["nodeName"])}}
            for pod in cluster.pods
            if pod["spec"]["nodeName"] != drained or pod["metadata"]["name"] in moved
        ]
        play.create(kueue, [*_cordoned(cluster.nodes, drained), *left])
        for workload, said in zip(workloads, foreseen, strict=True):
            answer, message = play.on_kueue(kueue, workload, flavors=3)
            fits = bool(said.admitted) and all(one.fits for one in said.admitted)
            told = (
                f"seed {seed}: {[one.answer for one in said.admitted]}, but {answer}: {message}\n{json.dumps(workload)}"
            )
            assert fits == (answer == "placed"), told
            answers.add(answer)
        play.remove(kueue, [*left, *cluster.nodes])
    assert {"placed", "pending"} <= answers
