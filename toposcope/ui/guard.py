"""Guards the application: strict headers on responses, and no requests but this page's reads."""

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Final

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toposcope.ui.protocol import ErrorAnswer

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; form-action 'none'"
)
_HEADERS: Final = tuple(
    (name.encode(), value.encode())
    for name, value in (
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("x-frame-options", "DENY"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
    )
)
LOCAL: Final = ("127.0.0.1", "localhost", "[::1]")
_PROBES: Final = ("/healthz", "/readyz")
"""Requested by a kubelet under the pod's address; they reveal nothing about the cluster."""
_API: Final = "/api/"
_CHECK: Final = "/api/check"


def problem(status: int, error: str, headers: "dict[str, str] | None" = None) -> Response:
    """The response to a request that failed: one sentence."""
    return Response(msgspec.json.encode(ErrorAnswer(error)), status, headers, "application/json")


class Guard:
    """Wraps the application: checks hosts, methods and the one POST, adds headers to responses.

    `hosts` are the names under which the page is served, without a port. An attacker may have
    pointed any other name here (DNS rebinding), and the attacker's pages would then share our
    origin.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = LOCAL) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject the request or pass it on."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        rejection = self._rejection(scope)
        if rejection:
            # Else the unread rest of the request would be taken for the next one.
            await problem(*rejection, {"connection": "close"})(scope, receive, guarded)
            return

        await self._app(scope, receive, guarded)

    def _rejection(self, scope: Scope) -> tuple[HTTPStatus, str] | None:
        headers = scope["headers"]
        path: str = scope["path"]
        hosts = _values(headers, b"host")
        if path not in _PROBES and not self._is_ours(hosts):
            return HTTPStatus.MISDIRECTED_REQUEST, (
                "this page is not served under that name; use 127.0.0.1 or localhost, "
                "or start toposcope ui with --allow-host NAME"
            )

        if path.startswith(_API) and _is_foreign(headers, hosts[0]):
            return HTTPStatus.FORBIDDEN, "the request comes from another site's page"
        if scope["method"] in ("GET", "HEAD"):
            return None

        if scope["method"] != "POST" or path != _CHECK:
            allowed = f"only GET and HEAD are allowed, and POST to {_CHECK}"
            return HTTPStatus.METHOD_NOT_ALLOWED, allowed
        if not _is_json(headers):
            # Pages of other sites cannot send this without a preflight.
            wanted = "send the workload with Content-Type: application/json"
            return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, wanted
        return None

    def _is_ours(self, hosts: Sequence[str]) -> bool:
        """Whether the one Host header names this page."""
        if len(hosts) != 1:
            return False
        return _name(hosts[0]) in self._hosts


def _is_json(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    content_types = _values(headers, b"content-type")
    if len(content_types) != 1:
        return False
    media_type, _, _ = content_types[0].partition(";")
    return media_type.strip().lower() == "application/json"


def _is_foreign(headers: Sequence[tuple[bytes, bytes]], host: str) -> bool:
    """Whether a browser says that another site's page makes the request: a script, image or link.

    Programs such as curl send none of these headers. Browsers send `Sec-Fetch-Site` over HTTPS and
    to localhost. Over plain HTTP to another name, only `Referer` tells of an image or a link, and
    its sender can leave it out.
    """
    for site in _values(headers, b"sec-fetch-site"):
        if site not in ("same-origin", "none"):
            return True

    own_host = host.lower()
    senders = _values(headers, b"origin")
    senders += _values(headers, b"referer")
    return any(_host(sender) != own_host for sender in senders)


def _host(url: str) -> str:
    """Host and port of an origin or URL; empty for `null`."""
    _, _, address = url.partition("://")
    host, _, _ = address.partition("/")
    return host.lower()


def _values(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> list[str]:
    values = []
    for key, value in headers:
        if key == name:
            values.append(value.decode("latin-1"))
    return values


def _name(host: str) -> str:
    """The name in a Host header, without the port."""
    name, colon, port = host.rpartition(":")
    has_port = colon and port.isdigit()
    return name.lower() if has_port else host.lower()
