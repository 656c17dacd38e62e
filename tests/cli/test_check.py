"""`toposcope check` on very many documents, and against live objects; tests/fixtures/said.yaml has all else."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.cli.conftest import Command, requests_to, write_cluster
from tests.support.saved import cluster_topology, demo_nodes
from tests.support.upstream_crds import stand_in
from tests.support.workloads import pod_clique_set
from toposcope.simulator.apiserver import EmbeddedApiServer
from toposcope.simulator.manifests import cluster_topology_crd

CHANGED = (
    "error: spec.template.topologyConstraint (line 25): PodCliqueSet topology constraint cannot be changed from "
    'required="host" preferred="" to required="rack" preferred=""'
)


@pytest.mark.slow
def test_ten_thousand_documents(tmp_path: Path, toposcope: Command) -> None:
    many, cluster = tmp_path / "many.json", write_cluster(tmp_path / "cluster.json", *demo_nodes(), cluster_topology())
    document = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "x"}}
    many.write_text("\n".join(json.dumps(document) for _ in range(10_000)))
    assert toposcope(f"check -f {many} --from {cluster}").out.splitlines()[-1] == "10000 workloads checked"


# The objects in the cluster are asked for only where there are rules about changes.


@pytest.fixture
def server() -> Iterator[EmbeddedApiServer]:
    with EmbeddedApiServer() as server:
        sets = stand_in("grove.io", "v1alpha1", "PodCliqueSet", "podcliquesets")
        present = pod_clique_set("llm", 2, "host")
        server.load([cluster_topology_crd(), sets, cluster_topology(), present, *demo_nodes(most=4)])
        yield server


@pytest.fixture
def where(server: EmbeddedApiServer, tmp_path: Path) -> list[str]:
    server.write_kubeconfig(tmp_path / "kubeconfig")
    return ["--kubeconfig", str(tmp_path / "kubeconfig")]


def work(folder: Path, *names: str) -> str:
    file = folder / "work.yaml"
    file.write_text(yaml.safe_dump_all(pod_clique_set(name, 2) for name in names))
    return str(file)


def test_a_cluster_s_objects(where: list[str], server: EmbeddedApiServer, tmp_path: Path, toposcope: Command) -> None:
    file, requests = work(tmp_path, "llm", "new"), requests_to(server)
    assert toposcope(f"check -f {file}", *where, code=1).out.count(CHANGED) == 1
    sets = [request.path.rpartition("/")[2] for request in requests if "/podcliquesets" in request.path]
    assert sets == ["llm", "new"]
    assert {request.method for request in requests} == {"GET"}
    assert CHANGED not in toposcope(f"check -f {file}", *where, "--against", "none", code=1).out


def test_a_file_counts_more_than_the_cluster(where: list[str], tmp_path: Path, toposcope: Command) -> None:
    file = work(tmp_path, "llm")
    assert CHANGED not in toposcope(f"check -f {file}", *where, "--against", "live", "--against", file).out
