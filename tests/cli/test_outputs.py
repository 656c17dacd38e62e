"""Every command that shows something, in every form of output: the table says what a form holds of each."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.support.paths import ROOT
from tests.support.saved import cluster_topology, demo_nodes, pod, saved
from toposcope.cli.main import main

WORK = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: train}
spec:
  parallelism: 2
  template:
    spec:
      containers: [{name: main, resources: {limits: {nvidia.com/gpu: 64}}}]
"""
COMMANDS: Final = {
    "tree": (["tree"], "domains", "rack rack-3", "zone-1/block-2/rack-3"),
    "summary": (["tree", "--summary"], "conditions", "30 nodes, 152 GPUs", "cluster"),
    "nodes": (["nodes"], "nodes", "h200-3", "node/h200-3"),
    "levels": (["levels"], "levels", "gpu.topology/nvlink-domain", "nvlink-domain"),
    "matrix": (["matrix", "h200-3"], "matrix", "NV18", "GPU7"),
    "diff": (["diff", "BEFORE"], "changes", "17 -> 18", "node/h200-2"),
    "check": (["check", "-f", "WORK"], "workloads", "cannot fit", "job/train -n train"),
    "explain": (["explain", "pod/train-1"], "steps", "Checked, in this order", "pod/train-1"),
    "suggest": (["suggest"], "items", "kind: ClusterTopology", "clustertopology.gpu.topology/cluster"),
    "grove": (["export", "--format", "grove"], "spec", "domain: rack", "clustertopologybinding.grove.io/cluster"),
    "helm-grove": (["export", "--format", "helm-grove"], "config", "enabled: true", "cluster"),
    "kai": (["export", "--format", "kai"], "spec", "nodeLabel:", "topology.kai.scheduler/cluster"),
    "kueue": (["export", "--format", "kueue"], "spec", "nodeLabel:", "topology.kueue.x-k8s.io/cluster"),
    "runai": (["export", "--format", "runai"], "levels", '"name": "cluster"', "cluster"),
    "osmo": (["export", "--format", "osmo"], "topology_keys", '"key": "rack"', "cluster"),
}
"""Words of the command; a field of its document; what people read; one of the lines of `-o name`."""
NODES_ONLY: Final = {
    "slurm": (["export", "--format", "slurm"], "rack-3", "cluster"),
    "nccl": (["export", "--format", "nccl", "--node", "h200-3"], "<gpu", "h200-3"),
}
"""Files that are no documents: the same, without a field."""

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("outputs")
    pods = [pod("train-1", "gb200-01", 4), pod("train-2", None, 4, phase="Pending")]
    now, before, work = folder / "now.json", folder / "before.json", folder / "work.yaml"
    status = {"nodes": 30, "gpus": 152, "levels": [], "conditions": []}
    now.write_text(saved([*demo_nodes(), *pods, cluster_topology(status)]))
    before.write_text(saved([*demo_nodes(faulty=("h200-2",)), *pods, cluster_topology(status)]))
    work.write_text(WORK)
    return {"NOW": str(now), "BEFORE": str(before), "WORK": str(work)}


