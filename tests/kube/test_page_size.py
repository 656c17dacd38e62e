"""Lists of objects of any size: pages shrink until an answer is small enough."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from toposcope.kube.client import Request
from toposcope.kube.errors import AnswerTooLargeError, UnreachableError
from toposcope.kube.listing import everything
from toposcope.kube.page_size import PageSize

PATH = "/api/v1/nodes"


@dataclass
class Server:
    """Has `count` objects, and refuses pages of more than `most`; `limits` are those that it was asked for."""

    count: int
    most: int
    limits: list[int] = field(default_factory=list)

    def call(self, request: Request) -> Any:
        limit, start = int(request.query["limit"]), int(request.query.get("continue", "0"))
        self.limits.append(limit)
        if limit > self.most:
            raise AnswerTooLargeError("an answer of more than 32 MiB")
        names = [{"metadata": {"name": f"n{number}"}} for number in range(start, min(start + limit, self.count))]
        following = str(start + limit) if start + limit < self.count else ""
        return {"items": names, "metadata": {"continue": following}}


def test_a_list_of_large_objects_is_complete() -> None:
    server = Server(count=300, most=100)
    names = [item["metadata"]["name"] for item in everything(server, PATH)]
    assert names == [f"n{number}" for number in range(300)]
    assert server.limits == [500, 250, 125, 62, 62, 62, 62, 62]


def test_pages_shrink_to_one_object() -> None:
    server = Server(count=3, most=1)
    assert len(everything(server, PATH)) == 3
    assert server.limits == [500, 250, 125, 62, 31, 15, 7, 3, 1, 1, 1]


def test_an_object_that_is_too_large_by_itself_is_an_error() -> None:
    with pytest.raises(AnswerTooLargeError):
        everything(Server(count=1, most=0), PATH)


def test_another_failure_is_no_reason_for_smaller_pages() -> None:
    asked: list[str] = []

    def away(limit: str) -> None:
        asked.append(limit)
        raise UnreachableError("no answer")

    read: Callable[[str], None] = away
    with pytest.raises(UnreachableError, match="no answer"):
        PageSize(16).read(read)
    assert asked == ["16"]
