"""Requests and streams against a server that sends what real servers, proxies and broken networks send."""

import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest
import toposcope.kube.client
from tests.kube.scripted import Reply, ScriptedServer, answer, chunked
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.credentials import ClusterAccess
from toposcope.kube.errors import AnswerTooLargeError, ApiError, ConfigError, ResourceExpiredError, UnreachableError
from toposcope.kube.requests import apply, get

NODE = "/api/v1/nodes/n1"
PATCH = apply(NODE, {"metadata": {"name": "n1"}}, "tester", force=True)
WATCH = Request("GET", "/api/v1/nodes", {"watch": "true"})
Scripted = Callable[..., ScriptedServer]
Ask = Callable[[bytes | Reply], object]
PATIENCE = 30.0  # seconds until a test gives up


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    """A started server with this script."""
    with ExitStack() as stack:
        yield lambda *replies: stack.enter_context(ScriptedServer(replies))


@pytest.fixture
def ask(scripted: Scripted) -> Ask:
    """The answer to a GET, or its error, where the server sends this reply."""
    return lambda reply: scripted(reply).client().call(get(NODE))


def read_node(client: ApiClient) -> bytes:
    return client.read(get(NODE))


def lines(server: ScriptedServer, idle_timeout: float = 10.0) -> list[bytes]:
    client = server.client()
    return list(client.stream(WATCH, idle_timeout))


