"""Run:ai's network topologies, as its API takes and returns them.

A network topology is a name and node labels, the farthest first. Every node pool has one. Run:ai
creates its scheduler's Topology from it, so the rules of that apply too.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from toposcope.api.label_keys import HOSTNAME
from toposcope.api.levels import Level
from toposcope.hierarchy.catalogue import BUILT_IN, Catalogue
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import (
    TopologyLevels,
    decoded,
    did_you_mean_key,
    exportable,
    named_levels,
)
from toposcope.integrations.framework.system import ClusterFacts, Reading, System
from toposcope.integrations.framework.topologies import (
    HOSTNAME_LAST,
    NOT_A_KEY,
    check_count,
    check_order,
)
from toposcope.integrations.runai.scheduler import TITLE

_SOURCE: Final = "Run:ai network topology"
_RULE: Final = "runai/topology-levels"


class _Topology(msgspec.Struct, frozen=True):
    name: str
    levels: list[str]


def write(topology: TopologyLevels, cluster_id: str | None = None) -> dict[str, Any]:
    """The body of a request that creates the topology; without `cluster_id` that field is left out.

    Raises ExportError.
    """
    body: dict[str, Any] = {"name": topology.name}
    if cluster_id:
        body["clusterId"] = cluster_id
    body["levels"] = list(exportable(topology).keys)
    return body


def read(document: Any, catalogue: Catalogue = BUILT_IN) -> TopologyLevels:
    """A request's body or the API's reply; the domains are the catalogue's.

    Raises UnreadableDocumentError.
    """
    topology = decoded(document, _Topology, "Run:ai network topology")
    levels = named_levels(topology.levels, catalogue=catalogue)
    return TopologyLevels(topology.name, levels)


def levels_of(document: Mapping[str, Any], domain_of: Mapping[str, str]) -> TopologyLevels:
    """The levels of a document that may be malformed.

    A domain is the catalogue's, else the label key itself.
    """
    root = Field(document)
    levels = {}
    for field in (root / "levels").items():
        key = field.text()
        if key:
            domain = domain_of.get(key, key)
            levels[key] = Level(domain, key)

    name = (root / "name").text() or ""
    return TopologyLevels(name, tuple(levels.values()), _SOURCE)


def _claims(document: Mapping[str, Any]) -> bool:
    """Whether it has a name and levels. It is not a Kubernetes object."""
    if "kind" in document or "name" not in document:
        return False
    return isinstance(document.get("levels"), list)


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    name = root / "name"
    cluster_id = root / "clusterId"
    if not name.text():
        name.error("runai/topology-name", "a network topology needs a name", "name it")
    if not cluster_id.text():
        text = "the API rejects a topology without clusterId"
        cluster_id.advise("runai/topology-cluster", text, "set clusterId to the cluster's id")

    levels = root / "levels"
    keys = _keys(levels)
    if before is not None and keys != _keys(before / "levels"):
        text = f"levels are immutable in {TITLE}'s Topology"
        fix = "create a new network topology and assign it to the node pool"
        levels.error("runai/topology-immutable", text, fix)

    check_count(levels, keys, _RULE, "the farthest first")
    _check_keys(levels, keys, cluster)
    entries = list(zip(levels.items(), keys, strict=True))
    fix = "list the levels from the farthest to the closest"
    check_order(entries, cluster, "runai/topology-order", end="", fix=fix)
    return Reading(subject=_SOURCE)


def _check_keys(levels: Field, keys: Sequence[str], cluster: ClusterFacts) -> None:
    for number, level in enumerate(levels.items()):
        key = keys[number]
        if not key:
            level.error(_RULE, *NOT_A_KEY)
        elif key in keys[:number]:
            level.error(_RULE, "nodeLabel must be unique", "name each label once")
        elif cluster.lacks_label(key):
            text = f"no node carries the label {key!r}, so the topology has no nodes"
            fix = did_you_mean_key(key, cluster.topologies.values())
            level.warn("runai/topology-label", text, fix)

        is_last = number + 1 == len(keys)
        if key == HOSTNAME and not is_last:
            level.error(_RULE, HOSTNAME_LAST, "move it to the end")


def _keys(levels: Field) -> list[str]:
    return [level.text() or "" for level in levels.items()]


NETWORK_TOPOLOGY: Final = System("Run:ai", _claims, _read)
READERS: Final = (NETWORK_TOPOLOGY,)
