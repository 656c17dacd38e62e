"""`check` never says that something fits which the scheduler leaves pending, nor that it cannot fit where it is placed.

`make schedulers CASES=1000 SEED=7` for more than CI does.
"""

import json
import random
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.planning.clusters import GPUS_ALONE
from tests.schedulers import clusters, gangs, play, versions
from tests.schedulers.drawing import Drawing, assert_drawn, assert_no_contradiction, draw, drawn, seeds
from tests.schedulers.pod_rules import ruled_cluster, ruled_job
from tests.support.api import ApiUnderTest
from toposcope.planning.capacity import Capacity
from toposcope.planning.freeing import freeings
from toposcope.planning.gangs import Gang, gangs_of
from toposcope.planning.rehoming import RehomingOutcome
from toposcope.planning.whatif import Changes, NewNodes, WhatIf, whatif
from toposcope.snapshot.files import load_files
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.scope import select_scope

pytestmark = pytest.mark.slow


def test_check_agrees_with_kube_scheduler(kube_scheduler: ApiUnderTest, folder: Path) -> None:
    jobs = Drawing(workload=clusters.plain_job, prefix="job", ask=play.on_kube_scheduler)
    jobs.assert_check_agrees(kube_scheduler, folder, cases=40)


def test_check_agrees_with_kube_scheduler_about_pod_rules(kube_scheduler: ApiUnderTest, folder: Path) -> None:
    jobs = Drawing(workload=ruled_job, prefix="ruled", ask=play.on_kube_scheduler, cluster=ruled_cluster)
    jobs.assert_check_agrees(kube_scheduler, folder, cases=40)


def test_check_agrees_with_kube_scheduler_about_claims(kube_scheduler: ApiUnderTest, folder: Path) -> None:
    jobs = Drawing(workload=clusters.claiming, prefix="claim", ask=play.on_claims, cluster=clusters.offered)
    jobs.assert_check_agrees(kube_scheduler, folder, cases=40)


def test_check_agrees_with_kube_scheduler_about_gangs(gang_scheduler: ApiUnderTest, folder: Path) -> None:
    pod_groups = Drawing(workload=gangs.gang, prefix="gang", ask=gangs.on_gang_scheduler)
    pod_groups.assert_check_agrees(gang_scheduler, folder, cases=30)


@pytest.mark.skipif(not versions.HAS_TREES, reason="CompositePodGroups are of Kubernetes 1.37")
def test_check_agrees_with_kube_scheduler_about_trees(gang_scheduler: ApiUnderTest, folder: Path) -> None:
    trees = Drawing(workload=gangs.tree, prefix="tree", ask=gangs.on_gang_scheduler)
    trees.assert_check_agrees(gang_scheduler, folder, cases=40)


def test_check_agrees_with_kube_scheduler_about_priorities(gang_scheduler: ApiUnderTest, folder: Path) -> None:
    classes = gangs.priority_classes()
    play.create(gang_scheduler, classes)

    def comparisons() -> Iterator[play.Comparison]:
        for seed, rng, cluster in drawn(30):
            drawn_gangs = draw(rng, gangs.gang, f"ranked-{seed}")
            if versions.HAS_TREES:
                drawn_gangs += draw(rng, gangs.tree, f"ranked-tree-{seed}")
            workloads = []
            for drawn_gang in drawn_gangs:
                items = gangs.ranked(rng, drawn_gang["items"])
                workloads.append({"items": items})
            yield from play.play(
                gang_scheduler,
                cluster,
                seed=seed,
                workloads=workloads,
                ask=gangs.on_gang_scheduler,
                folder=folder,
                around=classes,
            )

    assert_no_contradiction(comparisons())


@pytest.mark.skipif(not versions.HAS_TREES, reason="a Job is a gang by itself in Kubernetes 1.37")
def test_check_agrees_with_kube_scheduler_about_jobs(job_gang_scheduler: ApiUnderTest, folder: Path) -> None:
    jobs = Drawing(workload=gangs.job, prefix="job", ask=gangs.on_job_gangs)
    jobs.assert_check_agrees(job_gang_scheduler, folder, cases=30)


