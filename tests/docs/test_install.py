"""The commands of docs/install.md and docs/first-hour.md, in order, on a real API server; nothing is left."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.manifests.support import FINISHED, JOB, run_kubectl
from tests.release.test_distribution import build
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
ELSEWHERE = {"docker buildx build": "tests/image", "kubectl logs": "tests/e2e"}
"""What needs more than an API server, and where it runs."""
# Where only an API server runs, nobody empties a namespace: kubectl must not wait for it.
HASTY = """#!/bin/sh
case "$1" in delete) exec {kubectl} "$@" --wait=false;; esac
exec {kubectl} "$@"
"""


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
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    return [line for block in blocks for line in re.findall(r"^\$ ((?:.*\\\n)*.*)$", block, re.MULTILINE)]


def test_every_command_of_the_page_is_of_a_walk() -> None:
    walked = {command for headings in WALKS.values() for heading in headings for command in commands(heading)}
    assert [c for c in shown(PAGE) if c not in walked and not c.startswith(tuple(ELSEWHERE))] == []


@pytest.mark.parametrize("walk", WALKS)
def test_commands_run_in_order_and_leave_nothing(real_api: ApiUnderTest, tmp_path: Path, walk: str) -> None:
    kubectl, make = shutil.which("kubectl"), shutil.which("make")
    if kubectl is None or make is None:
        pytest.skip("kubectl or make is not on PATH")
    checkout = tmp_path / "toposcope"
    checkout.mkdir()
    for name in ("Makefile", "manifests"):
        (checkout / name).symlink_to(ROOT / name)
    path = [hasty(tmp_path, kubectl), Path(sys.prefix) / "bin", Path(find_helm()).parent, os.environ["PATH"]]
    environment = {**os.environ, "KUBECONFIG": str(real_api.kubeconfig), "PATH": ":".join(map(str, path))}
    real_api.create(NODES, node("n1", labels={"example.com/pool": "a", "gpu.topology/gpus": "8"}))

    def run(command: str) -> None:
        line = ["/bin/bash", "-c", command]
        done = subprocess.run(
            line, cwd=checkout, env=environment, capture_output=True, text=True, check=False, timeout=180
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"

    for command in (command for heading in WALKS[walk] for command in commands(heading)):
        if command.startswith(tuple(ELSEWHERE)):
            continue
        if "job/toposcope-prune" in command:  # no controller runs Jobs here: its pod's program runs beside it
            run("toposcope uninstall --yes")
            real_api.patch(f"{JOB}/status", {"status": FINISHED})
        run(command)
        if command.startswith("kubectl delete"):
            empty_namespaces(real_api)
    assert real_api.get(f"{NODES}/n1")["metadata"]["labels"] == {"example.com/pool": "a"}
    real_api.request("DELETE", f"{NODES}/n1")
    assert_nothing_left(real_api, kubectl)


def test_make_uninstall_runs_both_steps_and_plans_one() -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not on PATH")
    command = [make, "--dry-run", "uninstall", f"VENV={sys.prefix}", f"--old-file={sys.prefix}/run"]
    both = subprocess.run([*command, "ARGS=--yes"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "toposcope.cli.main uninstall --yes\n" in both
    assert [line for line in both.splitlines() if "kubectl" in line] == [*commands("After kustomize")]
    assert "kubectl" not in subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def hasty(folder: Path, kubectl: str) -> Path:
    """A folder with a kubectl that does not wait for what it deletes."""
    programs = folder / "bin"
    programs.mkdir()
    (programs / "kubectl").write_text(HASTY.format(kubectl=kubectl))
    (programs / "kubectl").chmod(0o755)
    return programs


def assert_nothing_left(api: ApiUnderTest, kubectl: str) -> None:
    kinds = "crd,ns,clusterrole,clusterrolebinding,validatingadmissionpolicy,validatingadmissionpolicybinding"
    left = run_kubectl(kubectl, "--kubeconfig", api.kubeconfig, "get", kinds, "-o", "name").stdout.split()
    assert [name for name in left if "toposcope" in name or "gpu.topology" in name] == []


def test_first_hour(real_api: ApiUnderTest, tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not on PATH")
    release, empty = tmp_path / "release", tmp_path / "empty"
    empty.mkdir()
    for target in ("wheel", "sdist"):
        done = build(ROOT, target, release)
        assert done.returncode == 0, done.stderr
    environment = {key: value for key, value in os.environ.items() if key not in {"KUBECONFIG", "VIRTUAL_ENV"}}
    path = f"{hasty(tmp_path, kubectl)}:{Path(sys.base_prefix) / 'bin'}:{os.environ['PATH']}"
    environment |= {"PATH": path, "RELEASE": str(release), "CLUSTER": str(real_api.kubeconfig)}
    lines = ["trap 'kill %1 2>/dev/null' EXIT"]
    for number, command in enumerate(shown(FIRST_HOUR)):
        codes = "1" if command.startswith(FAILS) else "0"
        lines += [f"exec > {tmp_path}/{number} 2>&1", command, f"[ $? = {codes} ] || exit {number + 10}"]
    done = subprocess.run(
        ["/bin/bash"], input="\n".join(lines), cwd=empty, env=environment, text=True, check=False, timeout=400
    )
    for number, command in enumerate(shown(FIRST_HOUR)):
        said = (tmp_path / str(number)).read_text()
        assert done.returncode != number + 10, f"$ {command}\n{said}"
        assert number + 10 > done.returncode > 0 or SAYS.get(command, "") in said, f"$ {command}\n{said}"
    assert done.returncode == 0
    empty_namespaces(real_api)
    assert_nothing_left(real_api, kubectl)