@contextmanager
def refused_in_a_thread(work: Callable[[], object]) -> Iterator[None]:
    """Work in a thread that ends with UnreachableError because of what the block does."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        yield
        with pytest.raises(UnreachableError):
            future.result(PATIENCE)


class TestErrors:
    def test_a_status_becomes_an_error_with_its_parts(self, ask: Ask) -> None:
        status = b'{"kind":"Status","reason":"Conflict","message":"Apply failed with 1 conflict","code":409}'
        conflict = answer(status, "409 Conflict")
        with pytest.raises(ApiError) as caught:
            ask(conflict)
        error = caught.value
        assert error.status == 409
        assert error.reason == "Conflict"
        assert error.message == "Apply failed with 1 conflict"
        assert error.is_conflict
        assert not error.is_not_found
        assert error.retry_after is None
        assert str(error) == "409 Conflict: Apply failed with 1 conflict"

    def test_410_is_an_error_of_its_own(self, ask: Ask) -> None:
        status = b'{"reason":"Expired","message":"too old resource version"}'
        expired = answer(status, "410 Gone")
        with pytest.raises(ResourceExpiredError, match="too old"):
            ask(expired)

    @pytest.mark.parametrize(
        ("header", "seconds"),
        [
            pytest.param("7", 7, id="7"),
            pytest.param("0", 0, id="0"),
            pytest.param("86400", 300, id="a-day"),
            pytest.param("9" * 400, 300, id="huge"),
            pytest.param("Wed, 21 Oct 2026 07:28:00 GMT", None, id="date"),
            pytest.param("-1", None, id="negative"),
            pytest.param("", None, id="empty"),
            pytest.param("²", None, id="superscript"),
        ],
    )
    def test_retry_after(self, ask: Ask, header: str, seconds: float | None) -> None:
        busy = answer(b"{}", "429 Too Many Requests", Retry_After=header)
        with pytest.raises(ApiError) as caught:
            ask(busy)
        assert caught.value.retry_after == seconds

    @pytest.mark.parametrize(
        ("page", "times", "words"),
        [
            pytest.param("<html><h1>502 Bad Gateway</h1></html>", 1, "<h1>502 Bad Gateway</h1>", id="html"),
            pytest.param("", 1, "502 Bad Gateway: ", id="empty"),
            pytest.param("ÿþ\x00", 1, "�", id="no-utf8"),
            pytest.param("[1, 2]", 1, "[1, 2]", id="json-list"),
            pytest.param('{"message": "no Status"}', 1, "502 Bad Gateway: no Status", id="json-message"),
            pytest.param("[", 100000, "502 Bad Gateway: [[[", id="nested"),
        ],
    )
    def test_an_error_page_of_a_proxy_is_quoted(self, ask: Ask, page: str, times: int, words: str) -> None:
        body = page.encode("latin-1") * times
        with pytest.raises(ApiError) as caught:
            ask(answer(body, "502 Bad Gateway"))
        message = str(caught.value)
        assert words in message
        assert len(message) < 300

    @pytest.mark.parametrize(
        "body",
        [
            pytest.param(b"", id="empty"),
            pytest.param(b"<html>", id="html"),
            pytest.param(b'{"a":', id="cut"),
            pytest.param(b'{"a": "\xff"}', id="no-utf8"),
            pytest.param(b"[" * 100_000, id="nested"),
        ],
    )
    def test_an_answer_that_is_no_json(self, ask: Ask, body: bytes) -> None:
        with pytest.raises(UnreachableError, match=f"GET {NODE} is not JSON"):
            ask(answer(body))

    def test_a_redirect_is_not_followed_with_our_token(self, ask: Ask) -> None:
        found = answer(b"<html>", "302 Found", Location="https://l.example/\x1b")
        with pytest.raises(UnreachableError, match=r"\(302\) to https://l\.example/\\u001b, .*API server's own URL"):
            ask(found)

    @pytest.mark.parametrize(
        ("said", "more"),
        [
            pytest.param("", 0, id="empty"),
            pytest.param("SSH-2.0-OpenSSH_9.6\r\n", 0, id="ssh"),
            pytest.param("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234", 0, id="short-body"),
            pytest.param("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n", 0, id="short-chunks"),
            pytest.param("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 0, id="bad-chunk"),
            pytest.param("HTTP/1.1 200 OK\r\nX: ", 70000, id="long-header"),
        ],
    )
    def test_what_is_no_complete_http(self, ask: Ask, said: str, more: int) -> None:
        reply = Reply(said.encode() + b"x" * more, close=True)
        with pytest.raises(UnreachableError, match=r"http://127\.0\.0\.1:\d+ does not answer: "):
            ask(reply)

    def test_an_answer_without_end(self, scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(toposcope.kube.client, "_MOST_ANSWER_BYTES", 1000)
        endless = chunked(b"x" * 2000, complete=False)
        client = scripted(endless, answer(b"2")).client()
        with pytest.raises(AnswerTooLargeError, match="too large to be read whole"):
            read_node(client)
        assert read_node(client) == b"2"

    def test_nobody_listens(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            _, port = listener.getsockname()
        server = f"http://127.0.0.1:{port}"
        client = ApiClient(ClusterAccess(server, None, lambda: None, "default"))
        with pytest.raises(UnreachableError, match=f"{server} does not answer: .*refused"):
            read_node(client)

    def test_a_frozen_server(self, scripted: Scripted) -> None:
        client = scripted(Reply(None)).client(timeout=0.01)
        with pytest.raises(UnreachableError, match="does not answer: timed out"):
            read_node(client)

    def test_bad_credentials_are_no_traceback_and_no_half_used_connection(self, scripted: Scripted) -> None:
        server = scripted(answer(b"1"))
        tokens: list[str | None] = ["good"]

        def token() -> str | None:
            if not tokens:
                raise ConfigError("token file /t: gone")
            return tokens.pop()

        cluster = ClusterAccess(server.url, None, token, "default")
        client = ApiClient(cluster)
        assert read_node(client) == b"1"
        with pytest.raises(ConfigError, match="/t: gone"):
            read_node(client)
        client.close()


class TestRequests:
    def test_what_is_sent(self, scripted: Scripted) -> None:
        server = scripted(answer())
        cluster = ClusterAccess(
            server.url + "/k8s/clusters/c-1/",
            None,
            lambda: "secret",
            "team",
        )
        client = ApiClient(cluster, "tester")
        client.read(PATCH)
        (received,) = server.received
        assert received.method == "PATCH"
        assert received.target == f"/k8s/clusters/c-1{NODE}?fieldManager=tester&force=true"
        assert received.headers["Authorization"] == "Bearer secret"
        assert received.headers["Content-Type"] == "application/apply-patch+yaml"
        assert received.headers["User-Agent"].startswith("tester/")
        assert received.body == b'{"metadata":{"name":"n1"}}'
        assert client.namespace == "team"
        client.close()

    @pytest.mark.parametrize(
        "name",
        [
            pytest.param("no such node", id="spaces"),
            pytest.param("kn\u00f6ten", id="another-script"),
            pytest.param("a?b=c", id="question-mark"),
            pytest.param("a\r\nX: y", id="line-end"),
            pytest.param("a#b", id="hash"),
        ],
    )
    def test_any_name_stays_within_the_path(self, scripted: Scripted, name: str) -> None:
        server = scripted(answer())
        client = server.client()
        client.read(get(f"/api/v1/nodes/{name}"))
        (received,) = server.received
        assert received.target.startswith("/api/v1/nodes/")
        assert received.target.isascii()
        for delimiter in " ?#\r\n":
            assert delimiter not in received.target

    def test_one_connection_serves_many_requests(self, scripted: Scripted) -> None:
        server = scripted(
            answer(b"1"),
            chunked(b"2"),
            answer(b"{}", "404 Not Found"),
            answer(b"3"),
        )
        client = server.client()
        assert read_node(client) == b"1"
        assert read_node(client) == b"2"
        with pytest.raises(ApiError):
            read_node(client)
        assert read_node(client) == b"3"
        assert server.connections == 1

    def test_a_server_may_end_the_connection_politely(self, scripted: Scripted) -> None:
        last = Reply(answer(b"1", Connection="close"), close=True)
        server = scripted(last, answer(b"2"))
        client = server.client()
        assert read_node(client) == b"1"
        assert read_node(client) == b"2"
        assert server.connections == 2

    def test_a_kept_connection_that_was_closed_is_made_anew(self, scripted: Scripted) -> None:
        closed_after = Reply(answer(b"1"), close=True)
        server = scripted(closed_after, answer(b"2"))
        client = server.client()
        read_node(client)
        assert client.read(PATCH) == b"2"
        first, second = server.received
        assert first.method == "GET"
        assert second.method == "PATCH"

    def test_a_server_that_always_hangs_up_is_asked_twice_and_no_more(self, scripted: Scripted) -> None:
        server = scripted(
            Reply(answer(b"1")),
            Reply(b"", close=True),
            Reply(b"", close=True),
            answer(b"4"),
        )
        client = server.client()
        read_node(client)
        with pytest.raises(UnreachableError):
            client.read(PATCH)
        assert len(server.received) == 3

    def test_after_a_timeout_nothing_is_sent_again(self, scripted: Scripted) -> None:
        server = scripted(answer(b"1"), Reply(None), answer(b"3"))
        client = server.client(timeout=0.5)
        read_node(client)
        with pytest.raises(UnreachableError, match="timed out"):
            client.read(PATCH)
        assert len(server.received) == 2
        assert read_node(client) == b"3"

    def test_threads_take_turns(self, scripted: Scripted) -> None:
        count = 40
        answers = [answer(str(number).encode()) for number in range(count)]
        server = scripted(*answers)
        client = server.client()
        clients = [client] * count
        with ThreadPoolExecutor(4) as pool:
            bodies = list(pool.map(read_node, clients, timeout=PATIENCE))
        numbers = sorted(int(body) for body in bodies)
        assert numbers == list(range(count))
        assert server.connections == 1

    @pytest.mark.regression
    def test_a_closed_client_opens_no_connection(self, scripted: Scripted) -> None:
        server = scripted(answer(b"1"), answer(b"2"))
        client = server.client()
        assert read_node(client) == b"1"
        client.close()
        with pytest.raises(UnreachableError, match="this client is closed"):
            read_node(client)
        assert server.connections == 1

    @pytest.mark.regression
    def test_closing_ends_the_request_in_flight_and_its_connection(self, scripted: Scripted) -> None:
        server = scripted(answer(b"1"), Reply(None))
        client = server.client(timeout=PATIENCE)
        read_node(client)
        with refused_in_a_thread(lambda: client.read(PATCH)):
            assert server.asked.acquire(timeout=PATIENCE)
            assert server.asked.acquire(timeout=PATIENCE)
            client.close()
        assert client._connection is None
        assert server.connections == 1

    @pytest.mark.regression
    @pytest.mark.parametrize("stream", [False, True])
    def test_an_answer_that_breaks_off_leaves_no_socket_open(self, scripted: Scripted, stream: bool) -> None:
        """An error is kept for as long as a watch fails, and its traceback keeps what the request used."""
        cut = b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"
        client = scripted(Reply(cut, close=True)).client()
        used: list[socket.socket] = []
        connect = socket.create_connection

        def noted(address: tuple[str, int], timeout: float) -> socket.socket:
            connection = connect(address, timeout)
            used.append(connection)
            return connection

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(socket, "create_connection", noted)
            with pytest.raises(UnreachableError) as kept:
                _ = list(client.stream(WATCH, PATIENCE)) if stream else read_node(client)
        (connection,) = used
        assert connection.fileno() == -1
        assert kept.value.__traceback__ is not None


class TestStreams:
    TEXT = b'{"type":"ADDED","object":{"a":"\xc3\xbc"}}\n{"type":"DELETED"}\n{"type":"BOOKMARK"}\n'

    def test_lines_are_whole_wherever_chunks_end(self, scripted: Scripted) -> None:
        replies = []
        for offset in range(len(self.TEXT) + 1):
            two_chunks = chunked(self.TEXT[:offset], self.TEXT[offset:])
            replies.append(Reply(two_chunks, close=True))
        single_bytes = [bytes([byte]) for byte in self.TEXT]
        replies.append(Reply(chunked(*single_bytes), close=True))

        server = scripted(*replies)
        expected = self.TEXT.splitlines()
        for _ in replies:
            assert lines(server) == expected

    def test_lines_arrive_before_the_stream_ends(self, scripted: Scripted) -> None:
        unfinished = Reply(chunked(self.TEXT, complete=False))
        client = scripted(unfinished).client()
        stream = client.stream(WATCH, PATIENCE)
        reader = iter(stream)
        first_line = self.TEXT.splitlines()[0]
        assert next(reader) == first_line
        stream.interrupt()
        with pytest.raises(UnreachableError):
            list(reader)

    @pytest.mark.parametrize("at", [1, 20, 60])
    @pytest.mark.parametrize("complete", [True, False])
    def test_a_line_that_is_cut_is_no_line(self, scripted: Scripted, at: int, complete: bool) -> None:
        cut = chunked(self.TEXT[:at], complete=complete)
        server = scripted(Reply(cut, close=True))
        got: list[bytes] = []
        with pytest.raises(UnreachableError):
            got.extend(lines(server))
        assert not got

    def test_a_connection_lost_between_lines_is_no_end(self, scripted: Scripted) -> None:
        unfinished = chunked(self.TEXT, complete=False)
        server = scripted(Reply(unfinished, close=True))
        with pytest.raises(UnreachableError):
            lines(server)

    def test_a_server_that_ends_early_ends_the_stream(self, scripted: Scripted) -> None:
        server = scripted(Reply(chunked(), close=True))
        assert lines(server) == []

    def test_a_line_without_end(self, scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(toposcope.kube.client, "_MOST_LINE_BYTES", 1 << 20)
        blocks = [b"x" * 70_000] * 30
        server = scripted(Reply(chunked(*blocks, complete=False)))
        with pytest.raises(UnreachableError, match="not a Kubernetes API server"):
            lines(server)

    def test_a_refused_watch(self, scripted: Scripted) -> None:
        expired = answer(b'{"reason":"Expired","message":"too old"}', "410 Gone")
        busy = answer(b"<html>", "429 Too Many Requests", Retry_After="9")
        redirect = answer(b"", "307 Temporary Redirect", Location="/elsewhere")
        server = scripted(
            Reply(expired, close=True),
            Reply(busy, close=True),
            Reply(redirect, close=True),
        )
        with pytest.raises(ResourceExpiredError):
            lines(server)
        with pytest.raises(ApiError) as caught:
            lines(server)
        assert caught.value.retry_after == 9
        with pytest.raises(UnreachableError, match="/elsewhere"):
            lines(server)

    def test_a_half_open_connection(self, scripted: Scripted) -> None:
        server = scripted(Reply(None))
        with pytest.raises(UnreachableError, match="timed out"):
            lines(server, idle_timeout=0.01)

    def test_interrupted_by_another_thread_while_it_waits(self, scripted: Scripted) -> None:
        server = scripted(Reply(None))
        stream = server.client().stream(WATCH, PATIENCE)
        with refused_in_a_thread(lambda: list(stream)):
            assert server.asked.acquire(timeout=PATIENCE)
            stream.interrupt()
        stream.interrupt()  # too late, and harmless

    def test_interrupted_when_the_server_has_announced_to_close(self, scripted: Scripted) -> None:
        """http.client then forgets the connection's socket, and reads on."""
        unfinished = chunked(self.TEXT, complete=False)
        head, body = unfinished.split(b"\r\n\r\n", 1)
        announced = Reply(head + b"\r\nConnection: close\r\n\r\n" + body)
        client = scripted(announced, Reply(None)).client()
        stream = client.stream(WATCH, 2.0)
        reader = iter(stream)
        for line in self.TEXT.splitlines():
            assert next(reader) == line
        stream.interrupt()
        with pytest.raises(UnreachableError, match="IncompleteRead"):
            next(reader)

    def test_interrupted_before_it_began(self, scripted: Scripted) -> None:
        server = scripted(Reply(None))
        stream = server.client().stream(WATCH, PATIENCE)
        stream.interrupt()
        with pytest.raises(UnreachableError, match="interrupted"):
            list(stream)
        assert not server.received

    def test_streams_do_not_keep_requests_waiting(self, scripted: Scripted) -> None:
        server = scripted(chunked(b"1\n", complete=False), answer(b"2"))
        client = server.client()
        reader = iter(client.stream(WATCH, PATIENCE))
        assert next(reader) == b"1"
        assert read_node(client) == b"2"
        assert server.connections == 2
        del reader  # closes its connection


