"""What observers of requests and watches are called with."""

import contextlib
from collections.abc import Callable, Sequence

import pytest
from tests.kube.scripted import Reply, ScriptedServer, answer, chunked
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.credentials import ClusterAccess
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
    cluster = ClusterAccess(url, None, lambda: None, "default")
    return ApiClient(cluster, observe=heard), heard


EVERY_ANSWER = (answer(), answer(b"{}", "409 Conflict"), answer())
NO_ANSWER = (Reply(b"", close=True),)
CONNECTION_CLOSED_BETWEEN = (answer(), Reply(b"", close=True), answer())
"""Of which the second is sent twice."""


@pytest.mark.parametrize(
    ("replies", "requests", "codes"),
    [
        pytest.param(EVERY_ANSWER, 3, [200, 409, 200], id="every-answer"),
        pytest.param(NO_ANSWER, 1, [0], id="none"),
        pytest.param(CONNECTION_CLOSED_BETWEEN, 2, [200, 0, 200], id="sent-twice"),
    ],
)
def test_what_became_of_each_request_is_told(replies: Sequence[bytes | Reply], requests: int, codes: list[int]) -> None:
    with ScriptedServer(replies) as server:
        client, heard = observed(server.url)
        for _ in range(requests):
            with contextlib.suppress(KubeError):
                client.read(NODES)
        client.close()
    heard_codes = []
    for path, code in heard.codes:
        assert path == "/api/v1/nodes"
        heard_codes.append(code)
    assert heard_codes == codes
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
