"""Every command that shows something, in every form of output."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Final

import pytest
import yaml
from tests.cli.conftest import Command, Ran, write_cluster
from tests.support.paths import DOCUMENTS, ROOT
from tests.support.saved import cluster_topology, demo_nodes, pod

WORK = (DOCUMENTS / "cli" / "large-job.yaml").read_text(encoding="utf-8")
Run = Callable[[str], Ran]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("outputs")
    others = [
        pod("train-1", "gb200-01", 4),
        pod("train-2", None, 4, phase="Pending"),
    ]
    status = {
        "nodes": 30,
        "gpus": 152,
        "levels": [],
        "conditions": [],
    }
    others.append(cluster_topology(status))
    work = folder / "work.yaml"
    work.write_text(WORK)
    return {
        "NOW": write_cluster(folder / "now.json", *demo_nodes(), *others),
        "BEFORE": write_cluster(folder / "before.json", *demo_nodes(faulty=("h200-2",)), *others),
        "WORK": str(work),
    }


@pytest.fixture
def run(files: dict[str, str], toposcope: Command) -> Run:
    def on_files(line: str) -> Ran:
        words = f"{line} --from NOW".split()
        arguments = [files.get(word, word) for word in words]
        ran = toposcope(*arguments, code=None)
        assert "\x1b" not in ran.out + ran.err  # nobody is at a terminal
        return ran

    return on_files


@pytest.mark.parametrize(
    ("line", "field", "text", "name"),
    [
        pytest.param("tree", "domains", "rack rack-3", "zone-1/block-2/rack-3", id="tree"),
        pytest.param("tree --summary", "conditions", "30 nodes, 152 GPUs", "cluster", id="summary"),
        pytest.param("nodes", "nodes", "h200-3", "node/h200-3", id="nodes"),
        pytest.param("levels", "levels", "gpu.topology/nvlink-domain", "nvlink-domain", id="levels"),
        pytest.param("matrix h200-3", "matrix", "NV18", "GPU7", id="matrix"),
        pytest.param("diff BEFORE", "changes", "17 -> 18", "node/h200-2", id="diff"),
        pytest.param("check -f WORK", "workloads", "cannot fit", "job/train -n train", id="check"),
        pytest.param("explain pod/train-1", "steps", "Checked, in this order", "pod/train-1", id="explain"),
        pytest.param("suggest", "items", "kind: ClusterTopology", "clustertopology.gpu.topology/cluster", id="suggest"),
        pytest.param(
            "export --format grove", "spec", "domain: rack", "clustertopologybinding.grove.io/cluster", id="grove"
        ),
        pytest.param("export --format helm-grove", "config", "enabled: true", "cluster", id="helm-grove"),
        pytest.param("export --format kai", "spec", "nodeLabel:", "topology.kai.scheduler/cluster", id="kai"),
        pytest.param("export --format kueue", "spec", "nodeLabel:", "topology.kueue.x-k8s.io/cluster", id="kueue"),
        pytest.param("export --format runai", "levels", '"name": "cluster"', "cluster", id="runai"),
        pytest.param("export --format osmo", "topology_keys", '"key": "rack"', "cluster", id="osmo"),
    ],
)
def test_every_command_has_every_form(line: str, field: str, text: str, name: str, run: Run) -> None:
    """A field of its document; what people read; one of the lines of `-o name`."""
    plain = run(line)
    wide = run(f"{line} -o wide")
    as_json = run(f"{line} -o json")
    as_yaml = run(f"{line} -o yaml")
    names = run(f"{line} -o name")
    document = as_json.json
    assert field in document
    documents = list(yaml.load_all(as_yaml.out, yaml.CSafeLoader))
    assert _of_list(documents) == document
    assert text in plain.out
    assert text in wide.out
    assert len(wide.out) >= len(plain.out)
    assert name in names.out.splitlines()
    assert plain.code in (0, 1)
    for ran in (wide, as_json, as_yaml, names):
        assert ran.code == plain.code, "the same exit code in every form"


def _of_list(documents: list[Any]) -> Any:
    """Several documents of YAML are a List in JSON."""
    if documents[0].get("kind") != "ClusterTopology":
        return documents[0]
    return {"apiVersion": "v1", "kind": "List", "items": documents}


@pytest.mark.parametrize(
    ("form", "line", "text", "name"),
    [
        pytest.param("slurm", "export --format slurm", "rack-3", "cluster", id="slurm"),
        pytest.param("nccl", "export --format nccl --node h200-3", "<gpu", "h200-3", id="nccl"),
    ],
)
def test_files_of_other_programs_have_a_name_and_one_form(form: str, line: str, text: str, name: str, run: Run) -> None:
    plain = run(line).out
    assert text in plain
    assert run(f"{line} -o wide").out == plain
    assert run(f"{line} -o name").out == f"{name}\n"
    for output in ("json", "yaml"):
        ran = run(f"{line} -o {output}")
        assert ran.code == 2
        assert f"{form} has its own format; for a file of that name write -o ./{output}" in ran.err


def test_wide_tells_more(run: Run) -> None:
    assert "NODE" not in run("explain pod/train-1").out
    assert "POD      NODE\ntrain-1  gb200-01" in run("explain pod/train-1 -o wide").out
    assert "h200-8" not in run("suggest").out
    assert "h200-8" in run("suggest -o wide").out
    explained = run("check -f WORK --explain").out
    assert run("check -f WORK -o wide").out == explained


def test_line_ends_of_unicode_end_no_line_of_json(tmp_path: Path, run: Run) -> None:
    work = tmp_path / "work.yaml"
    text = WORK.replace("name: train,", 'name: "a\\u2028b\\u0085c",')
    work.write_text(text)
    document = run(f"check -f {work} -o json").json
    (checked,) = document["workloads"]
    assert checked["workload"] == "job/a\u2028b\u0085c -n train"


def test_names_that_would_steer_a_terminal_do_not_by_way_of_notes(tmp_path: Path, toposcope: Command) -> None:
    nodes = demo_nodes(most=4)
    for node in nodes[:2]:
        node["metadata"]["name"] += "\x1b]0;title\x07"
    del nodes[0]["metadata"]["labels"]["gpu.topology/gpus"]
    unknown = cluster_topology(levels=[{"domain": "rack", "key": "no.such/rack"}])
    file, config = write_cluster(tmp_path / "cluster.json", *nodes, unknown), tmp_path / "config.yaml"
    config.write_text('{apiVersion: config.gpu.topology/v1alpha1, kind: ControllerConfig, "evil\\e[2J": 7}')
    for line in (
        f"suggest --from {file}",
        f"export --format kai --from {file}",
        f"tree --from {file} --config {config}",
    ):
        printed = toposcope(line, code=None)
        assert "\\u001b" in printed.err or "\\x1b" in printed.err
        assert "\x1b" not in printed.err + printed.out


FULL: Final = Path("/dev/full")


def toposcope_into(out: IO[Any], line: str, files: dict[str, str]) -> tuple[int, str]:
    """The exit code and standard error of a process that writes to `out`."""
    words = (files.get(word, word) for word in line.split())
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-m", "toposcope.cli.main", *words],
        cwd=ROOT, stdout=out, stderr=subprocess.PIPE, text=True, check=False, timeout=60,
    )  # fmt: skip
    return ran.returncode, ran.stderr


@pytest.mark.skipif(not FULL.exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("line", ["tree --from NOW", "completion bash"], ids=["tree", "completion"])
def test_full_disk_is_reported_in_one_line(line: str, files: dict[str, str]) -> None:
    command, *_ = line.split()
    with FULL.open("w") as out:
        code, error = toposcope_into(out, line, files)
    assert code == 2
    assert error == f"toposcope {command}: cannot write the output: No space left on device\n"


@pytest.mark.parametrize("line", ["tree --from NOW", "completion zsh"], ids=["tree", "completion"])
def test_process_whose_output_nobody_reads_ends_with_141(line: str, files: dict[str, str]) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as closed:
        code, error = toposcope_into(closed, line, files)
    assert code == 141
    assert error == ""


@pytest.mark.slow
def test_words_complete_in_bash(tmp_path: Path) -> None:
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
