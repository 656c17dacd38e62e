"""What the page's server says of plans, and what it exports of them."""

import random
from collections.abc import Collection
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.planning import clusters
from tests.planning.clusters import RACK, at_random, capacity, cluster, node, pods
from tests.ui.serving import InThisProcess, ManualRuntime, Nodes, served
from toposcope.api.levels import Level
from toposcope.integrations.framework import packing
from toposcope.integrations.framework.node_affinity import Taint
from toposcope.integrations.grove.api import GANG
from toposcope.integrations.kueue.api import REQUIRED
from toposcope.planning.capacity import Capacity
from toposcope.planning.gangs import Gang
from toposcope.planning.required import RequiredLevels
from toposcope.planning.score import better_place, scores
from toposcope.snapshot.model import Snapshot
from toposcope.ui.facts import Facts
from toposcope.ui.metrics import PlanningMetrics
from toposcope.ui.planning import drained, overview, plan_of
from toposcope.ui.protocol import KeptRow
from toposcope.ui.questions import NoPlanError
from toposcope.ui.saved import EXPECTED

RACKS = [node(f"n{i}", f"b{i // 4}", f"r{i // 2}") for i in range(8)]
APART = cluster(RACKS, [*pods("apart", "n0", "n2"), *pods("close", "n4", "n5")])


def samples(metrics: PlanningMetrics) -> dict[tuple[str, ...], float]:
    page, *_ = metrics.page()
    found = {}
    for family in text_string_to_metric_families(page.decode()):
        for sample in family.samples:
            name = sample.name.removeprefix("toposcope_planning_")
            labels = sorted(sample.labels.items())
            values = [value for _, value in labels]
            found[name, *values] = sample.value
    return found


def test_metrics_of_scores_and_slots() -> None:
    ticks = ManualRuntime()
    ticks.unix = 1000.0
    running = [APART]
    metrics = PlanningMetrics(InThisProcess(lambda: running[0]), 1, runtime=ticks)
    metrics.count()
    found = samples(metrics)
    assert found["gang_score_count", "rack", "kueue", "cluster"] == 2
    assert found["gang_score_bucket", "rack", "0.5", "kueue", "cluster"] == 1
    assert found["gang_score_sum", "rack", "kueue", "cluster"] == 1.5
    assert found["misplaced_gangs", "kueue", "cluster"] == 1
    assert found["misplaced_since_timestamp_seconds", "kueue", "cluster"] == 1000
    assert found["worst_gang_score", "apart", "Job", "ml", "kueue", "cluster"] == 0.75
    assert ("slots", "rack", "16", "cluster", "now") in found
    assert found["unusable_ratio", "rack", "16", "cluster"] == 0.5
    ticks.unix = 4600.0
    metrics.count()
    assert samples(metrics)["misplaced_since_timestamp_seconds", "kueue", "cluster"] == 1000
    running[0] = cluster(RACKS, pods("close", "n4", "n5"))
    metrics.count()
    found = samples(metrics)
    assert found["misplaced_gangs", "kueue", "cluster"] == 0
    assert ("misplaced_since_timestamp_seconds", "kueue", "cluster") not in found
    assert found["last_run_timestamp_seconds",] == 4600


def test_gangs_that_require_a_level_are_counted_by_result() -> None:
    running = []
    for pod in [*pods("apart", "n0", "n2"), *pods("close", "n4", "n5")]:
        running.append(msgspec.structs.replace(pod, annotations={REQUIRED: RACK}))
    metrics = PlanningMetrics(InThisProcess(lambda: cluster(RACKS, running)), 1)
    metrics.count()
    found = samples(metrics)
    assert found["gang_placement_kept", "MATCH", "cluster"] == 1
    assert found["gang_placement_kept", "VIOLATION", "cluster"] == 1
    assert found["gang_placement_kept", "UNOBSERVABLE", "cluster"] == 0


