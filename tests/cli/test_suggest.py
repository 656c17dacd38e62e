"""`toposcope suggest` from the user's side."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Command, Ran, write_cluster
from tests.support.saved import Object, cluster_topology, demo_nodes

Suggest = Callable[..., Ran]
RACK = "cloud.google.com/gce-topology-subblock"


@pytest.fixture
def suggest(tmp_path: Path, toposcope: Command) -> Suggest:
    def run(objects: list[Object], *arguments: str, code: int = 0) -> Ran:
        return toposcope("suggest --from", write_cluster(tmp_path / "cluster.json", *objects), *arguments, code=code)

    return run


def without_racks(prefix: str) -> list[Object]:
    nodes = demo_nodes()
    for node in nodes:
        if node["metadata"]["name"].startswith(prefix):
            del node["metadata"]["labels"][RACK]
    return nodes


def test_two_kinds_are_two_documents_that_say_why(suggest: Suggest) -> None:
    printed = suggest(without_racks("l40s")).out
    first, second = yaml.safe_load_all(printed)
    assert [document["metadata"]["name"] for document in (first, second)] == ["by-rack", "nvidia-l40s"]
    assert {"key": RACK, "operator": "DoesNotExist"} in second["spec"]["nodeSelector"]["matchExpressions"]
    assert "# 26 nodes, 136 GPUs: gb200-01, gb200-02, gb200-03, ..." in printed
    assert f"# Other nodes lack {RACK}: in one topology with these, schedulers would ignore them." in printed


def test_few_nodes_are_suspected_to_wait_for_a_label(suggest: Suggest) -> None:
    nodes = without_racks("l40s-1")
    for node in nodes:
        if node["metadata"]["name"].startswith("l40s-1"):
            node["metadata"]["labels"]["crusoe.ai/pod.id"] = "p"  # else it would be one of the others, without a label
    more = [{**node, "metadata": {**node["metadata"], "name": f"m{i}"}} for i in range(40) for node in nodes[:1]]
    assert "# So few nodes may just be missing a label." in suggest([*nodes, *more]).out.split("---")[1]


def test_few_nodes_without_a_label_leave_the_level_to_the_others(suggest: Suggest) -> None:
    node = demo_nodes()[0]
    many = [{**node, "metadata": {**node["metadata"], "name": f"m{i}"}} for i in range(40)]
    labels = {key: value for key, value in node["metadata"]["labels"].items() if key != RACK}
    bare = {**node, "metadata": {**node["metadata"], "name": "bare", "labels": labels}}
    printed = suggest([*many, bare])
    (document,) = yaml.safe_load_all(printed.out)
    assert RACK in [level["key"] for level in document["spec"]["levels"]]
    assert "nodeSelector" not in document["spec"]
    assert "# 40 of 41 have " in printed.out
    assert "# A level is missing on bare: Kueue and KAI leave it out." in printed.out
    stricter = list(yaml.safe_load_all(suggest([*many, bare, cluster_topology(minCoveragePercent=99)]).out))
    assert [document["spec"]["minCoveragePercent"] for document in stricter] == [99, 99]
    assert "note: 1 node lacks a level of cluster, and Kueue and KAI leave such a node out: bare" in printed.err


def test_what_exists_already_is_noted(suggest: Suggest) -> None:
    error = suggest([*demo_nodes(), cluster_topology()]).err
    assert "ClusterTopology cluster already exists; applying this changes it" in error
    error = suggest([*without_racks("l40s"), cluster_topology()]).err
    assert "ClusterTopology cluster has the same nodes and is not changed" in error


def test_nothing_to_suggest_is_an_answer_with_a_reason(suggest: Suggest) -> None:
    printed = suggest([], code=1)
    assert printed.out == ""
    assert "toposcope suggest: there are no nodes with GPUs" in printed.err


def test_nodes_without_an_agent_are_named(suggest: Suggest) -> None:
    nodes = demo_nodes()
    del nodes[0]["metadata"]["labels"]["gpu.topology/gpus"]
    printed = suggest(nodes, code=1)
    assert "warning: 1 node has (gb200-01) GPUs but no label gpu.topology/gpus" in printed.err
    assert printed.yaml["metadata"]["name"] == "cluster"


def test_a_file_is_written(suggest: Suggest, tmp_path: Path) -> None:
    file = tmp_path / "topology.yaml"
    assert suggest(demo_nodes(), f"-o {file}").out == ""
    assert yaml.safe_load(file.read_text())["kind"] == "ClusterTopology"
