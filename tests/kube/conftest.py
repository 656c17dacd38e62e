"""Certificates for servers with TLS, kubeconfigs and their plugins."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tools.apiserver.certificates import Certificates, make_certificates


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """Where a test writes its kubeconfig."""
    return tmp_path / "config"


@pytest.fixture
def plugin(tmp_path: Path) -> Callable[[str], dict[str, Any]]:
    """The `exec` entry of a plugin that answers with this status (an expression of `count`, the calls so far)."""

    def make(status: str) -> dict[str, Any]:
        script = tmp_path / "plugin.py"
        script.write_text(
            "import json, pathlib, sys\n"
            "calls = pathlib.Path(__file__).with_name('calls')\n"
            "count = len(calls.read_text()) + 1 if calls.exists() else 1\n"
            "calls.write_text('x' * count)\n"
            f"status = {status}\n"
            "kind, version = 'ExecCredential', 'client.authentication.k8s.io/v1'\n"
            "print(json.dumps({'apiVersion': version, 'kind': kind, 'status': status}))\n"
        )
        version = "client.authentication.k8s.io/v1"
        return {"exec": {"apiVersion": version, "command": sys.executable, "args": ["-S", str(script)]}}

    return make
