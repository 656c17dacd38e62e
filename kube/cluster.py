"""An API server and our credentials there: what every source of configuration comes down to."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from kube.errors import ConfigError

Token = Callable[[], str | None]
"""Gives the bearer token of the moment, or None where there is none. Raises ConfigError."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """An API server and our credentials there.

    `token` is asked anew for every request, because projected tokens are rotated under a running process.
    `tls` is None for plain HTTP. `namespace` is the context's or the pod's own. `server_name` is the name that the
    server's certificate must carry when that is not the URL's host.
    """

    server: str
    tls: ssl.SSLContext | None
    token: Token
    namespace: str
    server_name: str | None = None

    @property
    def base_path(self) -> str:
        """What stands before `/api` in the server's URL; empty in most clusters."""
        return urlsplit(self.server).path.rstrip("/")


def tls_context(where: str, ca_file: str | None, ca_data: str | None = None, *, verify: bool = True) -> ssl.SSLContext:
    """A context that trusts these CAs (PEM), or the system's where none are given.

    Raises ConfigError that begins with `where`.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file, cadata=ca_data)
    except OSError as error:
        raise ConfigError(f"{where}: no CA certificates in PEM there: {error}") from error
    # Python 3.13 began to demand extensions that the CAs of EKS, MicroK8s and others lack and that no Go client asks
    # for (kubernetes_asyncio#349). Chain, dates and names are checked all the same.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def load_client_certificate(where: str, context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Identify ourselves with two PEM files. Raises ConfigError that begins with `where`."""

    def password() -> str:
        # Without this OpenSSL asks for the password on the terminal and waits.
        raise ConfigError(f"{where}: the client key is encrypted; decrypt it with `openssl pkey`")

    try:
        context.load_cert_chain(certificate, key, password)
    except OSError as error:
        raise ConfigError(
            f"{where}: client certificate and client key are no pair of PEM files that can be read: {error}"
        ) from error


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
