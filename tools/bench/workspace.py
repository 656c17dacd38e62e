"""Where measurements are made.

There is a temporary folder, an API server in a process of its own, and programs as in pods.
"""

import functools
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Final
from urllib.parse import urlsplit

import msgspec
import psutil

from tools.apiserver.certificates import make_certificates
from toposcope.errors import ToposcopeError
from toposcope.kube.client import ApiClient
from toposcope.kube.config import load
from toposcope.simulator import manifests
from toposcope.simulator.apiserver import Certificates

_PATIENCE_SECONDS: Final = 60.0
_END_SECONDS: Final = 10.0
CRDS: Final = (
    manifests.cluster_topology_crd(),
    manifests.crd("grove/binding"),
    manifests.crd("kai/topology"),
)
"""What the controller's servers serve beside the built-in kinds."""


class MeasurementError(ToposcopeError):
    """A measurement failed; the message says why."""


class ApiServer:
    """A program `serve` over TLS; `api_server` starts it."""

    def __init__(self, folder: Path, program: "Program") -> None:
        self._folder = folder
        self._program = program
        self._url: str = msgspec.json.decode(program.word())

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a pod's container.

        The first run of a program in it compiles, and must not be counted.
        """
        where = urlsplit(self._url)
        return pod_environment(self._folder, str(where.hostname), str(where.port))

    def client(self) -> ApiClient:
        """A client with the credentials that programs have."""
        return ApiClient(load(None, self.environment, self._folder), "toposcope-bench")

    def tell(self, *order: str) -> Any:
        """Give an order (see `tools.bench.serve.Journal`) and return its answer.

        Raises MeasurementError.
        """
        return self._program.ask(*order)

    def wait(self, program: "Program", *order: str) -> Any:
        """Give an order that waits for something that a program does. Raises MeasurementError."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while (answer := self.tell(*order)) is None:
            program.check()
            if time.monotonic() > deadline:
                raise program.failure(
                    f"no request for {' '.join(order)!r} within {_PATIENCE_SECONDS:.0f} s"
                )
        return answer


class Program:
    """One running program of `tools.bench.programs`, its log in a file."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log
        self.pid = process.pid

    def word(self) -> str:
        """Wait for its next line and return it. Raises MeasurementError."""
        line = _open(self._process.stdout).readline().decode().strip()
        if not line:
            self._process.wait(_END_SECONDS)
            self.check()
        return line

    def ask(self, *order: object) -> Any:
        """Give an order to a program that takes some, and return its answer.

        Raises MeasurementError.
        """
        self.check()
        pipe = _open(self._process.stdin)
        pipe.write(msgspec.json.encode(order) + b"\n")
        pipe.flush()
        return msgspec.json.decode(self.word())

    def check(self) -> None:
        """Raise MeasurementError when it has ended."""
        code = self._process.poll()
        if code is not None:
            raise self.failure(f"it ended with code {code}")

    def failure(self, what: str) -> MeasurementError:
        """The error that says what is wrong with it, with the end of its log."""
        log = self._log.read_text(errors="replace")
        lines = log.strip().splitlines()
        end = " | ".join(lines[-3:])
        if not end:
            end = "empty"
        return MeasurementError(f"{self._log.stem}: {what}; its log ends: {end}")


@contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder."""
    with TemporaryDirectory(prefix="toposcope-bench-") as name:
        yield Path(name)


@contextmanager
def api_server(folder: Path, *what: str, machines: int = 0, nodes: int = 0) -> Iterator[ApiServer]:
    """A server in a process of its own, and in a folder the credentials for it.

    `what` is as in `cluster`.
    """
    account(folder)
    with program(
        "serve", os.environ, folder, str(folder), str(machines), str(nodes), *what
    ) as running:
        yield ApiServer(folder, running)


@contextmanager
def cluster(nodes: int, *what: str) -> Iterator[tuple[Path, ApiServer]]:
    """A folder, and a server with that many nodes, each with `pods`, eight `rails` or neither."""
    with scratch() as folder, api_server(folder, *what, nodes=nodes) as server:
        yield folder, server


def has_room(nodes: int, size: int = 40_000) -> bool:
    """Whether a server of so many nodes fits into memory; prints so if it does not.

    `size` is how many bytes a node takes, with what the server sends of it.
    """
    fits = psutil.virtual_memory().available >= nodes * size
    if not fits:
        print(
            f"{nodes:,} nodes left out: the server needs {nodes * size / 1e9:.1f} GB",
            file=sys.stderr,
        )
    return fits


def tls(folder: Path) -> Certificates:
    """What a server of an `account` presents."""
    return Certificates(folder / "ca.crt", folder / "server.crt", folder / "server.key")


def account(folder: Path) -> None:
    """Make a folder a pod's service account, with the server's certificate and key beside it."""
    make_certificates(folder)
    (folder / "token").write_text("nobody-checks-it")
    (folder / "namespace").write_text("toposcope-system")


def pod_environment(account: Path, host: str, port: str) -> dict[str, str]:
    """The environment of a container whose service account lies in a folder."""
    where = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    return {
        **_with_bytecode(),
        **where,
        "BENCH_ACCOUNT": str(account),
    }


@contextmanager
def program(
    name: str, environment: Mapping[str, str], folder: Path, *arguments: str, is_bare: bool = False
) -> Iterator[Program]:
    """Start one of `tools.bench.programs` as a console script would, and end it with its children.

    With `is_bare` it starts without site, as no console script can.
    """
    start = f"from tools.bench.programs import {name}; raise SystemExit({name}())"
    flags = ["-S", "-X", "frozen_modules"] * is_bare
    if is_bare:
        start = f"import sys; sys.path[:] = {sys.path!r}; {start}"
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        command, ours = [sys.executable, *flags, "-c", start, *arguments], subprocess.PIPE
        process = subprocess.Popen(
            command,
            stdin=ours,
            stdout=ours,
            stderr=output,
            env=environment,
        )
    try:
        yield Program(process, log)
    finally:
        # Gently; one that stays is killed.
        process.terminate()
        for pipe in (process.stdin, process.stdout):
            _open(pipe).close()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@functools.cache
def _bytecode() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="toposcope-bench-bytecode-")


def _with_bytecode() -> dict[str, str]:
    """This process' environment, with which programs keep their bytecode from the first run on.

    An image carries all bytecode; a source tree may have none, and compiling it would be most of a
    start. Like the image's, it has neither docstrings nor columns, no tables of a locale are
    loaded, and nothing of setuptools, whose hook for distutils every interpreter of a development
    environment loads.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    stripped = {
        "PYTHONOPTIMIZE": "2",
        "PYTHONNODEBUGRANGES": "1",
        "LC_ALL": "C",
        "MALLOC_ARENA_MAX": "1",
    }
    stripped["SETUPTOOLS_USE_DISTUTILS"] = "stdlib"
    return kept | stripped | {"PYTHONPYCACHEPREFIX": _bytecode().name}


def _open(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise AssertionError("processes are started with pipes")
    return pipe