def test_check_agrees_with_kueue(kueue: ApiUnderTest, folder: Path) -> None:
    def comparisons() -> Iterator[play.Comparison]:
        for seed, rng, cluster in drawn(40):
            queue = f"q-{seed}"
            own = clusters.kueue_objects(rng, queue)
            play.create(kueue, own)
            configured = [*clusters.kueue_topologies(), clusters.limit_range(), *own]
            workloads = draw(rng, partial(clusters.kueue_workload, queue=queue), f"w-{seed}")
            holders = []
            for number in range(rng.randint(0, 2)):
                holders.append(clusters.kueue_workload(rng, f"h-{seed}-{number}", queue))
            flavors = [obj for obj in own if obj["kind"] == "ResourceFlavor"]
            ask = partial(play.on_kueue, flavors=len(flavors))
            yield from play.play(
                kueue,
                cluster,
                seed=seed,
                workloads=workloads,
                ask=ask,
                folder=folder,
                kueue=configured,
                holders=holders,
            )

    assert_no_contradiction(comparisons())


# What `toposcope whatif` foresees is what happens: drain, admit, then look at what the schedulers do.


def name_of(obj: clusters.Object) -> str:
    name: str = obj["metadata"]["name"]
    return name


def names_of(objects: Sequence[clusters.Object]) -> list[str]:
    return [name_of(obj) for obj in objects]


def node_of(pod: clusters.Object) -> str:
    node: str = pod["spec"]["nodeName"]
    return node


def labelled_cluster(rng: random.Random) -> clusters.Cluster:
    """A cluster of nodes that carry every label: those that lack one are no part of a plan."""
    cluster = clusters.cluster(rng)
    keys = {*clusters.LEVELS, "gpu.topology/gpus"}
    nodes = []
    for node in cluster.nodes:
        labels = node["metadata"]["labels"]
        if keys <= labels.keys() and "no-topology" not in labels.values():
            nodes.append(node)
    names = names_of(nodes)
    pods = [pod for pod in cluster.pods if node_of(pod) in names]
    return clusters.Cluster(nodes, pods)


def loaded(folder: Path, objects: Sequence[Any]) -> tuple[Snapshot, tuple[Gang, ...], Capacity]:
    """A cluster of these objects, its gangs and what is free."""
    saved = folder / "planned.json"
    document = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [*objects],
    }
    saved.write_text(json.dumps(document), encoding="utf-8")
    snapshot = load_files([str(saved)])
    gangs = gangs_of(snapshot)
    return snapshot, gangs, Capacity(snapshot, select_scope(snapshot), gangs)


def foreseen_drain(folder: Path, objects: Sequence[Any], drained: str, admit: Sequence[Any] = ()) -> WhatIf:
    """What a drain of this node does, and what can be admitted after it."""
    snapshot, gangs, before = loaded(folder, objects)
    changes = Changes(drain=frozenset({drained}), admit=tuple(admit))
    return whatif(snapshot, None, before, gangs, changes)


def with_cordoned(nodes: Sequence[clusters.Object], name: str) -> list[clusters.Object]:
    """The nodes, of which this one is cordoned."""
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    result = []
    for node in nodes:
        if name_of(node) != name:
            result.append(node)
            continue
        taints = [taint for taint in node["spec"]["taints"] if taint != cordon]
        result.append({**node, "spec": {"unschedulable": True, "taints": [*taints, cordon]}})
    return result


def test_drained_gang_is_placed_by_kube_scheduler_as_foreseen(kube_scheduler: ApiUnderTest, folder: Path) -> None:
    outcomes = set()
    for seed in seeds(100, per_seed=10):
        rng = random.Random(seed)
        cluster = labelled_cluster(rng)
        job = clusters.plain_job(rng, f"gang-{seed}")
        spec = job["spec"]["template"]["spec"]
        spec["tolerations"] = [clusters.GPU_TOLERATION]  # as the admission plugin ExtendedResourceToleration adds it
        spec.pop("nodeSelector", None)
        drained = rng.choice(names_of(cluster.nodes))
        lost = running_pods(job, drained)
        others = [pod for pod in cluster.pods if node_of(pod) != drained]

        (rehomed,) = foreseen_drain(folder, [*cluster.nodes, *others, *lost], drained).rehomed

        play.create(kube_scheduler, [*with_cordoned(cluster.nodes, drained), *others])
        answer, message = play.on_kube_scheduler(kube_scheduler, job)
        waits = rehomed.outcome is RehomingOutcome.WAITS
        assert (answer == "pending") == waits, f"seed {seed}: {rehomed.sentence} {message}"
        outcomes.add(answer)
        play.remove(kube_scheduler, [*others, *cluster.nodes])
    assert_drawn({"placed", "pending"}, outcomes)