@pytest.fixture
def run(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> Run:
    def on_files(words: list[str], *more: str) -> tuple[int, str, str]:
        code = main([files.get(word, word) for word in (*words, "--from", "NOW", *more)])
        printed = capsys.readouterr()
        assert "\x1b" not in printed.out + printed.err  # nobody is at a terminal
        return code, printed.out, printed.err

    return on_files


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_every_form(command: str, run: Run) -> None:
    words, field, told, name = COMMANDS[command]
    codes = {}
    codes["default"], plain, _ = run(words)
    codes["json"], as_json, _ = run(words, "-o", "json")
    codes["yaml"], as_yaml, _ = run(words, "-o", "yaml")
    codes["wide"], wide, _ = run(words, "-o", "wide")
    codes["name"], names, _ = run(words, "-o", "name")
    document: Any = json.loads(as_json)
    assert field in document
    assert _of_list(list(yaml.safe_load_all(as_yaml))) == document
    assert told in plain
    assert told in wide
    assert len(wide) >= len(plain)
    assert name in names.splitlines()
    assert set(codes.values()) == {codes["default"]}, "a script's answer does not hang on the form"
    assert codes["default"] in (0, 1)


def _of_list(documents: list[Any]) -> Any:
    """Several documents of YAML are a List in JSON."""
    if documents[0].get("kind") != "ClusterTopology":
        return documents[0]
    return {"apiVersion": "v1", "kind": "List", "items": documents}


@pytest.mark.parametrize("form", NODES_ONLY)
def test_files_of_other_programs_have_a_name_and_one_form(
    form: str, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    words, told, name = NODES_ONLY[form]
    _, plain, _ = run(words)
    assert told in plain
    assert run(words, "-o", "wide")[1] == plain
    assert run(words, "-o", "name")[1] == f"{name}\n"
    for output in ("json", "yaml"):
        with pytest.raises(SystemExit) as end:
            run(words, "-o", output)
        assert end.value.code == 2
        assert f"{form} has its own format; for a file of that name write -o ./{output}" in capsys.readouterr().err


def test_wide_tells_more(run: Run) -> None:
    assert "NODE" not in run(["explain", "pod/train-1"])[1]
    assert "POD      NODE\ntrain-1  gb200-01" in run(["explain", "pod/train-1"], "-o", "wide")[1]
    assert "h200-8" not in run(["suggest"])[1]
    assert "h200-8" in run(["suggest"], "-o", "wide")[1]
    explained = run(["check", "-f", "WORK"], "--explain")[1]
    assert run(["check", "-f", "WORK"], "-o", "wide")[1] == explained


def test_what_ends_a_line_to_unicode_ends_none_in_json(tmp_path: Path, run: Run) -> None:
    work = tmp_path / "work.yaml"
    work.write_text(WORK.replace("name: train,", 'name: "a\\u2028b\\u0085c",'))
    _, out, _ = run(["check", "-f", str(work)], "-o", "json")
    assert json.loads(out)["workloads"][0]["workload"] == "job/a\u2028b\u0085c -n train"


def test_names_that_would_steer_a_terminal_do_not_by_way_of_notes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = demo_nodes(most=4)
    for node in nodes[:2]:
        node["metadata"]["name"] += "\x1b]0;title\x07"
    del nodes[0]["metadata"]["labels"]["gpu.topology/gpus"]
    file, config = tmp_path / "cluster.json", tmp_path / "config.yaml"
    file.write_text(saved([*nodes, cluster_topology(levels=[{"domain": "rack", "key": "no.such/rack"}])]))
    config.write_text('{apiVersion: config.gpu.topology/v1alpha1, kind: ControllerConfig, "evil\\e[2J": 7}')
    for words in (
        ["suggest", "--from", str(file)],
        ["export", "--format", "kai", "--from", str(file)],
        ["tree", "--from", str(file), "--config", str(config)],
    ):
        main(words)
        printed = capsys.readouterr()
        assert "\\u001b" in printed.err or "\\x1b" in printed.err
        assert "\x1b" not in printed.err + printed.out


FULL: Final = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("words", [["tree", "--from", "NOW"], ["completion", "bash"]], ids=["tree", "completion"])
def test_a_full_disk_is_told_in_one_line(words: list[str], files: dict[str, str]) -> None:
    with FULL.open("w") as out:
        ran = subprocess.run(
            [sys.executable, "-W", "error", "-m", "toposcope.cli.main", *(files.get(word, word) for word in words)],
            cwd=ROOT, stdout=out, stderr=subprocess.PIPE, text=True, check=False, timeout=60,
        )  # fmt: skip
    told = f"toposcope {words[0]}: cannot write the output: No space left on device\n"
    assert (ran.returncode, ran.stderr) == (2, told)


@pytest.mark.parametrize("words", [["tree", "--from", "NOW"], ["completion", "zsh"]], ids=["tree", "completion"])
def test_a_process_whose_output_nobody_reads(words: list[str], files: dict[str, str]) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as closed:
        ran = subprocess.run(
            [sys.executable, "-m", "toposcope.cli.main", *(files.get(word, word) for word in words)],
            cwd=ROOT, stdout=closed, stderr=subprocess.PIPE, check=False, timeout=60,
        )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (141, b"")


def test_in_a_real_bash_words_complete(tmp_path: Path) -> None:
    """The shell's own function, called as bash calls it when somebody presses Tab."""
    program = tmp_path / "toposcope"
    program.write_text(f"#!{sys.executable}\nimport sys\nfrom toposcope.cli.main import main\nsys.exit(main())\n")
    program.chmod(0o755)
    script = """
    eval "$(toposcope completion bash)"
    press() {
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9; COMP_KEY=9
        COMPREPLY=()
        local complete=$(complete -p toposcope); complete=${complete##*-F }
        ${complete% toposcope} toposcope "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        echo "${COMPREPLY[@]}"
    }
    press toposcope lev
    press toposcope nodes --state degr
    press toposcope explain -o w
    """
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        ["/bin/bash", "--norc", "-c", script], env=environ, capture_output=True, text=True, check=False, timeout=60
    )
    assert [line.split() for line in ran.stdout.splitlines()] == [["levels"], ["degraded"], ["wide"]], ran.stderr
