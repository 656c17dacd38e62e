"""KAI's `Topology` (kai.scheduler/v1alpha1, v0.12 and later): label keys, and from v0.17 on an alias for each."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import (
    ExportError,
    Meta,
    TopologyLevels,
    checked,
    decoded,
    named_levels,
)
from toposcope.integrations.framework.pods import kind_of
from toposcope.integrations.framework.system import ClusterFacts, Reading, merged
from toposcope.integrations.framework.topologies import RECREATE, check_levels, label_keys
from toposcope.integrations.grove.kai_reference import KAI_API
from toposcope.topology.catalogue import BUILT_IN, Catalogue


class _Level(msgspec.Struct, frozen=True, rename="camel"):
    node_label: str
    alias: str = ""


class _Spec(msgspec.Struct, frozen=True):
    levels: list[_Level]


class _Object(msgspec.Struct, frozen=True):
    metadata: Meta
    spec: _Spec


def write(hierarchy: TopologyLevels) -> dict[str, Any]:
    """The Topology as every version takes it: without the domains. Raises Unwritable."""
    return topology(KAI_API, hierarchy.name, [{"nodeLabel": level.key} for level in checked(hierarchy).levels])


def write_aliases(hierarchy: TopologyLevels) -> dict[str, Any]:
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


def read(document: Any, catalogue: Catalogue = BUILT_IN) -> TopologyLevels:
    """KAI's or Kueue's Topology; domains are its aliases, else the catalogue's. Raises Unreadable."""
    found = decoded(document, _Object, "Topology of KAI's or Kueue's")
    levels = found.spec.levels
    return TopologyLevels(
        found.metadata.name,
        named_levels([level.node_label for level in levels], [level.alias for level in levels], catalogue),
    )


class KaiTopology:
    """Checks KAI's Topology."""

    name = "KAI"

    def claims(self, document: Mapping[str, Any]) -> bool:
        """Every Topology of KAI's API group."""
        return kind_of(document) == ("kai.scheduler", "Topology")

    def read(
        self, document: Mapping[str, Any], known: ClusterFacts, before: Mapping[str, Any] | None = None
    ) -> Reading:
        """What KAI would refuse; nothing is to be placed. See System."""
        root = Field(document)
        levels = root / "spec" / "levels"
        keys = check_levels(levels, known, "kai", "nodeLabel must be unique")
        if before is not None and keys != label_keys(Field(before) / "spec" / "levels"):
            text = "nodeLabel structure is immutable; only aliases may be edited"
            levels.error("kai/topology-immutable", text, RECREATE)
        aliases = [alias for level in levels.items() if (alias := (level / "alias").text())]
        twice = sorted(name for name, count in Counter(aliases).items() if count > 1)
        if twice:
            text = f"aliases must be unique within the topology; duplicated: {', '.join(twice)}"
            levels.error("kai/topology-alias", text, "give each level an alias of its own")
        both = sorted(set(aliases) & set(keys))
        if both:
            text = f"an alias must not equal a nodeLabel; conflicting: {', '.join(both)}"
            levels.error("kai/topology-alias", text, "choose another alias")
        return Reading(None, merged(root.findings))
