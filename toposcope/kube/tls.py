"""TLS towards an API server: whom we trust, who we are, and what happens when the files that say so are rotated."""

import logging
import os
import ssl
import threading
from collections.abc import Callable, Sequence
from typing import TypeAlias

from toposcope.kube.errors import ConfigError

log = logging.getLogger(__name__)

Tls: TypeAlias = Callable[[], ssl.SSLContext]
"""Gives the TLS context of the moment. Raises nothing."""

_Stamps: TypeAlias = tuple[tuple[str, tuple[int, int, int] | None], ...]
"""What tells one version of each file from the next; None for a file that cannot be looked at."""


class RotatingTls:
    """A context that is made anew as soon as one of its files has changed.

    `make` may raise ConfigError; the first time that ends the program, later the context that worked stays until the
    files are whole again: a certificate and its key are two files, and nobody replaces both at once.
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
            log.warning("%s changed and cannot be used, so the one from before stays: %s", changed, error)
        else:
            log.info("read again, because it changed: %s", changed)


def _stamp(file: str) -> tuple[int, int, int] | None:
    """Follows links: kubelet replaces a mounted folder by pointing a link elsewhere."""
    try:
        found = os.stat(file)  # noqa: PTH116 - asked before each request; a Path would cost as much again
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


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
