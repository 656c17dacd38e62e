"""Documents beside a workload: topology resources of all systems, read from them and added."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from toposcope.api.cluster_topology import API_VERSION, KIND
from toposcope.hierarchy.catalogue import BUILT_IN, Catalogue
from toposcope.integrations.framework.configuration import Configuration
from toposcope.integrations.framework.document import Field, kind_of, name_of, namespace_of
from toposcope.integrations.framework.levels import (
    TopologyLevels,
    UnreadableDocumentError,
    domain_topology,
)
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.registry import DECISIVE, configurations
from toposcope.kube.discovery import Kind

_OWN_GROUP: Final = API_VERSION.partition("/")[0]


def _configuring_kinds() -> Iterator[tuple[str, str]]:
    from_cluster: list[Kind] = []
    for system in configurations():
        from_cluster += system.from_cluster
    for kind in DECISIVE:
        if kind not in from_cluster:
            yield kind.key


_CONFIGURING: Final = frozenset(_configuring_kinds())
"""Kinds that count as applied if they are in the same files as a workload."""


def read_topology(document: Any, catalogue: Catalogue = BUILT_IN) -> TopologyLevels:
    """The levels in the topology resource of any system, or in a ClusterTopology.

    Raises UnreadableDocumentError.
    """
    if not isinstance(document, dict):
        text = f"this is not a topology but a {type(document).__name__}; give one object"
        raise UnreadableDocumentError(text)

    group, _, _ = str(document.get("apiVersion", "")).rpartition("/")
    kind = str(document.get("kind", ""))
    if (group, kind) == (_OWN_GROUP, KIND):
        text = f"{KIND} with spec.levels (use the cluster for inferred levels)"
        return domain_topology(document, text)

    for system in configurations():
        for published_kind in system.kinds:
            if published_kind.key == (group, kind):
                return system.read(document, catalogue)
        if not kind and _is_plain(document, system):
            return system.read_plain(document, catalogue)
    text = f"kind {kind!r} of group {group!r} is not a topology; known are {_known()}"
    raise UnreadableDocumentError(text)


def _is_plain(document: Mapping[str, Any], system: Configuration) -> bool:
    """Whether a document without a kind belongs to the system."""
    return system.plain_field != "" and system.plain_field in document


def _known() -> str:
    """All readable kinds, in words."""
    names = [f"{KIND}.{_OWN_GROUP}"]
    plain = []
    for system in configurations():
        for kind in system.kinds:
            names.append(f"{kind.kind}.{kind.group}")
        if system.plain_title:
            plain.append(system.plain_title)

    plain.sort(key=str.casefold, reverse=True)
    *most, last = plain
    names += most
    return f"{', '.join(names)} and {last}"


def expanded(text: bytes) -> bytes | None:
    """The YAML that a system renders from a template; None if it is no system's template.

    Raises UnreadableDocumentError.
    """
    for system in configurations():
        rendered = system.expanded(text)
        if rendered is not None:
            return rendered
    return None


def with_documents(cluster: ClusterFacts, documents: Collection[Mapping[str, Any]]) -> ClusterFacts:
    """The facts with what the documents configure: topology resources, pools, queues, backends.

    A topology of the cluster takes precedence over a document of the same name; for the pods of a
    group, documents do.
    """
    for document in documents:
        cluster = _with_document(cluster, document)
    for system in configurations():
        cluster = system.members(cluster, documents)
    return cluster


def _with_document(cluster: ClusterFacts, document: Mapping[str, Any]) -> ClusterFacts:
    for system in configurations():
        configured = system.configure(cluster, document)
        if configured is not None:
            return configured
    kind = kind_of(document)
    if kind not in _CONFIGURING:
        return cluster

    of_kind = cluster.objects.get(kind, ())
    name = _name(document)
    for existing in of_kind:
        if _name(existing) == name:
            return cluster
    incomplete = cluster.incomplete
    if kind not in cluster.objects:
        incomplete = incomplete | {kind}
    objects = dict(cluster.objects)
    objects[kind] = (*of_kind, document)
    return replace(cluster, objects=objects, incomplete=incomplete)


def _name(document: Mapping[str, Any]) -> tuple[str, str]:
    root = Field(document)
    return namespace_of(root), name_of(root)
