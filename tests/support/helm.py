"""Helm, of PATH or built once into the cache."""

import os
import shutil
from pathlib import Path

import pytest

from tools.apiserver.build import BuildError, cache_root, made_once, run_go, usable_go

_VERSION = "v3.18.6"


def find_helm() -> str:
    """The path of a helm; two minutes the first time. TOPOSCOPE_REQUIRE_HELM=1 turns its absence into a failure."""
    path = shutil.which("helm")
    if path is not None:
        return path
    try:
        return str(
            made_once(cache_root() / "helm" / _VERSION, lambda made: os.access(made / "helm", os.X_OK), _make) / "helm"
        )
    except BuildError as error:
        missing = f"no helm on PATH and it cannot be built: {error}"
        if os.environ.get("TOPOSCOPE_REQUIRE_HELM") == "1":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)


def _make(folder: Path) -> None:
    run_go([usable_go(), "install", "-trimpath", f"helm.sh/helm/v3/cmd/helm@{_VERSION}"], GOBIN=str(folder))
