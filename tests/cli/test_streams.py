"""Output that nobody reads, closed streams, and `toposcope save` with what other commands make of its file."""

import contextlib
import copy
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TextIO

import pytest
from tests.cli.conftest import Command
from tests.cli.test_terminal import Terminal
from tests.support.api import NODES, ApiUnderTest
from tests.support.cluster import BLOCK, RACK
from tests.support.paths import ROOT
from tests.support.saved import Object, cluster_topology, demo_nodes, pod, saved
from toposcope.api.label_keys import HOSTNAME
from toposcope.cli import COMMANDS
from toposcope.cli.main import main
from toposcope.cli.progress import ProgressLine

QUESTIONS = {
    "tree": "tree --all",
    "tree-json": "tree -o json",
    "nodes": "nodes",
    "nodes-yaml": "nodes -o yaml",
    "levels": "levels",
    "matrix": "matrix gb200-01",
    "matrix-json": "matrix gb200-01 -o json",
    "save": "save SAVED",
    "diff": "diff BEFORE",
    "check": "check -f WORK",
    "check-json": "check -f WORK -o json",
    "explain": "explain pod/a",
    "status": "status",
    "score": "score",
    "slots": "slots",
    "whatif": "whatif --drain gb200-01",
    "drain-order": "drain-order",
    "suggest": "suggest",
    "export": "export --format slurm",
}
"""Commands that look at a cluster; words in capitals stand for files."""
FOR_PEOPLE = [name for name in QUESTIONS if not name.endswith(("-json", "-yaml"))]
OTHERS = {
    "ui",
    "rank",
    "discover",
    "agent",
    "node-endpoint",
    "switches",
    "controller",
    "uninstall",
    "demo",
    "completion",
}
"""Those that look at no cluster in files, or do not end by themselves."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("streams")
    now = [
        *demo_nodes(most=6),
        pod("a", "gb200-01", 4),
        cluster_topology(required=["rack"]),
    ]
    (path / "now.json").write_text(saved(now))
    (path / "BEFORE").write_text(saved(demo_nodes(most=5)))
    (path / "WORK").write_text(saved([pod("b", None, 1)]))
    good = saved(demo_nodes(most=3))
    (path / "bad.json").write_text(good.replace('"True"', "[]"))
    return path


def unread_pipe() -> TextIO:
    read, write = os.pipe()
    os.close(read)
    return os.fdopen(write, "w")


def words_of(question: str, folder: Path) -> list[str]:
    words = []
    for word in QUESTIONS[question].split():
        words.append(str(folder / word) if word.isupper() else word)
    file = folder / "now.json"
    return [*words, "--from", str(file)]


def test_every_command_on_files_has_a_question() -> None:
    asked = {words.split()[0] for words in QUESTIONS.values()}
    assert asked | OTHERS == set(COMMANDS)


@pytest.mark.parametrize("question", QUESTIONS)
def test_closed_pipe_ends_with_141(
    question: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = words_of(question, folder)
    with unread_pipe() as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        code = main(words)
    assert code == 141
    captured = capsys.readouterr()
    assert "Error" not in captured.err


def large() -> list[Object]:
    """6,000 nodes: three lack a rack, one is degraded."""
    model = demo_nodes(faulty=("h200-3",))[24:26]
    nodes = []
    for number in range(6_000):
        node = copy.deepcopy(model[number == 77])
        name = f"gpu-{number:04}.fleet.example.com"
        node["metadata"] |= {"name": name, "uid": name}
        labels = node["metadata"]["labels"]
        labels[HOSTNAME] = name
        labels["gpu.topology/nvlink-domain"] = name
        labels[BLOCK] = f"building-a-block-{number // 512}"
        labels[RACK] = f"building-a-rack-{number // 16}"
        if number in (5, 99, 4321):
            del labels[RACK]
        nodes.append(node)
    return nodes


@pytest.fixture(scope="module", params=["demo", pytest.param("large", marks=pytest.mark.slow)])
def narrow(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("narrow")
    nodes = demo_nodes(faulty=("h200-3",)) if request.param == "demo" else large()
    first = nodes[0]["metadata"]["name"]
    waiting = pod("a", None, 64)
    waiting["status"] = {"phase": "Pending"}
    running = pod("c", first, 4)
    topology = cluster_topology(required=["rack"])

    everything = path / "all.json"
    everything.write_text(saved([*nodes, waiting, running, topology]))
    now = path / "now.json"
    code = main(["save", str(now), "--from", str(everything)])
    assert code == 0
    half = len(nodes) // 2
    (path / "BEFORE").write_text(saved(nodes[:half]))
    (path / "WORK").write_text(saved([pod("b", None, 64)]))
    (path / "name").write_text(first)
    return path


@pytest.mark.regression
@pytest.mark.parametrize("question", FOR_PEOPLE)
def test_each_line_fits_and_says_something(question: str, narrow: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("PAGER", "cat")
    # The line of progress, which comes after a second on a busy machine, is drawn over again and again.
    monkeypatch.setattr(ProgressLine, "_show", lambda _self: None)
    first = (narrow / "name").read_text()
    words = [word.replace("gb200-01", first) for word in words_of(question, narrow)]
    out = Terminal()
    err = Terminal()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        main(words)
    lines = out.getvalue().splitlines()
    lines += err.getvalue().splitlines()
    assert lines or question == "save"
    if question in ("suggest", "export"):  # their lines are those of a file; comments are ours
        lines = [line for line in lines if line.startswith("# ")]
    for line in lines:
        is_to_be_copied = re.match(" +(next|show): ", line)
        assert len(line) <= 80 or is_to_be_copied
        assert line == "" or re.search(r"\w", line)


def in_bash(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command in which TOPOSCOPE stands for the program."""
    program = f"{sys.executable} -W error -m toposcope.cli.main"
    script = command.replace("TOPOSCOPE", program)
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        ["/bin/bash", "-c", script],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_closed_output_is_reported_and_closed_stderr_is_not(folder: Path) -> None:
    ran = in_bash("TOPOSCOPE tree --from now.json >&-", folder)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr == "toposcope tree: cannot write the output: Bad file descriptor\n"
    # Warnings are not written into whatever file is opened next, nor to standard output.
    ran = in_bash("TOPOSCOPE tree --from bad.json 2>&-", folder)
    assert ran.returncode == 2
    assert ran.stdout == ""
    save = "TOPOSCOPE save --from now.json SAVED <&- >/dev/null 2>&-"
    ran = in_bash(f"{save}; TOPOSCOPE nodes -o name --from SAVED", folder)
    names = ran.stdout.splitlines()
    assert names[0] == "node/gb200-01"


