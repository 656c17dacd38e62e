"""`toposcope status`: one screen, whatever is wrong."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.cli.clusters import SavedCluster
from tests.cli.conftest import Command, CommandOnCluster, Ran, write_cluster
from tests.support.api import NODES, ApiUnderTest, create_namespace
from tests.support.saved import Object, cluster_topology, demo_nodes, pod
from toposcope.simulator.apiserver import EmbeddedApiServer

LEASES = "/apis/coordination.k8s.io/v1/namespaces/toposcope-system/leases"
MANY_WORDS = "many words, " * 60
MANY_PROBLEMS = {f"C{number}": "False" for number in range(12)}
Status = Callable[..., Ran]


def condition(kind: str, status: str, message: str = MANY_WORDS) -> Object:
    """One that has, by default, more words than a screen is wide."""
    return {
        "type": kind,
        "status": status,
        "reason": "SomeReason",
        "message": message,
    }


@pytest.fixture
def status(tmp_path: Path, toposcope: Command) -> Status:
    """`toposcope status` of a cluster whose topology has these conditions, and is not in sync anywhere."""

    def run(conditions: dict[str, str], flags: str = "", *, code: int = 1, message: str = MANY_WORDS) -> Ran:
        told = [condition("Ready", "False")]
        told += [condition(kind, status, message) for kind, status in conditions.items()]
        told.append(
            {
                "type": "RailsConsistent",
                "status": "Unknown",
                "reason": "NoRails",
                "message": "no trouble",
            }
        )
        published = {
            "apiVersion": "kai.scheduler/v1alpha1",
            "kind": "Topology",
            "name": "cluster",
            "inSync": False,
        }
        topology = cluster_topology({"conditions": told, "published": [published] * 9})
        file = write_cluster(tmp_path / "cluster.json", *demo_nodes(), pod("one", "gb200-01", 4), topology)
        return toposcope(f"status {flags} --from {file}", code=code)

    return run


def assert_fits_one_screen(lines: list[str]) -> None:
    """24 lines of 80 columns, with nodes and what is published."""
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert lines[2] == "  nodes       30 with 152 GPUs"
    assert "  published   Topology.kai.scheduler (not in sync), " in lines[4]


def problems(lines: list[str]) -> list[str]:
    """The conditions that are shown as problems."""
    return [line.split("=")[0].removeprefix("! ") for line in lines if line.startswith("! ")]


@pytest.mark.regression
def test_healthy_cluster_has_no_problems(status: Status) -> None:
    lines = status({"LevelsCovered": "True"}, code=0).out.splitlines()
    assert_fits_one_screen(lines)
    assert problems(lines) == []


@pytest.mark.regression
def test_problems_come_with_the_command_to_run_next(status: Status) -> None:
    conditions = {"LevelsCovered": "False", "HierarchyConsistent": "False", "Published": "False"}
    lines = status(conditions).out.splitlines()
    assert_fits_one_screen(lines)
    assert problems(lines) == ["LevelsCovered", "HierarchyConsistent", "Published"]
    assert "  next: toposcope nodes --state left-out" in lines
    assert "  next: toposcope levels cluster" in lines
    assert "  next: kubectl describe gtopo cluster" in lines


@pytest.mark.regression
def test_message_is_cut_between_clauses(status: Status) -> None:
    message = (
        "rack 'r1' lies under block 'b1' and 'b2'; Grove, KAI and Kueue treat it as one rack domain in each, "
        "kube-scheduler's gangs and pod affinity as a single one; list them in spec.levels the other way round"
    )
    lines = status({"HierarchyConsistent": "False"}, message=message).out.splitlines()
    shown = lines[lines.index("  next: toposcope levels cluster") - 2 :]
    assert shown[:2] == [
        "! HierarchyConsistent=False: SomeReason: rack 'r1' lies under block 'b1' and",
        "  'b2'; ...",
    ]


@pytest.mark.regression
def test_clause_without_a_comma_is_not_cut(status: Status) -> None:
    message = "no node " * 30 + "has a fault"
    out = status({"LevelsCovered": "False"}, message=message).out
    assert message in " ".join(out.split())


@pytest.mark.regression
def test_unknown_conditions_come_after_false_ones(status: Status) -> None:
    lines = status({"Published": "Unknown", "LevelsCovered": "False"}).out.splitlines()
    assert_fits_one_screen(lines)
    assert problems(lines) == ["LevelsCovered", "Published"]
    assert "  next: toposcope nodes --state left-out" in lines
    assert "  next: kubectl describe gtopo cluster" in lines


@pytest.mark.regression
def test_problems_beyond_one_screen_are_counted(status: Status) -> None:
    lines = status(MANY_PROBLEMS).out.splitlines()
    assert_fits_one_screen(lines)
    shown = problems(lines)
    assert shown == list(MANY_PROBLEMS)[: len(shown)]
    assert len(shown) < 12
    assert "  next: kubectl describe gtopo cluster" in lines
    assert lines[-1] == f"and {12 - len(shown)} more: toposcope status -o wide"


@pytest.mark.regression
@pytest.mark.parametrize(
    ("conditions", "names"),
    [
        pytest.param({"LevelsCovered": "True"}, [], id="healthy"),
        pytest.param(
            {"Published": "Unknown", "LevelsCovered": "False"},
            ["LevelsCovered=False", "Published=Unknown"],
            id="false-and-unknown",
        ),
        pytest.param(
            {"LevelsCovered": "False", "HierarchyConsistent": "False", "Published": "False"},
            ["LevelsCovered=False", "HierarchyConsistent=False", "Published=False"],
            id="three",
        ),
        pytest.param(MANY_PROBLEMS, [f"{kind}=False" for kind in MANY_PROBLEMS], id="many"),
    ],
)
def test_status_for_scripts_has_every_problem(conditions: dict[str, str], names: list[str], status: Status) -> None:
    code = 1 if names else 0
    document = status(conditions, "gtopo/cluster -o json", code=code).json
    assert document["healthy"] == (names == [])
    assert len(document["findings"]) == len(names)
    assert status(conditions, "-o name", code=code).out.split() == names


@pytest.mark.regression
@pytest.mark.parametrize(
    ("seconds", "is_lost"),
    [
        pytest.param(3, False, id="renewed"),
        pytest.param(600, True, id="expired"),
        pytest.param(None, True, id="no-lease"),
    ],
)
def test_controller_is_lost_by_its_lease(
    seconds: int | None, is_lost: bool, tmp_path: Path, toposcope: Command
) -> None:
    with EmbeddedApiServer() as server:
        api = ApiUnderTest.of_embedded(server, tmp_path)
        api.create(NODES, demo_nodes(most=1)[0])
        if seconds is not None:
            create_namespace(api, "toposcope-system")
            api.create(LEASES, lease(renewed=datetime.now(UTC) - timedelta(seconds=seconds)))
        ran = toposcope(f"status --kubeconfig {tmp_path / 'kubeconfig'}", code=1)
    assert ("! controller: " in ran.out) == is_lost
    assert "! topology: there is no ClusterTopology" in ran.out


def lease(*, renewed: datetime) -> Object:
    """The controller's Lease."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "toposcope-controller"},
        "spec": {"holderIdentity": "c-0", "leaseDurationSeconds": 15, "renewTime": renewed.isoformat()},
    }


