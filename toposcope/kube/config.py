"""Finds the API server and our credentials: in a kubeconfig, or in the pod that we run in."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from toposcope.kube.credentials import (
    ClusterAccess,
    RotatingTls,
    checked_url,
    tls_context,
    token_file,
)
from toposcope.kube.errors import NoClusterError

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def load(
    kubeconfig: str | None,
    environ: Mapping[str, str] = os.environ,
    account: Path = SERVICE_ACCOUNT,
    context: str | None = None,
) -> ClusterAccess:
    """The cluster that `kubectl` would talk to, or the one this pod runs in.

    Order: an explicit `kubeconfig`, the pod's service account, `$KUBECONFIG`, `~/.kube/config`. A
    `context` is part of a kubeconfig, so the service account is not used. Raises ConfigError, and
    NoClusterError where none of these is there.
    """
    named = kubeconfig or context
    if not named and environ.get("KUBERNETES_SERVICE_HOST") and (account / "token").exists():
        return _in_cluster(environ, account)
    from toposcope.kube import kubeconfig as kubeconfigs  # noqa: PLC0415 - not in a pod

    if kubeconfig:
        return kubeconfigs.read(kubeconfig, context)
    home = Path(environ.get("HOME", "/"))
    default = environ.get("KUBECONFIG") or str(home / ".kube" / "config")
    if kubeconfigs.existing(default):
        return kubeconfigs.read(default, context)
    raise NoClusterError(
        f"no API server is configured: not in a pod (no {account}/token), "
        f"and {default} does not exist or cannot be read; "
        "pass --kubeconfig FILE or set KUBECONFIG"
    )


def _in_cluster(environ: Mapping[str, str], account: Path) -> ClusterAccess:
    host = environ["KUBERNETES_SERVICE_HOST"]
    port = environ.get("KUBERNETES_SERVICE_PORT") or "443"
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    ca = str(account / "ca.crt")
    server = checked_url(
        "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT",
        f"https://{authority}",
    )
    token = account / "token"
    return ClusterAccess(
        server,
        RotatingTls(lambda: tls_context(f"service account {ca}", ca), (ca,)),
        token_file(f"service account {token}", token),
        pod_namespace(account) or "default",
        is_in_pod=True,
    )


def pod_namespace(account: Path = SERVICE_ACCOUNT) -> str:
    """The namespace of the pod that we run in; empty outside of one."""
    try:
        return (account / "namespace").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