def test_problems_that_nobody_reads_still_end_with_2(folder: Path) -> None:
    ran = in_bash("exec 3>&1; { TOPOSCOPE tree --from bad.json 2>&1 >/dev/null; echo $? >&3; } | true", folder)
    assert ran.stdout == "2\n"
    assert ran.stderr == ""


def test_help_that_nobody_reads(monkeypatch: pytest.MonkeyPatch, toposcope: Command) -> None:
    with unread_pipe() as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        toposcope("check --help", code=141)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("save")
    file = folder / "cluster.json"
    objects = [
        *demo_nodes(faulty=("h200-3",)),
        pod("a", "gb200-01", 4),
        cluster_topology(required=["rack"]),
    ]
    file.write_text(saved(objects))
    return str(file)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("tree", id="tree"),
        pytest.param("tree -o json", id="tree-json"),
        pytest.param("nodes -o wide", id="nodes"),
        pytest.param("levels -o yaml", id="levels"),
        pytest.param("matrix l40s-1", id="matrix"),
        pytest.param("suggest", id="suggest"),
        pytest.param("export --format slurm", id="slurm"),
        pytest.param("export --format nccl --node h200-1", id="nccl"),
    ],
)
def test_every_command_says_the_same_of_a_saved_cluster(
    command: str, demo: str, tmp_path: Path, toposcope: Command
) -> None:
    file = tmp_path / "cluster.toposcope"
    out = toposcope(f"save {file} --from {demo}").out
    assert out.startswith(f"saved 30 nodes, 1 pod and 1 ClusterTopology in {file} (")
    first = toposcope(f"{command} --from {demo}", code=None)
    again = toposcope(f"{command} --from {file}", code=None)
    assert again == first
    assert first.out


def test_diff_reads_a_saved_cluster_without_pods(demo: str, tmp_path: Path, toposcope: Command) -> None:
    file = tmp_path / "before"
    out = toposcope(f"save {file} --from {demo} --no-pods").out
    assert out.startswith("saved 30 nodes and 1 ClusterTopology")
    toposcope(f"diff {file} --from {demo}")


def test_failed_save_is_undone(demo: str, tmp_path: Path, toposcope: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("")
    file = tmp_path / "saved"
    file.write_text("as it was")
    error = toposcope(f"save {file} --from {empty}", code=2).err
    assert "there are no nodes in" in error
    in_no_folder = tmp_path / "no" / "file"
    error = toposcope(f"save {in_no_folder} --from {demo}", code=2).err
    assert "no such folder" in error
    error = toposcope(f"save {tmp_path} --from {demo}", code=2).err
    assert "is not a file; name one to write" in error

    def full(_snapshot: object, _out: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("toposcope.cli.save.write_packed", full)
    error = toposcope(f"save {file} --from {demo}", code=2).err
    assert "No space left" in error
    assert file.read_text() == "as it was"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.yaml", "saved"]


def test_running_cluster(api: ApiUnderTest, tmp_path: Path, toposcope: Command) -> None:
    for name in ("n1", "n2"):
        labels = {
            "kubernetes.io/hostname": name,
            "gpu.topology/gpus": "8",
        }
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
        }
        api.create(NODES, node)
    file = tmp_path / "saved"
    out = toposcope(f"save {file} --kubeconfig {api.kubeconfig}").out
    assert "saved 2 nodes, 0 pods and 0 ClusterTopologies" in out
    names = toposcope(f"tree --from {file} -o name", code=1).out
    assert names.split() == ["n1", "n2"]
