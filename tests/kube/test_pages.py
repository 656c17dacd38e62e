"""A collection in pages ends, whatever the server answers, and pages shrink where objects are large."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from toposcope.kube import pages as pages_module
from toposcope.kube.client import Request
from toposcope.kube.errors import AnswerTooLargeError, UnreachableError
from toposcope.kube.listing import everything, token_of
from toposcope.kube.pages import pages
from toposcope.kube.reflector import Reflector
from toposcope.snapshot.live import load_live
from toposcope.switches.publish import SwitchesPublisher

PATH = "/apis/gpu.topology/v1alpha1/clustertopologies"
LIST = Request("GET", PATH, {"labelSelector": "a=b"})


class Server:
    """A collection of objects of some size; an answer of more than `largest` is too large."""

    def __init__(self, sizes: list[int], largest: int) -> None:
        self.sizes = sizes
        self.largest = largest
        self.limits: list[int] = []

    def call(self, request: Request) -> Any:
        assert request.query["labelSelector"] == "a=b"
        limit = int(request.query["limit"])
        self.limits.append(limit)
        start = int(request.query.get("continue", "0"))
        end = min(start + limit, len(self.sizes))
        size = sum(self.sizes[start:end])
        if size > self.largest:
            raise AnswerTooLargeError("too large")
        metadata = {}
        if end < len(self.sizes):
            metadata["continue"] = str(end)
        return {"metadata": metadata, "items": list(range(start, end))}

    def items(self) -> list[int]:
        items: list[int] = []
        for page in pages(LIST, self.call, token_of):
            items += page["items"]
        return items


def test_all_objects_come_in_order_and_once() -> None:
    server = Server([1] * 1201, largest=500)
    assert server.items() == list(range(1201))
    assert server.limits == [500, 500, 500]


def test_pages_shrink_where_objects_are_large_and_stay_small() -> None:
    sizes = [*[1] * 40, *[100] * 20, *[1] * 40]
    server = Server(sizes, largest=250)
    assert server.items() == list(range(100))
    shrinking = [500, 125, 31, 31, 7, 7]
    assert server.limits[:6] == shrinking
    assert server.limits[6:] == [1] * 62


def test_twenty_of_the_largest_objects_are_read_one_by_one() -> None:
    server = Server([1_500_000] * 20, largest=2 << 20)
    assert server.items() == list(range(20))


def test_one_object_that_is_too_large_ends_the_list_with_an_error() -> None:
    server = Server([1, 100], largest=50)
    with pytest.raises(AnswerTooLargeError):
        server.items()
    assert server.limits[-1] == 1


class Endless:
    """Answers every list with a page whose token is made from its number; nothing else is asked."""

    server = "https://api"

    def __init__(self, token: Callable[[int], Any]) -> None:
        self._token = token
        self.count = 0

    def call(self, request: Request) -> Any:
        return msgspec.json.decode(self.read(request))

    def read(self, _request: Request) -> bytes:
        self.count += 1
        assert self.count < 1000
        metadata = {
            "resourceVersion": "1",
            "continue": self._token(self.count),
        }
        body = {
            "kind": "List",
            "apiVersion": "v1",
            "metadata": metadata,
            "items": [],
        }
        return msgspec.json.encode(body)


def list_everything(server: Any) -> None:
    everything(server, "/api/v1/nodes")


def list_live(server: Any) -> None:
    load_live(server, "a", datetime(2026, 1, 1, tzinfo=UTC))


def list_switches(server: Any) -> None:
    SwitchesPublisher(server, "n").miscabled()


@pytest.mark.regression
@pytest.mark.parametrize("read", [list_everything, list_live, list_switches])
def test_a_token_that_comes_again_ends_the_list(read: Callable[[Any], None]) -> None:
    server = Endless(lambda _: "t")
    with pytest.raises(UnreachableError, match=r"the list does not end: .* the same continue token twice"):
        read(server)
    assert server.count == 2


def test_a_reflector_s_pages_end_too() -> None:
    reflector: Any = object.__new__(Reflector)
    reflector._client = Endless(lambda _: "t")
    reflector._path = "/api/v1/nodes"
    reflector._accept = "application/json"
    reflector._selected = {}
    with pytest.raises(UnreachableError, match="the same continue token twice"):
        reflector._paged()


def test_tokens_that_go_in_a_circle_end_the_list() -> None:
    server = Endless(lambda count: str(count % 7))
    with pytest.raises(UnreachableError, match="the same continue token twice, after 8 pages"):
        list_everything(server)


def test_a_list_of_ever_new_tokens_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages_module, "MOST_PAGES", 50)
    server = Endless(str)
    with pytest.raises(UnreachableError, match="its list has more than 50 pages"):
        list_everything(server)
    assert server.count == 50


@pytest.mark.parametrize(
    "token",
    [
        pytest.param("x" * 20_000, id="long"),
        pytest.param(7, id="number"),
        pytest.param(["a"], id="list"),
    ],
)
def test_what_is_no_token(token: Any) -> None:
    def call(_request: Request) -> Any:
        return {"metadata": {"continue": token}, "items": []}

    with pytest.raises(UnreachableError, match=f"GET {PATH}: .* is not text of up to 16,384 characters"):
        list(pages(LIST, call, token_of))
