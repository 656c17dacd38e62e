"""Grove's Helm values: `config.topologyAwareScheduling`.

Up to v0.1.0-alpha.8 the levels stand there and the operator makes its ClusterTopology of them; since alpha.9 they only
switch the feature on, and the levels are in ClusterTopologyBindings.
"""

from typing import Any

import msgspec

from toposcope.integrations.framework.export import Hierarchy, checked, decoded
from toposcope.integrations.grove.export import OLDER_NAME, level_entries, older
from toposcope.topology.levels import Level


class _Level(msgspec.Struct, frozen=True):
    domain: str
    key: str


class _Scheduling(msgspec.Struct, frozen=True):
    levels: list[_Level]


class _Config(msgspec.Struct, frozen=True, rename="camel"):
    topology_aware_scheduling: _Scheduling


class _Values(msgspec.Struct, frozen=True):
    config: _Config


def write(hierarchy: Hierarchy) -> dict[str, Any]:
    """Values for v0.1.0-alpha.9 and later; the levels go into a binding. Raises Unwritable."""
    checked(hierarchy)
    return {"config": {"topologyAwareScheduling": {"enabled": True}}}


def write_older(hierarchy: Hierarchy) -> dict[str, Any]:
    """Values for v0.1.0-alpha.4 to alpha.8. Raises Unwritable."""
    return {"config": {"topologyAwareScheduling": {"enabled": True, "levels": level_entries(older(hierarchy))}}}


def read(document: Any) -> Hierarchy:
    """The levels in older values. Raises Unreadable, also for newer values, which hold none."""
    found = decoded(document, _Values, "values file of Grove's chart with levels (v0.1.0-alpha.4 to alpha.8)")
    levels = found.config.topology_aware_scheduling.levels
    return Hierarchy(OLDER_NAME, tuple(Level(level.domain, level.key) for level in levels))
