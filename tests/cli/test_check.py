"""`toposcope check` on saved files and against live objects; what it prints stands here as users see it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Command, page, requests_to, write_cluster
from tests.support.paths import FIXTURES
from tests.support.saved import cluster_topology, demo_nodes, pod, saved
from tests.support.upstream_crds import stand_in
from toposcope.simulator.apiserver import EmbeddedApiServer
from toposcope.simulator.manifests import cluster_topology_crd

CHANGED = (
    "error: spec.template.topologyConstraint (line 6): PodCliqueSet topology constraint cannot be changed from "
    'required="host" preferred="" to required="rack" preferred=""'
)


def pod_clique_set(name: str, domain: str, pods: int, gpus: int) -> str:
    return f"""\
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {{name: {name}, namespace: ml, labels: {{kai.scheduler/queue: research}}}}
spec:
  template:
    topologyConstraint: {{topologyName: cluster, pack: {{required: {domain}}}}}
    cliques:
    - name: worker
      spec:
        roleName: worker
        replicas: {pods}
        podSpec:
          schedulerName: kai-scheduler
          containers: [{{name: main, resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}}}]
  replicas: 1
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """The demo's nodes, two of the NVL72's trays in use."""
    file = tmp_path / "cluster.json"
    pods = [pod("busy-1", "gb200-01", 4), pod("busy-2", "gb200-02", 4)]
    file.write_text(saved([*demo_nodes(), *pods, cluster_topology()]))
    return file


def requesting(cpu: int) -> dict[str, Any]:
    """A pod's spec."""
    return {"containers": [{"name": "main", "resources": {"requests": {"cpu": f"{cpu}m"}}}]}


def test_what_is_unclear_has_an_exit_code_of_its_own(tmp_path: Path, toposcope: Command) -> None:
    """Three pods of each size fill every node to the last; whether that can be done takes too long to try."""
    ready = {"allocatable": {"cpu": "1", "pods": "110"}, "conditions": [{"type": "Ready", "status": "True"}]}
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{i}"}, "status": ready} for i in range(12)]
    cluster = write_cluster(tmp_path / "cluster.json", *nodes)
    jobs = [
        {"name": f"c{cpu}", "template": {"spec": {"parallelism": 3, "template": {"spec": requesting(cpu)}}}}
        for cpu in (*range(278, 388, 10), 392)
    ]
    tight = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "tight"}}
    (tmp_path / "tight.yaml").write_text(yaml.safe_dump({**tight, "spec": {"replicatedJobs": jobs}}))
    check = f"check -f {tmp_path / 'tight.yaml'} --from {cluster}"
    out = toposcope(check, code=3).out
    assert "  unclear: there is enough room in total" in out
    assert out.endswith("1 workload checked, 1 unclear\n")
    assert toposcope(f"{check} -o name", code=3).out == "jobset/tight\n"
    (found,) = json.loads(toposcope(f"{check} -o json", code=3).out)["workloads"]
    assert (found["well"], found["verdict"]["kind"]) == (False, "unclear")
    (tmp_path / "wrong.yaml").write_text(pod_clique_set("wrong", "rak", 20, 4))
    toposcope(f"{check} -f {tmp_path / 'wrong.yaml'}", code=1)


def test_ten_thousand_documents(cluster: Path, tmp_path: Path, toposcope: Command) -> None:
    many = tmp_path / "many.json"
    document = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "x"}}
    many.write_text("\n".join(json.dumps(document) for _ in range(10_000)))
    assert toposcope(f"check -f {many} --from {cluster}").out.splitlines()[-1] == "10000 workloads checked"


# The objects in the cluster are asked for only where there are rules about changes.


@pytest.fixture
def server() -> Iterator[EmbeddedApiServer]:
    with EmbeddedApiServer() as server:
        sets = stand_in("grove.io", "v1alpha1", "PodCliqueSet", "podcliquesets")
        present = yaml.safe_load(pod_clique_set("llm", "host", 2, 8))
        server.load([cluster_topology_crd(), sets, cluster_topology(), present, *demo_nodes(most=4)])
        yield server


@pytest.fixture
def where(server: EmbeddedApiServer, tmp_path: Path) -> list[str]:
    server.write_kubeconfig(tmp_path / "kubeconfig")
    return ["--kubeconfig", str(tmp_path / "kubeconfig")]


def work(folder: Path, *names: str) -> str:
    file = folder / "work.yaml"
    file.write_text("---\n".join(pod_clique_set(name, "rack", 2, 8) for name in names))
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


RACK = "cloud.google.com/gce-topology-subblock"
WORKFLOW = (FIXTURES / "configurations.yaml").read_text()


@pytest.fixture
def trays(tmp_path: Path) -> str:
    file = tmp_path / "cluster.json"
    nodes = demo_nodes(most=4)
    for node in nodes:
        node["metadata"]["labels"]["nvidia.com/gpu.clique"] = "a.1"
    file.write_text(saved([*nodes, cluster_topology()]))
    return str(file)


def test_a_pool_in_the_same_run(trays: str, tmp_path: Path, toposcope: Command) -> None:
    file = tmp_path / "workflow.yaml"
    file.write_text(WORKFLOW)
    assert toposcope(f"check -f {file} --from {trays}", code=1).out == page("configurations.txt").format(file=file)
    # A pool in a file of its own, as OSMO prints it.
    workflow, _, pool = WORKFLOW.replace("rak\n", "rack\n").partition("---\n")
    file.write_text(workflow)
    configured = tmp_path / "pool.json"
    keys = [{"key": "rack", "label": RACK}]
    configured.write_text(json.dumps({"pools": {"gb200": {"topology_keys": keys}}}, indent=2))
    assert pool
    assert "fits: rack rack-1 (4 nodes, " in toposcope(f"check -f {file} -f {configured} --from {trays}").out


def test_a_document_of_unknown_kind_is_reported(trays: str, tmp_path: Path, toposcope: Command) -> None:
    file = tmp_path / "some.yaml"
    file.write_text("what: is this\n---\n" + WORKFLOW.partition("---\n")[0].replace("rak\n", "rack\n"))
    shown = toposcope(f"check -f {file} --from {trays}", code=2)
    assert f"{file}, document 1, line 1: kind: is missing; what object is this?" in shown.err
    assert "workflow/train" in shown.out
