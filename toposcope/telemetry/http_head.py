"""The head of an HTTP/1 request, read strictly: a request is one of the few that are served.

For `node_endpoint`, whose clients are any pod of a node.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

LARGEST_HEAD: Final = 8 << 10
"""Bytes of request line and headers."""
LARGEST_TARGET: Final = 2 << 10
"""Bytes of path and query."""
END: Final = b"\r\n\r\n"
_LINE: Final = re.compile(r"([A-Za-z]{1,20}) (\S+) HTTP/1\.([01])")
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class HttpError(Exception):
    """A request that is refused: the status, what is wrong with it, and the fix."""

    def __init__(self, status: int, detail: str, fix: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.fix = fix


@dataclass(frozen=True, slots=True)
class RequestHead:
    """One request; none has a body."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """By names in lower case."""
    keeps_alive: bool


def check_unfinished(data: bytes | bytearray) -> None:
    """Raises HttpError where what came of a head is already too much."""
    if len(data) <= LARGEST_TARGET:
        return
    line_end = data.find(b"\n")
    target_length = len(data) if line_end < 0 else line_end
    if target_length > LARGEST_TARGET + len("OPTIONS  HTTP/1.1\r"):
        raise _too_long()
    if len(data) > LARGEST_HEAD:
        raise HttpError(
            431,
            f"the request's head has more than {LARGEST_HEAD >> 10} KiB",
            "send fewer or shorter headers, such as no cookies",
        )


def parse_head(data: bytes) -> RequestHead:
    """The request in a head without its blank line.

    Raises HttpError.
    """
    text = data.decode("latin-1")
    request_line, *header_lines = text.split("\r\n")
    match = _LINE.fullmatch(request_line)
    if match is None:
        raise HttpError(400, "the request line is not HTTP/1.0 or 1.1", "send GET PATH HTTP/1.1")
    method, target, minor = match.groups()
    if len(target) > LARGEST_TARGET:
        raise _too_long()

    headers = _headers(header_lines)
    _refuse_body(headers)
    path, _, query = target.partition("?")
    connection = headers.get("connection", "").lower()
    return RequestHead(
        method=method,
        path=path,
        query=_query(query),
        headers=headers,
        keeps_alive=minor == "1" and "close" not in connection,
    )


def _too_long() -> HttpError:
    return HttpError(
        414,
        f"the request's path has more than {LARGEST_TARGET} bytes",
        "GET /v1/topology",
    )


def _headers(lines: list[str]) -> dict[str, str]:
    """The headers by names in lower case; values of one name are joined. Raises HttpError."""
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or _HEADER_NAME.fullmatch(name) is None:
            raise HttpError(400, "a header is malformed", "send each header as NAME: VALUE")
        name = name.lower()
        value = value.strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _refuse_body(headers: Mapping[str, str]) -> None:
    """Raises HttpError where a body follows, which would be read as the next request."""
    length = headers.get("content-length", "0")
    if length != "0" or "transfer-encoding" in headers:
        raise HttpError(400, "the request has a body", "send GET or HEAD without a body")


def _query(text: str) -> dict[str, str]:
    """The parameters of a query. Raises HttpError where one comes twice."""
    parameters: dict[str, str] = {}
    for part in text.split("&"):
        if not part:
            continue
        name, _, value = part.partition("=")
        name = unquote(name)
        if name in parameters:
            raise HttpError(400, f"the parameter {name!r} is given twice", "give it once")
        parameters[name] = unquote(value)
    return parameters
