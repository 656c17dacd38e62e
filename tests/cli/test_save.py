"""`toposcope save`, and what other commands make of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.api import NODES, ApiUnderTest
from tests.support.saved import cluster_topology, demo_nodes, pod, saved
from toposcope.cli.main import main


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("save") / "cluster.json"
    nodes = demo_nodes(faulty=("h200-3",))
    file.write_text(saved([*nodes, pod("a", "gb200-01", 4), cluster_topology(required=["rack"])]))
    return str(file)


@pytest.mark.parametrize(
    "command",
    [
        ["tree"],
        ["tree", "-o", "json"],
        ["nodes", "-o", "wide"],
        ["levels", "-o", "yaml"],
        ["matrix", "l40s-1"],
        ["suggest"],
        ["export", "--format", "slurm"],
        ["export", "--format", "nccl", "--node", "h200-1"],
    ],
)
def test_every_command_says_the_same_of_it(
    command: list[str], demo: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "cluster.toposcope")
    assert main(["save", file, "--from", demo]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"saved 30 nodes, 1 pod and 1 ClusterTopology in {file} (")
    first = main([*command, "--from", demo]), capsys.readouterr()
    assert (main([*command, "--from", file]), capsys.readouterr()) == first
    assert first[1].out


def test_a_difference_to_it(demo: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "before")
    main(["save", file, "--from", demo, "--no-pods"])
    assert capsys.readouterr().out.startswith("saved 30 nodes and 1 ClusterTopology")
    assert main(["diff", file, "--from", demo]) == 0


def test_what_cannot_be_saved_leaves_the_old_file(
    demo: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    empty, file = tmp_path / "empty.yaml", tmp_path / "saved"
    empty.write_text("")
    file.write_text("as it was")
    assert main(["save", str(file), "--from", str(empty)]) == 2
    assert main(["save", str(tmp_path / "no" / "file"), "--from", demo]) == 2
    assert main(["save", str(tmp_path), "--from", demo]) == 2

    def full(_snapshot: object, _out: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("toposcope.cli.save.write_packed", full)
    assert main(["save", str(file), "--from", demo]) == 2
    told = capsys.readouterr().err
    for words in ("there are no nodes in", "no such folder", "is not a file; name one to write", "No space left"):
        assert words in told
    assert file.read_text() == "as it was"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["empty.yaml", "saved"]


def test_a_running_cluster(api: ApiUnderTest, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("n1", "n2"):
        labels = {"kubernetes.io/hostname": name, "gpu.topology/gpus": "8"}
        api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
    file = str(tmp_path / "saved")
    assert main(["save", file, "--kubeconfig", str(api.kubeconfig)]) == 0
    assert "saved 2 nodes, 0 pods and 0 ClusterTopologies" in capsys.readouterr().out
    main(["tree", "--from", file, "-o", "name"])
    assert capsys.readouterr().out.split() == ["n1", "n2"]
