"""How tests run a command, and the clusters they give it."""

import functools
import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest
import yaml
from tests.cli.clusters import SavedCluster
from tests.support.saved import Object, saved
from toposcope.cli.main import main
from toposcope.simulator.apiserver import EmbeddedApiServer
from toposcope.simulator.apiserver.requests import HttpRequest, Response


class Ran(NamedTuple):
    """The exit code of a command, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def yaml(self) -> Any:
        return yaml.load(self.out, yaml.CSafeLoader)

    @property
    def documents(self) -> list[Any]:
        """What is printed, document by document."""
        return list(yaml.load_all(self.out, yaml.CSafeLoader))


class Command(Protocol):
    """Runs a command line, given in one piece or in several, and checks its exit code; `code=None` takes any."""

    def __call__(self, *words: object, code: int | None = 0) -> Ran: ...


class CommandOnCluster(Protocol):
    """Runs a command line on a cluster of tests/cli/clusters.py, and checks its exit code; `code=None` takes any."""

    def __call__(self, cluster: Callable[[], SavedCluster], line: str, *, code: int | None = 0) -> Ran: ...


Save = Callable[[Callable[[], SavedCluster]], str]
"""The file in which a cluster of tests/cli/clusters.py is saved."""
Write = Callable[[str, str], None]
"""Writes an indented text into a file of the current folder, by its name."""


@pytest.fixture
def toposcope(capsys: pytest.CaptureFixture[str]) -> Command:
    """The program, in this process."""

    def run(*words: object, code: int | None = 0) -> Ran:
        __tracebackhide__ = True
        capsys.readouterr()
        line = " ".join(map(str, words))
        try:
            ended = main(line.split())
        except SystemExit as end:  # help and wrong usage
            ended = int(end.code or 0)
        ran = Ran(ended, *capsys.readouterr())
        if code not in (None, ended):
            pytest.fail(f"`toposcope {line}` ended with {ended} instead of {code}:\n{ran.out}{ran.err}")
        return ran

    return run


@pytest.fixture(scope="session")
def save(tmp_path_factory: pytest.TempPathFactory) -> Save:
    """Saves a cluster once for all tests."""
    folder = tmp_path_factory.mktemp("clusters")
    return functools.cache(lambda build: build().save(folder / f"{build.__name__}.json"))


@pytest.fixture
def toposcope_on(toposcope: Command, save: Save) -> CommandOnCluster:
    """The program on a saved cluster: `toposcope_on(demo, "tree -o name", code=1)`."""

    def run(cluster: Callable[[], SavedCluster], line: str, *, code: int | None = 0) -> Ran:
        __tracebackhide__ = True
        ran = toposcope(f"{line} --from {save(cluster)}", code=code)
        assert "Traceback" not in ran.out + ran.err
        return ran

    return run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, with no cluster to talk to."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    return tmp_path


@pytest.fixture
def write(folder: Path) -> Write:
    """Writes files into the current folder: `write("work.yaml", text)`."""

    def write_file(name: str, text: str) -> None:
        (folder / name).write_text(textwrap.dedent(text), encoding="utf-8")

    return write_file


def write_cluster(file: Path, *objects: Object) -> str:
    """The file with these objects, as kubectl would have saved them."""
    file.write_text(saved([*objects]))
    return str(file)


def requests_to(server: EmbeddedApiServer) -> list[HttpRequest]:
    """The requests that the server gets from now on; the list grows with them."""
    requests: list[HttpRequest] = []
    handle = server.api.handle

    def note(request: HttpRequest) -> Response:
        requests.append(request)
        return handle(request)

    server.api.handle = note  # type: ignore[method-assign]  # the one place that every request passes
    return requests
