"""Run:ai's network topologies, as its API takes and returns them: a name and node labels, the farthest first.

Each node pool has one. Run:ai makes a Topology of KAI's of it, whose rules therefore hold too.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

import msgspec

from toposcope.api.label_keys import HOSTNAME
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import TopologyLevels, checked, decoded, key_fix, named_levels
from toposcope.integrations.framework.system import ClusterFacts, Reading, merged
from toposcope.topology.catalogue import BUILT_IN, Catalogue
from toposcope.topology.levels import MAX_LEVELS, Level

_SOURCE: Final = "Run:ai network topology"
_RULE: Final = "runai/topology-levels"


class RunAiTopology:
    """Checks network topologies."""

    name = "Run:ai"

    def claims(self, document: Mapping[str, Any]) -> bool:
        """No object of the Kubernetes API: it is told by its levels and its name."""
        return "kind" not in document and isinstance(document.get("levels"), list) and "name" in document

    def read(
        self, document: Mapping[str, Any], known: ClusterFacts, before: Mapping[str, Any] | None = None
    ) -> Reading:
        """What is wrong with it; nothing is to be placed. See System."""
        root = Field(document)
        if not (root / "name").text():
            (root / "name").error("runai/topology-name", "a network topology needs a name", "name it")
        if not (root / "clusterId").text():
            (root / "clusterId").advise(
                "runai/topology-cluster", "the API takes no topology without the cluster", "add the cluster's id"
            )
        levels = root / "levels"
        keys = [level.text() or "" for level in levels.items()]
        if before is not None and keys != [level.text() or "" for level in (Field(before) / "levels").items()]:
            levels.error(
                "runai/topology-immutable",
                "levels are immutable in KAI's Topology",
                "make a new network topology and give that to the node pool",
            )
        _check(levels, keys, known)
        return Reading(None, merged(root.findings), subject=_SOURCE)


def ladder_of(document: Mapping[str, Any], domain_of: Mapping[str, str]) -> TopologyLevels:
    """Its levels; Run:ai names label keys only, so the domain is the catalogue's, else the key itself."""
    root = Field(document)
    keys = [key for level in (root / "levels").items() if (key := level.text())]
    levels = tuple(Level(domain_of.get(key, key), key) for key in dict.fromkeys(keys))
    return TopologyLevels((root / "name").text() or "", levels, _SOURCE)


def _check(levels: Field, keys: list[str], known: ClusterFacts) -> None:
    if not keys:
        levels.error(_RULE, "should have at least 1 items", "name the node labels, the farthest first")
    if len(keys) > MAX_LEVELS:
        levels.error(_RULE, f"must have at most {MAX_LEVELS} items", "leave out levels that nobody asks for")
    for number, (part, key) in enumerate(zip(levels.items(), keys, strict=True)):
        if not key:
            part.error(_RULE, "should be the key of a node label", "a lower-case DNS prefix, a slash and a name")
        elif key in keys[:number]:
            part.error(_RULE, "nodeLabel must be unique", "name each label once")
        elif known.labels and key not in known.labels:
            part.warn(
                "runai/topology-label",
                f"no node carries the label {key!r}, so no node is in the topology",
                key_fix(key, known.ladders.values()),
            )
        if key == HOSTNAME and number + 1 < len(keys):
            text = "the kubernetes.io/hostname label can only be used at the lowest level of topology"
            part.error(_RULE, text, "move it to the end")
    _check_order(levels, keys, known)


def _check_order(levels: Field, keys: list[str], known: ClusterFacts) -> None:
    """Run:ai takes any order; placement goes from the last level up."""
    parts = list(levels.items())
    for ladder in known.ladders.values():
        ranked = [(number, level) for number, key in enumerate(keys) if (level := ladder.by_key(key))]
        for (_, above), (number, level) in pairwise(ranked):
            if ladder.rank(level) < ladder.rank(above) and above.key != HOSTNAME:
                parts[number].warn(
                    "runai/topology-order",
                    f"{level.key!r} comes after {above.key!r}, but is broader in topology {ladder.name!r}",
                    "list the levels from the farthest to the closest",
                )
                return


class _Topology(msgspec.Struct, frozen=True):
    name: str
    levels: list[str]


def write(hierarchy: TopologyLevels, cluster_id: str | None = None) -> dict[str, Any]:
    """The body of a request that makes the topology; without `cluster_id` that field is left out. Raises Unwritable."""
    keys = [level.key for level in checked(hierarchy).levels]
    named = {"name": hierarchy.name} | ({"clusterId": cluster_id} if cluster_id else {})
    return {**named, "levels": keys}


def read(document: Any, catalogue: Catalogue = BUILT_IN) -> TopologyLevels:
    """A request's body or the API's reply; domains are the catalogue's. Raises Unreadable."""
    found = decoded(document, _Topology, "network topology of Run:ai's")
    return TopologyLevels(found.name, named_levels(found.levels, catalogue=catalogue))
