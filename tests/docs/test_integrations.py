"""docs/integrations/: every command was run and prints what the page shows.

TOPOSCOPE_WRITE_GUIDES=1 writes what they print into the pages instead.
"""

import copy
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.docs.guide import Shell, as_run
from tests.schedulers import programs, versions
from tests.support.api import MERGE, NODES, ApiUnderTest, create_namespace
from tests.support.paths import CRD, ROOT
from tests.support.planned_agents import follow_the_plan
from tests.support.saved import demo_nodes
from tests.support.slices import device_class, slices_of
from tests.support.upstream_crds import stand_in, upstream_crd
from tools.apiserver.grove_operator import start_grove
from toposcope.cli.main import main

pytestmark = pytest.mark.slow

PAGES = ROOT / "docs" / "integrations"
SYSTEMS: dict[str, list[str]] = {
    "dynamo-grove": [
        "grove-clustertopologybindings-alpha10",
        "grove-podcliquesets-alpha12",
        "kai-topologies-v0.17",
        "dynamo-dynamographdeployments-v1beta1-reduced",
    ],
    "kai": ["kai-topologies-v0.17", "kai-podgroups-v0.17"],
    "kube-scheduler": [],
    "dra": [],
    "kueue": ["kueue-topologies-v0.19", "kueue-resourceflavors-v0.19"],
    "runai": ["kai-topologies-v0.17"],
    "osmo": ["kai-topologies-v0.17"],
    "side-by-side": [],
    "slinky": [],
    "volcano": ["volcano-hypernodes-v1.14"],
}
"""Page to the CRDs of its system."""
DEFAULT = ROOT / "manifests" / "base" / "clustertopology.yaml"
TOPOLOGIES = "/apis/gpu.topology/v1alpha1/clustertopologies"
FOREIGN = {
    "nvidia.com/gpu.clique": "gpu.topology/nvlink-domain",
    "accelerator.topograph.run/domain": "gpu.topology/nvlink-domain",
    "fabric.topograph.run/tier-1": "cloud.google.com/gce-topology-block",
}
"""What GFD and Topograph would write on the demo's nodes, to the label that has the same value."""


def nodes(page: str) -> list[dict[str, Any]]:
    """The demo's nodes, as the page has them."""
    if page == "dra":
        return nodes_without_device_plugin()
    found = demo_nodes()
    if page == "side-by-side":
        for node in found:
            label_by_others(node["metadata"]["labels"])
    return found


def nodes_without_device_plugin() -> list[dict[str, Any]]:
    found = copy.deepcopy(demo_nodes(faulty=("h200-3",)))
    for node in found:
        allocatable = node["status"]["allocatable"]
        del allocatable["nvidia.com/gpu"]
    return found


def label_by_others(labels: dict[str, str]) -> None:
    """Add to a node's labels those of GFD, Topograph and NFD."""
    # Neither writes a fabric where there is none.
    in_fabric = labels["gpu.topology/fabric"] == "completed"
    for key, same in FOREIGN.items():
        if in_fabric or key.startswith("fabric"):
            labels[key] = labels[same]
    labels["feature.node.kubernetes.io/pci-10de.present"] = "true"


def crds(page: str) -> list[dict[str, Any]]:
    """Ours and those of the page's system; Kueue's Workload is not at hand, and takes any spec here."""
    found = [yaml.safe_load(CRD.read_bytes()), *map(upstream_crd, SYSTEMS[page])]
    if page == "volcano":
        found.append(stand_in("batch.volcano.sh", "v1alpha1", "Job", "jobs", namespaced=True))
    if page == "kueue":
        for kind in ("Workload", "LocalQueue", "ClusterQueue"):
            crd = stand_in(
                "kueue.x-k8s.io",
                "v1beta2",
                kind,
                f"{kind.lower()}s",
                namespaced=kind != "ClusterQueue",
            )
            found.append(crd)
    return found


@pytest.fixture
def server(page: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ApiUnderTest]:
    """The usual API server; one of its own where a page needs feature gates, or objects that nobody clears away."""
    if page not in ("dra", "kube-scheduler"):
        yield request.getfixturevalue("api")
        return
    flags = versions.SERVED if page == "kube-scheduler" else ()
    with programs.api_server(tmp_path, *flags) as own:
        yield own


CLASSES = {
    "gpu.nvidia.com": "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'",
    "rdma": "device.driver == 'dra.net' && device.attributes['dra.net'].rdma",
}


def offer_by_dra(api: ApiUnderTest) -> None:
    """The slices of NVIDIA's driver and DRANET for the demo's nodes; it is wrong about one GPU, and its classes."""
    for node in demo_nodes():
        name = node["metadata"]["name"]
        for offer in copy.deepcopy(slices_of(name)):
            if offer["metadata"]["name"].startswith("h200-2-gpu"):
                device = offer["spec"]["devices"][3]
                device["attributes"]["resource.kubernetes.io/numaNode"] = {"int": 1}
            api.create("/apis/resource.k8s.io/v1/resourceslices", offer)
    for name, expression in CLASSES.items():
        document = device_class(name, expression)
        api.create("/apis/resource.k8s.io/v1/deviceclasses", document)


@pytest.mark.real_api("Jobs, and the validation that kubectl asks for before it applies")
@pytest.mark.parametrize("page", SYSTEMS)
def test_commands_of_a_guide_print_what_it_shows(
    server: ApiUnderTest, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = server
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not on PATH")
    path = PAGES / f"{page}.md"
    for crd in crds(page):
        api.install_crd(crd)
    for node in nodes(page):
        metadata = node["metadata"]
        del metadata["resourceVersion"]
        api.create(NODES, node)
        # A new Node is tainted until its kubelet's conditions are seen by a controller that is not here.
        code, answer = api.request(
            "PATCH",
            f"{NODES}/{metadata['name']}",
            {"spec": {"taints": None}},
            content_type=MERGE,
        )
        assert code == 200, answer
    for namespace in ("ml", "runai-research", "toposcope-system"):
        create_namespace(api, namespace)
    api.create(TOPOLOGIES, yaml.safe_load(DEFAULT.read_bytes()))
    if page == "dra":
        offer_by_dra(api)
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(ROOT / "docs")

    def work() -> None:
        """Do what the programs of the cluster would have done by now."""
        main(["controller", "--once"])
        if page in ("kube-scheduler", "slinky"):
            follow_the_plan(api)
            main(["controller", "--once"])
        if page == "dynamo-grove":
            start_grove(api)
            main(["controller", "--once"])

    work()
    text = path.read_text(encoding="utf-8")
    try:
        found = as_run(text, Shell(kubectl, capsys, work))
    finally:
        # Nobody collects garbage here: a Job would outlive its namespace, and be counted by the next guide.
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": "Background",
        }
        api.request("DELETE", "/apis/batch/v1/namespaces/ml/jobs", options)
    if os.environ.get("TOPOSCOPE_WRITE_GUIDES") == "1":
        path.write_text(found, encoding="utf-8")
    else:
        assert found == text
