"""Helm and crane, of PATH or built once into the cache."""

import functools
import os
import shutil
from pathlib import Path

from tests.support.skipping import lacking
from tools.apiserver.build import BuildError, cache_root, made_once, run_go, usable_go

_MODULES = {
    "helm": "helm.sh/helm/v3/cmd/helm@v3.18.6",
    "crane": "github.com/google/go-containerregistry/cmd/crane@v0.20.6",
}


def find(name: str) -> str:
    """The path of helm or crane; two minutes the first time. TOPOSCOPE_REQUIRE_HELM=1 turns absence into a failure."""
    path = shutil.which(name)
    if path is not None:
        return path
    folder = cache_root() / name / _MODULES[name].rpartition("@")[2]

    def make(made: Path) -> None:
        run_go([usable_go(), "install", "-trimpath", _MODULES[name]], GOBIN=str(made))

    try:
        return str(made_once(folder, lambda made: os.access(made / name, os.X_OK), make) / name)
    except BuildError as error:
        lacking("HELM", f"no {name} on PATH and it cannot be built: {error}")


find_helm = functools.partial(find, "helm")
