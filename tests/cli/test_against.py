"""`toposcope check` against the objects that are in the cluster: asked for only where there are rules about changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.support.saved import Object, cluster_topology, demo_nodes
from toposcope.simulator.apiserver import EmbeddedApiServer
from toposcope.simulator.apiserver.requests import Request, Response
from toposcope.simulator.manifests import cluster_topology_crd

CHANGED = "error: spec.template.topologyConstraint (line 6): field is immutable"
WORK = """\
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {{name: {name}, namespace: ml}}
spec:
  template:
    topologyConstraint: {{topologyName: cluster, pack: {{required: {domain}}}}}
    cliques:
    - name: worker
      spec: {{replicas: 2, podSpec: {{containers: [{{name: main, resources: {{limits: {{nvidia.com/gpu: 8}}}}}}]}}}}
"""
CRD: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "podcliquesets.grove.io"},
    "spec": {
        "group": "grove.io",
        "scope": "Namespaced",
        "names": {
            "kind": "PodCliqueSet",
            "plural": "podcliquesets",
            "singular": "podcliqueset",
            "listKind": "PodCliqueSetList",
        },
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
PRESENT: Object = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "PodCliqueSet",
    "metadata": {"name": "llm", "namespace": "ml"},
    "spec": {"template": {"topologyConstraint": {"topologyName": "cluster", "pack": {"required": "host"}}}},
}


@pytest.fixture
def asked() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def where(tmp_path: Path, asked: list[tuple[str, str]]) -> Iterator[list[str]]:
    with EmbeddedApiServer() as server:
        server.load([cluster_topology_crd(), CRD, cluster_topology(), PRESENT, *demo_nodes(most=4)])
        server.write_kubeconfig(tmp_path / "kubeconfig")
        handle = server.api.handle

        def journal(request: Request) -> Response:
            asked.append((request.method, request.path))
            return handle(request)

        server.api.handle = journal  # type: ignore[method-assign]  # the one place that every request passes
        yield ["--kubeconfig", str(tmp_path / "kubeconfig")]


def work(folder: Path, *names: str) -> str:
    file = folder / "work.yaml"
    file.write_text("---\n".join(WORK.format(name=name, domain="rack") for name in names))
    return str(file)


def test_of_a_running_cluster_the_objects_there_count(
    where: list[str], asked: list[tuple[str, str]], tmp_path: Path, toposcope: Command
) -> None:
    file = work(tmp_path, "llm", "new")
    assert toposcope(f"check -f {file}", *where, code=1).out.count(CHANGED) == 1
    sets = [path.rpartition("/")[2] for _, path in asked if "/podcliquesets" in path]
    assert sets == ["llm", "new"]
    assert {method for method, _ in asked} == {"GET"}
    assert CHANGED not in toposcope(f"check -f {file}", *where, "--against", "none", code=1).out


def test_a_file_counts_more_than_the_cluster(where: list[str], tmp_path: Path, toposcope: Command) -> None:
    file = work(tmp_path, "llm")
    assert CHANGED not in toposcope(f"check -f {file}", *where, "--against", "live", "--against", file, code=1).out


def test_files_hold_no_live_objects(tmp_path: Path, toposcope: Command) -> None:
    file = work(tmp_path, "llm")
    error = toposcope(f"check -f {file} --from {file} --against live", code=2).err
    assert "--against live needs a cluster, and --from reads files" in error
