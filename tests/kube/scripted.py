"""A server that sends exactly the bytes of a script and keeps every request, and kubeconfigs that lead to one."""

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any, Self

import yaml
from tools.apiserver.certificates import Certificates
from toposcope.kube.client import ApiClient
from toposcope.kube.credentials import ClusterAccess
from toposcope.simulator.apiserver.server import kubeconfig


@dataclass(frozen=True, slots=True)
class Reply:
    """What is sent for one request; `close` ends the connection after it, `None` says nothing for ever."""

    data: bytes | None
    close: bool = False


@dataclass(frozen=True, slots=True)
class Received:
    method: str
    target: str
    headers: Message
    body: bytes


GOOD = b'{"metadata":{"name":"a","uid":"u"}}'
"""An object or an empty list: what most requests take for an answer."""


def answer(body: bytes = GOOD, status: str = "200 OK", **headers: str) -> bytes:
    """An HTTP response with a length; `Retry_After="3"` makes a header `Retry-After`."""
    head = {"Content-Length": str(len(body))} | {name.replace("_", "-"): value for name, value in headers.items()}
    return _head(status, head) + body


def chunked(*chunks: bytes, complete: bool = True) -> bytes:
    """A chunked response; an incomplete one lacks the last chunk."""
    parts = [b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks if chunk]
    return _head("200 OK", {"Transfer-Encoding": "chunked"}) + b"".join(parts) + (b"0\r\n\r\n" if complete else b"")


def _head(status: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode()


def server_tls(certificates: Certificates, client_ca: Path | None = None) -> ssl.SSLContext:
    """A server's side of TLS; with `client_ca` only clients with a certificate of it are served."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.certificate, certificates.key)
    if client_ca:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def kubeconfig_document(
    server: Any = "https://127.0.0.1:1", user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A kubeconfig with one context, `x`, of the cluster `c` and the user `u`."""
    document = kubeconfig(server, None, user or {})
    document["clusters"][0]["cluster"] |= cluster or {}
    return document


def write(path: Path, content: dict[str, Any]) -> str:
    """Write a kubeconfig; its path as text."""
    path.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    return str(path)


class ScriptedServer:
    """Replies in order, or by a function, over however many connections; a context manager."""

    def __init__(
        self,
        replies: Iterable[bytes | Reply] | Callable[[Received], bytes],
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self.received: list[Received] = []
        self.connections = 0
        self.asked = threading.Semaphore(0)
        """Released once for each request, before its reply."""
        self._ended = threading.Event()
        self._open: list[socket.socket] = []
        self._clients: list[ApiClient] = []
        script = None if callable(replies) else list(replies)

        def choose(received: Received) -> Reply:
            reply = replies(received) if callable(replies) else (script or []).pop(0)
            return reply if isinstance(reply, Reply) else Reply(reply)

        outer = self

        class Handler(BaseRequestHandler):
            def handle(self) -> None:
                outer.connections += 1
                with contextlib.suppress(OSError):  # the client may go at any time
                    connection = tls.wrap_socket(self.request, server_side=True) if tls else self.request
                    outer._open.append(connection)
                    with connection:
                        self._talk(connection)

            def _talk(self, connection: socket.socket) -> None:
                with connection.makefile("rb") as file:
                    while script != [] and (received := _read(file)):
                        outer.received.append(received)
                        outer.asked.release()
                        reply = choose(received)
                        if reply.data is None:
                            outer._ended.wait()
                            return
                        connection.sendall(reply.data)
                        if reply.close:
                            return

        self._server = ThreadingTCPServer((host, 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self.url = f"{'https' if tls else 'http'}://{host}:{self._server.server_address[1]}"

    def client(self, timeout: float = 10.0) -> ApiClient:
        """A client of it, which is closed with it."""
        self._clients.append(ApiClient(ClusterAccess(self.url, None, lambda: None, "default"), timeout=timeout))
        return self._clients[-1]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        for client in self._clients:
            client.close()
        self._ended.set()
        self._server.shutdown()
        self._thread.join()
        for connection in self._open:  # a test that fails leaves its client open
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
        self._server.server_close()  # waits for the connections


def _read(file: Any) -> Received | None:
    line = file.readline().decode()
    if not line:
        return None
    method, target, _ = line.split()
    headers = http.client.parse_headers(file)
    return Received(method, target, headers, file.read(int(headers.get("Content-Length", "0"))))
