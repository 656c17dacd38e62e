"""What observers of requests and watches are called with."""

from collections.abc import Callable, Iterable

import pytest

from tests.kube.reflecting import Answer, Item, Mirror, ScriptedClient, Waits, bookmark, decode, event, failure
from tests.kube.scripted import Reply, ScriptedServer, answer, chunked
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.config import Cluster
from toposcope.kube.errors import KubeError, UnreachableError
from toposcope.kube.reflector import Reflector

NODES = Request("GET", "/api/v1/nodes", {})


class Heard:
    """Codes of the answers, by path."""

    def __init__(self) -> None:
        self.codes: list[tuple[str, int]] = []
        self.begun = 0

    def __call__(self, request: Request) -> Callable[[int], None]:
        self.begun += 1
        return lambda code: self.codes.append((request.path, code))


def observed(url: str) -> tuple[ApiClient, Heard]:
    heard = Heard()
    return ApiClient(Cluster(url, None, lambda: None, "default"), observe=heard), heard


def test_every_answer_is_told_good_or_bad() -> None:
    with ScriptedServer([answer(), answer(b"{}", "409 Conflict"), answer()]) as server:
        client, heard = observed(server.url)
        client.read(NODES)
        with pytest.raises(KubeError):
            client.read(NODES)
        client.read(NODES)
        client.close()
    assert heard.codes == [("/api/v1/nodes", code) for code in (200, 409, 200)]


def test_a_request_without_an_answer_ends_too() -> None:
    with ScriptedServer([Reply(b"", close=True)]) as server:
        client, heard = observed(server.url)
        with pytest.raises(UnreachableError):
            client.read(NODES)
    with pytest.raises(UnreachableError):
        client.read(NODES)
    assert [code for _, code in heard.codes] == [0, 0]
    assert heard.begun == 2


def test_a_request_that_is_sent_twice_is_told_twice() -> None:
    """The server closed the kept connection meanwhile."""
    with ScriptedServer([answer(), Reply(b"", close=True), answer()]) as server:
        client, heard = observed(server.url)
        client.read(NODES)
        client.read(NODES)
        client.close()
    assert [code for _, code in heard.codes] == [200, 0, 200]


def test_a_watch_is_told_when_it_is_answered_and_not_when_it_ends() -> None:
    with ScriptedServer([chunked(b"{}\n"), answer(b"{}", "403 Forbidden")]) as server:
        client, heard = observed(server.url)
        lines = iter(client.stream(NODES, 10.0))
        assert heard.begun == 0
        assert next(lines) == b"{}"
        assert [code for _, code in heard.codes] == [200]
        assert list(lines) == []
        with pytest.raises(KubeError):
            list(client.stream(NODES, 10.0))
    with pytest.raises(UnreachableError):
        list(client.stream(NODES, 10.0))
    assert [code for _, code in heard.codes] == [200, 403, 0]


class Noted:
    """A reflector's observer."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def listed(self, path: str, reason: str) -> None:
        assert path == "/things"
        self.calls.append(reason)

    def heard(self, path: str) -> None:
        assert path == "/things"
        self.calls.append(".")

    def ended(self, path: str) -> None:
        assert path == "/things"
        self.calls.append("ended")


def followed(
    streams: Iterable[Answer], during: Callable[[Reflector[Item]], None] | None = None, newest: int = 10**6
) -> list[str]:
    stop, noted = Waits(100), Noted()
    client = ScriptedClient(stop, streams)
    client.newest = newest
    reflector = Reflector(client, "/things", decode, Mirror(), stop, observer=noted)
    if during:
        during(reflector)
    reflector.run()
    return noted.calls


def silent() -> KubeError:
    error = UnreachableError("nothing came")
    error.__cause__ = TimeoutError()
    return error


LIST = [event("ADDED", "a", 1), bookmark(1, end=True)]


def test_events_and_bookmarks_are_heard() -> None:
    assert followed([LIST, [event("MODIFIED", "a", 2), bookmark(3)]]) == ["first", ".", ".", ".", ".", "ended"]


@pytest.mark.parametrize(("trouble", "reason"), [(failure(410), ["."]), (silent(), [])], ids=["expired", "silent"])
def test_a_list_has_a_reason(trouble: bytes | KubeError, reason: list[str]) -> None:
    name = "expired" if reason else "silent"
    assert followed([LIST, [trouble], LIST]) == ["first", ".", ".", *reason, name, ".", ".", "ended"]


def test_a_list_after_a_restore_says_so() -> None:
    calls = followed([LIST, UnreachableError("away"), LIST], newest=0)
    assert calls == ["first", ".", ".", "restored", ".", ".", "ended"]


def test_a_list_that_fails_is_the_reason_of_the_next() -> None:
    assert followed([[UnreachableError("away")], LIST]) == ["first", "failed", ".", ".", "ended"]


def test_a_list_that_was_asked_for_says_so() -> None:
    calls = followed([LIST], during=lambda reflector: reflector.relist())
    assert calls[0] == "asked"
