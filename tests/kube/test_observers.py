"""What observers of requests and watches are called with."""

import contextlib
from collections.abc import Callable

import pytest
from tests.kube.scripted import Reply, ScriptedServer, answer, chunked
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.credentials import Cluster
from toposcope.kube.errors import KubeError, UnreachableError

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


@pytest.mark.parametrize(
    ("replies", "requests", "codes"),
    [
        ([answer(), answer(b"{}", "409 Conflict"), answer()], 3, [200, 409, 200]),
        ([Reply(b"", close=True)], 1, [0]),
        ([answer(), Reply(b"", close=True), answer()], 2, [200, 0, 200]),  # the server closed the kept connection
    ],
    ids=["every answer", "none", "one that is sent twice"],
)
def test_what_became_of_each_request_is_told(replies: list[bytes | Reply], requests: int, codes: list[int]) -> None:
    with ScriptedServer(replies) as server:
        client, heard = observed(server.url)
        for _ in range(requests):
            with contextlib.suppress(KubeError):
                client.read(NODES)
        client.close()
    assert heard.codes == [("/api/v1/nodes", code) for code in codes]
    assert heard.begun == len(codes)


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
    with pytest.raises(UnreachableError):
        client.read(NODES)
    assert [code for _, code in heard.codes] == [200, 403, 0, 0]
