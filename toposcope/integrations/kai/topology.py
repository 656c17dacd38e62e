"""KAI's `Topology` (kai.scheduler/v1alpha1, v0.12 and later).

Label keys, and from v0.17 on an alias for each. Rules and messages of `TOPOLOGY`: the CRD of KAI
0.17 (schema and CEL) and KAI's webhook.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from toposcope.integrations.framework import levels as formats
from toposcope.integrations.framework.document import Field, kind_of
from toposcope.integrations.framework.system import ClusterFacts, Reading, System
from toposcope.integrations.framework.topologies import RECREATE, check_levels, label_keys
from toposcope.integrations.kai.api import TOPOLOGIES


def write(topology: formats.TopologyLevels) -> dict[str, Any]:
    """The Topology without aliases, which every version accepts. Raises ExportError."""
    entries: list[dict[str, str]] = []
    levels = formats.exportable(topology).levels
    for level in levels:
        entries.append({"nodeLabel": level.key})
    return _topology(topology.name, entries)


def write_aliases(topology: formats.TopologyLevels) -> dict[str, Any]:
    """The Topology with the domains as aliases (v0.17 and later). Raises ExportError."""
    problems: list[str] = []
    entries: list[dict[str, str]] = []
    levels = formats.exportable(topology).levels
    for level in levels:
        entries.append({"nodeLabel": level.key, "alias": level.domain})
        if level.domain in topology.keys:
            problems.append(
                f"level {level.domain!r}: KAI rejects an alias that is a label key of the same "
                "topology; rename the domain, or export without aliases"
            )
    if problems:
        raise formats.ExportError(*problems)
    return _topology(topology.name, entries)


def _topology(name: str, levels: Iterable[dict[str, str]]) -> dict[str, Any]:
    return formats.topology_object(
        TOPOLOGIES.api_version(),
        TOPOLOGIES.kind,
        name,
        levels,
    )


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    levels = root / "spec" / "levels"
    keys = check_levels(levels, cluster, "kai", "nodeLabel must be unique")
    if before is not None:
        levels_before = before / "spec" / "levels"
        if keys != label_keys(levels_before):
            text = "nodeLabel structure is immutable; only aliases may be edited"
            levels.error("kai/topology-immutable", text, RECREATE)
    _check_aliases(levels, keys)
    return Reading()


def _check_aliases(levels: Field, keys: Iterable[str]) -> None:
    """Note aliases that are not unique, or that are also label keys."""
    counts = Counter[str]()
    for level in levels.items():
        alias = (level / "alias").text()
        if alias:
            counts[alias] += 1

    rule = "kai/topology-alias"
    duplicates = [alias for alias in sorted(counts) if counts[alias] > 1]
    if duplicates:
        names = ", ".join(duplicates)
        text = f"aliases must be unique within the topology; duplicated: {names}"
        levels.error(rule, text, "give each level an alias of its own")
    conflicting = sorted(counts.keys() & set(keys))
    if conflicting:
        names = ", ".join(conflicting)
        text = f"an alias must not equal a nodeLabel; conflicting: {names}"
        levels.error(rule, text, "choose another alias")


def _claims(document: Mapping[str, Any]) -> bool:
    return kind_of(document) == (TOPOLOGIES.group, TOPOLOGIES.kind)


TOPOLOGY: Final = System("KAI", _claims, _read)
READERS: Final = (TOPOLOGY,)