@pytest.mark.parametrize("command", ["status", "levels", "tree"])
def test_levels_of_the_status_that_labels_do_not_have_are_noted(
    command: str, tmp_path: Path, toposcope: Command
) -> None:
    topology = topology_with_one_level(generation=1)
    cluster = write_cluster(tmp_path / "cluster.json", *demo_nodes(), topology)
    ran = toposcope(f"{command} --from {cluster}", code=None)
    assert "note: the levels are those of the controller's status; node labels say" in ran.out
    assert "host" in ran.out
    document = toposcope(f"{command} -o json --from {cluster}", code=None).json
    assert document["note"].startswith("the levels are those of the controller's status")
    assert len(document["levels"]) >= 1


@pytest.mark.parametrize("command", ["status", "levels", "tree"])
def test_levels_of_an_outdated_status_are_noted(command: str, tmp_path: Path, toposcope: Command) -> None:
    topology = topology_with_one_level(generation=2)
    cluster = write_cluster(tmp_path / "cluster.json", *demo_nodes(), topology)
    ran = toposcope(f"{command} --from {cluster}", code=None)
    assert "controller's status is of an earlier spec" in " ".join(ran.out.split())


def topology_with_one_level(*, generation: int) -> Object:
    """A controller saw its first generation, with the level host alone."""
    level = {"domain": "host", "key": "kubernetes.io/hostname"}
    topology = cluster_topology({"observedGeneration": 1, "levels": [level]})
    topology["metadata"]["generation"] = generation
    return topology


