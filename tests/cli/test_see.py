"""The commands that look at a cluster, on saved files; what they print stands here as users see it."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Command, page, requests_to, write_cluster
from tests.support.api import NODES, ApiUnderTest
from tests.support.paths import ROOT
from tests.support.saved import cluster_topology, demo_nodes, pod
from tests.support.tables import each_case
from toposcope.api.label_keys import MATRIX
from toposcope.simulator.apiserver import EmbeddedApiServer
from toposcope.simulator.manifests import cluster_topology_crd

RACK = "cloud.google.com/gce-topology-subblock"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> str:
    status = {"requiredBy": [{"domain": "rack", "workloads": 3}, {"domain": "superpod", "workloads": 1}]}
    pods = [pod(f"train-{i}", f"gb200-{i:02}", 4) for i in range(1, 13)]
    pods.append(pod("done", "h200-1", 8, phase="Succeeded"))
    file = tmp_path_factory.mktemp("demo") / "cluster.json"
    return write_cluster(file, *demo_nodes(faulty=("h200-3",)), *pods, cluster_topology(status, required=["rack"]))


def test_the_matrix_of_a_node(demo: str, toposcope: Command) -> None:
    out = toposcope(f"matrix l40s-1 --from {demo}").out
    assert out.startswith(page("matrix.txt"))
    assert "  NIC0: mlx5_0 (0000:" in out
    assert "! GPU 1: 17 of 18 NVLinks active" in toposcope(f"matrix h200-3 --from {demo}", code=1).out


def test_the_matrix_says_where_cables_end(tmp_path: Path, toposcope: Command) -> None:
    (node,) = demo_nodes(of={"l40s-1"})
    annotation = json.loads(node["metadata"]["annotations"][MATRIX])
    annotation["nics"][0] |= {"switch": "leaf-1", "port": "Ethernet1/3"}
    node["metadata"]["annotations"][MATRIX] = json.dumps(annotation)
    cluster = write_cluster(tmp_path / "cluster.json", node)
    found = toposcope(f"matrix l40s-1 --from {cluster} -o json").json["devices"]
    assert [(neighbor["switch"], neighbor["port"]) for neighbor in found if neighbor["switch"]] == [
        ("leaf-1", "Ethernet1/3")
    ]
    assert ") to leaf-1 Ethernet1/3\n" in toposcope(f"matrix l40s-1 --from {cluster}").out


def test_the_matrix_has_rows_of_data_direct_functions(tmp_path: Path, toposcope: Command) -> None:
    (node,) = demo_nodes(of={"l40s-1"})
    annotation = json.loads(node["metadata"]["annotations"][MATRIX])
    nics = annotation["nics"]
    nics.append({"name": nics[0]["name"], "pci": "0000:02:00.0", "dd": True})
    nics.append({"name": "", "pci": "0000:03:00.0", "dd": True})
    for added in (1, 2):
        others = len(annotation["gpus"]) + len(nics) - 3 + added
        annotation["matrix"].append(" ".join(["SYS"] * others + ["X"]))
    node["metadata"]["annotations"][MATRIX] = json.dumps(annotation)
    cluster = write_cluster(tmp_path / "cluster.json", node)
    out = toposcope(f"matrix l40s-1 --from {cluster}").out
    assert "  DD0: mlx5_0 data-direct function (0000:02:00.0)\n" in out
    assert "  DD1: an unknown NIC data-direct function (0000:03:00.0)\n" in out
    assert toposcope(f"matrix l40s-1 --from {cluster} -o name").out.split()[-2:] == ["DD0", "DD1"]


@pytest.mark.regression
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


def test_of_a_running_cluster_it_takes_one_request(tmp_path: Path, toposcope: Command) -> None:
    with EmbeddedApiServer() as server:
        server.load([cluster_topology_crd(), cluster_topology({"nodes": 2})])
        server.write_kubeconfig(tmp_path / "kubeconfig")
        requests = requests_to(server)
        out = toposcope(f"tree --summary --kubeconfig {tmp_path / 'kubeconfig'}", code=1).out
    assert "\ncluster: 2 nodes" in out
    assert [request.path.rpartition("/")[2] for request in requests] == ["clustertopologies"]


@pytest.mark.regression
@each_case("tables/cli.yaml")
def test_objects_are_named_as_kubectl_names_them(words: str, plain: str, tmp_path: Path, toposcope: Command) -> None:
    cluster = write_cluster(tmp_path / "cluster.json", *demo_nodes(), pod("one", "gb200-01", 4), cluster_topology())
    assert toposcope(f"{words} --from {cluster}").out == toposcope(f"{plain} --from {cluster}").out


@pytest.mark.regression
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
