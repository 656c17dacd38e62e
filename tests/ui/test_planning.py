"""What the page's server says of plans, and what it exports of them."""

import random
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.planning.clusters import RACK, at_random, capacity, cluster, node, pods
from tests.ui.serving import InThisProcess, ManualRuntime, Nodes, served
from toposcope.integrations.grove.api import GANG
from toposcope.planning.required import RequiredLevels
from toposcope.planning.score import better_place, scores
from toposcope.snapshot.model import Snapshot
from toposcope.ui.facts import Facts
from toposcope.ui.metrics import PlanningMetrics
from toposcope.ui.planning import NoPlanError, drained, plan_of
from toposcope.ui.saved import EXPECTED

RACKS = [node(f"n{i}", f"b{i // 4}", f"r{i // 2}") for i in range(8)]
APART = cluster(RACKS, [*pods("apart", "n0", "n2"), *pods("close", "n4", "n5")])


def samples(metrics: PlanningMetrics) -> dict[tuple[str, ...], float]:
    text = metrics.page()[0].decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = sample.name.removeprefix("toposcope_planning_")
            found[name, *(value for _, value in sorted(sample.labels.items()))] = sample.value
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


def test_schedulers_and_named_gangs_are_few() -> None:
    many = []
    for job in range(12):
        for pod in pods(f"g{job}", "n0", "n2", gpus=1):
            many.append(msgspec.structs.replace(pod, scheduler=f"s{job}"))
    running = cluster([node(f"n{i}", "b", f"r{i}", 32) for i in range(4)], many)
    metrics = PlanningMetrics(InThisProcess(lambda: running), 0)
    metrics.count()
    schedulers = {key[1] for key in samples(metrics) if key[0] == "misplaced_gangs"}
    assert len(schedulers) == 11
    assert "_other" in schedulers
    assert not [key for key in samples(metrics) if key[0] == "worst_gang_score"]


def test_cluster_without_pods_has_no_plans() -> None:
    unknown = Snapshot("test", None, tuple(RACKS), None, APART.topologies)
    with pytest.raises(NoPlanError, match="pods cannot be read"):
        PlanningMetrics(InThisProcess(lambda: unknown)).count()
    with pytest.raises(NoPlanError, match="choose one"):
        plan_of(APART, "cluster/segment")


@pytest.mark.regression
def test_drain_goes_by_what_the_gang_s_object_requires() -> None:
    required = RequiredLevels()
    gang = []
    for pod in pods("g", "n0", "n1"):
        gang.append(msgspec.structs.replace(pod, owner=None, labels={"grove.io/podgang": "g"}))
    running = cluster(RACKS, [*gang, *pods("others", "n3", "n5", "n7")])
    before = drained(plan_of(running, "cluster", required), (), "n0")
    assert "spreads" in before.gangs[0].text

    pod_gang = {
        "apiVersion": f"{GANG.group}/v1alpha1",
        "kind": GANG.kind,
        "metadata": {"namespace": "ml", "name": "g"},
        "spec": {"topologyConstraint": {"packConstraint": {"required": RACK}}},
    }
    required.put(pod_gang)
    required.warnings.append("something must not be listed")
    after = drained(plan_of(running, "cluster", required), (), "n0")
    assert "waits, as no rack has room" in after.gangs[0].text
    assert after.warnings == required.warnings


def test_page_asks_for_a_plan(tmp_path: Path) -> None:
    facts = Facts("test", EXPECTED, lambda: None)
    facts.replace_nodes({node.name: (node, "") for node in APART.nodes})
    facts.replace_pods({f"{pod.namespace}/{pod.name}": pod for pod in APART.pods or ()})
    facts.replace_topologies({topology.name: topology for topology in APART.topologies})
    for name in EXPECTED:
        facts.mark_synced(name)
    with served(tmp_path, facts, Nodes()) as server:
        status, _, planning = server.ask("/api/planning?view=cluster")
        assert status == 200
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
        _, _, gang = server.ask("/api/gang?view=cluster&kind=Job&name=ml/apart")
        assert gang == {"nodes": ["n0", "n2"], "level": "rack", "better": [["b0", "r0"]]}
        _, _, drain = server.ask("/api/drain?view=cluster&in=b0/r0")
        assert drain["nodes"] == 2
        fate = "ml/apart (Job, 16 GPUs, 1 of 2 pods): finds other nodes in the same block"
        assert drain["gangs"] == [{"text": fate, "worse": False}]
        assert {
            "gpus": 16,
            "domain": "block",
            "before": 2,
            "after": 1,
        } in drain["slots"]
        assert server.ask("/api/drain?view=cluster&node=n7")[2]["nodes"] == 1
        for question in ("gang?view=cluster&kind=Job&name=ml/gone", "drain?view=cluster&in=b9", "planning?view=x/y"):
            assert server.ask(f"/api/{question}")[0] == 404


@pytest.mark.parametrize("seed", range(40))
def test_better_place_holds_the_gang_in_as_few_domains_as_the_score_says(seed: int) -> None:
    table, gangs = capacity(at_random(random.Random(seed)))
    for score in scores(table, gangs):
        place = better_place(table, score)
        assert bool(place) == score.better_now
        if place:
            level, domains = place
            (spread,) = [spread for spread in score.spreads if spread.level == level]
            assert len(set(domains)) == len(domains) == spread.now
