"""Rules that several systems' topologies share: a list of node labels, broadest first.

From schema and CEL of the schedulers' CRDs; other systems create such a Topology from theirs.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import msgspec

from toposcope.api.label_keys import HOSTNAME
from toposcope.api.levels import LISTING_NODE_LABELS, MAX_LEVELS, Level
from toposcope.hierarchy.catalogue import BUILT_IN, Catalogue
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import (
    NamedObject,
    TopologyLevels,
    decoded,
    did_you_mean_key,
    named_levels,
)
from toposcope.integrations.framework.system import ClusterFacts

_KEY: Final = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])",
    re.ASCII,
)
_MAX_KEY_CHARACTERS: Final = 316
_OWNERS: Final = " or ".join(f"{title}'s" for title in LISTING_NODE_LABELS)
HOSTNAME_LAST: Final = (
    "the kubernetes.io/hostname label can only be used at the lowest level of topology"
)
RECREATE: Final = "delete the Topology and create it again, while nothing uses it"
NOT_A_KEY: Final = (
    "should be the key of a node label",
    "a lower-case DNS prefix, a slash and a name",
)


class _Level(msgspec.Struct, frozen=True, rename="camel"):
    node_label: str
    alias: str = ""


class _Spec(msgspec.Struct, frozen=True):
    levels: list[_Level]


class _Topology(msgspec.Struct, frozen=True):
    metadata: NamedObject
    spec: _Spec


def read_node_labels(document: Any, catalogue: Catalogue = BUILT_IN) -> TopologyLevels:
    """A Topology of node labels; the domains are its aliases, else the catalogue's.

    Raises UnreadableDocumentError.
    """
    topology = decoded(document, _Topology, f"Topology of {_OWNERS}")
    entries = topology.spec.levels
    keys = [entry.node_label for entry in entries]
    aliases = [entry.alias for entry in entries]
    levels = named_levels(keys, aliases, catalogue)
    return TopologyLevels(topology.metadata.name, levels)


def aliases_of(document: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Alias and label key of each level that has an alias."""
    levels = Field(document) / "spec" / "levels"
    named = []
    for level in levels.items():
        alias = (level / "alias").text()
        key = (level / "nodeLabel").text()
        if alias and key:
            named.append((alias, key))
    return tuple(named)


def label_keys(levels: Field) -> list[str]:
    """The node labels of a Topology, in order; an empty string for an entry without one."""
    keys = []
    for level in levels.items():
        key = (level / "nodeLabel").text()
        keys.append(key or "")
    return keys


def check_count(
    levels: Field, keys: Sequence[str], rule: str, order: str = "broadest first"
) -> None:
    """Record a list that is empty or too long."""
    if not keys:
        levels.error(rule, "should have at least 1 items", f"name the node labels, {order}")
    if len(keys) > MAX_LEVELS:
        text = f"must have at most {MAX_LEVELS} items"
        levels.error(rule, text, "remove levels that no workload requests")


def check_levels(levels: Field, cluster: ClusterFacts, system: str, duplicate: str) -> list[str]:
    """The label keys of a Topology. Records what violates the schema, CEL or the nodes' labels."""
    rule = f"{system}/topology-levels"
    keys = label_keys(levels)
    check_count(levels, keys, rule)

    for level, key in zip(levels.items(), keys, strict=True):
        field = level / "nodeLabel"
        if not _is_key(key):
            field.error(rule, *NOT_A_KEY)
        elif cluster.lacks_label(key):
            text = "no node carries this label, so the topology has no nodes"
            fix = did_you_mean_key(key, cluster.topologies.values())
            field.warn(f"{system}/topology-label", text, fix)

    different = set(keys)
    if len(different) < len(keys):
        levels.error(rule, duplicate, "name each label once")
    if HOSTNAME in keys[:-1]:
        levels.error(rule, HOSTNAME_LAST, "move it to the end")
    return keys


def _is_key(text: str) -> bool:
    return len(text) <= _MAX_KEY_CHARACTERS and _KEY.fullmatch(text) is not None


def check_order(
    entries: Sequence[tuple[Field, str]], cluster: ClusterFacts, rule: str, *, end: str, fix: str
) -> None:
    """Warn about the first label that a known topology has above the label before it.

    No system checks the order. `entries` are label keys with the field to report, `end` completes
    the message.
    """
    for topology in cluster.topologies.values():
        known_levels = _known_levels(entries, topology)
        for (_, above), (field, level) in pairwise(known_levels):
            if above.key == HOSTNAME:
                continue
            if topology.rank(level) < topology.rank(above):
                text = (
                    f"{level.key!r} comes after {above.key!r}, "
                    f"but is broader in topology {topology.name!r}"
                )
                field.warn(rule, text + end, fix)
                return


def _known_levels(
    entries: Sequence[tuple[Field, str]], topology: TopologyLevels
) -> list[tuple[Field, Level]]:
    """The entries that are levels of a topology."""
    levels = []
    for field, key in entries:
        level = topology.by_key(key)
        if level:
            levels.append((field, level))
    return levels
