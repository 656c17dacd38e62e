"""The commands of docs/install.md and docs/first-hour.md, in order, on a real API server; nothing is left."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.manifests.support import FINISHED, JOB, run_kubectl
from tests.support.api import NODES, ApiUnderTest, node
from tests.support.cleaning import empty_namespaces
from tests.support.paths import ROOT
from tests.support.programs import find_helm

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
WALKS = {
    "kustomize": ["With kustomize", "Removal", "After kustomize"],
    "Helm": ["With Helm", "Removal", "After Helm"],
    "a Job": ["With kustomize", "By a Job"],
}
"""Headings, one after the other, as somebody follows them."""
ELSEWHERE = {"docker build": "tests/image", "kubectl logs": "tests/e2e"}
"""What needs more than an API server, and where it runs."""
# Where only an API server runs, nobody empties a namespace: kubectl must not wait for it.
HASTY = """#!/bin/sh
case "$1" in delete) exec {kubectl} "$@" --wait=false;; esac
exec {kubectl} "$@"
"""


KINDS = (
    "crd",
    "ns",
    "clusterrole",
    "clusterrolebinding",
    "validatingadmissionpolicy",
    "validatingadmissionpolicybinding",
)
"""Those of ours that are in no namespace."""
STATUS_OF_FIRST = 10
"""The script of the first hour exits with this where its first command fails, one more where the second does ..."""
FIRST_HOUR = (ROOT / "docs" / "first-hour.md").read_text(encoding="utf-8")
FAILS = ("toposcope explain ", "toposcope diff ")
"""What exits with 1 there, because it found something."""
SAYS = {
    "toposcope tree": "zone > block > rack > nvlink-domain > host",
    "toposcope diff before.toposcope": "h200-1",
    "kubectl describe gtopo cluster": "NodesMissingLevels",
    "toposcope explain pod/notebook -n demo": "16",
    "toposcope explain pod/pretrain -n demo": "rack",
    "toposcope explain pcs/llm -n demo": "rack",
}
"""Commands of docs/first-hour.md, and words that they print."""


def commands(heading: str) -> list[str]:
    """The `$` lines of a section, without its subsections' unless they have no walk of their own."""
    section = re.search(rf"^##+ {re.escape(heading)}\n(.*?)(?=^##+ |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section, heading
    return shown(section[1])


def shown(text: str) -> list[str]:
    """The commands of the console blocks in a text."""
    lines = []
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        lines += re.findall(r"^\$ ((?:.*\\\n)*.*)$", block, re.MULTILINE)
    return lines


def runs_elsewhere(command: str) -> bool:
    return command.startswith(tuple(ELSEWHERE))


def walk_commands(walk: str) -> list[str]:
    """The commands of a walk that need no more than an API server."""
    chosen = []
    for heading in WALKS[walk]:
        for command in commands(heading):
            if not runs_elsewhere(command):
                chosen.append(command)
    return chosen


def test_every_command_of_the_page_is_of_a_walk() -> None:
    walked: set[str] = set()
    for walk in WALKS:
        walked.update(walk_commands(walk))
    forgotten = []
    for command in shown(PAGE):
        if command not in walked and not runs_elsewhere(command):
            forgotten.append(command)
    assert forgotten == []


@pytest.mark.parametrize("walk", WALKS)
def test_commands_run_in_order_and_leave_nothing(real_api: ApiUnderTest, tmp_path: Path, walk: str) -> None:
    kubectl = shutil.which("kubectl")
    make = shutil.which("make")
    if kubectl is None or make is None:
        pytest.skip("kubectl or make is not on PATH")
    checkout = tmp_path / "toposcope"
    checkout.mkdir()
    for name in ("Makefile", "manifests"):
        (checkout / name).symlink_to(ROOT / name)
    path = (
        hasty(tmp_path, kubectl),
        Path(sys.prefix) / "bin",
        Path(find_helm()).parent,
        os.environ["PATH"],
    )
    environment = {
        **os.environ,
        "KUBECONFIG": str(real_api.kubeconfig),
        "PATH": ":".join(map(str, path)),
    }
    labels = {
        "example.com/pool": "a",
        "gpu.topology/gpus": "8",
    }
    real_api.create(NODES, node("n1", labels=labels))

    def run(command: str) -> None:
        done = subprocess.run(
            ["/bin/bash", "-c", command],
            cwd=checkout,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"

    for command in walk_commands(walk):
        if "job/toposcope-prune" in command:  # no controller runs Jobs here: its pod's program runs beside it
            run("toposcope uninstall --yes")
            real_api.patch(f"{JOB}/status", {"status": FINISHED})
        run(command)
        if command.startswith("kubectl delete"):
            empty_namespaces(real_api)
    left = real_api.get(f"{NODES}/n1")["metadata"]
    assert left["labels"] == {"example.com/pool": "a"}
    real_api.request("DELETE", f"{NODES}/n1")
    assert_nothing_left(real_api, kubectl)


def test_make_uninstall_runs_both_steps_and_plans_one() -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not on PATH")

    def dry_run(*arguments: str) -> str:
        done = subprocess.run(
            [
                make,
                "--dry-run",
                "uninstall",
                f"VENV={sys.prefix}",
                f"--old-file={sys.prefix}/run",
                *arguments,
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    both = dry_run("ARGS=--yes")
    assert "toposcope.cli.main uninstall --yes\n" in both
    kubectl_lines = []
    for line in both.splitlines():
        if "kubectl" in line:
            kubectl_lines.append(line)
    assert kubectl_lines == commands("After kustomize")

    planned = dry_run()
    assert "kubectl" not in planned


def hasty(folder: Path, kubectl: str) -> Path:
    """A folder with a kubectl that does not wait for what it deletes."""
    programs = folder / "bin"
    programs.mkdir()
    script = programs / "kubectl"
    script.write_text(HASTY.format(kubectl=kubectl))
    script.chmod(0o755)
    return programs


def assert_nothing_left(api: ApiUnderTest, kubectl: str) -> None:
    done = run_kubectl(
        kubectl,
        "--kubeconfig",
        api.kubeconfig,
        "get",
        ",".join(KINDS),
        "-o",
        "name",
    )
    ours = []
    for name in done.stdout.split():
        if "toposcope" in name or "gpu.topology" in name:
            ours.append(name)
    assert ours == []


def cloned(folder: Path) -> Path:
    """The repository as a clone has it: nothing that git does not know."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not on PATH")
    listed = subprocess.run([git, "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("this is no checkout of git")
    checkout = folder / "toposcope"
    for name in listed.stdout.split("\0"):
        source = ROOT / name
        if not name or not source.exists():
            continue
        target = checkout / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)
    return checkout


def first_hour_script(walk: list[str], outputs: Path) -> str:
    """A script that ends at the first command with another status than it should have; each has its own file."""
    lines = ["trap 'kill %1 2>/dev/null' EXIT"]
    for number, command in enumerate(walk):
        status = 1 if command.startswith(FAILS) else 0
        lines.append(f"exec > {outputs}/{number} 2>&1")
        lines.append(command)
        lines.append(f"[ $? = {status} ] || exit {STATUS_OF_FIRST + number}")
    return "\n".join(lines)


def test_commands_of_the_first_hour_print_what_they_should(real_api: ApiUnderTest, tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not on PATH")
    checkout = cloned(tmp_path)
    path = (
        hasty(tmp_path, kubectl),
        Path(sys.base_prefix) / "bin",
        os.environ["PATH"],
    )
    environment = {
        **os.environ,
        "PATH": ":".join(map(str, path)),
        "CLUSTER": str(real_api.kubeconfig),
    }
    # Of the developer, and of a make that runs this test.
    for name in ("KUBECONFIG", "PYTHONPATH", "VIRTUAL_ENV", "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "ARGS"):
        environment.pop(name, None)

    walk = [command for command in shown(FIRST_HOUR) if not runs_elsewhere(command)]
    done = subprocess.run(
        ["/bin/bash"],
        input=first_hour_script(walk, tmp_path),
        cwd=checkout,
        env=environment,
        text=True,
        check=False,
        timeout=1200,
    )

    for number, command in enumerate(walk):
        said = (tmp_path / str(number)).read_text()
        status_if_failed = STATUS_OF_FIRST + number
        assert done.returncode != status_if_failed, f"$ {command}\n{said}"
        is_skipped = 0 < done.returncode < status_if_failed
        if not is_skipped:
            assert SAYS.get(command, "") in said, f"$ {command}\n{said}"
    assert done.returncode == 0
    empty_namespaces(real_api)
    assert_nothing_left(real_api, kubectl)
