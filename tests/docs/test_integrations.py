"""docs/integrations/: every command was run and prints what the page shows."""

import copy
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.docs.guide import Shell, as_run, chapter_of, compare
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


@dataclass(frozen=True)
class Guide:
    """A page, or a chapter of one, whose commands run on a cluster of their own, with the CRDs of its systems."""

    page: str
    chapter: str = ""
    crds: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        return PAGES / f"{self.page}.md"

    @property
    def text(self) -> str:
        if self.chapter:
            return chapter_of(self.path, self.chapter)
        return self.path.read_text(encoding="utf-8")


GUIDES = {
    "grove": Guide(
        "grove",
        crds=(
            "grove-clustertopologybindings-alpha10",
            "grove-podcliquesets-alpha12",
            "kai-topologies-v0.17",
            "dynamo-dynamographdeployments-v1beta1-reduced",
        ),
    ),
    "kai": Guide("kai", crds=("kai-topologies-v0.17", "kai-podgroups-v0.17")),
    "kueue": Guide("kueue", crds=("kueue-topologies-v0.19", "kueue-resourceflavors-v0.19")),
    "kube-scheduler": Guide("kube-scheduler", "PodGroups"),
    "dra": Guide("kube-scheduler", "Claims for devices (DRA)"),
    "volcano": Guide("others", "Volcano", crds=("volcano-hypernodes-v1.14",)),
    "slurm": Guide("others", "Slurm"),
    "osmo": Guide("others", "OSMO", crds=("kai-topologies-v0.17",)),
    "other-tools": Guide("others", "Other topology tools"),
}
DEFAULT = ROOT / "manifests" / "base" / "clustertopology.yaml"
TOPOLOGIES = "/apis/gpu.topology/v1alpha1/clustertopologies"
FOREIGN = {
    "nvidia.com/gpu.clique": "gpu.topology/nvlink-domain",
    "accelerator.topograph.run/domain": "gpu.topology/nvlink-domain",
    "fabric.topograph.run/tier-1": "cloud.google.com/gce-topology-block",
}
"""What GFD and Topograph would write on the demo's nodes, to the label that has the same value."""


def nodes(name: str) -> list[dict[str, Any]]:
    """The demo's nodes, as the guide has them."""
    if name == "dra":
        return nodes_without_device_plugin()
    found = demo_nodes()
    if name == "other-tools":
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


def crds(name: str) -> list[dict[str, Any]]:
    """Ours and those of the guide's systems; Kueue's Workload is not at hand, and takes any spec here."""
    found = [yaml.load(CRD.read_bytes(), yaml.CSafeLoader), *map(upstream_crd, GUIDES[name].crds)]
    if name == "volcano":
        found.append(stand_in("batch.volcano.sh", "v1alpha1", "Job", "jobs", is_namespaced=True))
    if name == "kueue":
        for kind in ("Workload", "LocalQueue", "ClusterQueue"):
            crd = stand_in(
                "kueue.x-k8s.io",
                "v1beta2",
                kind,
                f"{kind.lower()}s",
                is_namespaced=kind != "ClusterQueue",
            )
            found.append(crd)
    return found


@pytest.fixture
def server(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ApiUnderTest]:
    """The usual API server; one of its own where a guide needs feature gates, or objects that nobody clears away."""
    if name not in ("dra", "kube-scheduler"):
        yield request.getfixturevalue("api")
        return
    flags = versions.SERVED if name == "kube-scheduler" else ()
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
@pytest.mark.parametrize("name", GUIDES)
def test_commands_of_a_guide_print_what_it_shows(
    server: ApiUnderTest, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = server
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not on PATH")
    guide = GUIDES[name]
    for crd in crds(name):
        api.install_crd(crd)
    for node in nodes(name):
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
    api.create(TOPOLOGIES, yaml.load(DEFAULT.read_bytes(), yaml.CSafeLoader))
    if name == "dra":
        offer_by_dra(api)
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(ROOT / "docs")

    def work() -> None:
        """Do what the programs of the cluster would have done by now."""
        main(["controller", "--once"])
        if name in ("kube-scheduler", "slurm"):
            follow_the_plan(api)
            main(["controller", "--once"])
        if name == "grove":
            start_grove(api)
            main(["controller", "--once"])

    work()
    text = guide.text
    try:
        printed = as_run(text, Shell(kubectl, capsys, work))
    finally:
        # Nobody collects garbage here: a Job would outlive its namespace, and be counted by the next guide.
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": "Background",
        }
        api.request("DELETE", "/apis/batch/v1/namespaces/ml/jobs", options)
    compare(guide.path, text, printed)


def test_every_command_of_the_guides_belongs_to_one_that_is_run() -> None:
    for path in PAGES.glob("*.md"):
        text = path.read_text(encoding="utf-8")
        run = "".join(guide.text for guide in GUIDES.values() if guide.path == path)
        assert run.count("```console") == text.count("```console"), path
