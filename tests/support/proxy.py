"""A proxy between one program and an API server, real or embedded: it notes what is asked and can hold it up."""

import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlencode

from tests.support.api import ApiUnderTest
from tools.apiserver.client import HttpClient
from toposcope.simulator.apiserver import EmbeddedApiServer
from toposcope.simulator.apiserver.requests import HttpRequest, Response

_FORWARDED = ("accept", "content-type", "user-agent")
_PIECE_BYTES = 1 << 16
_PATIENCE_SECONDS = 30.0
_LONG_SECONDS = 3600.0


class RecordingProxy(EmbeddedApiServer):
    """Forwards every request with the administrator's token; a context manager. Speaks plain HTTP."""

    def __init__(self, api: ApiUnderTest) -> None:
        super().__init__()
        self.api.handle = self._forward  # type: ignore[method-assign]  # the one place that every request passes
        self.writes: list[tuple[str, str]] = []
        """Method and path of every request so far that may change something, in order."""
        self._client = HttpClient(api.url, api.ca_file, _LONG_SECONDS)
        self._token = api.admin_token
        self._gate = ("", "")
        self._held = threading.Event()
        self._released = threading.Event()
        self._open: set[http.client.HTTPConnection] = set()

    def hold(self, method: str, path: str) -> None:
        """Let the next such request stand before it is forwarded."""
        self._held = threading.Event()
        self._released = threading.Event()
        self._gate = method, path

    def wait_until_held(self) -> None:
        """Wait until it has come."""
        assert self._held.wait(_PATIENCE_SECONDS), f"never asked: {self._gate}"

    def release(self) -> None:
        """Let it go on."""
        self._gate = ("", "")
        self._released.set()

    def stop(self) -> None:
        self.release()
        for connection in list(self._open):  # watches, which would go on for minutes
            with contextlib.suppress(OSError, TypeError):
                socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)
        super().stop()

    def _forward(self, request: HttpRequest) -> Response:
        entry = (request.method, request.path)
        released = self._released
        if request.method != "GET":
            self.writes.append(entry)
        if entry == self._gate:
            self._gate = ("", "")
            self._held.set()
            released.wait()

        connection = self._client._connect()
        self._open.add(connection)
        connection.request(
            method=request.method,
            url=f"{request.path}?{urlencode(request.query)}",
            body=request.body or None,
            headers=self._forwarded_headers(request),
        )
        answer = connection.getresponse()

        headers = {}
        retry_after = answer.getheader("Retry-After")
        if retry_after:
            headers["Retry-After"] = retry_after
        return Response(
            answer.status,
            self._passed_on(connection, answer),
            answer.getheader("Content-Type", ""),
            headers,
            is_stream=answer.length is None,
        )

    def _forwarded_headers(self, request: HttpRequest) -> dict[str, str]:
        headers = {name: request.headers[name] for name in _FORWARDED if name in request.headers}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        return headers

    def _passed_on(self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> Iterator[bytes]:
        """An answer as it comes: a watch has no end."""
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            while piece := answer.read1(_PIECE_BYTES):
                yield piece
        self._open.discard(connection)
