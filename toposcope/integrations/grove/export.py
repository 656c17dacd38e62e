"""Grove's topology resource: `ClusterTopologyBinding`, or the older `ClusterTopology` (v0.1.0-alpha.4 to alpha.8)."""

from typing import Any, Final

import msgspec

from toposcope.integrations.framework.export import ExportError, Hierarchy, Meta, checked, decoded
from toposcope.integrations.grove.kai_ownership import BINDING, GROVE_API
from toposcope.topology.levels import Level

OLDER_KIND: Final = "ClusterTopology"
OLDER_NAME: Final = "grove-topology"
"""The only object of the older kind that Grove reads."""
OLDER_DOMAINS: Final = ("region", "zone", "datacenter", "block", "rack", "host", "numa")
"""What the older CRD's enum allows, which is also how many levels it takes."""


class _Level(msgspec.Struct, frozen=True):
    domain: str
    key: str


class _Spec(msgspec.Struct, frozen=True):
    levels: list[_Level]


class _Object(msgspec.Struct, frozen=True):
    metadata: Meta
    spec: _Spec


def write(hierarchy: Hierarchy) -> dict[str, Any]:
    """The binding. Raises Unwritable."""
    return _document(BINDING, hierarchy.name, level_entries(checked(hierarchy)))


def write_older(hierarchy: Hierarchy) -> dict[str, Any]:
    """The older resource; Grove's operator writes it over from its Helm values. Raises Unwritable."""
    return _document(OLDER_KIND, OLDER_NAME, level_entries(older(hierarchy)))


def older(hierarchy: Hierarchy) -> Hierarchy:
    """The hierarchy, if Grove v0.1.0-alpha.4 to alpha.8 would take it. Raises Unwritable."""
    problems = [
        f"level {level.domain!r}: Grove before v0.1.0-alpha.9 knows {', '.join(OLDER_DOMAINS)} only; "
        "upgrade Grove, or leave the level out with --without"
        for level in checked(hierarchy).levels
        if level.domain not in OLDER_DOMAINS
    ]
    if problems:
        raise ExportError(*problems)
    return hierarchy


def level_entries(hierarchy: Hierarchy) -> list[dict[str, str]]:
    """Levels as Grove writes them everywhere."""
    return [{"domain": level.domain, "key": level.key} for level in hierarchy.levels]


def read(document: Any) -> Hierarchy:
    """Either kind. Raises Unreadable."""
    found = decoded(document, _Object, f"{BINDING} or {OLDER_KIND} of Grove's")
    return Hierarchy(found.metadata.name, tuple(Level(level.domain, level.key) for level in found.spec.levels))


def _document(kind: str, name: str, levels: list[dict[str, str]]) -> dict[str, Any]:
    return {"apiVersion": GROVE_API, "kind": kind, "metadata": {"name": name}, "spec": {"levels": levels}}
