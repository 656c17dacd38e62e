import threading

import pytest

from tools.bench.serve import Journal
from toposcope.simulator.apiserver.requests import Request, Response


def answered(_: Request) -> Response:
    return Response(200, [])


def request(method: str, path: str) -> Request:
    return Request(method, path, {}, {})


def test_entries_are_kept_until_they_are_forgotten() -> None:
    journal = Journal(answered)
    journal.handle(request("GET", "/a"))
    ((method, path, came, done),) = journal.obey("await", "GET", "/a")
    assert (method, path) == ("GET", "/a")
    assert came <= done
    journal.obey("forget")
    assert journal.obey("entries") == []


def test_held_request_is_answered_after_its_release() -> None:
    journal = Journal(answered)
    journal.obey("hold", "PATCH", "/status")
    journal.handle(request("GET", "/status"))  # another method passes
    thread = threading.Thread(target=journal.handle, args=(request("PATCH", "/x/status"),))
    thread.start()
    came = journal.obey("held")
    assert [entry[0] for entry in journal.obey("entries")] == ["GET"]
    journal.obey("release")
    thread.join()
    assert journal.obey("await", "PATCH", "/x")[-1][2] == came


def test_unknown_order_is_refused() -> None:
    with pytest.raises(ValueError, match="no such order: sing"):
        Journal(answered).obey("sing")
