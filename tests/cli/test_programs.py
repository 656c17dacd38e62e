"""The programs as users start them, on both API servers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Command
from tests.support.api import NODES, ApiUnderTest, node
from tests.support.paths import ROOT
from tests.support.tables import each_case
from toposcope.api import label_keys
from toposcope.cli import COMMANDS


def toposcope(*arguments: str, module: str = "toposcope.cli.main", **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if key not in ("NODE_NAME", "KUBECONFIG")}
    line = [sys.executable, "-W", "error", "-m", module, *" ".join(arguments).split()]
    return subprocess.run(line, cwd=ROOT, env=clean | environ, capture_output=True, text=True, check=False, timeout=60)


def test_an_agent_whose_hardware_does_not_answer_fails_and_says_so_on_its_node(
    api: ApiUnderTest, tmp_path: Path
) -> None:
    faults = tmp_path / "faults.yaml"
    faults.write_text("init_error: 9")
    api.create(NODES, node("n1"))
    ran = toposcope(
        *("agent", "--once", "--profile", "dgx-h200", "--faults", str(faults)),
        *("--kubeconfig", str(api.kubeconfig), "--node-name", "n1"),
    )
    assert ran.returncode == 1
    assert "modprobe nvidia" in ran.stderr
    labels = api.get(f"{NODES}/n1")["metadata"]["labels"]
    assert {key: value for key, value in labels.items() if key.startswith(label_keys.PREFIX)} == {
        label_keys.STATE: "unknown"
    }


def test_an_agent_of_a_node_that_is_not_there_fails_with_the_fix(api: ApiUnderTest) -> None:
    ran = toposcope(f"agent --once --profile t4-1 --kubeconfig {api.kubeconfig} --node-name nobody")
    assert ran.returncode == 1
    assert "does --node-name / NODE_NAME name this node" in ran.stderr
    assert api.get(NODES)["items"] == []


@pytest.mark.parametrize("module", ["agent", "controller"])
def test_the_modules_run_by_themselves(module: str) -> None:
    ran = toposcope("--help", module=module)
    assert ran.returncode == 0
    assert "--metrics-port" in ran.stdout


@each_case("tables/cli.yaml")
def test_wrong_usage_names_the_flag(arguments: str, words: str) -> None:
    ran = toposcope(arguments)
    assert ran.returncode == 2
    assert words in ran.stderr


@pytest.mark.parametrize("program", ["agent", "controller"])
def test_without_a_cluster_the_programs_say_what_is_missing(program: str, tmp_path: Path) -> None:
    flags = "--profile t4-1 --node-name n" if program == "agent" else ""
    ran = toposcope(f"{program} --once {flags}", HOME=str(tmp_path))
    assert ran.returncode == 1
    assert "no API server to talk to" in ran.stderr
    assert "--kubeconfig" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.regression
def test_the_overview_lists_every_command(toposcope: Command) -> None:
    text = toposcope(code=2).out
    assert all(name in text for name in COMMANDS)
    assert max(map(len, text.splitlines())) <= 80
