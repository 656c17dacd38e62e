"""Grove's topology resource: `ClusterTopologyBinding`, or `ClusterTopology` of older versions.

The older one is that of v0.1.0-alpha.4 to alpha.8. Helm values: up to v0.1.0-alpha.8 the levels are
in `config.topologyAwareScheduling`, and the operator creates its ClusterTopology from them; since
alpha.9 the values only enable the feature, and the levels are in the bindings. Both set the backend
as default scheduler, because only it keeps constraints: the charts' default is default-scheduler.
Scheduler profiles came with alpha.8; earlier versions ignore them.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from toposcope.api.levels import Level
from toposcope.integrations.framework import levels as formats
from toposcope.integrations.framework.published import PublishedKind, Target
from toposcope.integrations.grove import backend
from toposcope.integrations.grove.api import BINDINGS, OLDER_TOPOLOGIES, OPERATORS_TOPOLOGY

OLDER_DOMAINS: Final = ("region", "zone", "datacenter", "block", "rack", "host", "numa")
"""The domains in the older CRD's enum, which also limits the number of levels."""

_SCHEDULER: Final = {"scheduler": {"defaultProfileName": backend.SCHEDULER}}


def target(resources: Collection[str], name: str) -> Target | None:
    """The object to publish; None if Grove's API does not serve these resources.

    The ClusterTopology of v0.1.0-alpha.4 to alpha.8 has no status and belongs to the operator. The
    one of the development versions after them has a status, and is the binding under another name.
    """
    if BINDINGS.plural in resources:
        return BINDINGS.target(name)
    if f"{OLDER_TOPOLOGIES.plural}/status" in resources:
        return OLDER_TOPOLOGIES.target(name)
    return None


def entries(levels: Sequence[Level]) -> list[dict[str, str]]:
    """Levels in Grove's form."""
    return [{"domain": level.domain, "key": level.key} for level in levels]


def write(topology: formats.TopologyLevels) -> dict[str, Any]:
    """The binding. Raises ExportError."""
    exportable = formats.exportable(topology)
    return _object(BINDINGS, topology.name, exportable)


def write_older(topology: formats.TopologyLevels) -> dict[str, Any]:
    """The older resource; Grove's operator overwrites it from its Helm values.

    Raises ExportError.
    """
    older = _older(topology)
    return _object(OLDER_TOPOLOGIES, OPERATORS_TOPOLOGY, older)


def write_values(topology: formats.TopologyLevels) -> dict[str, Any]:
    """Helm values for v0.1.0-alpha.9 and later; the levels go into a binding.

    Raises ExportError.
    """
    formats.exportable(topology)
    config = {"topologyAwareScheduling": {"enabled": True}, **_SCHEDULER}
    return {"config": config}


def write_older_values(topology: formats.TopologyLevels) -> dict[str, Any]:
    """Helm values for v0.1.0-alpha.4 to alpha.8. Raises ExportError."""
    levels = entries(_older(topology).levels)
    scheduling = {"enabled": True, "levels": levels}
    config = {"topologyAwareScheduling": scheduling, **_SCHEDULER}
    return {"config": config}


def read(document: Any) -> formats.TopologyLevels:
    """The levels in either kind. Raises UnreadableDocumentError."""
    what = f"{BINDINGS.kind} or {OLDER_TOPOLOGIES.kind} of Grove's"
    return formats.domain_topology(document, what)


class _Config(msgspec.Struct, frozen=True, rename="camel"):
    topology_aware_scheduling: formats.DomainLevels


class _Values(msgspec.Struct, frozen=True):
    config: _Config


def read_values(document: Any) -> formats.TopologyLevels:
    """The levels in older Helm values.

    Raises UnreadableDocumentError, also for newer values, which have none.
    """
    what = "values file of Grove's chart with levels (v0.1.0-alpha.4 to alpha.8)"
    values = formats.decoded(document, _Values, what)
    levels = values.config.topology_aware_scheduling
    return levels.named(OPERATORS_TOPOLOGY)


def differences(document: Mapping[str, Any], levels: Sequence[Level]) -> list[str]:
    """How the operator's ClusterTopology differs from the levels of nodes: in keys, or in order."""
    theirs = _written(document)
    wrong = list(_wrong_keys(theirs, levels))
    if wrong:
        return wrong

    in_order_of_nodes = [level for level in levels if level in theirs]
    if in_order_of_nodes == theirs:
        return []
    return [f"its order is {_path(theirs)}, but the nodes' order is {_path(levels)}"]


def _written(document: Mapping[str, Any]) -> list[Level]:
    spec = document.get("spec") or {}
    levels = []
    for entry in spec.get("levels") or ():
        domain = str(entry.get("domain"))
        key = str(entry.get("key"))
        levels.append(Level(domain, key))
    return levels


def _wrong_keys(theirs: Sequence[Level], levels: Sequence[Level]) -> Iterator[str]:
    keys = {level.domain: level.key for level in levels}
    for level in theirs:
        key = keys.get(level.domain)
        if key == level.key:
            continue
        carried = f"{key} for it"
        if key is None:
            carried = "no such level"
        yield f"level '{level.domain}' has the key {level.key}, nodes carry {carried}"


def _path(levels: Sequence[Level]) -> str:
    return " > ".join(level.domain for level in levels)


def _older(topology: formats.TopologyLevels) -> formats.TopologyLevels:
    """The topology, if Grove v0.1.0-alpha.4 to alpha.8 would accept it. Raises ExportError."""
    domains = ", ".join(OLDER_DOMAINS)
    problems = []
    for level in formats.exportable(topology).levels:
        if level.domain not in OLDER_DOMAINS:
            problem = (
                f"level {level.domain!r}: Grove before v0.1.0-alpha.9 has only {domains}; upgrade "
                "Grove, or drop the level with --without"
            )
            problems.append(problem)
    if problems:
        raise formats.ExportError(*problems)
    return topology


def _object(kind: PublishedKind, name: str, topology: formats.TopologyLevels) -> dict[str, Any]:
    levels = entries(topology.levels)
    return formats.topology_object(kind.api_version(), kind.kind, name, levels)
