"""How tests run a command, and the clusters they give it."""

import json
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest
import yaml
from tests.support.saved import Object, saved
from toposcope.cli.main import main
from toposcope.simulator.apiserver import EmbeddedApiServer
from toposcope.simulator.apiserver.requests import Request, Response


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
        return yaml.safe_load(self.out)


class Command(Protocol):
    """Runs a command line, given in one piece or in several, and checks its exit code; `code=None` takes any."""

    def __call__(self, *words: object, code: int | None = 0) -> Ran: ...


@pytest.fixture
def toposcope(capsys: pytest.CaptureFixture[str]) -> Command:
    """The program, in this process."""

    def run(*words: object, code: int | None = 0) -> Ran:
        capsys.readouterr()
        try:
            ended = main(" ".join(map(str, words)).split())
        except SystemExit as end:  # help and wrong usage
            ended = int(end.code or 0)
        ran = Ran(ended, *capsys.readouterr())
        assert code in (None, ended), ran
        return ran

    return run


def page(name: str) -> str:
    """What a command is expected to print: a file in pages/."""
    return (Path(__file__).parent / "pages" / name).read_text(encoding="utf-8")


def write_cluster(file: Path, *objects: Object) -> str:
    """The file with these objects, as kubectl would have saved them."""
    file.write_text(saved([*objects]))
    return str(file)


def requests_to(server: EmbeddedApiServer) -> list[Request]:
    """The requests that the server gets from now on; the list grows with them."""
    requests: list[Request] = []
    handle = server.api.handle

    def note(request: Request) -> Response:
        requests.append(request)
        return handle(request)

    server.api.handle = note  # type: ignore[method-assign]  # the one place that every request passes
    return requests
