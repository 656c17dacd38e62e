"""A collection in pages ends, whatever the server answers, and pages shrink where objects are large."""

from collections.abc import Callable
from typing import Any

import pytest

from toposcope.kube import pages as pages_module
from toposcope.kube.client import Request
from toposcope.kube.errors import AnswerTooLargeError, UnreachableError
from toposcope.kube.listing import everything, token_of
from toposcope.kube.pages import pages

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
        if sum(self.sizes[start:end]) > self.largest:
            raise AnswerTooLargeError("too large")
        metadata = {"continue": str(end)} if end < len(self.sizes) else {}
        return {"metadata": metadata, "items": list(range(start, end))}

    def items(self) -> list[int]:
        return [item for page in pages(LIST, self.call, token_of) for item in page["items"]]


def test_all_objects_come_in_order_and_once() -> None:
    server = Server([1] * 1201, largest=500)
    assert server.items() == list(range(1201))
    assert server.limits == [500, 500, 500]


def test_pages_shrink_where_objects_are_large_and_stay_small() -> None:
    server = Server([1] * 40 + [100] * 20 + [1] * 40, largest=250)
    assert server.items() == list(range(100))
    assert server.limits == [500, 125, 31, 31, 7, 7, *[1] * 62]


def test_twenty_of_the_largest_objects_are_read_one_by_one() -> None:
    server = Server([1_500_000] * 20, largest=2 << 20)
    assert server.items() == list(range(20))


def test_one_object_that_is_too_large_ends_the_list_with_an_error() -> None:
    server = Server([1, 100], largest=50)
    with pytest.raises(AnswerTooLargeError):
        server.items()
    assert server.limits[-1] == 1


def answering(*tokens: str) -> Callable[[Request], Any]:
    """A server whose pages have these tokens, again and again."""
    given = 0

    def call(_request: Request) -> Any:
        nonlocal given
        token = tokens[given % len(tokens)]
        given += 1
        assert given < 100
        return {"metadata": {"continue": token}, "items": []}

    return call


@pytest.mark.parametrize("tokens", [("a",), ("a", "b"), ("a", "b", "c", "b")], ids="-".join)
def test_a_page_token_that_comes_again_is_an_error(tokens: tuple[str, ...]) -> None:
    with pytest.raises(UnreachableError, match=f"the list of {PATH} never ends: .* the same page token twice"):
        list(pages(LIST, answering(*tokens), token_of))


def test_a_list_without_end_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages_module, "MOST_PAGES", 50)
    with pytest.raises(UnreachableError, match=f"the list of {PATH} has more than 50 pages"):
        list(pages(LIST, answering(*map(str, range(99))), token_of))


def test_a_whole_collection_is_read_by_these_rules() -> None:
    class Endless:
        def call(self, _request: Request) -> Any:
            return {"metadata": {"continue": "again"}, "items": [{}]}

    with pytest.raises(UnreachableError, match="never ends"):
        everything(Endless(), PATH)
