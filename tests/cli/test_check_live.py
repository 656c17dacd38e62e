"""`toposcope check` against live objects, which are asked for only where there are rules about changes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.cli.conftest import Command, requests_to
from tests.support.saved import cluster_topology, demo_nodes
from tests.support.upstream_crds import stand_in
from tests.support.workloads import pod_clique_set
from toposcope.simulator.apiserver import EmbeddedApiServer
from toposcope.simulator.manifests import cluster_topology_crd

CHANGED = (
    "error: spec.template.topologyConstraint (line 25): PodCliqueSet topology constraint cannot be changed from "
    'required="host" preferred="" to required="rack" preferred=""'
)


@pytest.fixture
def server() -> Iterator[EmbeddedApiServer]:
    """It has a PodCliqueSet `llm` that asks for a host."""
    with EmbeddedApiServer() as server:
        crd = stand_in("grove.io", "v1alpha1", "PodCliqueSet", "podcliquesets")
        present = pod_clique_set("llm", 2, "host")
        server.load([cluster_topology_crd(), crd, cluster_topology(), present, *demo_nodes(most=4)])
        yield server


@pytest.fixture
def where(server: EmbeddedApiServer, folder: Path) -> str:
    """The flag that leads to the server."""
    server.write_kubeconfig(folder / "kubeconfig")
    return "--kubeconfig kubeconfig"


def write_sets(folder: Path, *names: str) -> None:
    """PodCliqueSets that ask for a rack."""
    documents = [pod_clique_set(name, 2) for name in names]
    (folder / "work.yaml").write_text(yaml.safe_dump_all(documents))


def test_objects_with_rules_about_changes_are_read(
    where: str, server: EmbeddedApiServer, folder: Path, toposcope: Command
) -> None:
    write_sets(folder, "llm", "new")
    requests = requests_to(server)
    ran = toposcope(f"check -f work.yaml {where}", code=1)
    assert ran.out.count(CHANGED) == 1
    read = [request.path.rpartition("/")[2] for request in requests if "/podcliquesets" in request.path]
    assert read == ["llm", "new"]
    assert {request.method for request in requests} == {"GET"}


def test_objects_are_not_read_against_none(where: str, folder: Path, toposcope: Command) -> None:
    write_sets(folder, "llm", "new")
    assert CHANGED not in toposcope(f"check -f work.yaml {where} --against none", code=1).out


def test_object_in_a_file_counts_more_than_in_the_cluster(where: str, folder: Path, toposcope: Command) -> None:
    write_sets(folder, "llm")
    ran = toposcope(f"check -f work.yaml {where} --against live --against work.yaml", code=3)
    assert CHANGED not in ran.out
