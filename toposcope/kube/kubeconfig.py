"""Kubeconfig files, read as `kubectl` reads them.

Several files are one: the first that names a context, cluster or user, or sets `current-context`,
is the one that counts. Credentials of a plugin (`exec`, `auth-provider`) come from the `kubernetes`
package, which knows them all.
"""

import base64
import logging
import os
import ssl
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from toposcope.kube import credentials
from toposcope.kube.errors import ConfigError

log = logging.getLogger(__name__)

_MEMORY_FILES: Final = hasattr(os, "memfd_create")
_DESCRIPTORS: Final = "/proc/self/fd" if _MEMORY_FILES else "/dev/fd"
_MOST_BYTES: Final = 16 << 20
"""A kubeconfig of a thousand clusters has some 5 MB; anything larger is no kubeconfig."""
_REFUSED: Final = {
    "proxy-url": "use a server URL that can be reached without a proxy",
    "as": "use the credentials of the identity itself, not impersonation",
    "username": "Kubernetes 1.19 removed passwords; use a token, a client certificate or a plugin",
}
"""Fields that would change where requests go or who sends them.

To ignore them would be worse than to stop.
"""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A part of a kubeconfig: a context, a cluster, a user, or a whole file.

    `path` is its file. Messages about it begin with `where` and a field's name.
    """

    path: Path
    where: str
    values: dict[str, Any]

    def text(self, name: str) -> str | None:
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            # The value stays out of the message: it may be a token.
            raise ConfigError(f"{self.where}{name} is not text; put it in quotes")
        return value or None

    def flag(self, name: str) -> bool:
        value = self.values.get(name, False)
        if not isinstance(value, bool):
            raise ConfigError(f"{self.where}{name} is neither true nor false")
        return value

    def file(self, name: str) -> str | None:
        """A file's name, relative to the kubeconfig's folder."""
        value = self.text(name)
        return value and str(self.path.parent / value)

    def inline(self, name: str) -> bytes | None:
        """The content of `<name>-data`."""
        value = self.text(f"{name}-data")
        if value is None:
            return None
        try:
            # Lines may be folded; everything else that is not base64 is a mistake.
            return base64.b64decode("".join(value.split()), validate=True)
        except ValueError as error:
            raise ConfigError(f"{self.where}{name}-data is not base64: {error}") from error


def existing(spec: str) -> list[Path]:
    """The files of a list like `$KUBECONFIG` that are there."""
    paths = []
    for part in spec.split(os.pathsep):
        if part and _is_there(Path(part)):
            paths.append(Path(part))
    return paths


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # in a folder that we may not enter, for one
        return False


def read(spec: str, context: str | None = None) -> credentials.ClusterAccess:
    """A context, by default the current one, of one kubeconfig or of several (`a:b`).

    Raises ConfigError.
    """
    paths = existing(spec) or [Path(spec)]
    files = [_document(path) for path in paths]
    name: str | None = context
    named_by = f"{spec}: --context"
    if not context:
        name, named_by = _current(spec, files)
    entry = _find(files, "contexts", "context", name, named_by)
    return _cluster(spec, files, name, entry)


def _current(spec: str, files: Sequence[_Entry]) -> tuple[str, str]:
    """The current context, and the field that names it."""
    for file in files:
        context = file.text("current-context")
        if context:
            return context, f"{file.where}current-context"
    raise ConfigError(
        f"{spec}: current-context is not set; choose one with `kubectl config use-context NAME`"
    )


def _cluster(
    spec: str, files: Sequence[_Entry], name: str | None, context: _Entry
) -> credentials.ClusterAccess:
    cluster = _find(
        files, "clusters", "cluster", context.text("cluster"), f"{context.where}cluster"
    )
    user = _Entry(context.path, context.where, {})
    if context.text("user"):
        user = _find(files, "users", "user", context.text("user"), f"{context.where}user")
    _refuse_unsupported(cluster)
    _refuse_unsupported(user)
    server = credentials.checked_url(f"{cluster.where}server", cluster.text("server"))
    tls: credentials.Tls | None = None
    if urlsplit(server).scheme == "https":
        token, identity = _credentials(spec, name, user)
        tls = _tls(cluster, identity)
    else:
        # As kubectl, which reads them only for TLS: anybody on the way could take them.
        if user.values:
            log.warning(
                "%s: credentials are not sent, because %sserver is not https",
                user.where[:-1],
                cluster.where,
            )
        token = _static_token(_Entry(user.path, user.where, {}))
    namespace = context.text("namespace") or "default"
    return credentials.ClusterAccess(server, tls, token, namespace, cluster.text("tls-server-name"))


def _refuse_unsupported(entry: _Entry) -> None:
    """Raises ConfigError."""
    for field, why in _REFUSED.items():
        if entry.values.get(field):
            raise ConfigError(f"{entry.where}{field} is not supported: {why}")


def _credentials(
    spec: str, context: str | None, user: _Entry
) -> tuple[credentials.Token, "_Identity"]:
    """Raises ConfigError."""
    if not user.values.get("exec") and not user.values.get("auth-provider"):
        return _static_token(user), _own_certificate(user)
    token, identity = _from_plugin(spec, context, user)
    if not token() and not identity.files:
        # The package has logged why; without this check requests would go out as anonymous.
        raise ConfigError(
            f"{_plugin(user)}: it gave no credentials; "
            "does `kubectl get nodes` work with this kubeconfig?"
        )
    return token, identity


def _document(path: Path) -> _Entry:
    from toposcope.api.yaml_text import YamlSyntaxError, load  # noqa: PLC0415 - not in a pod

    try:
        text = _pipes[path] if path in _pipes else _content(path)
        if len(text) > _MOST_BYTES:
            raise ConfigError(
                f"kubeconfig {path} is larger than {_MOST_BYTES >> 20} MiB; is it a kubeconfig?"
            )
        document = load(text)
    except OSError as error:
        raise ConfigError(f"kubeconfig {path}: {error.strerror}") from error
    except YamlSyntaxError as error:
        raise ConfigError(f"kubeconfig {path}, line {error.line}: {error}") from error
    if document is not None and not isinstance(document, dict):
        raise ConfigError(f"kubeconfig {path} holds no mapping; is it a kubeconfig?")
    return _Entry(path, f"{path}: ", document or {})


_pipes: Final[dict[Path, bytes]] = {}


def _content(path: Path) -> bytes:
    """The file's content; that of a pipe is kept, as a command may connect more than once.

    Raises OSError.
    """
    with path.open("rb") as file:
        text = file.read(_MOST_BYTES + 1)
        if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            _pipes[path] = text
    return text


def _find(
    files: Sequence[_Entry], section: str, kind: str, name: str | None, named_by: str
) -> _Entry:
    """The first entry called `name` of a named list; `named_by` is the field that asks for it."""
    names = []
    for file in files:
        for entry in _entries(file, section):
            if entry.get("name") != name:
                names.append(str(entry.get("name")))
                continue
            where = f"{file.where}{section}[{name}].{kind}"
            values = entry.get(kind) or {}
            if not isinstance(values, dict):
                raise ConfigError(f"{where} is not a mapping")
            return _Entry(file.path, f"{where}.", values)

    present = ", ".join(names) or "none"
    raise ConfigError(f"{named_by}: {section} has no entry named {name!r} (existing: {present})")


def _entries(file: _Entry, section: str) -> Iterator[dict[str, Any]]:
    """The entries of a named list; what is no mapping is none."""
    entries = file.values.get(section)
    if not isinstance(entries, list):
        return
    for entry in entries:
        if isinstance(entry, dict):
            yield entry


@dataclass(frozen=True, slots=True)
class _Identity:
    """A client certificate, and how to load it into a context.

    `files` are watched for its successor.
    """

    load: Callable[[ssl.SSLContext], None]
    files: tuple[str, ...] = ()


def _tls(cluster: _Entry, identity: _Identity) -> credentials.Tls:
    data = cluster.inline("certificate-authority")
    ca_file = None if data else cluster.file("certificate-authority")
    # PEM is ASCII: other characters can only be comments.
    ca_data = data.decode("ascii", errors="ignore") if data else None
    verify = not cluster.flag("insecure-skip-tls-verify")
    where = f"{cluster.where}certificate-authority" + ("-data" if data else "")

    def make() -> ssl.SSLContext:
        context = credentials.tls_context(where, ca_file, ca_data, verify=verify)
        identity.load(context)
        return context

    return credentials.RotatingTls(make, (*((ca_file,) if ca_file else ()), *identity.files))


def _static_token(user: _Entry) -> credentials.Token:
    file = user.file("tokenFile")
    if file:
        return credentials.token_file(f"{user.where}tokenFile {file}", Path(file))
    token = user.text("token")
    token = token and credentials.usable(f"{user.where}token", token)
    return lambda: token


def _own_certificate(user: _Entry) -> _Identity:
    """The client certificate of a user's entry, in files or inline, if it has one.

    Raises ConfigError.
    """
    data = {name: user.inline(name) for name in ("client-certificate", "client-key")}
    files = {name: None if data[name] else user.file(name) for name in data}
    parts = [name for name in data if data[name] or files[name]]
    if len(parts) == 1:
        raise ConfigError(
            f"{user.where}client-certificate and client-key go together; one is missing"
        )

    def load(context: ssl.SSLContext) -> None:
        """Inline data is in files that exist in memory alone: the ssl module takes files only."""
        if not parts:
            return
        where = user.where.removesuffix(".")
        with ExitStack() as kept:
            pair = []
            for name in parts:
                file = files[name] or kept.enter_context(_as_file(where, data[name] or b""))
                pair.append(file)
            credentials.load_client_certificate(where, context, *pair)

    return _Identity(load, tuple(file for file in files.values() if file))


@contextmanager
def _as_file(where: str, content: bytes) -> Iterator[str]:
    """The name of a file with this content that only this process reads.

    No folder has to be writable for it. Raises ConfigError where the system has neither memory
    files nor a temporary directory.
    """
    try:
        descriptor = (
            os.memfd_create("toposcope-client", os.MFD_CLOEXEC) if _MEMORY_FILES else _unlinked()
        )
    except OSError as error:
        raise ConfigError(
            f"{where}: the client certificate of a kubeconfig needs a writable temporary "
            f"directory here ({error.strerror}); "
            "set TMPDIR to one, or name files in client-certificate and client-key"
        ) from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        file.seek(0)
        yield f"{_DESCRIPTORS}/{descriptor}"


def _unlinked() -> int:
    """A descriptor of a temporary file that has no name any more."""
    import tempfile  # noqa: PLC0415 - brings archive modules along

    descriptor, name = tempfile.mkstemp()
    os.unlink(name)  # noqa: PTH108 - as pathlib does
    return descriptor


def _plugin(user: _Entry) -> str:
    """The field that names the plugin."""
    return user.where + ("exec" if user.values.get("exec") else "auth-provider")


def _from_plugin(
    spec: str, context: str | None, user: _Entry
) -> tuple[credentials.Token, _Identity]:
    """Ask the user's plugin for a token or a client certificate.

    A token is renewed when it expires; a certificate is not.
    """
    plugin = _plugin(user)
    try:
        import kubernetes.client  # noqa: PLC0415 - costs 26-48 MB; see the package docstring
        import kubernetes.config  # noqa: PLC0415 - same
    except ImportError as error:
        raise ConfigError(
            f"{plugin}: the Python package kubernetes, which asks plugins, is not here "
            "(the image leaves it out): "
            "pip install kubernetes, or use a kubeconfig with a token"
        ) from error

    configuration = kubernetes.client.Configuration()
    try:
        # untyped in 36 and 37
        kubernetes.config.load_kube_config(spec, context, configuration)  # type: ignore[no-untyped-call]
    except Exception as error:  # plugins are foreign programs and raise what they like
        raise ConfigError(f"{plugin}: {error}") from error

    def token() -> str | None:
        try:
            # Refreshes an expired token. The package calls it BearerToken from 36 on, and called it
            # authorization.
            header: str | None = configuration.get_api_key_with_prefix(
                "BearerToken", "authorization"
            )
        except Exception as error:
            raise ConfigError(f"{plugin}: {error}") from error
        if not header:
            return None
        return credentials.usable(f"{plugin}: its answer", header.removeprefix("Bearer "))

    certificate, key = configuration.cert_file, configuration.key_file
    pair = (certificate, key) if certificate and key else ()

    def load(tls: ssl.SSLContext) -> None:
        if pair:
            credentials.load_client_certificate(f"{plugin}: its answer", tls, *pair)

    return token, _Identity(load, pair)
