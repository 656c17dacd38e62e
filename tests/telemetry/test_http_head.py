"""Heads of requests: what is read of them, and what is refused."""

import pytest
from toposcope.telemetry.http_head import (
    LARGEST_HEAD,
    LARGEST_TARGET,
    HttpError,
    RequestHead,
    check_unfinished,
    parse_head,
)


def test_head_is_read_in_full() -> None:
    head = parse_head(
        b"GET /v1/topology?wait=60&&a%26b=c%3Dd HTTP/1.1\r\n"
        b"Host: \t10.0.0.1:9402 \r\n"
        b'IF-None-Match: "a"\r\n'
        b'if-none-match: "b"'
    )
    assert head == RequestHead(
        method="GET",
        path="/v1/topology",
        query={"wait": "60", "a&b": "c=d"},
        headers={"host": "10.0.0.1:9402", "if-none-match": '"a", "b"'},
        keeps_alive=True,
    )


@pytest.mark.parametrize(
    ("data", "keeps_alive"),
    [
        pytest.param(b"GET / HTTP/1.1", True, id="http-1.1"),
        pytest.param(b"GET / HTTP/1.1\r\nConnection: TE, Close", False, id="asked-for"),
        pytest.param(b"GET / HTTP/1.0", False, id="http-1.0"),
        pytest.param(b"GET / HTTP/1.0\r\nConnection: keep-alive", False, id="http-1.0-never"),
    ],
)
def test_connection_is_kept_as_its_version_and_its_header_say(data: bytes, keeps_alive: bool) -> None:
    assert parse_head(data).keeps_alive == keeps_alive


@pytest.mark.parametrize(
    ("data", "status", "detail"),
    [
        pytest.param(
            b"GET /v1/topology?wait=1&wa%69t=2 HTTP/1.1",
            400,
            "the parameter 'wait' is given twice",
            id="parameter-twice",
        ),
        pytest.param(
            b"GET /%s HTTP/1.1" % (b"x" * LARGEST_TARGET),
            414,
            "the request's path has more than 2048 bytes",
            id="target",
        ),
        pytest.param(b"GET / HTTP/1.1\r\nHost : x", 400, "a header is malformed", id="space-before-colon"),
        pytest.param(b"GET / HTTP/1.1\r\n folded: x", 400, "a header is malformed", id="folded"),
        pytest.param(b"GET / HTTP/1.1\r\n", 400, "a header is malformed", id="empty-header"),
        pytest.param(
            b"GET / HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 0", 400, "the request has a body", id="two-lengths"
        ),
        pytest.param(
            b"GET / HTTP/1.1\r\nTransfer-Encoding: identity", 400, "the request has a body", id="transfer-encoding"
        ),
    ],
)
def test_head_that_is_not_served_says_why(data: bytes, status: int, detail: str) -> None:
    with pytest.raises(HttpError) as caught:
        parse_head(data)
    assert caught.value.status == status
    assert caught.value.detail == detail


def test_unfinished_head_may_be_as_large_as_a_finished_one() -> None:
    check_unfinished(b"GET /" + b"x" * (LARGEST_TARGET - 5))
    line = b"GET /" + b"x" * (LARGEST_TARGET - 1) + b" HTTP/1.1\r\n"
    largest = line.ljust(LARGEST_HEAD, b"x")
    check_unfinished(largest)
    with pytest.raises(HttpError, match="the request's head has more than 8 KiB"):
        check_unfinished(largest + b"x")
