"""The commands that look at a cluster, on saved files; what they print stands here as users see it."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from tests.cli.conftest import Command, page, requests_to, write_cluster
from tests.support.api import NODES, ApiUnderTest
from tests.support.paths import ROOT
from tests.support.saved import Object, cluster_topology, demo_nodes, pod
from tests.support.tables import each_case
from toposcope.simulator.apiserver import EmbeddedApiServer
from toposcope.simulator.manifests import cluster_topology_crd

DIFF = """\
- rack zone-1/block-1/rack-2 is gone with 4 nodes: l40s-1, l40s-2, l40s-3, ... (4 in all)
~ 2 nodes moved from rack rack-3 to rack-9: h200-1, h200-2
~ 1 node: state degraded -> ok: h200-3
~ 1 node: nvlink-links 17 -> 18: h200-3
"""
RACK = "cloud.google.com/gce-topology-subblock"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> str:
    status = {"requiredBy": [{"domain": "rack", "workloads": 3}, {"domain": "superpod", "workloads": 1}]}
    pods = [pod(f"train-{i}", f"gb200-{i:02}", 4) for i in range(1, 13)]
    pods.append(pod("done", "h200-1", 8, phase="Succeeded"))
    return write_cluster(
        tmp_path_factory.mktemp("demo") / "cluster.json",
        *demo_nodes(faulty=("h200-3",)),
        *pods,
        cluster_topology(status, required=["rack"]),
    )


def test_the_tree(demo: str, toposcope: Command) -> None:
    assert toposcope(f"tree --from {demo}", code=1).out == page("tree.txt")


def test_the_tree_down_to_a_level_and_as_names(demo: str, toposcope: Command) -> None:
    by_level = toposcope(f"tree cluster --from {demo} --level rack -o name", code=1).out
    assert toposcope(f"tree --from {demo} --depth 3 -o name", code=1).out == by_level
    assert by_level.split() == [
        *("zone-1", "zone-1/block-1", "zone-1/block-1/rack-1", "zone-1/block-1/rack-2"),
        *("zone-1/block-2", "zone-1/block-2/rack-3", "zone-1/block-2/rack-4"),
    ]


def test_the_tree_for_programs(demo: str, toposcope: Command) -> None:
    found = toposcope(f"tree --from {demo} -o json --depth 2", code=1).json
    assert toposcope(f"tree --from {demo} -o yaml --depth 2", code=1).yaml == found
    assert {key: found[key] for key in found if key not in ("levels", "domains")} == {
        "topology": "cluster", "origin": "observed", "nodes": 30, "gpus": 152, "freeGpus": 104,
        "marks": {"degraded": 1},
    }  # fmt: skip
    [zone] = found["domains"]
    assert zone["domains"][0] == {"level": "block", "value": "block-1", "nodes": 22, "gpus": 88, "freeGpus": 40}


def test_levels(demo: str, toposcope: Command) -> None:
    assert toposcope(f"levels --from {demo}", code=1).out == page("levels.txt")
    names = toposcope(f"levels --from {demo} -o name", code=1).out.split()
    assert names == ["zone", "block", "rack", "nvlink-domain", "host"]


def test_nodes(demo: str, toposcope: Command) -> None:
    assert toposcope(f"nodes --from {demo} --in rack=rack-3", code=1).out == page("nodes-of-a-rack.txt")
    assert toposcope(f"nodes --from {demo} -l gpu.topology/gpus=8,gpu.topology/state=ok -o name").out.split() == [
        f"node/h200-{i}" for i in (1, 2, 4, 5, 6, 7, 8)
    ]
    out = toposcope(f"nodes --from {demo} --in rack=rack-33").out
    assert "there is no rack 'rack-33'; did you mean 'rack-3'?" in out
    [node] = toposcope(f"nodes --from {demo} --state degraded -o json", code=1).json["nodes"]
    assert node["resources"] == {"nvidia.com/gpu": {"allocatable": 8, "free": 8}}
    assert node["reasons"] == ["GPU 1: 17 of 18 NVLinks active"]


def test_the_matrix_of_a_node(demo: str, toposcope: Command) -> None:
    out = toposcope(f"matrix l40s-1 --from {demo}").out
    assert out.startswith(page("matrix.txt"))
    assert "  NIC0: mlx5_0 (0000:" in out
    assert "! GPU 1: 17 of 18 NVLinks active" in toposcope(f"matrix h200-3 --from {demo}", code=1).out


def test_the_picture_holds_every_cell(demo: str, tmp_path: Path, toposcope: Command) -> None:
    file = tmp_path / "h200.svg"
    toposcope(f"matrix h200-3 --from {demo} --svg {file}", code=1)
    matrix = toposcope(f"matrix h200-3 --from {demo} -o json", code=1).json["matrix"]
    picture = ET.fromstring(file.read_text())  # noqa: S314 - our own
    texts = list(picture.iter("{http://www.w3.org/2000/svg}text"))
    cells = [text.text for text in texts if text.get("class", "").startswith("cell") and int(text.get("y", "0")) < 700]
    assert cells == [cell for row in matrix for cell in row]
    assert "prefers-color-scheme:dark" in file.read_text()
    width, height = int(picture.get("width", "0")), int(picture.get("height", "0"))
    assert all(0 < int(text.get("x", "0")) < width and 0 < int(text.get("y", "0")) < height for text in texts)


@pytest.fixture(scope="module")
def gaps(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two nodes of 30 without a rack; one node without any label of an agent, one that has lost that of its GPUs."""
    nodes = demo_nodes()
    bare, old = (json.loads(json.dumps(node)) for node in nodes[-2:])
    for node, name in ((bare, "new-1"), (old, "old-1")):
        node["metadata"] |= {"name": name, "annotations": {}}
        node["metadata"]["labels"]["kubernetes.io/hostname"] = name
        del node["metadata"]["labels"]["gpu.topology/gpus"]
    labels = bare["metadata"]["labels"]
    bare["metadata"]["labels"] = {key: value for key, value in labels.items() if not key.startswith("gpu.topology/")}
    for node in nodes:
        if node["metadata"]["name"] in ("h200-1", "h200-4"):
            del node["metadata"]["labels"][RACK]
    file = tmp_path_factory.mktemp("gaps") / "cluster.json"
    return write_cluster(file, *nodes, bare, old, cluster_topology(minCoveragePercent=90))


