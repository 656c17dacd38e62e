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
from toposcope.simulator.apiserver.requests import Request, Response

_FORWARDED = ("accept", "content-type", "user-agent")
_PIECE = 1 << 16
_PATIENCE = 30.0
_LONG = 3600.0


class RecordingProxy(EmbeddedApiServer):
    """Forwards every request with the administrator's token; a context manager. Speaks plain HTTP."""

    def __init__(self, api: ApiUnderTest) -> None:
        super().__init__()
        self.api.handle = self._forward  # type: ignore[method-assign]  # the one place that every request passes
        self.writes: list[tuple[str, str]] = []
        """Method and path of every request so far that may change something, in order."""
        self._client, self._token = HttpClient(api.url, api.ca_file, _LONG), api.admin_token
        self._gate = ("", "")
        self._held, self._released = threading.Event(), threading.Event()
        self._open: set[http.client.HTTPConnection] = set()

    def hold(self, method: str, path: str) -> None:
        """Let the next such request stand before it is forwarded."""
        self._held, self._released = threading.Event(), threading.Event()
        self._gate = method, path

    def wait_until_held(self) -> None:
        """Wait until it has come."""
        assert self._held.wait(_PATIENCE), f"never asked: {self._gate}"

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

    def _forward(self, request: Request) -> Response:
        entry, released = (request.method, request.path), self._released
        if request.method != "GET":
            self.writes.append(entry)
        if entry == self._gate:
            self._gate = ("", "")
            self._held.set()
            released.wait()
        headers = {name: request.headers[name] for name in _FORWARDED if name in request.headers}
        headers |= {"Authorization": f"Bearer {self._token}"} if self._token else {}
        connection = self._client._connect()
        self._open.add(connection)
        connection.request(request.method, f"{request.path}?{urlencode(request.query)}", request.body or None, headers)
        answer = connection.getresponse()
        kind, again = answer.getheader("Content-Type", ""), answer.getheader("Retry-After")
        more = {"Retry-After": again} if again else {}
        return Response(answer.status, self._passed_on(connection, answer), kind, more, stream=answer.length is None)

    def _passed_on(self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> Iterator[bytes]:
        """An answer as it comes: a watch has no end."""
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            while piece := answer.read1(_PIECE):
                yield piece
        self._open.discard(connection)
