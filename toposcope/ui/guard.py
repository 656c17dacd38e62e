"""What every answer and every request has to be: headers that let nothing else run, and only reads from this page."""

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Final

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toposcope.ui.protocol import Problem

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
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
"""Asked by a kubelet under the pod's address; they tell nothing of the cluster."""
_CHECK: Final = "/api/check"


class Guard:
    """Stands before the application: hosts, methods, the one POST, and the headers of every answer.

    `hosts` are the names under which the page may be asked for, without a port: another one is a stranger's name that
    was made to point here (DNS rebinding), and its pages would be of the same origin as ours.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = LOCAL) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on."""
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

        refusal = self._refusal(scope)
        if refusal:
            await _answer(guarded, *refusal)
            return
        await self._app(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> tuple[HTTPStatus, str] | None:
        headers = scope["headers"]
        path: str = scope["path"]
        hosts = _values(headers, b"host")
        if path not in _PROBES and (len(hosts) != 1 or _name(hosts[0]) not in self._hosts):
            return HTTPStatus.MISDIRECTED_REQUEST, (
                "this page is not served under that name; ask for 127.0.0.1 or localhost, or start toposcope ui with "
                "--allow-host NAME"
            )
        method = scope["method"]
        if method in ("GET", "HEAD"):
            return None
        if method != "POST" or path != _CHECK:
            return HTTPStatus.METHOD_NOT_ALLOWED, f"only GET and HEAD are answered, and POST of {_CHECK}"
        return _check_refusal(headers, hosts[0])


def _check_refusal(headers: Sequence[tuple[bytes, bytes]], host: str) -> tuple[HTTPStatus, str] | None:
    """Whether the one POST comes from this page: other sites' pages cannot send JSON without being asked back."""
    kind = _values(headers, b"content-type")
    if len(kind) != 1 or kind[0].partition(";")[0].strip().lower() != "application/json":
        return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send the workload with Content-Type: application/json"
    origins = _values(headers, b"origin")
    sites = _values(headers, b"sec-fetch-site")
    strange = any(origin.partition("://")[2].lower() != host.lower() for origin in origins)
    if strange or any(site not in ("same-origin", "none") for site in sites):
        return HTTPStatus.FORBIDDEN, "the request comes from another site's page"
    return None


def _values(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key == name]


def _name(host: str) -> str:
    """The name in a Host header, without the port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()


async def _answer(send: Send, status: HTTPStatus, error: str) -> None:
    body = msgspec.json.encode(Problem(error))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    # What is left of a request that nobody reads would be taken for the next one.
    headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status.value, "headers": headers})
    await send({"type": "http.response.body", "body": body})