def test_nodes_without_an_agent_are_shown_apart(gaps: str, toposcope: Command) -> None:
    names = ["new-1", "old-1"]
    [new, old] = toposcope(f"nodes --from {gaps} --state no-agent -o json", code=1).json["nodes"]
    assert [new["name"], old["name"]] == names
    assert [new["gpus"], old["gpus"]] == [8, 8]
    found = toposcope(f"tree --from {gaps} -o json", code=1).json
    assert found["withoutAgent"] == {"nodes": names, "gpus": 16}
    assert (found["nodes"], found["gpus"]) == (30, 152)
    told = "! not counted: 2 nodes with 16 GPUs have no label gpu.topology/gpus: new-1, old-1; is the agent's DaemonSet"
    assert told in toposcope(f"tree --from {gaps}", code=1).out
    assert told in toposcope(f"levels --from {gaps}", code=1).out
    assert toposcope(f"levels --from {gaps} -o json", code=1).json["withoutAgent"] == names


def test_nodes_that_lack_a_level_are_counted_and_told_apart(gaps: str, toposcope: Command) -> None:
    found = toposcope(f"tree --from {gaps} -o json", code=1).json
    assert found["leftOut"] == {"nodes": 2, "gpus": 16}
    block = found["domains"][0]["domains"][1]
    assert (block["gpus"], block["lacking"]) == (64, {"level": "rack", "nodes": ["h200-1", "h200-4"], "gpus": 16})
    out = toposcope(f"tree --from {gaps}", code=1).out
    [line] = [line for line in out.splitlines() if "2 nodes lack rack" in line]
    assert line.split()[-3:] == ["2", "16", "-"]
    assert "! of these, 2 nodes with 16 GPUs lack a level: KAI and Kueue leave them out" in out


