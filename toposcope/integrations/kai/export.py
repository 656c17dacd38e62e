"""KAI's `Topology` (kai.scheduler/v1alpha1, v0.12 and later): label keys, and from v0.17 on an alias for each."""

from typing import Any

import msgspec

from toposcope.integrations.framework.export import ExportError, Hierarchy, Meta, checked, decoded, named_levels
from toposcope.integrations.grove.kai_ownership import KAI_API
from toposcope.topology.catalogue import BUILT_IN, Catalogue


class _Level(msgspec.Struct, frozen=True, rename="camel"):
    node_label: str
    alias: str = ""


class _Spec(msgspec.Struct, frozen=True):
    levels: list[_Level]


class _Object(msgspec.Struct, frozen=True):
    metadata: Meta
    spec: _Spec


def write(hierarchy: Hierarchy) -> dict[str, Any]:
    """The Topology as every version takes it: without the domains. Raises Unwritable."""
    return topology(KAI_API, hierarchy.name, [{"nodeLabel": level.key} for level in checked(hierarchy).levels])


def write_aliases(hierarchy: Hierarchy) -> dict[str, Any]:
    """The Topology with the domains as aliases (v0.17 and later). Raises Unwritable."""
    levels = checked(hierarchy).levels
    keys = {level.key for level in levels}
    problems = [
        f"level {level.domain!r}: KAI takes no alias that is a label key of the same topology; "
        "rename the domain, or write it without aliases"
        for level in levels
        if level.domain in keys
    ]
    if problems:
        raise ExportError(*problems)
    entries = [{"nodeLabel": level.key, "alias": level.domain} for level in levels]
    return topology(KAI_API, hierarchy.name, entries)


def topology(api_version: str, name: str, levels: list[dict[str, str]]) -> dict[str, Any]:
    """An object of the kind that KAI has from Kueue."""
    return {"apiVersion": api_version, "kind": "Topology", "metadata": {"name": name}, "spec": {"levels": levels}}


def read(document: Any, catalogue: Catalogue = BUILT_IN) -> Hierarchy:
    """KAI's or Kueue's Topology; domains are its aliases, else the catalogue's. Raises Unreadable."""
    found = decoded(document, _Object, "Topology of KAI's or Kueue's")
    levels = found.spec.levels
    return Hierarchy(
        found.metadata.name,
        named_levels([level.node_label for level in levels], [level.alias for level in levels], catalogue),
    )
