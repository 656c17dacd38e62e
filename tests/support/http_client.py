"""A plain HTTP client, so that API tests do not depend on the library they help to test."""

from __future__ import annotations

import http.client
import json
import select
import ssl
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Answer:
    """One response: `body` is decoded JSON, or text where the server sends text."""

    code: int
    headers: Mapping[str, str]
    body: Any


class HttpClient:
    """Requests to one server; `timeout` in seconds.

    Over TLS a connection serves one request after the other: handshakes would be most of what a request costs; `close`
    ends those that are kept. A plain one serves a single request.
    """

    def __init__(self, url: str, ca_file: Path | None, timeout: float = 30) -> None:
        split = urlsplit(url)
        self._address = (split.hostname or "", split.port or 0)
        self._context = ssl.create_default_context(cafile=ca_file) if ca_file else None
        self._timeout = timeout
        # Several threads may ask at a time: each takes a connection that is idle, or a new one.
        self._idle: list[http.client.HTTPConnection] = []

    def close(self) -> None:
        """Close the connections that are kept; the garbage collector would, too, and warn of sockets left open."""
        while self._idle:
            self._idle.pop().close()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        token: str | None = None,
    ) -> Answer:
        """Send a request; a body that is no bytes is sent as JSON."""
        with self.open(method, path, body, content_type=content_type, accept=accept, token=token) as response:
            text = response.read().decode()
            is_json = response.headers.get_content_type() == "application/json"
            return Answer(response.status, dict(response.getheaders()), json.loads(text) if is_json else text)

    @contextmanager
    def open(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        token: str | None = None,
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request and give its response to be read piece by piece."""
        headers = {"Accept": accept}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if body is not None:
            headers["Content-Type"] = content_type
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection = self._take()
        try:
            connection.request(method, path, body, headers)
            with connection.getresponse() as response:
                yield response
                was_read = response.isclosed()
        except BaseException:
            connection.close()
            raise
        if self._context and was_read:
            self._idle.append(connection)
        else:
            connection.close()

    def _take(self) -> http.client.HTTPConnection:
        """A connection that the server has not closed meanwhile."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return self._connect()
            # What is idle has nothing to say but its end.
            if connection.sock is not None and not select.select([connection.sock], (), (), 0)[0]:
                return connection
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._address
        if self._context:
            return http.client.HTTPSConnection(host, port, context=self._context, timeout=self._timeout)
        return http.client.HTTPConnection(host, port, timeout=self._timeout)
