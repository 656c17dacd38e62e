"""Which system's document is this? Told from its API group and kind, else from the fields that only one system has."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from toposcope.api.cluster_topology import API_VERSION, KIND
from toposcope.integrations.framework.levels import Meta, TopologyLevels, UnreadableDocumentError, decoded
from toposcope.integrations.grove import topology as grove
from toposcope.integrations.kai import topology as kai
from toposcope.integrations.kueue import topology as kueue
from toposcope.integrations.osmo import pool as osmo
from toposcope.integrations.runai import topology as runai
from toposcope.topology.catalogue import BUILT_IN, Catalogue
from toposcope.topology.levels import Level


def _whole(read: Callable[[Any], TopologyLevels]) -> Callable[[Any, Catalogue], TopologyLevels]:
    """For forms that name domains themselves."""
    return lambda document, _: read(document)


_KINDS: Final[dict[tuple[str, str], Callable[[Any, Catalogue], TopologyLevels]]] = {
    ("grove.io", "ClusterTopologyBinding"): _whole(grove.read),
    ("grove.io", "ClusterTopology"): _whole(grove.read),
    ("kai.scheduler", "Topology"): kai.read,
    ("kueue.x-k8s.io", "Topology"): kueue.read,
}
"""By API group and kind."""
_FIELDS: Final[dict[str, Callable[[Any, Catalogue], TopologyLevels]]] = {
    "topology_keys": _whole(osmo.read),
    "config": _whole(grove.read_values),
    "levels": runai.read,
}
"""By a field at the top."""


class _Level(msgspec.Struct, frozen=True):
    domain: str
    key: str


class _Spec(msgspec.Struct, frozen=True):
    levels: list[_Level]


class _Own(msgspec.Struct, frozen=True):
    metadata: Meta
    spec: _Spec


def read(document: Any, catalogue: Catalogue = BUILT_IN) -> TopologyLevels:
    """The levels in a document of any system, Toposcope's own ClusterTopology included. Raises Unreadable."""
    if not isinstance(document, dict):
        raise UnreadableDocumentError(f"this is no topology but a {type(document).__name__}; give one object")
    group = str(document.get("apiVersion", "")).rpartition("/")[0]
    kind = str(document.get("kind", ""))
    if (group, kind) == (API_VERSION.partition("/")[0], KIND):
        return _own(document)
    if (group, kind) in _KINDS:
        return _KINDS[group, kind](document, catalogue)
    if not kind:
        for field, reader in _FIELDS.items():
            if field in document:
                return reader(document, catalogue)
    known = ", ".join(f"{kind}.{group}" for group, kind in _KINDS)
    raise UnreadableDocumentError(
        f"no topology is known by kind {kind!r} of group {group!r}; known are {KIND}.{API_VERSION.partition('/')[0]}, "
        f"{known}, Run:ai's network topology, OSMO's topology_keys and older values of Grove's chart"
    )


def _own(document: Any) -> TopologyLevels:
    found = decoded(document, _Own, f"{KIND} with spec.levels (look at the cluster for levels that are inferred)")
    return TopologyLevels(found.metadata.name, tuple(Level(level.domain, level.key) for level in found.spec.levels))
