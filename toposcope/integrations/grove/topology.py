"""Grove's topology resource: `ClusterTopologyBinding`, or the older `ClusterTopology` (v0.1.0-alpha.4 to alpha.8)."""

from typing import Any, Final

import msgspec

from toposcope.integrations.framework.levels import ExportError, Meta, TopologyLevels, checked, decoded
from toposcope.integrations.grove.kai_reference import BINDING, GROVE_API
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


def write(hierarchy: TopologyLevels) -> dict[str, Any]:
    """The binding. Raises Unwritable."""
    return _document(BINDING, hierarchy.name, level_entries(checked(hierarchy)))


def write_older(hierarchy: TopologyLevels) -> dict[str, Any]:
    """The older resource; Grove's operator writes it over from its Helm values. Raises Unwritable."""
    return _document(OLDER_KIND, OLDER_NAME, level_entries(older(hierarchy)))


def older(hierarchy: TopologyLevels) -> TopologyLevels:
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


def level_entries(hierarchy: TopologyLevels) -> list[dict[str, str]]:
    """Levels as Grove writes them everywhere."""
    return [{"domain": level.domain, "key": level.key} for level in hierarchy.levels]


def read(document: Any) -> TopologyLevels:
    """Either kind. Raises Unreadable."""
    found = decoded(document, _Object, f"{BINDING} or {OLDER_KIND} of Grove's")
    return TopologyLevels(found.metadata.name, tuple(Level(level.domain, level.key) for level in found.spec.levels))


def _document(kind: str, name: str, levels: list[dict[str, str]]) -> dict[str, Any]:
    return {"apiVersion": GROVE_API, "kind": kind, "metadata": {"name": name}, "spec": {"levels": levels}}


class _Scheduling(msgspec.Struct, frozen=True):
    levels: list[_Level]


class _Config(msgspec.Struct, frozen=True, rename="camel"):
    topology_aware_scheduling: _Scheduling


class _Values(msgspec.Struct, frozen=True):
    config: _Config


def write_values(hierarchy: TopologyLevels) -> dict[str, Any]:
    """Values for v0.1.0-alpha.9 and later; the levels go into a binding. Raises Unwritable."""
    checked(hierarchy)
    return {"config": {"topologyAwareScheduling": {"enabled": True}}}


def write_older_values(hierarchy: TopologyLevels) -> dict[str, Any]:
    """Values for v0.1.0-alpha.4 to alpha.8. Raises Unwritable."""
    return {"config": {"topologyAwareScheduling": {"enabled": True, "levels": level_entries(older(hierarchy))}}}


def read_values(document: Any) -> TopologyLevels:
    """The levels in older values. Raises Unreadable, also for newer values, which hold none."""
    found = decoded(document, _Values, "values file of Grove's chart with levels (v0.1.0-alpha.4 to alpha.8)")
    levels = found.config.topology_aware_scheduling.levels
    return TopologyLevels(OLDER_NAME, tuple(Level(level.domain, level.key) for level in levels))
