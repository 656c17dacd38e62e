"""`toposcope check` with documents that are no objects of the Kubernetes API."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command, page
from tests.support.paths import FIXTURES
from tests.support.saved import cluster_topology, demo_nodes, saved

RACK = "cloud.google.com/gce-topology-subblock"
WORKFLOW = (FIXTURES / "configurations.yaml").read_text()


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    file = tmp_path / "cluster.json"
    nodes = demo_nodes(most=4)
    for node in nodes:
        node["metadata"]["labels"]["nvidia.com/gpu.clique"] = "a.1"
    file.write_text(saved([*nodes, cluster_topology()]))
    return str(file)


def test_a_pool_in_the_same_run(cluster: str, tmp_path: Path, toposcope: Command) -> None:
    file = tmp_path / "workflow.yaml"
    file.write_text(WORKFLOW)
    assert toposcope(f"check -f {file} --from {cluster}", code=1).out == page("configurations.txt").format(file=file)
    # A pool in a file of its own, as OSMO prints it.
    workflow, _, pool = WORKFLOW.replace("rak\n", "rack\n").partition("---\n")
    file.write_text(workflow)
    configured = tmp_path / "pool.json"
    keys = [{"key": "rack", "label": RACK}]
    configured.write_text(json.dumps({"pools": {"gb200": {"topology_keys": keys}}}, indent=2))
    assert pool
    assert "fits: rack rack-1 (4 nodes, " in toposcope(f"check -f {file} -f {configured} --from {cluster}").out


def test_a_document_of_unknown_kind_is_reported(cluster: str, tmp_path: Path, toposcope: Command) -> None:
    file = tmp_path / "some.yaml"
    file.write_text("what: is this\n---\n" + WORKFLOW.partition("---\n")[0].replace("rak\n", "rack\n"))
    shown = toposcope(f"check -f {file} --from {cluster}", code=2)
    assert f"{file}, document 1, line 1: kind: is missing; what object is this?" in shown.err
    assert "workflow/train" in shown.out
