"""Build kube-apiserver and etcd at the versions of tests/apiserver/go.mod, into a cache folder.

TOPOSCOPE_KUBERNETES=oldest takes Kubernetes of tests/apiserver/oldest/go.mod, the oldest that
Toposcope runs on; TOPOSCOPE_KUBERNETES=latest takes the latest release, of
tests/apiserver/latest/go.mod.

    python -m tools.apiserver.build

needs Go 1.26 and the Go module proxy; takes a few minutes the first time and nothing afterwards.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final

from toposcope.errors import ToposcopeError

NEWEST = Path(__file__).parents[2] / "tests" / "apiserver"
_OTHERS = ("oldest", "latest")


def kubernetes_module(chosen: str) -> Path:
    """The Go module that pins the programs of Kubernetes: `oldest`, `latest` or the usual ones.

    Raises ValueError for any other choice: a typing error must not test the usual version in place
    of another.
    """
    if chosen in _OTHERS:
        return NEWEST / chosen
    if chosen:
        raise ValueError(
            f"TOPOSCOPE_KUBERNETES={chosen}: it must be {' or '.join(_OTHERS)}, or unset"
        )
    return NEWEST


KUBERNETES = kubernetes_module(os.environ.get("TOPOSCOPE_KUBERNETES", ""))
"""The module of this run; etcd is the same beside each."""
_PROGRAMS = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
}
# k8s.io/kubernetes 1.36 is built and tested with this one; the next may refuse its dependencies.
_GO = "1.26"
_WITHOUT_DWARF = "-gcflags=all=-dwarf=false"
"""Nobody debugs these programs; without data for debuggers they compile in a sixth less time."""
UNOPTIMIZED: Final = ("-trimpath", "-gcflags=all=-N -l -dwarf=false", "-ldflags=-s -w")
"""Flags of `go` for programs that share no package with others and do little: they compile in two
thirds of the time, and run in several times as long."""


class BuildError(ToposcopeError):
    """The programs cannot be built here; the message says what to do."""


def cache_folder() -> Path:
    """Where the programs of the pinned versions are kept."""
    return cache_of_module("apiserver", KUBERNETES)


def cache_of_module(name: str, module: Path) -> Path:
    """The folder of what is made of the versions that a Go module pins."""
    digest = hashlib.sha256()
    for file in ("go.mod", "go.sum"):
        digest.update((module / file).read_bytes())
    return cache_root() / name / digest.hexdigest()[:16]


def cache_root() -> Path:
    """The cache folder for everything that takes long to build."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "toposcope"


def is_built(folder: Path) -> bool:
    """Whether a folder holds all programs."""
    return all(os.access(folder / program, os.X_OK) for program in _PROGRAMS)


def build() -> Path:
    """Return the cache folder with both programs in it; raises `BuildError`."""
    return programs_once(
        cache_folder(),
        _PROGRAMS,
        lambda name, to: compile_program(usable_go(), _PROGRAMS[name], to),
    )


def kubernetes_program(name: str) -> Path:
    """A program of this run's Kubernetes, built once; raises `BuildError`."""

    def make(name: str, to: Path) -> None:
        compile_program(usable_go(), f"k8s.io/kubernetes/cmd/{name}", to)

    return programs_once(cache_of_module(name, KUBERNETES), [name], make) / name


def programs_once(
    folder: Path, names: Collection[str], make: Callable[[str, Path], object]
) -> Path:
    """Return the folder with programs of these names, which `make` writes unless all are there."""

    def make_all(target: Path) -> None:
        for name in names:
            make(name, target / name)

    return made_once(
        folder, lambda kept: all(os.access(kept / name, os.X_OK) for name in names), make_all
    )


LIMITED_TO: Final[set[str]] = set()
"""What this process may make, by the name of its folder in the cache; empty: everything."""


def made_once(folder: Path, is_made: Callable[[Path], bool], make: Callable[[Path], None]) -> Path:
    """Return the folder, filled by `make` (given where to write) unless it is.

    Raises what `make` raises, and RuntimeError for what this process may not make, made or not: on
    another machine it would take minutes.

    Runs beside each other do it once, and one that is interrupted leaves nothing half made.
    """
    name = folder.parent.name
    if LIMITED_TO and name not in LIMITED_TO:
        raise RuntimeError(f"{name} is made by a test that is not marked slow")
    if is_made(folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_made(folder):  # another run has just done it
            return folder
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            filled = Path(scratch) / "made"
            filled.mkdir()
            make(filled)
            shutil.rmtree(folder, ignore_errors=True)
            filled.rename(folder)
    return folder


def run_go(command: Sequence[str], module: Path | None = None, **more: str) -> str:
    """What a `go` command prints in a module's folder, with more of an environment.

    One runs at a time: two would compile what they share twice, each on half of the processors.

    Raises `BuildError`.
    """
    environment = _environment() | more
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    with (root / "go.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        what = " ".join(word for word in command if not word.startswith("-"))
        print(what, file=sys.stderr, flush=True)  # noqa: T201 - minutes of silence look like a hang
        done = subprocess.run(
            command,
            cwd=module,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        line = " ".join(command)
        errors = done.stderr[-2000:]
        raise BuildError(f"{line} failed:\n{errors}")
    return done.stdout


def usable_go() -> str:
    """The `go` command of the version that all of this is pinned for; raises `BuildError`."""
    go = shutil.which("go")
    if go is None:
        raise BuildError(
            f"no `go` on PATH: install Go {_GO}, "
            "or set KUBEBUILDER_ASSETS to a folder with both programs"
        )
    done = subprocess.run(
        [go, "env", "GOVERSION"], env=_environment(), capture_output=True, text=True, check=False
    )
    version = done.stdout.strip()
    if not re.fullmatch(rf"go{re.escape(_GO)}(\.\d+)?", version):
        raise BuildError(f"{go} is {version or 'broken'}, Go {_GO} is needed: put it first on PATH")
    return go


def _environment() -> dict[str, str]:
    flags = f"{os.environ.get('GOFLAGS', '')} {_WITHOUT_DWARF}".strip()
    return {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": flags}


def kubernetes_version() -> str:
    """The version of Kubernetes that is tested with, as `v1.36.3`; raises `BuildError`."""
    match = re.search(
        r"k8s\.io/kubernetes (v\S+)", (KUBERNETES / "go.mod").read_text(encoding="utf-8")
    )
    if match is None:
        raise BuildError(f"{KUBERNETES / 'go.mod'} does not require k8s.io/kubernetes")
    return match[1]


def compile_program(go: str, package: str, target: Path) -> None:
    """Build a program of Kubernetes that knows its version, or etcd; raises `BuildError`."""
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".", 2)
    flags = ["-s", "-w"]
    for name, value in (("gitVersion", version), ("gitMajor", major), ("gitMinor", minor)):
        flags.append(f"-X k8s.io/component-base/version.{name}={value}")
    module = KUBERNETES if package.startswith("k8s.io/") else NEWEST
    command = [
        go,
        "build",
        "-trimpath",
        # Up to 1.30 a quarter of all lines are for the machines and disks of clouds.
        "-tags=providerless",
        "-o",
        str(target),
        "-ldflags",
        " ".join(flags),
        package,
    ]
    run_go(command, module)


if __name__ == "__main__":
    try:
        print(build())  # noqa: T201 - the answer
    except BuildError as error:
        sys.exit(str(error))
