"""The commands of docs/install.md, in order, on a real API server: install, change, remove; nothing is left."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.manifests.support import FINISHED, JOB
from tests.support.api import NODES, ApiUnderTest, node
from tests.support.cleaning import empty_namespaces
from tests.support.helm import find_helm
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
WALKS = {
    "kustomize": ("With kustomize", "Removal", "After kustomize"),
    "Helm": ("With Helm", "Removal", "After Helm"),
    "a Job": ("With kustomize", "By a Job"),
}
"""Headings, one after the other, as somebody follows them."""
ELSEWHERE = {"docker buildx build": "tests/image", "kubectl logs": "tests/e2e"}
"""What needs more than an API server, and where it runs."""
# Where only an API server runs, nobody empties a namespace: kubectl must not wait for it.
HASTY = """#!/bin/sh
case "$1" in delete) exec {kubectl} "$@" --wait=false;; esac
exec {kubectl} "$@"
"""


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
def test_the_commands_run_in_order_and_leave_nothing(real_api: ApiUnderTest, tmp_path: Path, walk: str) -> None:
    kubectl, make = shutil.which("kubectl"), shutil.which("make")
    if kubectl is None or make is None:
        pytest.skip("kubectl or make is not on PATH")
    programs, checkout = tmp_path / "bin", tmp_path / "toposcope"
    programs.mkdir()
    checkout.mkdir()
    (programs / "kubectl").write_text(HASTY.format(kubectl=kubectl))
    (programs / "kubectl").chmod(0o755)
    for name in ("Makefile", "manifests"):
        (checkout / name).symlink_to(ROOT / name)
    path = [programs, Path(sys.prefix) / "bin", Path(find_helm()).parent, os.environ["PATH"]]
    environment = {**os.environ, "KUBECONFIG": str(real_api.kubeconfig), "PATH": ":".join(map(str, path))}
    real_api.create(NODES, node("n1", labels={"example.com/pool": "a", "gpu.topology/gpus": "8"}))

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
    kinds = "crd,ns,clusterrole,clusterrolebinding,validatingadmissionpolicy,validatingadmissionpolicybinding"
    left = subprocess.run(
        [kubectl, "--kubeconfig", real_api.kubeconfig, "get", kinds, "-o", "name"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert [name for name in left.stdout.split() if "toposcope" in name or "gpu.topology" in name] == []
    real_api.request("DELETE", f"{NODES}/n1")
