"""Programs that tests need, built once where they are not on PATH, and what a test does where there is none."""

import functools
import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest
from tools.apiserver.build import UNOPTIMIZED, BuildError, cache_root, made_once, run_go, usable_go
from tools.libnvml.build import MissingCompilerError, library

_MODULES = {
    "helm": "helm.sh/helm/v3/cmd/helm@v3.18.6",
    "crane": "github.com/google/go-containerregistry/cmd/crane@v0.20.6",
}


def lacking(what: str, why: object) -> NoReturn:
    """Skip the test, or fail it where TOPOSCOPE_REQUIRE_`what` is 1, as in CI."""
    reason = str(why)
    is_required = os.environ.get(f"TOPOSCOPE_REQUIRE_{what}") == "1"
    if is_required:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def nvml_in_c() -> Path:
    """The folder of the NVML in C. TOPOSCOPE_REQUIRE_CC=1 turns the absence of a compiler into a failure."""
    try:
        return library()
    except MissingCompilerError as missing:
        lacking("CC", missing)


def find(name: str) -> str:
    """The path of helm or crane; two minutes the first time. TOPOSCOPE_REQUIRE_HELM=1 turns absence into a failure."""
    path = shutil.which(name)
    if path is not None:
        return path
    module = _MODULES[name]
    version = module.rpartition("@")[2]
    folder = cache_root() / name / version

    def is_built(built: Path) -> bool:
        return os.access(built / name, os.X_OK)

    def build(target: Path) -> None:
        run_go([usable_go(), "install", *UNOPTIMIZED, module], GOBIN=str(target))

    try:
        built = made_once(folder, is_built, build)
        return str(built / name)
    except BuildError as error:
        lacking("HELM", f"no {name} on PATH and it cannot be built: {error}")


find_helm = functools.partial(find, "helm")
