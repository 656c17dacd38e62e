"""An API server and our credentials there: what every source of configuration comes down to."""

import logging
import os
import ssl
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

from toposcope.kube.errors import ConfigError

log = logging.getLogger(__name__)

Tls: TypeAlias = Callable[[], ssl.SSLContext]
"""Returns the current TLS context. Raises nothing."""

_Stamps: TypeAlias = tuple[tuple[str, tuple[int, int, int] | None], ...]
"""Distinguishes versions of each file; None for a file that cannot be examined."""


class RotatingTls:
    """A context that is rebuilt as soon as one of its files has changed.

    `make` may raise ConfigError: the first time that ends the program; later the previous context
    stays until the files are consistent again, because a certificate and its key are two files that
    cannot be replaced at once.
    """

    def __init__(self, make: Tls, files: Sequence[str]) -> None:
        self._make = make
        self._files = files
        self._lock = threading.Lock()
        # Looked at before they are read: a change in between is then found the next time.
        self._stamps = self._look()
        self._context = make()

    def __call__(self) -> ssl.SSLContext:
        """The same object as long as no file changes; a few microseconds for each file then."""
        with self._lock:
            stamps = self._look()
            if stamps != self._stamps:
                self._stamps = stamps
                self._renew()
            return self._context

    def _look(self) -> _Stamps:
        return tuple((file, _stamp(file)) for file in self._files)

    def _renew(self) -> None:
        changed = " or ".join(self._files)
        try:
            self._context = self._make()
        except ConfigError as error:
            log.warning(
                "%s changed and cannot be used; keeping the previous version: %s", changed, error
            )
        else:
            log.info("reloaded after a change: %s", changed)


def _stamp(file: str) -> tuple[int, int, int] | None:
    """Follows links: kubelet replaces a mounted folder by pointing a link elsewhere."""
    try:
        status = os.stat(file)  # noqa: PTH116 - asked before each request
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def tls_context(
    where: str, ca_file: str | None, ca_data: str | None = None, *, verify: bool = True
) -> ssl.SSLContext:
    """A context that trusts these CAs (PEM), or the system's where none are given.

    Raises ConfigError that begins with `where`.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file, cadata=ca_data)
    except OSError as error:
        raise ConfigError(f"{where}: no CA certificates in PEM there: {error}") from error
    # Python 3.13 began to demand extensions that the CAs of EKS, MicroK8s and others lack and that
    # no Go client asks for (kubernetes_asyncio#349). Chain, dates and names are checked all the
    # same.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def load_client_certificate(
    where: str, context: ssl.SSLContext, certificate: str, key: str
) -> None:
    """Identify ourselves with two PEM files. Raises ConfigError that begins with `where`."""

    def password() -> str:
        # Without this OpenSSL asks for the password on the terminal and waits.
        raise ConfigError(f"{where}: the client key is encrypted; decrypt it with `openssl pkey`")

    try:
        context.load_cert_chain(certificate, key, password)
    except OSError as error:
        raise ConfigError(
            f"{where}: client certificate and client key are not a pair of PEM files "
            f"that can be read: {error}"
        ) from error


Token = Callable[[], str | None]
"""Returns the current bearer token, None if there is none. Raises ConfigError."""


class ClusterAccess(NamedTuple):
    """An API server and our credentials there.

    `token` and `tls` are called for every request, because tokens and certificates are rotated
    under a running process. `tls` is None for plain HTTP. `namespace` is the context's or the pod's
    own. `server_name` is the name that the server's certificate must carry when that is not the
    URL's host. `in_pod`: the credentials are our pod's.
    """

    server: str
    tls: Tls | None
    token: Token
    namespace: str
    server_name: str | None = None
    is_in_pod: bool = False

    @property
    def base_path(self) -> str:
        """The part of the server's URL before `/api`; empty in most clusters."""
        return urlsplit(self.server).path.rstrip("/")


def checked_url(where: str, value: str | None) -> str:
    """The URL of an API server, without the slash at its end.

    Raises ConfigError that begins with `where`.
    """
    if not value or not _is_plain(value) or not _is_server_url(value):
        raise ConfigError(
            f"{where}: {value!r} is not the URL of an API server; write https://HOST:PORT"
        )
    return value.rstrip("/")


def _is_server_url(value: str) -> bool:
    try:
        parts = urlsplit(value)
        port = parts.port or 0
    except ValueError:  # a port out of range, a broken IPv6 address
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and port >= 0


def _is_plain(text: str) -> bool:
    """Whether it is printable ASCII without blanks."""
    return text.isascii() and text.isprintable() and " " not in text


def usable(where: str, token: str) -> str:
    """The token, checked for use in a header. Raises ConfigError, which does not show the token."""
    token = token.strip()
    if not token:
        # Sent without it, requests would be anonymous and fail with a misleading 403.
        raise ConfigError(f"{where} holds no token")
    if not _is_plain(token):
        raise ConfigError(f"{where} holds characters that no bearer token has")
    return token


def token_file(where: str, path: Path) -> Token:
    """Read the file for each request.

    That is one small read beside a network round trip, and the token is never stale.
    """

    def token() -> str:
        try:
            return usable(where, path.read_text(encoding="utf-8", errors="replace"))
        except OSError as error:
            raise ConfigError(f"{where}: {error.strerror}") from error

    return token
