"""The objects that a check is against: what is in the cluster already, for rules about what must not change."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from toposcope.cli.terminal import complain
from toposcope.integrations.dynamo.features import DEPLOYMENT_GRAPH
from toposcope.integrations.framework.document import Field, kind_of
from toposcope.integrations.framework.features import Kind
from toposcope.integrations.grove.features import CLIQUE_SET
from toposcope.snapshot.problems import Progress, silent

if TYPE_CHECKING:
    from toposcope.kube.client import ApiClient

Key = tuple[str, str, str]
"""Kind, namespace, name: how an existing object is found again."""

_FORBIDDEN: Final = 403
_RULED: Final = {kind.key: kind for kind in (DEPLOYMENT_GRAPH, CLIQUE_SET)}
"""Kinds that have rules about changes; others are not asked for."""


def key_of(values: Mapping[str, Any]) -> Key:
    """By what an object is found again."""
    metadata = Field(values) / "metadata"
    name = (metadata / "name").text() or values.get("name")
    return str(values.get("kind")), (metadata / "namespace").text() or "", str(name)


def existing(
    client: "ApiClient", documents: Sequence[Mapping[str, Any]], progress: Progress = silent
) -> dict[Key, Mapping[str, Any]]:
    """The objects of the documents that are in the cluster, in the version of the document. Raises KubeError.

    Reads only. What may not be read is told on standard error, once for each kind.
    """
    from toposcope.kube.errors import ApiError  # noqa: PLC0415 - nobody who looks at files has to wait for it

    found: dict[Key, Mapping[str, Any]] = {}
    refused: set[tuple[str, str]] = set()
    for count, document in enumerate(documents, 1):
        progress("objects as they are", count, count / len(documents))
        kind = _RULED.get(kind_of(document))
        name = (Field(document) / "metadata" / "name").text()
        if kind is None or name is None or kind.key in refused:
            continue
        try:
            there = _get(client, kind, document, name)
        except ApiError as error:
            if error.status != _FORBIDDEN:
                raise
            refused.add(kind.key)
            text = f"{kind.name} may not be read with these credentials, so rules about changes are not checked"
            complain(f"warning: {text}; give the objects with --against FILE")
            continue
        if there is not None:
            found[key_of(document)] = there
    return found


def _get(client: "ApiClient", kind: Kind, document: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    from urllib.parse import quote  # noqa: PLC0415 - same

    from toposcope.kube.client import Request  # noqa: PLC0415 - same
    from toposcope.kube.errors import ApiError  # noqa: PLC0415 - same

    namespace = (Field(document) / "metadata" / "namespace").text() or client.namespace or "default"
    version = str(document["apiVersion"])
    path = f"/apis/{quote(version)}/namespaces/{quote(namespace, safe='')}/{kind.plural}/{quote(name, safe='')}"
    try:
        answer = client.call(Request("GET", path, {}))
    except ApiError as error:
        if error.not_found:
            return None
        raise
    return answer if isinstance(answer, dict) else None
