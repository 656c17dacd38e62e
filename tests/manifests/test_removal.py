"""After `make uninstall`, as docs/install.md has it, nothing of the base is left."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.manifests.support import Manifests, run_kubectl
from tests.support.api import NODES, ApiUnderTest, node
from tests.support.paths import MANIFESTS

pytestmark = pytest.mark.real_api("RBAC, policies and programs")
# Where only an API server runs, nobody empties a namespace: kubectl must not wait for it.
HASTY = """#!/bin/sh
exec {kubectl} "$@" --wait=false
"""


def test_an_install_goes_without_a_trace(
    installed: ApiUnderTest, kubectl: str, base: Manifests, tmp_path: Path
) -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not on PATH")
    installed.create(NODES, node("n1", labels={"example.com/pool": "a", "gpu.topology/gpus": "8"}))
    hasty = tmp_path / "kubectl"
    hasty.write_text(HASTY.format(kubectl=kubectl))
    hasty.chmod(0o755)
    environment = {**os.environ, "KUBECONFIG": str(installed.kubeconfig), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    # The environment that runs the tests is one that runs the command: nothing has to be installed for it.
    command = [make, "uninstall", "ARGS=--yes", f"VENV={sys.prefix}", f"--old-file={sys.prefix}/run"]
    done = subprocess.run(
        command, cwd=MANIFESTS.parent, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "deleted clustertopology.gpu.topology/cluster" in done.stdout
    as_admin = (kubectl, "--kubeconfig", installed.kubeconfig)
    left = []
    for o in base:
        scope = ("-n", o["metadata"]["namespace"]) if "namespace" in o["metadata"] else ()
        if o["kind"] in {"Namespace", "CustomResourceDefinition", "ClusterTopology"}:
            continue  # where only an API server runs, nobody finishes these
        found = run_kubectl(
            *as_admin, "get", o["kind"], o["metadata"]["name"], *scope, "--ignore-not-found", "-o", "name"
        )
        left += found.stdout.split()
    assert left == []
    namespace = installed.get("/api/v1/namespaces/toposcope-system")
    assert namespace["metadata"]["deletionTimestamp"]
    assert installed.get(f"{NODES}/n1")["metadata"]["labels"] == {"example.com/pool": "a"}