def troubled_without_topology() -> SavedCluster:
    """The demo's nodes: three degraded, two that do not answer, one without a rack, and no ClusterTopology."""
    cluster = SavedCluster()
    states = ["degraded", "degraded", "degraded", "unknown", "unknown"]
    for name, state in zip(sorted(cluster.nodes), states, strict=False):
        cluster.nodes[name]["metadata"]["labels"]["gpu.topology/state"] = state
    del cluster.nodes["h200-8"]["metadata"]["labels"]["cloud.google.com/gce-topology-subblock"]
    return cluster


@pytest.mark.regression
def test_every_trouble_counts_without_a_topology(toposcope_on: CommandOnCluster) -> None:
    lines = toposcope_on(troubled_without_topology, "status", code=1).out.splitlines()
    assert lines[0] == "no ClusterTopology: 4 problems"
    found = lines[lines.index("  next: toposcope suggest") + 1 :]
    assert found == [
        "! nodes: 3 nodes degraded: gb200-01, gb200-02, gb200-03",
        "  next: toposcope nodes --state degraded",
        "! nodes: 2 nodes whose hardware does not answer: gb200-04, gb200-05",
        "  next: toposcope nodes --state unknown",
        "! nodes: 1 node missing a level that others have: h200-8",
        "  next: toposcope nodes --state left-out",
    ]


def without_gpus() -> SavedCluster:
    cluster = SavedCluster(most=0)
    node = cluster.add_node("cpu-1", {"kubernetes.io/hostname": "cpu-1"})
    node["status"]["allocatable"] = {"cpu": "8"}
    return cluster


@pytest.mark.regression
def test_status_sends_nobody_to_a_suggestion_that_there_is_not(toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(without_gpus, "status", code=1).out
    assert "  next: kubectl get pods -A -o wide -l app.kubernetes.io/component=agent\n" in out
    assert "suggest" not in out


@pytest.mark.regression
def test_agents_that_are_not_ready_are_shown_by_kubectl(tmp_path: Path, toposcope: Command) -> None:
    reported = {
        "type": "AgentsReporting",
        "status": "False",
        "reason": "AgentsNotReady",
        "message": "1 agent is not Ready: gb200-01 (CrashLoopBackOff)",
    }
    file = write_cluster(tmp_path / "cluster.json", *demo_nodes(), cluster_topology({"conditions": [reported]}))
    lines = toposcope(f"status --from {file}", code=1).out.splitlines()
    assert "  next: kubectl get pods -A -o wide -l app.kubernetes.io/component=agent" in lines


def before_agents() -> SavedCluster:
    """Two nodes with GPUs that no agent has labelled."""
    cluster = SavedCluster(most=0)
    for name in ("n0", "n1"):
        cluster.add_node(name, {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "z"})
    return cluster


def before_agents_with_a_dead_node() -> SavedCluster:
    cluster = before_agents()
    cluster.nodes["n1"]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    return cluster


@pytest.mark.regression
def test_cluster_before_its_agents_is_healthy(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(before_agents, "status")
    assert ran.out.splitlines() == [
        "no ClusterTopology: healthy",
        "  controller  not known from files",
        "  nodes       2 with 16 GPUs",
        "  levels      zone > host",
        "  published   nothing",
        "note: no agent has labelled the nodes with gpu.topology/gpus yet: levels come",
        "      from other labels, and NVLink domains and the health of GPUs are not known",
        "  next: toposcope suggest",
    ]
    assert toposcope_on(before_agents, "status -o json").json["states"] == {}


@pytest.mark.regression
def test_node_that_is_not_ready_is_a_problem_before_agents(toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(before_agents_with_a_dead_node, "status", code=1).out
    assert "! nodes: 1 node not Ready: n1\n  next: toposcope nodes --state not-ready\n" in out


@pytest.mark.regression
def test_tree_before_agents_marks_no_node(toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(before_agents, "tree --no-pods").out
    assert "no-agent" not in out
    assert "2 hosts, each 8 GPUs: n0, n1" in out
    assert "note: no agent has labelled the nodes with gpu.topology/gpus yet" in out
