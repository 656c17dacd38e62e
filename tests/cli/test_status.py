"""`toposcope status`: one screen, whatever is wrong."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command, write_cluster
from tests.support.api import NODES, ApiUnderTest, create_namespace
from tests.support.saved import cluster_topology, demo_nodes, pod
from tests.support.tables import each_case
from toposcope.simulator.apiserver import EmbeddedApiServer

LEASES = "/apis/coordination.k8s.io/v1/namespaces/toposcope-system/leases"
NEXT = {
    "LevelsCovered": "toposcope nodes --state left-out",
    "HierarchyConsistent": "toposcope levels cluster",
    "Published": "kubectl describe gtopo cluster",
}


def reported(conditions: list[tuple[str, str]]) -> dict[str, Any]:
    entry = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "name": "cluster", "inSync": False}
    all_of_them = [
        {"type": kind, "status": status, "reason": "SomeReason", "message": "many words, " * 60}
        for kind, status in (("Ready", "False"), *conditions)
    ]
    all_of_them.append({"type": "RailsConsistent", "status": "Unknown", "reason": "NoRails", "message": "no trouble"})
    return {**cluster_topology(), "status": {"conditions": all_of_them, "published": [entry] * 9}}


@pytest.mark.regression
@each_case("tables/cli.yaml")
def test_one_screen_says_it(told: dict[str, str], code: int, tmp_path: Path, toposcope: Command) -> None:
    conditions = list(told.items())
    topology = reported(conditions)
    cluster = write_cluster(tmp_path / "cluster.json", *demo_nodes(), pod("one", "gb200-01", 4), topology)
    lines = toposcope(f"status --from {cluster}", code=code).out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert lines[2] == "  nodes       30 with 152 GPUs"
    assert "  published   Topology.kai.scheduler (not in sync), " in lines[4]
    wrong = sorted(
        ((kind, status) for kind, status in conditions if status != "True"), key=lambda said: said[1] != "False"
    )
    shown = [line.split("=")[0].removeprefix("! ") for line in lines if line.startswith("! ")]
    assert shown == [kind for kind, _ in wrong[: len(shown)]]
    assert len(shown) == len(wrong) or lines[-1] == f"and {len(wrong) - len(shown)} more: toposcope status -o wide"
    for kind in shown:
        assert f"  next: {NEXT.get(kind, 'kubectl describe gtopo cluster')}" in lines
    document = toposcope(f"status gtopo/cluster -o json --from {cluster}", code=code).json
    assert (document["healthy"], len(document["findings"])) == (code == 0, len(wrong))
    names = toposcope(f"status -o name --from {cluster}", code=code).out.split()
    assert names == [f"{kind}={status}" for kind, status in wrong]


@pytest.mark.regression
@pytest.mark.parametrize(("seconds", "lost"), [(3, False), (600, True), (None, True)])
def test_a_controller_is_lost_by_lease(seconds: int | None, lost: bool, tmp_path: Path, toposcope: Command) -> None:
    with EmbeddedApiServer() as server:
        api = ApiUnderTest.of_embedded(server, tmp_path)
        api.create(NODES, demo_nodes(most=1)[0])
        renewed = datetime.now(UTC) - timedelta(seconds=seconds or 0)
        spec = {"holderIdentity": "c-0", "leaseDurationSeconds": 15, "renewTime": renewed.isoformat()}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "toposcope-controller"}}
        if seconds is not None:
            create_namespace(api, "toposcope-system")
            api.create(LEASES, {**lease, "spec": spec})
        ran = toposcope(f"status --kubeconfig {tmp_path / 'kubeconfig'}", code=1)
    assert ("! controller: " in ran.out) == lost
    assert "! topology: there is no ClusterTopology" in ran.out


@pytest.mark.parametrize("command", ["status", "levels", "tree"])
def test_commands_say_where_status_and_labels_disagree_about_the_levels(
    command: str, tmp_path: Path, toposcope: Command
) -> None:
    level = {"domain": "host", "key": "kubernetes.io/hostname"}
    topology = cluster_topology({"observedGeneration": 1, "levels": [level]})
    topology["metadata"]["generation"] = 1
    cluster = write_cluster(tmp_path / "cluster.json", *demo_nodes(), topology)
    ran = toposcope(f"{command} --from {cluster}", code=None)
    assert "note: these are the levels of the controller's status; by labels they are" in ran.out
    assert "host" in ran.out
    document = toposcope(f"{command} -o json --from {cluster}", code=None).json
    assert document["note"].startswith("these are the levels of the controller's status")
    assert len(document["levels"]) >= 1
    topology["metadata"]["generation"] = 2
    cluster = write_cluster(tmp_path / "cluster.json", *demo_nodes(), topology)
    assert "controller's status is not of" in toposcope(f"{command} --from {cluster}", code=None).out
