"""A proxy between one program and an API server, real or embedded: it notes what is asked and can hold it up."""

import contextlib
import http.client
import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import yaml

from tests.support.api import ApiUnderTest
from toposcope.simulator.apiserver.server import kubeconfig

_FORWARDED = ("Accept", "Content-Type", "User-Agent")
_PIECE = 1 << 16


class RecordingProxy:
    """Forwards every request with the administrator's token; a context manager. Speaks plain HTTP."""

    def __init__(self, api: ApiUnderTest) -> None:
        self._api = api
        self._changed = threading.Condition()
        self._requests: list[tuple[str, str]] = []
        self._gate: tuple[str, str] | None = None
        self._held = False
        self._answered = 0
        self._upstream: set[http.client.HTTPConnection] = set()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle(self) -> None:
                with contextlib.suppress(OSError, http.client.HTTPException):  # either side may go at any time
                    super().handle()

            def _forward(self) -> None:
                proxy._forward(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _forward  # noqa: N815 - http.server's names

            def log_message(self, *_: object) -> None:
                """The journal is what tests read."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def write_kubeconfig(self, path: Path) -> None:
        """A kubeconfig that leads here, with no credentials: they aren't sent over plain HTTP."""
        url = f"http://127.0.0.1:{self._server.server_address[1]}"
        path.write_text(yaml.safe_dump(kubeconfig(url, None, {})), encoding="utf-8")

    def writes(self) -> list[tuple[str, str]]:
        """Method and path of every request so far that may change something, in order."""
        with self._changed:
            return [entry for entry in self._requests if entry[0] != "GET"]

    def hold(self, method: str, path: str) -> None:
        """Let the next such request stand before it is forwarded."""
        with self._changed:
            self._gate, self._held = (method, path), False

    def wait_until_held(self, patience: float = 30.0) -> None:
        """Wait until it has come."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._held, patience), f"never asked: {self._gate}"

    def release(self, patience: float = 30.0) -> None:
        """Let it go on, and wait until its answer has been passed on."""
        with self._changed:
            before = self._answered
            self._gate = None
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._answered > before, patience), "never answered"

    def _forward(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length", "0")))
        entry = (handler.command, urlsplit(handler.path).path)
        with self._changed:
            self._requests.append(entry)
            held = entry == self._gate
            if held:
                self._held = True
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._gate is None)
        upstream = self._connect()
        try:
            headers = {name: value for name in _FORWARDED if (value := handler.headers.get(name))}
            if self._api.admin_token:
                headers["Authorization"] = f"Bearer {self._api.admin_token}"
            upstream.request(handler.command, handler.path, body or None, headers)
            _pass_on(upstream.getresponse(), handler)
        finally:
            self._upstream.discard(upstream)
            upstream.close()
        if held:
            with self._changed:
                self._answered += 1
                self._changed.notify_all()

    def _connect(self) -> http.client.HTTPConnection:
        where = urlsplit(self._api.url)
        connection: http.client.HTTPConnection
        if self._api.ca_file:
            context = ssl.create_default_context(cafile=self._api.ca_file)
            connection = http.client.HTTPSConnection(where.hostname or "", where.port, context=context)
        else:
            connection = http.client.HTTPConnection(where.hostname or "", where.port)
        self._upstream.add(connection)
        return connection

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        with self._changed:
            self._gate = None
            self._changed.notify_all()
        self._server.shutdown()
        self._thread.join()
        for connection in list(self._upstream):  # watches, which would go on for minutes
            with contextlib.suppress(OSError, TypeError):
                socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)
        self._server.server_close()


def _pass_on(response: http.client.HTTPResponse, handler: BaseHTTPRequestHandler) -> None:
    """Send an answer on as it comes: a watch has no end."""
    handler.send_response(response.status)
    for name in ("Content-Type", "Retry-After", "Content-Length"):
        value: Any = response.getheader(name)
        if value is not None:
            handler.send_header(name, value)
    if response.length is not None:
        handler.end_headers()
        handler.wfile.write(response.read())
        return
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    while piece := response.read1(_PIECE):
        handler.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
    handler.wfile.write(b"0\r\n\r\n")
