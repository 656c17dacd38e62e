"""`toposcope export` from the user's side: files in, a system's own form out, notes and mistakes on standard error."""

import io
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest
from tests.cli.conftest import Command, write_cluster
from tests.support.api import NODES, ApiUnderTest, node
from tests.support.saved import cluster_topology, demo_nodes


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_cluster(tmp_path_factory.mktemp("saved") / "demo.json", *demo_nodes(), cluster_topology())


@pytest.fixture
def export(demo: str, toposcope: Command) -> Command:
    return partial(toposcope, f"export --from {demo} --format")


def test_nccl_of_one_node(export: Command) -> None:
    printed = export("nccl --node h200-1 --pcie-gen 5")
    root = ET.fromstring(printed.out)  # noqa: S314 - our own text
    assert [cpu.get("numaid") for cpu in root] == ["0", "1"]
    assert len(list(root.iter("gpu"))) == 8
    assert {cpu.get("arch") for cpu in root} == {"x86_64"}
    assert "not known: addresses of PCI switches" in printed.err


def test_one_becomes_another(
    export: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toposcope: Command
) -> None:
    forms = {"grove": (), "kai": ("--variant", "aliases"), "osmo": ()}
    expected = None
    for form, variant in forms.items():
        file = tmp_path / form
        export(form, *variant, "-o", str(file))
        printed = toposcope(f"export --format grove --convert {file}").out
        expected = expected or printed
        assert printed == expected
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO((tmp_path / "kai").read_bytes())))
    assert toposcope("export --format grove --convert -").out == expected


def test_a_live_cluster_gives_what_saved_objects_give(api: ApiUnderTest, export: Command, toposcope: Command) -> None:
    for saved_node in demo_nodes():
        api.create(NODES, node(**{part: saved_node["metadata"][part] for part in ("name", "labels", "annotations")}))
    for arguments in (["grove"], ["slurm"], ["nccl", "--node", "h200-1"]):
        from_files = export(*arguments).out
        assert toposcope("export --format", *arguments, "--kubeconfig", str(api.kubeconfig)).out == from_files
