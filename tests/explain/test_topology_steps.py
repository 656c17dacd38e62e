"""A topology that exists, but not as its scheduler reads it, and levels that a ClusterTopology has lost."""

from pathlib import Path

import pytest
from tests.explain.explained import Explain, failed
from tests.explain.waiting import (
    HOST,
    LEVELS,
    NODES,
    RACK,
    ZONE,
    Object,
    WaitingCluster,
    cluster_topology,
    condition,
    kai_job,
    kai_topology,
    levels_of,
    untried_grove_set,
)
from toposcope.explain.context import Context
from toposcope.explain.object_store import FileCollector
from toposcope.explain.topology_steps import check_topology
from toposcope.integrations.framework.features import CheckStep, Ref
from toposcope.snapshot.files import load_files

RACK_IS_GONE = "Topology level 'rack' is no longer available in the cluster topology"
RACK_IS_LOST = f"ClusterTopology cluster: {RACK_IS_GONE}"
NOT_KEPT = "no node carries its label any more; restore the label, or ask for another level"
WITHOUT_RACK = {"zone": ZONE, "host": HOST}


# What KAI reads, where all kinds could be read: what is not there does not exist


def kai_job_without_kai_topology(*others: Object) -> WaitingCluster:
    """A Job of KAI that asks for a rack of the topology `cluster`, of which KAI has none."""
    cluster = kai_job()
    cluster.remove("Topology/cluster")
    cluster.add(*others)
    return cluster


def topology_step(folder: Path, cluster: WaitingCluster) -> CheckStep:
    """The step about the topology of the Job `train`, where the API server serves every kind."""
    collector = FileCollector(None)
    snapshot = load_files([str(cluster.save(folder))], others=collector)
    store = collector.store()
    store.unread.clear()
    job = Ref("batch", "Job", "ml", "train")
    return check_topology(Context(snapshot, store, job))


def published(kind: str, message: str) -> Object:
    """What a ClusterTopology's status says of a resource that it publishes."""
    return {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": kind,
        "name": "cluster",
        "inSync": False,
        "message": message,
    }


@pytest.mark.parametrize(
    ("publish", "why"),
    [
        pytest.param("Never", "ClusterTopology cluster sets spec.publish.kai: Never", id="never"),
        pytest.param("Auto", "ClusterTopology cluster exists, but is not published as Topology", id="auto"),
    ],
)
def test_missing_kai_topology_is_explained_by_what_is_published(publish: str, why: str, tmp_path: Path) -> None:
    topology = cluster_topology(levels=levels_of(LEVELS))
    topology["spec"]["publish"] = {"kai": publish}
    step = topology_step(tmp_path, kai_job_without_kai_topology(topology))

    assert step.outcome == "failed"
    assert step.message == "there is no Topology cluster for KAI to read"
    assert step.details == (why,)
    assert [str(command) for command in step.commands] == [
        "kubectl get topologies.kai.scheduler",
        "kubectl describe gtopo cluster",
    ]


def test_missing_kai_topology_is_explained_by_the_status(tmp_path: Path) -> None:
    topology = cluster_topology(levels=levels_of(LEVELS))
    topology["status"]["published"] = [
        published("ClusterTopologyBinding", "of Grove"),
        published("Topology", ""),
        published("Topology", "it belongs to somebody else"),
    ]
    step = topology_step(tmp_path, kai_job_without_kai_topology(topology))

    assert step.details == ("the ClusterTopology's status says: it belongs to somebody else",)


def test_missing_kai_topology_has_a_namesake_of_kueue(tmp_path: Path) -> None:
    namesake = kai_topology(*LEVELS.values(), name="cluster") | {"apiVersion": "kueue.x-k8s.io/v1beta2"}
    other = namesake | {"metadata": {"name": "other"}}
    step = topology_step(tmp_path, kai_job_without_kai_topology(other, namesake))

    assert step.outcome == "failed"
    assert step.details == ("topology.kueue.x-k8s.io/cluster exists, but KAI does not read it",)
    assert [str(command) for command in step.commands] == ["kubectl get topologies.kai.scheduler"]


# Levels that a ClusterTopology has lost


def losing(*domains: str) -> Object:
    """A status that reports these domains as lost."""
    unavailable = [{"domain": domain, "key": f"example.com/{domain}"} for domain in domains]
    return {
        "unavailableLevels": unavailable,
        "conditions": [condition("TopologyLevelsAvailable", "False", "TopologyLevelsUnavailable", RACK_IS_GONE)],
    }


def grove_set_without_racks(*lost: str) -> WaitingCluster:
    """A set that asks for the domain `rack`, which no node has any more, nor Grove and KAI know."""
    cluster = untried_grove_set()
    cluster.remove_rack_label(*NODES)
    cluster["ClusterTopology/cluster"]["status"] = losing(*lost)
    cluster["ClusterTopologyBinding/cluster"]["spec"]["levels"] = levels_of(WITHOUT_RACK)
    cluster["Topology/cluster"]["spec"] = kai_topology(*WITHOUT_RACK.values(), name="cluster")["spec"]
    return cluster


@pytest.mark.parametrize("lost", [["rack"], ["block", "rack"]], ids=["alone", "beside-another"])
def test_level_that_grove_misses_is_one_that_was_lost(lost: list[str], explain: Explain) -> None:
    explained = explain(grove_set_without_racks(*lost), "pcs/llm")

    assert explained.code == 1
    levels = explained.step("levels")
    assert levels.outcome == "passed"
    assert levels.message == "the topology had the level that it asks for"
    assert explained.answer == failed(
        "availability", RACK_IS_LOST, NOT_KEPT, "topology domain 'rack' does not exist in cluster topology [zone host]"
    )


def test_level_that_grove_misses_was_not_lost(explain: Explain) -> None:
    explained = explain(grove_set_without_racks("block"), "pcs/llm")

    assert explained.code == 1
    assert explained.answer.name == "levels"
    assert explained.answer.details == ["there are: host, zone"]
    availability = explained.step("availability")
    assert availability.outcome == "unknown"
    assert availability.message == "cannot be checked until the levels are right"


def test_level_that_kai_misses_is_lost_by_its_usual_label(explain: Explain) -> None:
    cluster = kai_job(message="")
    cluster.remove_rack_label(*NODES)
    topology = cluster_topology(levels=levels_of(LEVELS))
    topology["status"] = losing("rack")
    cluster.add(topology)
    cluster["Topology/cluster"]["spec"] = kai_topology(*WITHOUT_RACK.values(), name="cluster")["spec"]
    explained = explain(cluster, "job/train")

    assert explained.answer == failed(
        "availability",
        RACK_IS_LOST,
        NOT_KEPT,
        f"topology constraint error: workload specified '{RACK}' as the required topology constraint level, "
        "but the topology tree 'cluster' does not contain a level with this name",
    )


def test_levels_that_do_not_nest_are_told_beside_the_hierarchy(explain: Explain) -> None:
    cluster = kai_job(message="")
    topology = cluster_topology(levels=levels_of(LEVELS))
    tangled = condition("HierarchyConsistent", "False", "Tangled", "rack rack-3 is in two zones")
    topology["status"]["conditions"] = [tangled]
    cluster.add(topology)
    explained = explain(cluster, "job/train")

    hierarchy = explained.step("hierarchy")
    assert hierarchy.outcome == "passed"
    assert hierarchy.details == ["ClusterTopology cluster: rack rack-3 is in two zones"]