def test_drained_gang_that_waits_by_rules_is_pending(kube_scheduler: ApiUnderTest, folder: Path) -> None:
    """What finds other nodes, or is unclear, may wait: kube-scheduler takes no choice back."""
    outcomes = set()
    for seed in seeds(200, per_seed=10):
        rng = random.Random(seed)
        cluster = ruled_cluster(rng, labelled_cluster(rng))
        job = ruled_job(rng, f"ruled-{seed}")
        spec = job["spec"]["template"]["spec"]
        spec["tolerations"] = [clusters.GPU_TOLERATION]
        spec.pop("nodeSelector", None)
        drained = rng.choice(names_of(cluster.nodes))
        lost = running_pods(job, drained)
        others = [pod for pod in cluster.pods if node_of(pod) != drained]

        (rehomed,) = foreseen_drain(folder, [*cluster.nodes, *others, *lost], drained).rehomed
        outcomes.add(rehomed.outcome)
        if rehomed.outcome is not RehomingOutcome.WAITS:
            continue

        play.create(kube_scheduler, [*with_cordoned(cluster.nodes, drained), *others])
        answer, message = play.on_kube_scheduler(kube_scheduler, job)
        assert answer == "pending", f"seed {seed}: {rehomed.sentence} {message}"
        play.remove(kube_scheduler, [*others, *cluster.nodes])
    assert_drawn({RehomingOutcome.WAITS, RehomingOutcome.UNCLEAR, RehomingOutcome.SPREADS}, outcomes)


def running_pods(job: clusters.Object, node: str) -> list[clusters.Object]:
    """The pods of a Job, all of which run on one node."""
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": name_of(job),
        "uid": "1",
        "controller": True,
    }
    template = job["spec"]["template"]
    spec = {**template["spec"], "nodeName": node}
    labels = template["metadata"].get("labels", {})
    status = {"phase": "Running"}
    pods = []
    for number in range(job["spec"]["parallelism"]):
        pod = clusters.made("Pod", f"{number}", spec, status=status, labels=labels, ownerReferences=[owner])
        pods.append(pod)
    return pods


def test_job_is_placed_once_work_ends_and_nodes_come_as_foreseen(kube_scheduler: ApiUnderTest, folder: Path) -> None:
    answers = set()
    for seed in seeds(100, per_seed=5):
        rng = random.Random(seed)
        cluster = labelled_cluster(rng)
        rack = {clusters.RACK: "r-new"}
        jobs = [clusters.plain_job(rng, f"plan-{seed}-{number}") for number in range(5)]
        for job in jobs[:2]:
            job["spec"]["template"]["spec"]["nodeSelector"] = rack
        snapshot, gangs, before = loaded(folder, [*cluster.nodes, *cluster.pods])
        finish = tuple(gang for gang in gangs if rng.random() < 0.5)
        like = rng.choice(cluster.nodes)
        add = NewNodes(rng.randint(1, 3), snapshot.by_name[name_of(like)], rack)

        foreseen = []
        for job in jobs:
            changes = Changes(finish=finish, add=add, admit=(job,))
            (admitted,) = whatif(snapshot, None, before, gangs, changes).admitted
            foreseen.append(admitted)

        running = without_gangs(cluster.pods, finish)
        new_nodes = [clusters.new_node(like, number, rack) for number in range(1, add.count + 1)]
        nodes = [*cluster.nodes, *new_nodes]
        play.create(kube_scheduler, [*nodes, *running])
        for job, admitted in zip(jobs, foreseen, strict=True):
            answer, message = play.on_kube_scheduler(kube_scheduler, job)
            told = f"seed {seed}: {admitted.answer} {message}\n{json.dumps(job)}"
            assert admitted.fits == (answer == "placed"), told
            answers.add(answer)
        play.remove(kube_scheduler, [*running, *nodes])
    assert_drawn({"placed", "pending"}, answers)


