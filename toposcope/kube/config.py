"""An API server and our credentials there: what every source of configuration comes down to.

Where the API server is and who we are there: from a kubeconfig, or from the pod we run in.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from toposcope.kube.errors import ConfigError
from toposcope.kube.tls import RotatingTls, Tls, tls_context

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


SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def load(
    kubeconfig: str | None,
    environ: Mapping[str, str] = os.environ,
    account: Path = SERVICE_ACCOUNT,
    context: str | None = None,
) -> Cluster:
    """The cluster that `kubectl` would talk to, or the one this pod runs in.

    Order: an explicit `kubeconfig`, the pod's service account, `$KUBECONFIG`, `~/.kube/config`. A `context` stands in
    a kubeconfig, so that the service account is not asked. Raises ConfigError.
    """
    named = kubeconfig or context
    if not named and environ.get("KUBERNETES_SERVICE_HOST") and (account / "token").exists():
        return _in_cluster(environ, account)
    from toposcope.kube import kubeconfig as kubeconfigs  # noqa: PLC0415 - a program in a pod never needs it

    if kubeconfig:
        return kubeconfigs.read(kubeconfig, context)
    found = environ.get("KUBECONFIG") or str(Path(environ.get("HOME", "/")) / ".kube" / "config")
    if kubeconfigs.existing(found):
        return kubeconfigs.read(found, context)
    raise ConfigError(
        f"no API server to talk to: not in a pod (no {account}/token), and {found} does not exist or cannot be "
        "reached; pass --kubeconfig FILE or set KUBECONFIG"
    )


def _in_cluster(environ: Mapping[str, str], account: Path) -> Cluster:
    host = environ["KUBERNETES_SERVICE_HOST"]
    port = environ.get("KUBERNETES_SERVICE_PORT") or "443"
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    ca = str(account / "ca.crt")
    return Cluster(
        checked_url("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT", f"https://{authority}"),
        RotatingTls(lambda: tls_context(f"service account {ca}", ca), (ca,)),
        token_file(f"service account {account}/token", account / "token"),
        pod_namespace(account) or "default",
    )


def pod_namespace(account: Path = SERVICE_ACCOUNT) -> str:
    """The namespace of the pod that we run in; empty outside of one."""
    try:
        return (account / "namespace").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
