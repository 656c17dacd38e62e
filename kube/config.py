"""Where the API server is and who we are there: from a kubeconfig, or from the pod we run in.

A static kubeconfig (token, token file, client certificate) is read here. One whose user needs a plugin (`exec`,
`auth-provider`) goes through the `kubernetes` package, which knows them all.
"""

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from kube.errors import ConfigError

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Cluster:
    """An API server and our credentials there.

    `token` is asked anew for every request, because projected tokens are rotated under a running process.
    `tls` is None for plain HTTP. `namespace` is the context's or the pod's own.
    """

    server: str
    tls: ssl.SSLContext | None
    token: Callable[[], str | None]
    namespace: str

    @property
    def base_path(self) -> str:
        """What stands before `/api` in the server's URL; empty in most clusters."""
        return urlsplit(self.server).path.rstrip("/")


def load(kubeconfig: str | None, environ: Mapping[str, str] = os.environ, account: Path = SERVICE_ACCOUNT) -> Cluster:
    """The cluster that `kubectl` would talk to, or the one this pod runs in.

    Order: an explicit `kubeconfig`, the pod's service account, `$KUBECONFIG`, `~/.kube/config`.
    Raises ConfigError.
    """
    if kubeconfig:
        return _from_kubeconfig(kubeconfig)
    if environ.get("KUBERNETES_SERVICE_HOST") and (account / "token").exists():
        return _in_cluster(environ, account)
    found = environ.get("KUBECONFIG") or str(Path(environ.get("HOME", "/")) / ".kube" / "config")
    if any(Path(part).exists() for part in found.split(os.pathsep) if part):
        return _from_kubeconfig(found)
    raise ConfigError(
        f"no API server to talk to: not in a pod (no {account}/token), and {found} does not exist; "
        "pass --kubeconfig FILE or set KUBECONFIG"
    )


def _in_cluster(environ: Mapping[str, str], account: Path) -> Cluster:
    host = environ["KUBERNETES_SERVICE_HOST"]
    port = environ.get("KUBERNETES_SERVICE_PORT", "443")
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        namespace = (account / "namespace").read_text().strip()
    except OSError:
        namespace = "default"
    return Cluster(f"https://{authority}", _tls(str(account / "ca.crt")), _token_file(account / "token"), namespace)


def _tls(
    ca_file: str | None, ca_data: str | None = None, *, verify: bool = True, name: str | None = None
) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca_file, cadata=ca_data)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"certificate-authority {ca_file or 'data'}: {error}") from error
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if name:
        # http.client checks the certificate against the URL's host; nothing else of ours needs another name.
        raise ConfigError(f"tls-server-name {name!r} is not supported; use a server URL that the certificate names")
    return context


def _token_file(path: Path) -> Callable[[], str | None]:
    """Read the file for each request: it is one small read beside a network round trip, and never stale."""

    def token() -> str | None:
        try:
            return path.read_text().strip()
        except OSError as error:
            raise ConfigError(f"token file {path}: {error.strerror}") from error

    return token


def _from_kubeconfig(spec: str) -> Cluster:
    if os.pathsep in spec:
        # Merging several files is kubectl's own art: the package does it.
        return _through_package(spec)
    path = Path(spec)
    document = _read_yaml(path)
    context = _entry(path, document, "contexts", "context", document.get("current-context"))
    cluster = _entry(path, document, "clusters", "cluster", context.get("cluster"))
    user = _entry(path, document, "users", "user", context.get("user")) if context.get("user") else {}
    if user.get("exec") or user.get("auth-provider"):
        return _through_package(spec)
    server = cluster.get("server")
    if not isinstance(server, str) or urlsplit(server).scheme not in ("http", "https"):
        raise ConfigError(f"{path}: clusters[].cluster.server: {server!r} is no http(s) URL")
    tls = None
    if urlsplit(server).scheme == "https":
        tls = _tls(
            _beside(path, cluster.get("certificate-authority")),
            _decoded(path, "certificate-authority-data", cluster.get("certificate-authority-data")),
            verify=not cluster.get("insecure-skip-tls-verify"),
            name=cluster.get("tls-server-name"),
        )
        _client_certificate(path, user, tls)
    token = user.get("token")
    token_file = _beside(path, user.get("tokenFile"))
    return Cluster(
        server,
        tls,
        _token_file(Path(token_file)) if token_file else lambda: token,
        context.get("namespace") or "default",
    )


def _read_yaml(path: Path) -> dict[str, Any]:
    import yaml  # noqa: PLC0415 - an agent in a pod never needs it

    try:
        document = yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe loaders
    except OSError as error:
        raise ConfigError(f"kubeconfig {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"kubeconfig {path} is not YAML: {error}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"kubeconfig {path} holds no mapping; is it a kubeconfig?")
    return document


def _entry(path: Path, document: Mapping[str, Any], section: str, kind: str, name: object) -> dict[str, Any]:
    """The entry called `name` of one of a kubeconfig's named lists."""
    entries = document.get(section) or []
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(kind), dict):
            found: dict[str, Any] = entry[kind]
            return found
    if kind == "context" and not name:
        raise ConfigError(f"{path}: current-context is not set; choose one with `kubectl config use-context NAME`")
    raise ConfigError(f"{path}: {section} has no entry named {name!r}")


def _beside(path: Path, value: object) -> str | None:
    """A file named in a kubeconfig: relative names are relative to the kubeconfig."""
    return str(path.parent / str(value)) if value else None


def _decoded(path: Path, name: str, value: object) -> str | None:
    if not value:
        return None
    try:
        return base64.b64decode(str(value), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {name} is not base64 of a PEM text: {error}") from error


def _client_certificate(path: Path, user: Mapping[str, Any], tls: ssl.SSLContext) -> None:
    """Load a client certificate into `tls`; the ssl module takes files only, so inline data passes through two."""
    certificate, key = _beside(path, user.get("client-certificate")), _beside(path, user.get("client-key"))
    with tempfile.TemporaryDirectory() as folder:
        for name in ("client-certificate", "client-key"):
            text = _decoded(path, f"{name}-data", user.get(f"{name}-data"))
            if text is None:
                continue
            file = Path(folder) / name
            file.touch(mode=0o600)
            file.write_text(text)
            certificate, key = (str(file), key) if name == "client-certificate" else (certificate, str(file))
        if certificate is None:
            return
        try:
            tls.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"{path}: client certificate of the current user: {error}") from error


def _through_package(spec: str) -> Cluster:
    """Let the `kubernetes` package resolve the current context, plugins and merged files included."""
    import kubernetes.client  # noqa: PLC0415 - costs 45-65 MB; see the package docstring
    import kubernetes.config  # noqa: PLC0415 - same

    configuration = kubernetes.client.Configuration()
    try:
        kubernetes.config.load_kube_config(config_file=spec, client_configuration=configuration)  # type: ignore[no-untyped-call]  # untyped in 36 and 37
    except Exception as error:  # plugins are foreign programs and raise what they like
        raise ConfigError(f"kubeconfig {spec}: {error}") from error
    tls = None
    if configuration.host.startswith("https"):
        tls = _tls(configuration.ssl_ca_cert, verify=bool(configuration.verify_ssl))
        if configuration.cert_file:
            tls.load_cert_chain(configuration.cert_file, configuration.key_file)

    def token() -> str | None:
        header: str | None = configuration.get_api_key_with_prefix("authorization")  # refreshes an expired token
        return header.removeprefix("Bearer ") if header else None

    return Cluster(configuration.host, tls, token, "default")