def without_gangs(pods: Sequence[clusters.Object], ended: Sequence[Gang]) -> list[clusters.Object]:
    """The pods that are of none of these gangs."""
    names = set()
    for gang in ended:
        names |= {pod.name for pod in gang.pods}
    return [pod for pod in pods if name_of(pod) not in names]


def test_gang_is_placed_where_moved_pods_make_room_as_foreseen(kube_scheduler: ApiUnderTest, folder: Path) -> None:
    outcomes = set()
    for seed in seeds(200, per_seed=10):
        rng = random.Random(seed)
        cluster = labelled_cluster(rng)
        depth = rng.choice((1, 2))
        per_pod = rng.choice((2, 4, 8))
        gpus = per_pod * rng.randint(1, 4)
        for pod in cluster.pods:
            pod["spec"]["tolerations"] = [clusters.GPU_TOLERATION]
        snapshot, _, before = loaded(folder, [*cluster.nodes, *cluster.pods])
        ways = freeings(
            before,
            snapshot.pods or (),
            gpus,
            per_pod=per_pod,
            like=GPUS_ALONE,
            depth=depth,
            movable=lambda _: True,
        )

        freeing = next(ways, None)

        if freeing:
            leaving = {pod.name for pod in freeing.pods}
            domain = freeing.domain
        else:
            leaving = set(names_of(cluster.pods))
            domain = rng.choice(before.paths)[:depth]
        running = [pod for pod in cluster.pods if name_of(pod) not in leaving]
        labels = dict(zip(clusters.LEVELS, domain, strict=False))
        job = clusters.gang_of(f"gang-{seed}", gpus // per_pod, per_pod, labels)
        play.create(kube_scheduler, [*cluster.nodes, *running])
        answer, message = play.on_kube_scheduler(kube_scheduler, job)
        assert (answer == "placed") == bool(freeing), f"seed {seed}: {domain} {leaving} {message}"
        outcomes.add((answer, len(running) < len(cluster.pods)))
        play.remove(kube_scheduler, [*running, *cluster.nodes])
    assert_drawn({("placed", True), ("placed", False), ("pending", True)}, outcomes)


def test_workload_is_admitted_by_kueue_after_a_drain_as_foreseen(kueue: ApiUnderTest, folder: Path) -> None:
    answers = set()
    for seed in seeds(100, per_seed=10):
        rng = random.Random(seed)
        cluster = labelled_cluster(rng)
        queue = f"plan-{seed}"
        own = clusters.kueue_objects(rng, queue)
        objects = [
            *cluster.nodes,
            *cluster.pods,
            *clusters.kueue_topologies(),
            clusters.limit_range(),
            *own,
        ]
        play.create(kueue, own)
        drained = rng.choice(names_of(cluster.nodes))
        workloads = [clusters.kueue_workload(rng, f"p-{seed}-{number}", queue) for number in range(5)]

        foreseen = [foreseen_drain(folder, objects, drained, [workload]) for workload in workloads]

        pods = after_drain(cluster.pods, drained, foreseen[0])
        play.create(kueue, [*with_cordoned(cluster.nodes, drained), *pods])
        for workload, plan in zip(workloads, foreseen, strict=True):
            answer, message = play.on_kueue(kueue, workload, flavors=3)
            fits = bool(plan.admitted) and all(admitted.fits for admitted in plan.admitted)
            expected = [admitted.answer for admitted in plan.admitted]
            told = f"seed {seed}: {expected}, but {answer}: {message}\n{json.dumps(workload)}"
            assert fits == (answer == "placed"), told
            answers.add(answer)
        play.remove(kueue, [*pods, *cluster.nodes])
    assert_drawn({"placed", "pending"}, answers)


def after_drain(pods: Sequence[clusters.Object], drained: str, plan: WhatIf) -> list[clusters.Object]:
    """The pods that still run, on the nodes that the plan has for them."""
    moved: dict[str, str] = {}
    for gang in plan.rehomed:
        moved |= {pod.name: pod.node for pod in gang.placed}
    running = []
    for pod in pods:
        if node_of(pod) != drained or name_of(pod) in moved:
            node = moved.get(name_of(pod), node_of(pod))
            running.append({**pod, "spec": {**pod["spec"], "nodeName": node}})
    return running
