"""An API server and our credentials there: what every source of configuration comes down to."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from kube.errors import ConfigError
from kube.tls import Tls

Token = Callable[[], str | None]
"""Gives the bearer token of the moment, or None where there is none. Raises ConfigError."""


class Cluster(NamedTuple):
    """An API server and our credentials there.

    `token` and `tls` are asked anew for every request, because tokens and certificates are rotated under a running
    process. `tls` is None for plain HTTP. `namespace` is the context's or the pod's own. `server_name` is the name that
    the server's certificate must carry when that is not the URL's host.
    """

    server: str
    tls: Tls | None
    token: Token
    namespace: str
    server_name: str | None = None

    @property
    def base_path(self) -> str:
        """What stands before `/api` in the server's URL; empty in most clusters."""
        return urlsplit(self.server).path.rstrip("/")


def checked_url(where: str, value: str | None) -> str:
    """The URL of an API server, without the slash at its end. Raises ConfigError that begins with `where`."""
    try:
        parts = urlsplit(value or "")
        legal = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
    except ValueError:  # a port out of range, a broken IPv6 address
        legal = False
    if not (value and legal and value.isascii() and value.isprintable() and " " not in value):
        raise ConfigError(f"{where}: {value!r} is no URL of an API server; write https://HOST:PORT")
    return value.rstrip("/")


def usable(where: str, token: str) -> str:
    """The token as it may stand in a header. Raises ConfigError, which does not show the token."""
    token = token.strip()
    if not token:
        # Sent without it, requests would be anonymous and fail with a misleading 403.
        raise ConfigError(f"{where} holds no token")
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise ConfigError(f"{where} holds characters that no bearer token has")
    return token


def token_file(where: str, path: Path) -> Token:
    """Read the file for each request: it is one small read beside a network round trip, and never stale."""

    def token() -> str:
        try:
            return usable(where, path.read_text(encoding="utf-8", errors="replace"))
        except OSError as error:
            raise ConfigError(f"{where}: {error.strerror}") from error

    return token