@pytest.mark.parametrize(
    ("details", "causes"),
    [
        pytest.param(
            {"causes": [{"field": "spec.x", "message": "no\nline"}, "odd", {"field": "<nil>", "message": "bad"}, {}]},
            (("spec.x", "no line"), ("", "bad"), ("", "")),
            id="fields",
        ),
        pytest.param({"causes": {}}, (), id="no-list"),
        pytest.param([], (), id="no-mapping"),
    ],
)
def test_error_has_its_causes_by_field(details: object, causes: tuple[tuple[str, str], ...]) -> None:
    body = json.dumps({"kind": "Status", "message": "not valid", "details": details})
    refusal = answer(body.encode(), "422 Unprocessable Entity")
    with ScriptedServer([refusal]) as server, pytest.raises(ApiError) as caught:
        server.client().call(Request("GET", "/api/v1/nodes/n", {}))
    assert caught.value.causes == causes


@pytest.mark.regression
@pytest.mark.parametrize(
    ("request_", "body", "wrong"),
    [
        pytest.param("GET /api/v1/nodes/n", "[]", "it is not a mapping", id="list"),
        pytest.param("GET /api/v1/nodes/n", "null", "it is not a mapping", id="null"),
        pytest.param("GET /api/v1/nodes/n", "{}", "metadata is missing", id="no-metadata"),
        pytest.param("PATCH /api/v1/nodes/n", '{"metadata":"x"}', "metadata is not a mapping", id="metadata-text"),
        pytest.param(
            "PATCH /api/v1/nodes/n/status", '{"metadata":{"name":"n"}}', "metadata.uid is missing", id="no-uid"
        ),
        pytest.param(
            "GET /api/v1/nodes/n",
            '{"metadata":{"name":"n","uid":"u","labels":[]}}',
            "metadata.labels is not a mapping",
            id="label-list",
        ),
        pytest.param(
            "GET /api/v1/nodes/n",
            '{"metadata":{"name":"n","uid":"u","labels":{"a":1}}}',
            "metadata.labels.a is not text",
            id="number-label",
        ),
        pytest.param(
            "GET /api/v1/nodes/n",
            '{"metadata":{"name":"n","uid":"u","finalizers":[1]}}',
            r"metadata.finalizers\[0\] is not text",
            id="number-finalizer",
        ),
        pytest.param(
            "GET /api/v1/nodes/n",
            '{"metadata":{"name":"n","uid":"u","managedFields":[{"fieldsV1":{"f:metadata":[]}}]}}',
            r"metadata.managedFields\[0\].fieldsV1.f:metadata is not a mapping",
            id="managed-fields",
        ),
        pytest.param(
            "GET /api/v1/nodes/n",
            '{"metadata":{"name":"n","uid":"u"},"status":"Success"}',
            "status is not a mapping",
            id="status-text",
        ),
        pytest.param("GET /api/v1/nodes", '{"metadata":{},"items":{}}', "items is not a list", id="items-mapping"),
        pytest.param("GET /api/v1/nodes", '{"metadata":{},"items":[null]}', r"items\[0\] is missing", id="item-null"),
        pytest.param(
            "GET /api/v1/nodes", '{"metadata":{"continue":1}}', "metadata.continue is not text", id="number-continue"
        ),
        pytest.param("POST /api/v1/nodes", "{}", "metadata is missing", id="created-without-metadata"),
        pytest.param("DELETE /api/v1/nodes/n", "[]", "it is not a mapping", id="deleted-list"),
        pytest.param("GET /apis", "{}", "groups is missing", id="no-groups"),
        pytest.param("GET /apis/a.b", '{"versions":["v1"]}', r"versions\[0\] is not a mapping", id="version-text"),
        pytest.param(
            "GET /apis/a.b/v1", '{"resources":[{}]}', r"resources\[0\].name is missing", id="resource-without-name"
        ),
    ],
)
def test_another_shape_is_no_answer(request_: str, body: str, wrong: str) -> None:
    method, path = request_.split()
    request = Request(method, path, {})
    message = f"^the answer to {request_} is not a Kubernetes API server's: {wrong} in "
    with ScriptedServer([answer(body.encode())]) as server:
        client = server.client()
        with pytest.raises(UnreachableError, match=message):
            client.call(request)


@pytest.mark.parametrize(
    ("request_", "body"),
    [
        pytest.param(
            "GET /api/v1/nodes/n",
            '{"metadata":{"name":"n","uid":"u","labels":null,"ownerReferences":[]},"spec":{},"more":[1]}',
            id="node",
        ),
        pytest.param("GET /api/v1/nodes", '{"metadata":{},"items":null}', id="no-items"),
        pytest.param(
            "GET /api/v1/nodes",
            '{"metadata":{"continue":"x"},"items":[{"metadata":{"name":"n","uid":"u"}}]}',
            id="page",
        ),
        pytest.param("DELETE /api/v1/nodes/n", '{"kind":"Status","metadata":{},"status":"Success"}', id="deleted"),
        pytest.param("GET /api", '{"versions":["v1"]}', id="versions"),
        pytest.param("GET /api/v1", '{"resources":[{"name":"nodes"}]}', id="resources"),
        pytest.param("GET /version", '{"major":"1"}', id="version"),
    ],
)
def test_what_a_server_sends_is_taken(request_: str, body: str) -> None:
    method, path = request_.split()
    request = Request(method, path, {})
    with ScriptedServer([answer(body.encode())]) as server:
        taken = server.client().call(request)
    assert isinstance(taken, dict)