def test_page_lists_gangs_that_do_not_keep_their_level() -> None:
    running = []
    for pod in [*pods("apart", "n0", "n2"), *pods("close", "n4", "n5"), *pods("gone", "n6", "n99")]:
        running.append(msgspec.structs.replace(pod, annotations={REQUIRED: RACK}))
    planning = overview(plan_of(cluster(RACKS, running), None))
    violation, unobservable = planning.kept

    assert (planning.violations, planning.unobservable, planning.matches) == (1, 1, 1)
    assert violation == KeptRow(
        kind="Job",
        name="ml/apart",
        gpus=16,
        result="VIOLATION",
        lines=[
            ("one example.com/rack required: VIOLATION; pod/apart-0 on n0 is in b0/r0, pod/apart-1 on n2 is in b0/r1")
        ],
        advice=[
            (
                "cause: its scheduler placed it in several domains, or the label of a node changed after that; "
                "the pods do not say which"
            ),
            "fix: correct the label if it is wrong; else restart the gang after a checkpoint",
        ],
    )
    assert unobservable.lines == ["one example.com/rack required: UNOBSERVABLE; node n99 of pod/gone-1 is gone"]
    assert unobservable.advice == []


def test_schedulers_and_named_gangs_are_few() -> None:
    many = []
    for job in range(12):
        for pod in pods(f"g{job}", "n0", "n2", gpus=1):
            of_scheduler = msgspec.structs.replace(pod, scheduler=f"s{job}")
            many.append(of_scheduler)
    nodes = [node(f"n{i}", "b", f"r{i}", 32) for i in range(4)]
    running = cluster(nodes, many)
    metrics = PlanningMetrics(InThisProcess(lambda: running), 0)
    metrics.count()
    schedulers = set()
    for name, *labels in samples(metrics):
        assert name != "worst_gang_score"
        if name == "misplaced_gangs":
            schedulers.add(labels[0])
    assert len(schedulers) == 11
    assert "_other" in schedulers


def test_cluster_without_pods_has_no_plans() -> None:
    unknown = Snapshot("test", None, tuple(RACKS), None, APART.topologies)
    metrics = PlanningMetrics(InThisProcess(lambda: unknown))
    with pytest.raises(NoPlanError, match="pods cannot be read"):
        metrics.count()
    with pytest.raises(NoPlanError, match="choose one"):
        plan_of(APART, "cluster/segment")


@pytest.mark.regression
def test_drain_goes_by_what_the_gang_s_object_requires() -> None:
    required = RequiredLevels()
    gang = []
    for pod in pods("g", "n0", "n1"):
        labels = {"grove.io/podgang": "g"}
        of_gang = msgspec.structs.replace(pod, owner=None, labels=labels)
        gang.append(of_gang)
    others = pods("others", "n3", "n5", "n7")
    running = cluster(RACKS, [*gang, *others])
    plan = plan_of(running, "cluster", required)
    before = drained(plan, (), "n0")
    assert "spreads" in before.gangs[0].text

    pack = {"packConstraint": {"required": RACK}}
    pod_gang = {
        "apiVersion": f"{GANG.group}/v1alpha1",
        "kind": GANG.kind,
        "metadata": {"namespace": "ml", "name": "g"},
        "spec": {"topologyConstraint": pack},
    }
    required.put(pod_gang)
    required.warnings.append("something must not be listed")
    plan = plan_of(running, "cluster", required)
    after = drained(plan, (), "n0")
    assert "waits, as no rack has room" in after.gangs[0].text
    assert after.warnings == required.warnings


def facts_of(snapshot: Snapshot) -> Facts:
    """Everything of a cluster, read."""
    facts = Facts("test", EXPECTED, lambda: None)
    facts.replace_nodes({node.name: (node, "") for node in snapshot.nodes})
    facts.replace_pods({f"{pod.namespace}/{pod.name}": pod for pod in snapshot.pods or ()})
    facts.replace_topologies({topology.name: topology for topology in snapshot.topologies})
    for name in EXPECTED:
        facts.mark_synced(name)
    return facts


