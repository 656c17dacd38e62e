"""The catalogue that commands use: like the controller's, with an admin's own levels."""

import argparse
import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from toposcope.api.namespaces import HOME_NAMESPACE
from toposcope.api.yaml_text import YamlSyntaxError, load
from toposcope.cli.errors import CommandError
from toposcope.cli.streams import read_small
from toposcope.cli.terminal import complain
from toposcope.hierarchy.catalogue import BUILT_IN, Catalogue
from toposcope.hierarchy.controller_config import UnreadableError, read_config

if TYPE_CHECKING:
    from toposcope.kube.client import ApiClient


CONFIG_MAP: Final = "toposcope-config"
"""As in manifests/base/controller-deployment.yaml, which mounts it."""
KEY: Final = "config.yaml"
_CONTROLLERS: Final = "app.kubernetes.io/name=toposcope,app.kubernetes.io/component=controller"


def of_flags(arguments: argparse.Namespace) -> Catalogue | None:
    """The catalogue that `--config` names; None without the flag. Raises CommandError."""
    if not arguments.config:
        return None
    try:
        content = read_small(arguments.config)
    except OSError as error:
        raise CommandError(f"--config {arguments.config}: {error.strerror}") from error
    return _parsed(_inside(content, arguments.config), arguments.config)


def of_cluster(client: "ApiClient") -> Catalogue:
    """The catalogue of the cluster's controller, from its ConfigMap, if there is one.

    Raises KubeError and CommandError.
    """
    from toposcope.kube.errors import ApiError  # noqa: PLC0415 - not for files

    try:
        config = _in_cluster(client)
        return _parsed(*config) if config else BUILT_IN
    except ApiError as error:
        if not error.is_forbidden:
            raise
        text = f"configured levels are ignored: {error.message}; pass them with --config FILE"
        complain(f"warning: {text}")
    return BUILT_IN


def followed(client: "ApiClient", wait: Callable[[], bool]) -> Iterator[Catalogue]:
    """The catalogue of the cluster's controller, again after each change.

    `wait` returns when it is time to look again, and True to end. Unreadable ones are skipped.
    """
    from toposcope.kube.errors import KubeError  # noqa: PLC0415 - not for files

    last: tuple[bytes, str] | None = None
    while not wait():
        with contextlib.suppress(KubeError):
            config = _in_cluster(client)
            if config == last:
                continue
            last = config
            try:
                yield _parsed(*config) if config else BUILT_IN
            except CommandError as error:
                complain(f"warning: {error}")


def _in_cluster(client: "ApiClient") -> tuple[bytes, str] | None:
    """The controller's configuration and a name for it; None without one. Raises KubeError."""
    from toposcope.kube.client import find  # noqa: PLC0415 - not for files

    for namespace in controller_namespaces(client):
        config_map = find(client, f"/api/v1/namespaces/{namespace}/configmaps/{CONFIG_MAP}") or {}
        text = (config_map.get("data") or {}).get(KEY)
        if isinstance(text, str):
            return text.encode(), f"configmap/{CONFIG_MAP} -n {namespace}"
    return None


def controller_namespaces(client: "ApiClient") -> Iterator[str]:
    """The namespaces where the controller may run.

    The first is that of the manifests; the others have a Deployment with the controller's labels.
    """
    from toposcope.kube.errors import ApiError  # noqa: PLC0415 - not for files
    from toposcope.kube.listing import everything  # noqa: PLC0415 - same

    yield HOME_NAMESPACE
    try:
        deployments = everything(
            client, "/apis/apps/v1/deployments", selector=_CONTROLLERS, is_metadata_only=True
        )
    except ApiError as error:
        if error.is_forbidden or error.is_not_found:
            return
        raise

    yield from sorted(
        {deployment["metadata"]["namespace"] for deployment in deployments} - {HOME_NAMESPACE}
    )


def _inside(content: bytes, file: str) -> bytes:
    """The configuration in a file: the file itself, or the ConfigMap in it."""
    try:
        document = load(content)
    except YamlSyntaxError as error:
        raise CommandError(f"--config {file}:{error.line}: {error}") from error

    if not isinstance(document, dict) or document.get("kind") != "ConfigMap":
        return content

    data = document.get("data")
    text = data.get(KEY) if isinstance(data, dict) else None
    if not isinstance(text, str):
        raise CommandError(f"--config {file}: data: the ConfigMap has no {KEY}")
    return text.encode()


def _parsed(content: bytes, name: str) -> Catalogue:
    try:
        config = read_config(content, name)
    except UnreadableError as error:
        raise CommandError(str(error)) from error
    for problem in config.problems:
        complain(f"warning: {problem}, the rest is used")
    return config.catalogue
