"""Run:ai's network topology, as its API takes it: label keys, farthest first."""

from typing import Any

import msgspec

from toposcope.integrations.framework.export import Hierarchy, checked, decoded, named_levels
from toposcope.topology.catalogue import BUILT_IN, Catalogue


class _Topology(msgspec.Struct, frozen=True):
    name: str
    levels: list[str]


def write(hierarchy: Hierarchy, cluster_id: str | None = None) -> dict[str, Any]:
    """The body of a request that makes the topology; without `cluster_id` that field is left out. Raises Unwritable."""
    keys = [level.key for level in checked(hierarchy).levels]
    named = {"name": hierarchy.name} | ({"clusterId": cluster_id} if cluster_id else {})
    return {**named, "levels": keys}


def read(document: Any, catalogue: Catalogue = BUILT_IN) -> Hierarchy:
    """A request's body or the API's reply; domains are the catalogue's. Raises Unreadable."""
    found = decoded(document, _Topology, "network topology of Run:ai's")
    return Hierarchy(found.name, named_levels(found.levels, catalogue=catalogue))
