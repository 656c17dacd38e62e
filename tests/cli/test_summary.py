"""`toposcope tree --summary`: what the controller counted, without a look at the nodes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.saved import Object, cluster_topology, saved
from toposcope.cli.main import main
from toposcope.simulator.apiserver import EmbeddedApiServer
from toposcope.simulator.apiserver.requests import Request, Response
from toposcope.simulator.manifests import cluster_topology_crd

STATUS: Object = {
    "nodes": 100_000,
    "gpus": 600_000,
    "levels": [
        {"domain": "zone", "key": "z", "domains": 4, "nodes": 100_000, "missing": 0, "available": True},
        {"domain": "rack", "key": "r", "domains": 9_091, "nodes": 99_998, "missing": 2, "available": True},
        {"domain": "host", "key": "kubernetes.io/hostname", "domains": 100_000, "nodes": 100_000, "missing": 0,
         "available": False},
    ],
    "conditions": [
        {"type": "FabricHealthy", "status": "False", "reason": "NodesDegraded", "message": "3 nodes are degraded"},
        {"type": "Ready", "status": "False", "reason": "NotAll", "message": "see the others"},
    ],
}  # fmt: skip
PAGE = """\
ClusterTopology cluster: zone > rack > host (by the controller's last count)
cluster: 100,000 nodes, 600,000 GPUs
└─ 4 zones, 25,000.0 nodes each on average
   └─ 9,091 racks, 11.0 nodes each on average  ! 2 nodes without it
      └─ 100,000 hosts  ! not available
! FabricHealthy=False (NodesDegraded): 3 nodes are degraded
"""


def test_of_a_running_cluster_it_takes_one_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []
    with EmbeddedApiServer() as server:
        server.load([cluster_topology_crd(), cluster_topology(STATUS)])
        server.write_kubeconfig(tmp_path / "kubeconfig")
        handle = server.api.handle

        def journal(request: Request) -> Response:
            asked.append(request.path)
            return handle(request)

        server.api.handle = journal  # type: ignore[method-assign]  # the one place that every request passes
        assert main(["tree", "--summary", "--kubeconfig", str(tmp_path / "kubeconfig")]) == 1
    assert capsys.readouterr().out == PAGE
    assert [path.rpartition("/")[2] for path in asked] == ["clustertopologies"]


def test_for_programs_and_without_a_controller(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.json"
    file.write_text(saved([cluster_topology(STATUS)]))
    main(["tree", "--summary", "--from", str(file), "-o", "json"])
    found = json.loads(capsys.readouterr().out)
    assert (found["origin"], found["nodes"], found["gpus"]) == ("status", 100_000, 600_000)
    assert found["levels"][1] == {
        "domain": "rack", "key": "r", "domains": 9_091, "nodes": 99_998, "missing": 2, "available": True,
    }  # fmt: skip
    file.write_text(saved([cluster_topology()]))
    assert main(["tree", "--summary", "--from", str(file)]) == 2
    assert "no controller has written its counts yet; run it without --summary" in capsys.readouterr().err
