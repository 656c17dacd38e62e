"""A plain HTTP client, so that API tests do not depend on the library they help to test."""

from __future__ import annotations

import http.client
import json
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
    """Requests to one server, each on a connection of its own; `timeout` in seconds."""

    def __init__(self, url: str, ca_file: Path | None, timeout: float = 30) -> None:
        split = urlsplit(url)
        self._address = (split.hostname or "", split.port or 0)
        self._context = ssl.create_default_context(cafile=ca_file) if ca_file else None
        self._timeout = timeout

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
        connection = self._connect()
        try:
            connection.request(method, path, body, headers)
            with connection.getresponse() as response:
                yield response
        finally:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._address
        if self._context:
            return http.client.HTTPSConnection(host, port, context=self._context, timeout=self._timeout)
        return http.client.HTTPConnection(host, port, timeout=self._timeout)
