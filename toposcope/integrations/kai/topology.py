"""KAI's `Topology` (kai.scheduler/v1alpha1, v0.12 and later).

Label keys, and from v0.17 on an alias for each. Rules and messages of `TOPOLOGY`: the CRD of KAI
0.17 (schema and CEL) and KAI's webhook.
"""

from collections import Counter
from typing import Any, Final

from toposcope.integrations.framework import levels as formats
from toposcope.integrations.framework.document import Field, kind_of
from toposcope.integrations.framework.system import ClusterFacts, Reading, System
from toposcope.integrations.framework.topologies import RECREATE, check_levels, label_keys
from toposcope.integrations.kai.api import TOPOLOGIES


def write(topology: formats.TopologyLevels) -> dict[str, Any]:
    """The Topology without aliases, as every version accepts it. Raises ExportError."""
    entries = [{"nodeLabel": level.key} for level in formats.exportable(topology).levels]
    return formats.topology_object(
        TOPOLOGIES.api_version(), TOPOLOGIES.kind, topology.name, entries
    )


def write_aliases(topology: formats.TopologyLevels) -> dict[str, Any]:
    """The Topology with the domains as aliases (v0.17 and later). Raises ExportError."""
    levels = formats.exportable(topology).levels
    problems = [
        f"level {level.domain!r}: KAI takes no alias that is a label key of the same topology; "
        "rename the domain, or write it without aliases"
        for level in levels
        if level.domain in topology.keys
    ]
    if problems:
        raise formats.ExportError(*problems)
    entries = [{"nodeLabel": level.key, "alias": level.domain} for level in levels]
    return formats.topology_object(
        TOPOLOGIES.api_version(), TOPOLOGIES.kind, topology.name, entries
    )


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    levels = root / "spec" / "levels"
    keys = check_levels(levels, cluster, "kai", "nodeLabel must be unique")
    if before is not None and keys != label_keys(before / "spec" / "levels"):
        text = "nodeLabel structure is immutable; only aliases may be edited"
        levels.error("kai/topology-immutable", text, RECREATE)
    aliases = [alias for level in levels.items() if (alias := (level / "alias").text())]
    duplicates = sorted(name for name, count in Counter(aliases).items() if count > 1)
    if duplicates:
        text = f"aliases must be unique within the topology; duplicated: {', '.join(duplicates)}"
        levels.error("kai/topology-alias", text, "give each level an alias of its own")
    conflicting = sorted(set(aliases) & set(keys))
    if conflicting:
        text = f"an alias must not equal a nodeLabel; conflicting: {', '.join(conflicting)}"
        levels.error("kai/topology-alias", text, "choose another alias")
    return Reading()


TOPOLOGY: Final = System(
    "KAI", lambda document: kind_of(document) == (TOPOLOGIES.group, TOPOLOGIES.kind), _read
)
READERS: Final = (TOPOLOGY,)
