"""A list ends, whatever a server answers, and whoever reads it."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from toposcope.kube.client import Request
from toposcope.kube.errors import UnreachableError
from toposcope.kube.listing import everything
from toposcope.kube.pages import MOST_PAGES, Pages
from toposcope.kube.reflector import Reflector
from toposcope.snapshot.live import load_live
from toposcope.switches.publish import Publisher


class Server:
    """Answers every list with this token; nothing else is asked."""

    server = "https://api"

    def __init__(self, token: Callable[[int], str]) -> None:
        self._token = token
        self.count = 0

    def call(self, request: Request) -> Any:
        return msgspec.json.decode(self.read(request))

    def read(self, _request: Request) -> bytes:
        self.count += 1
        assert self.count < MOST_PAGES + 10
        metadata = {"resourceVersion": "1", "continue": self._token(self.count)}
        return msgspec.json.encode({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": []})


def list_everything(server: Any) -> None:
    everything(server, "/api/v1/nodes")


def list_live(server: Any) -> None:
    load_live(server, "a", datetime(2026, 1, 1, tzinfo=UTC))


def list_switches(server: Any) -> None:
    Publisher(server, "n").miscabled()


@pytest.mark.parametrize("read", [list_everything, list_live, list_switches])
def test_a_token_that_comes_again_ends_the_list(read: Callable[[Any], None]) -> None:
    server = Server(lambda _: "t")
    with pytest.raises(UnreachableError, match=r"the list does not end: .* the same continue token twice"):
        read(server)
    assert server.count == 2


def test_tokens_that_go_in_a_circle_end_the_list() -> None:
    server = Server(lambda count: str(count % 7))
    with pytest.raises(UnreachableError, match="the same continue token twice, after 8 pages"):
        list_everything(server)


def test_a_list_of_ever_new_tokens_ends() -> None:
    server = Server(str)
    with pytest.raises(UnreachableError, match="its list has more than 20,000 pages"):
        list_everything(server)
    assert server.count == MOST_PAGES


@pytest.mark.parametrize("token", ["x" * 20_000, 7, ["a"]])
def test_what_is_no_token(token: Any) -> None:
    with pytest.raises(UnreachableError, match=r"GET /p: .* is not text of up to 16,384 characters"):
        Pages("/p").following(token)


def test_pages_are_counted() -> None:
    pages = Pages("/p")
    assert [pages.following(token) for token in ("a", "b", "", None)] == ["a", "b", "", ""]
    assert pages.count == 4


def test_a_reflector_s_pages_end_too() -> None:
    server = Server(lambda _: "t")
    reflector: Any = object.__new__(Reflector)
    reflector._client, reflector._path, reflector._accept = server, "/api/v1/nodes", "application/json"
    with pytest.raises(UnreachableError, match="the same continue token twice"):
        reflector._paged()