@pytest.mark.regression
def test_free_gpus_of_a_node_without_cpu_are_blocked(tmp_path: Path) -> None:
    """On nodes of 64 millicores: pods with GPUs request 16 of them, and one without GPUs leaves 8."""
    train = clusters.pod("train", 0, "n0", cpu=16)
    web = clusters.pod("web", 0, "n1", 0, cpu=56, kind="Deployment")
    busy = cluster(RACKS[:2], [train, web])
    metrics = PlanningMetrics(InThisProcess(lambda: busy), 1, runtime=ManualRuntime())
    metrics.count()
    found = samples(metrics)
    assert found["reachable_gpus", "cluster"] == 0
    assert found["blocked_gpus", "cpu", "cluster"] == 8
    assert found["blocked_gpus", "memory", "cluster"] == 0

    with served(tmp_path, facts_of(busy), Nodes()) as server:
        planning = server.get("/api/planning?view=cluster")
        assert planning["pod"] == "8 GPUs and 0.016 CPU cores"
        assert planning["reachable"] == 0
        assert planning["blocked"] == [
            "8 GPUs on 1 node (n1), where too little CPU is left: ml/web-0 holds it",
        ]


def test_page_asks_for_a_plan(tmp_path: Path) -> None:
    with served(tmp_path, facts_of(APART), Nodes()) as server:
        planning = server.get("/api/planning?view=cluster")
        assert planning["perPod"] == 8
        assert planning["scored"] == 2
        assert planning["gangs"] == [
            {
                "kind": "Job",
                "name": "ml/apart",
                "gpus": 16,
                "score": 0.75,
                "better": True,
                "spans": "rack 2, could be 1",
            }
        ]
        assert {
            "gpus": 16,
            "domain": "rack",
            "now": 1,
            "ended": 4,
            "empty": 4,
            "unusable": 0.5,
        } in planning["slots"]
        gang = server.get("/api/gang?view=cluster&kind=Job&name=ml/apart")
        assert gang == {
            "nodes": ["n0", "n2"],
            "level": "rack",
            "better": [["b0", "r0"]],
        }
        drain = server.get("/api/drain?view=cluster&in=b0/r0")
        assert drain["nodes"] == 2
        fate = "ml/apart (Job, 16 GPUs, 1 of 2 pods): finds other nodes in the same block"
        assert drain["gangs"] == [{"text": fate, "worse": False}]
        assert {
            "gpus": 16,
            "domain": "block",
            "before": 2,
            "after": 1,
        } in drain["slots"]
        drain_of_a_node = server.get("/api/drain?view=cluster&node=n7")
        assert drain_of_a_node["nodes"] == 1
        assert server.status("/api/gang?view=cluster&kind=Job&name=ml/gone") == 404
        assert server.status("/api/drain?view=cluster&in=b9") == 404
        assert server.status("/api/planning?view=x/y") == 404


def gpus_for(gang: Gang, table: Capacity, level: Level, domains: Collection[packing.Path]) -> int:
    """GPUs in these domains of a level that the gang could take: those that are free, and its own."""
    depth = table.levels.index(level) + 1
    free = {}
    for offered, path in zip(table.nodes, table.paths, strict=True):
        if path[:depth] in domains and not offered.obstacle:
            free[offered.name] = offered.free["nvidia.com/gpu"]
    own = 0
    for pod in gang.placed:
        if pod.node in free:
            own += pod.requests["nvidia.com/gpu"]
    return sum(free.values()) + own


@pytest.mark.parametrize("seed", range(40))
def test_better_place_holds_the_gang_in_as_few_domains_as_the_score_says(seed: int) -> None:
    table, gangs = capacity(at_random(random.Random(seed)))
    for score in scores(table, gangs):
        place = better_place(table, score)
        assert bool(place) == score.can_improve
        if not place:
            continue
        level, domains = place
        (spread,) = [spread for spread in score.spreads if spread.level == level]
        assert len(domains) == spread.now
        assert len(set(domains)) == spread.now
        assert gpus_for(score.gang, table, level, domains) >= score.gang.gpus


@pytest.mark.regression
def test_page_says_which_nodes_planning_does_not_count() -> None:
    dedicated = Taint("dedicated", "ml", "NoSchedule")
    tainted = msgspec.structs.replace(node("n9", "b0", "r0"), taints=(dedicated,))
    found = overview(plan_of(cluster([node("n0", "b0", "r0"), tainted]), None))
    assert found.blocked == []
    (sentence,) = found.uncounted
    assert sentence == (
        "not counted: 8 GPUs on 1 node (n9) that has the taint dedicated=ml:NoSchedule, "
        "except for gangs that tolerate it"
    )
