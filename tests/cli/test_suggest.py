"""`toposcope suggest` from the user's side."""

from pathlib import Path

import pytest
import yaml

from tests.support.saved import Object, cluster_topology, demo_nodes, saved
from toposcope.cli.main import main

RACK = "cloud.google.com/gce-topology-subblock"


def suggest(tmp_path: Path, objects: list[Object], *arguments: str) -> int:
    file = tmp_path / "cluster.json"
    file.write_text(saved(objects))
    return main(["suggest", "--from", str(file), *arguments])


def without_racks(prefix: str) -> list[Object]:
    nodes = demo_nodes()
    for node in nodes:
        if node["metadata"]["name"].startswith(prefix):
            del node["metadata"]["labels"][RACK]
    return nodes


def test_two_kinds_are_two_documents_that_say_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert suggest(tmp_path, without_racks("l40s")) == 0
    printed = capsys.readouterr().out
    first, second = yaml.safe_load_all(printed)
    assert [document["metadata"]["name"] for document in (first, second)] == ["by-rack", "nvidia-l40s"]
    assert {"key": RACK, "operator": "DoesNotExist"} in second["spec"]["nodeSelector"]["matchExpressions"]
    assert "# 26 nodes, 136 GPUs: gb200-01, gb200-02, gb200-03, ..." in printed
    assert f"# Other nodes lack {RACK}: in one topology with these, schedulers would ignore them." in printed


def test_few_nodes_are_suspected_to_wait_for_a_label(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = without_racks("l40s-1")
    more = [{**node, "metadata": {**node["metadata"], "name": f"m{i}"}} for i in range(40) for node in nodes[:1]]
    assert suggest(tmp_path, [*nodes, *more]) == 0
    assert "# So few nodes may just be missing a label." in capsys.readouterr().out.split("---")[1]


def test_what_is_there_already_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert suggest(tmp_path, [*demo_nodes(), cluster_topology()]) == 0
    assert "ClusterTopology cluster already exists; applying this changes it" in capsys.readouterr().err
    assert suggest(tmp_path, [*without_racks("l40s"), cluster_topology()]) == 0
    assert "ClusterTopology cluster has the same nodes and is not changed" in capsys.readouterr().err


def test_nothing_to_suggest_is_an_answer_with_a_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert suggest(tmp_path, []) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "toposcope suggest: there are no nodes with GPUs" in printed.err


def test_nodes_without_an_agent_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = demo_nodes()
    del nodes[0]["metadata"]["labels"]["gpu.topology/gpus"]
    assert suggest(tmp_path, nodes) == 1
    printed = capsys.readouterr()
    assert "warning: 1 node has (gb200-01) GPUs but no label gpu.topology/gpus" in printed.err
    assert yaml.safe_load(printed.out)["metadata"]["name"] == "cluster"


def test_a_file_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "topology.yaml"
    assert suggest(tmp_path, demo_nodes(), "-o", str(file)) == 0
    assert capsys.readouterr().out == ""
    assert yaml.safe_load(file.read_text())["kind"] == "ClusterTopology"