def test_the_tree_of_a_large_cluster_fits_a_screen(tmp_path: Path, toposcope: Command) -> None:
    """Racks of different sizes in every block share no line."""
    node = demo_nodes()[0]
    labels = node["metadata"]["labels"]
    nodes = []
    for i in range(1000):
        block, rack = i // 100, i % 100 // (7 + i // 100)
        places = {"cloud.google.com/gce-topology-block": f"b{block}", RACK: f"a-long-name-of-a-rack-{block}-{rack}"}
        nodes.append({**node, "metadata": {"name": f"n{i}", "labels": labels | places}})
    saved = write_cluster(tmp_path / "cluster.json", *nodes, cluster_topology())
    lines = toposcope(f"tree --from {saved}", code=None).out.splitlines()
    assert len(lines) < 50
    assert lines[-1].startswith("below, and not shown: nvlink-domain > host; toposcope tree --depth 4 and more")
    assert len(toposcope(f"tree --all --from {saved}", code=None).out.splitlines()) > 300


def test_nodes_by_name(gaps: str, toposcope: Command) -> None:
    out = toposcope(f"nodes node/h200-2 h200-1 --from {gaps} -o name", code=1).out
    assert out.split() == ["node/h200-1", "node/h200-2"]
    assert "! new-1: no label gpu.topology/gpus" in toposcope(f"nodes cluster new-1 --from {gaps}", code=1).out
    assert (
        "there is no node 'h200-33' (did you mean 'h200-3'?)" in toposcope(f"nodes h200-33 --from {gaps}", code=2).err
    )


def test_a_level_that_is_none_says_why(tmp_path: Path, toposcope: Command) -> None:
    nodes = demo_nodes()
    del nodes[0]["metadata"]["labels"][RACK]
    del nodes[1]["metadata"]["labels"][RACK]
    saved = write_cluster(tmp_path / "cluster.json", *nodes, cluster_topology())
    for name in ("rack", RACK):
        assert (
            f"there is no level {name!r}, because 2 of 30 nodes lack {RACK} and at least 29 must carry it; lacking: "
            "gb200-01, gb200-02; the levels are: zone > block > nvlink-domain > host"
        ) in toposcope(f"tree --level {name} --from {saved}", code=2).err


def changed() -> list[dict[str, Any]]:
    nodes = [node for node in demo_nodes() if not node["metadata"]["name"].startswith("l40s")]
    for node in nodes:
        if node["metadata"]["name"] in ("h200-1", "h200-2"):
            node["metadata"]["labels"][RACK] = "rack-9"
    return nodes


def test_what_changed(demo: str, tmp_path: Path, toposcope: Command) -> None:
    now = tmp_path / "now.yaml"
    now.write_text(yaml.dump_all([*changed(), cluster_topology(required=["rack"])], Dumper=yaml.CSafeDumper))
    lines = toposcope(f"diff {demo} --from {now}", code=1).out.splitlines(keepends=True)
    assert "".join(line for line in lines if "shape" not in line) == DIFF
    assert len(lines) == 5  # the shape too
    assert toposcope(f"diff {demo} --from {demo}").out == "no changes: 30 nodes\n"
    first = toposcope(f"diff {demo} --from {now} -o json", code=1).json["changes"][0]
    assert (first["kind"], first["subject"], first["before"], len(first["nodes"])) == (
        "domain-gone", "rack", "zone-1/block-1/rack-2", 4,
    )  # fmt: skip


@each_case("tables/cli.yaml")
def test_what_cannot_be_looked_at_ends_with_2(line: str, message: str, demo: str, toposcope: Command) -> None:
    error = toposcope(line.replace("DEMO", demo), code=2).err
    assert message in error
    assert "Traceback" not in error


def test_wrong_usage_ends_with_2(toposcope: Command) -> None:
    for arguments, words in (
        ("nodes --state odd", "'odd' (choose from 'ok', 'ready',"),
        ("nodes --in rack", "'rack' is not LEVEL=VALUE"),
        ("tree --depth -1", "--depth -1: must not be negative"),
        ("tree --depth 1 --level x", "--level: not allowed with argument --depth"),
        ("matrix", "arguments are required: NODE"),
    ):
        assert words in toposcope(arguments, code=2).err


