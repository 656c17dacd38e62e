"""The programs as users start them, on both API servers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.clusters import linked
from tests.cli.conftest import Command, Save
from tests.support.api import NODES, ApiUnderTest, node
from tests.support.paths import ROOT
from toposcope.api import label_keys
from toposcope.cli import COMMANDS


def toposcope(line: str, *, module: str = "toposcope.cli.main", **environ: str) -> subprocess.CompletedProcess[str]:
    """A process of the program, which knows no node and no cluster of its environment."""
    environment = {**os.environ, **environ}
    environment.pop("NODE_NAME", None)
    environment.pop("KUBECONFIG", None)
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", module, *line.split()],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_agent_whose_hardware_does_not_answer_labels_its_node_unknown(api: ApiUnderTest, tmp_path: Path) -> None:
    faults = tmp_path / "faults.yaml"
    faults.write_text("init_error: 9")
    api.create(NODES, node("n1"))
    ran = toposcope(f"agent --once --profile dgx-h200 --faults {faults} --kubeconfig {api.kubeconfig} --node-name n1")
    assert ran.returncode == 1
    assert "modprobe nvidia" in ran.stderr
    labelled = api.get(f"{NODES}/n1")
    ours = {}
    for key, value in labelled["metadata"]["labels"].items():
        if key.startswith(label_keys.PREFIX):
            ours[key] = value
    assert ours == {label_keys.STATE: "unknown"}


def test_agent_of_a_missing_node_fails_with_the_fix(api: ApiUnderTest) -> None:
    ran = toposcope(f"agent --once --profile t4-1 --kubeconfig {api.kubeconfig} --node-name nobody")
    assert ran.returncode == 1
    assert "does --node-name / NODE_NAME name this node" in ran.stderr
    assert api.get(NODES)["items"] == []


@pytest.mark.parametrize("module", ["agent", "controller"])
def test_module_runs_by_itself(module: str) -> None:
    ran = toposcope("--help", module=module)
    assert ran.returncode == 0
    assert "--metrics-port" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param("agent --profile t4-1", "NODE_NAME", id="no-node-name"),
        pytest.param("agent --profile t4-1 --node-name n --interval 0", "--interval", id="no-interval"),
        pytest.param("controller --debounce -1", "--debounce", id="negative-debounce"),
        pytest.param(
            "controller --leader-elect --once", "leave out --leader-elect or --once", id="election-for-one-pass"
        ),
        pytest.param(
            "controller --leader-elect --lease-duration 2",
            "--lease-duration 2: must be at least 3 seconds",
            id="short-lease",
        ),
        pytest.param("demoo", "'demoo' is not a command; did you mean 'demo'?", id="misspelt-command"),
        pytest.param("xyz", "'xyz' is not a command; all commands: toposcope --help", id="unknown-command"),
        pytest.param("--watch status", "--watch has to follow the command: toposcope status --watch", id="flag-first"),
    ],
)
def test_wrong_usage_names_the_flag(arguments: str, message: str) -> None:
    ran = toposcope(arguments)
    assert ran.returncode == 2
    assert message in ran.stderr


@pytest.mark.parametrize("program", ["agent", "controller"])
def test_program_without_a_cluster_says_what_is_missing(program: str, tmp_path: Path) -> None:
    flags = "--profile t4-1 --node-name n" if program == "agent" else ""
    ran = toposcope(f"{program} --once {flags}", HOME=str(tmp_path))
    assert ran.returncode == 1
    assert "no API server is configured" in ran.stderr
    assert "--kubeconfig" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.regression
def test_overview_lists_every_command(toposcope: Command) -> None:
    text = toposcope(code=2).out
    missing = [name for name in COMMANDS if name not in text]
    assert missing == []
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.regression
@pytest.mark.parametrize(
    "options",
    [
        pytest.param("--from {} --no-pager nodes -o name", id="before-the-command"),
        pytest.param("--from={} nodes -o name", id="with-equals-sign"),
        pytest.param("-o name nodes --from {}", id="on-both-sides"),
    ],
)
def test_options_may_stand_before_the_command(options: str, toposcope: Command, save: Save) -> None:
    file = save(linked)
    expected = toposcope(f"nodes -o name --from {file}", code=None)
    assert toposcope(options.format(file), code=None) == expected


@pytest.mark.regression
def test_kubeconfig_before_the_command_is_read(toposcope: Command, tmp_path: Path) -> None:
    file = tmp_path / "missing.yaml"
    ran = toposcope(f"--kubeconfig {file} --context c status", code=2)
    assert ran.err == f"toposcope status: kubeconfig {file}: No such file or directory\n"
