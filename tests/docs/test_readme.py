"""README.md: short, and its commands print what it shows.

TOPOSCOPE_WRITE_GUIDES=1 writes what they print into it instead.
"""

import os
import shutil
from pathlib import Path

import pytest
import yaml
from tests.docs.guide import Shell, as_run
from tests.support.api import MERGE, NODES, ApiUnderTest
from tests.support.paths import CRD, ROOT
from tests.support.saved import demo_nodes
from tests.support.upstream_crds import upstream_crd
from tools.apiserver.grove_operator import start_grove
from toposcope.cli.main import main

PAGE = ROOT / "README.md"
CRDS = ["grove-clustertopologybindings-alpha10", "grove-podcliquesets-alpha12", "kai-topologies-v0.17"]
DEFAULT = ROOT / "manifests" / "base" / "clustertopology.yaml"
TOPOLOGIES = "/apis/gpu.topology/v1alpha1/clustertopologies"


def start_demo(api: ApiUnderTest) -> None:
    """The demo's nodes, and the default ClusterTopology beside Grove and KAI."""
    api.install_crd(yaml.load(CRD.read_bytes(), yaml.CSafeLoader))
    for name in CRDS:
        api.install_crd(upstream_crd(name))
    for node in demo_nodes():
        metadata = node["metadata"]
        del metadata["resourceVersion"]
        api.create(NODES, node)
        # A new Node is tainted until its kubelet's conditions are seen by a controller that is not here.
        untainted = {"spec": {"taints": None}}
        code, answer = api.request("PATCH", f"{NODES}/{metadata['name']}", untainted, content_type=MERGE)
        assert code == 200, answer
    api.create(TOPOLOGIES, yaml.load(DEFAULT.read_bytes(), yaml.CSafeLoader))


@pytest.mark.slow
def test_commands_print_what_the_page_shows(
    api: ApiUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not on PATH")
    start_demo(api)
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(ROOT / "docs")

    def work() -> None:
        """Do what controller and Grove's operator would have done by now."""
        main(["controller", "--once"])
        start_grove(api)
        main(["controller", "--once"])

    work()
    text = PAGE.read_text(encoding="utf-8")
    printed = as_run(text, Shell(kubectl, capsys, work))
    if os.environ.get("TOPOSCOPE_WRITE_GUIDES"):
        PAGE.write_text(printed, encoding="utf-8")
    else:
        assert printed == text


def test_install_builds_the_image_that_the_base_runs() -> None:
    base = yaml.load((ROOT / "manifests" / "base" / "kustomization.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
    (image,) = base["images"]
    name = f"{image['name']}:{image['newTag']}"
    text = PAGE.read_text(encoding="utf-8")
    assert f"docker build -t {name} ." in text
    assert f"kind load docker-image {name} " in text