def test_a_pipe_that_closes_early_is_no_news(demo: str) -> None:
    command = (
        f"{sys.executable} -W error -m toposcope.cli.main tree --all --from {demo} | head -n 1; echo ${{PIPESTATUS[0]}}"
    )
    ran = subprocess.run(["/bin/bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    first, code = ran.stdout.splitlines()
    assert first.startswith("ClusterTopology cluster")
    assert code in ("1", "141")  # head may be quicker or slower than we are
    assert ran.stderr == ""


def test_a_running_cluster(api: ApiUnderTest, toposcope: Command) -> None:
    for node in demo_nodes(most=2):
        metadata = {key: node["metadata"][key] for key in ("name", "labels", "annotations")}
        api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    where = ["--kubeconfig", str(api.kubeconfig)]
    names = toposcope("tree", *where, "--level", "rack", "-o", "name", code=1).out.split()
    assert names == ["zone-1", "zone-1/block-1", "zone-1/block-1/rack-1"]
    assert "NV18" in toposcope("matrix gb200-01", *where, code=1).out
    assert "contexts has no entry named 'nowhere'" in toposcope("levels", *where, "--context", "nowhere", code=2).err


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


def test_of_a_running_cluster_it_takes_one_request(tmp_path: Path, toposcope: Command) -> None:
    with EmbeddedApiServer() as server:
        server.load([cluster_topology_crd(), cluster_topology(STATUS)])
        server.write_kubeconfig(tmp_path / "kubeconfig")
        requests = requests_to(server)
        assert toposcope(f"tree --summary --kubeconfig {tmp_path / 'kubeconfig'}", code=1).out == page("summary.txt")
    assert [request.path.rpartition("/")[2] for request in requests] == ["clustertopologies"]


def test_for_programs_and_without_a_controller(tmp_path: Path, toposcope: Command) -> None:
    file = write_cluster(tmp_path / "cluster.json", cluster_topology(STATUS))
    found = toposcope(f"tree --summary --from {file} -o json", code=1).json
    assert (found["origin"], found["nodes"], found["gpus"]) == ("status", 100_000, 600_000)
    assert found["levels"][1] == {
        "domain": "rack", "key": "r", "domains": 9_091, "nodes": 99_998, "missing": 2, "available": True,
    }  # fmt: skip
    write_cluster(tmp_path / "cluster.json", cluster_topology())
    error = toposcope(f"tree --summary --from {file}", code=2).err
    assert "no controller has written its counts yet; run it without --summary" in error


@each_case("tables/cli.yaml")
def test_objects_are_named_as_kubectl_names_them(words: str, plain: str, tmp_path: Path, toposcope: Command) -> None:
    cluster = write_cluster(tmp_path / "cluster.json", *demo_nodes(), pod("one", "gb200-01", 4), cluster_topology())
    assert toposcope(f"{words} --from {cluster}").out == toposcope(f"{plain} --from {cluster}").out


@each_case("tables/cli.yaml")
def test_wrong_words_say_what_to_write(words: str, error: str, toposcope: Command) -> None:
    assert error in toposcope(words, code=2).err


def test_a_silent_server_is_given_up_with_the_flag_that_waits_longer(tmp_path: Path, toposcope: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections into its backlog, and never answers
        server = f"http://127.0.0.1:{silent.getsockname()[1]}"
        config = tmp_path / "config"
        config.write_text(
            f"{{clusters: [{{name: c, cluster: {{server: '{server}'}}}}], current-context: c,"
            " contexts: [{name: c, context: {cluster: c}}]}"
        )
        err = toposcope(f"tree --kubeconfig {config} --request-timeout 1s", code=2).err
    waits = "it was silent for 1 s: --request-timeout 2m waits longer"
    assert err == f"toposcope tree: {server} does not answer: timed out; {waits}\n"


@each_case("tables/cli.yaml")
def test_taints_are_marked(taint: Object, state: str, tmp_path: Path, toposcope: Command) -> None:
    nodes = demo_nodes()
    last = nodes[-1]
    last["spec"] = {**last["spec"], "taints": [taint]}
    name = last["metadata"]["name"]
    cluster = write_cluster(tmp_path / "cluster.json", *nodes, pod("one", "gb200-01", 4), cluster_topology())
    assert toposcope(f"nodes -l kubernetes.io/hostname={name} --from {cluster}").out.splitlines()[1].split()[3] == state
    assert ("1 tainted" in toposcope(f"tree --from {cluster}").out) == (state == "tainted")
    shown = toposcope(f"nodes --state {state} -o wide --from {cluster}").out
    assert ("team=vision:NoSchedule" in shown) == (taint.get("value") == "vision")
