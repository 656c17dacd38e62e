"""Kueue's `Topology` and the ResourceFlavor that names it.

A Topology lists label keys, in the same fields in three API versions. Rules and messages: the CRDs
of Kueue 0.19 and of the release after it (schema and CEL), and the status of its ClusterQueue.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from toposcope.api.label_keys import HOSTNAME
from toposcope.integrations.framework.document import Field, kind_of, name_of
from toposcope.integrations.framework.levels import (
    ExportError,
    TopologyLevels,
    exportable,
    topology_object,
)
from toposcope.integrations.framework.system import ClusterFacts, Reading, System
from toposcope.integrations.framework.topologies import RECREATE, check_levels, label_keys
from toposcope.integrations.framework.unknown_fields import check_fields, schema
from toposcope.integrations.kueue.api import GROUP, TOPOLOGIES, VERSION

VERSIONS: Final = TOPOLOGIES.versions
_MAX_LEVELS_V1ALPHA1: Final = 8
_IMMUTABLE_VERSIONS: Final = VERSIONS[1:]
"""The versions of the API with immutable levels; in the newest one they can change since Kueue
0.20.
"""


def write(topology: TopologyLevels, version: str = VERSIONS[0]) -> dict[str, Any]:
    """The Topology; `read_node_labels` reads it back. Raises ExportError."""
    levels = exportable(topology).levels
    count = len(levels)
    if version == VERSIONS[-1] and count > _MAX_LEVELS_V1ALPHA1:
        raise ExportError(
            f"there are {count} levels, and Kueue's v1alpha1 allows {_MAX_LEVELS_V1ALPHA1}; use "
            "--without or v1beta2"
        )
    entries = [{"nodeLabel": level.key} for level in levels]
    return topology_object(
        f"{GROUP}/{version}",
        TOPOLOGIES.kind,
        topology.name,
        entries,
    )


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    check_fields(root, schema("kueue", "Topology"), "kueue/field", VERSION)
    levels = root / "spec" / "levels"
    keys = check_levels(levels, cluster, "kueue", "must be unique")
    if before is None:
        return Reading()
    keys_before = label_keys(before / "spec" / "levels")
    if keys != keys_before:
        _note_changed_levels(root, keys, keys_before)
    return Reading()


def _note_changed_levels(root: Field, keys: Sequence[str], before: Sequence[str]) -> None:
    """Note levels that Kueue does not let change, or only since 0.20."""
    levels = root / "spec" / "levels"
    rule = "kueue/topology-immutable"
    version = str((root / "apiVersion").value).rpartition("/")[2]
    are_of_hosts = list(keys[-1:]) == list(before[-1:]) == [HOSTNAME]
    if are_of_hosts and version not in _IMMUTABLE_VERSIONS:
        text = (
            f"Kueue before 0.20 rejects it: field is immutable; later versions keep {HOSTNAME} last"
        )
        levels.warn(rule, text, f"before 0.20 {RECREATE}")
        return
    levels.error(rule, "field is immutable", RECREATE)


def _read_flavor(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    spec = root / "spec"
    check_fields(root, schema("kueue", "ResourceFlavor"), "kueue/field", VERSION)
    if before is not None:
        _check_flavor_unchanged(spec, before / "spec")
    topology = (spec / "topologyName").text()
    if topology:
        _check_flavor_topology(root, topology, cluster)
    return Reading()


def _check_flavor_topology(root: Field, topology: str, cluster: ClusterFacts) -> None:
    """Check that a flavor with a topology has node labels and that the topology exists."""
    spec = root / "spec"
    node_labels = spec / "nodeLabels"
    if not node_labels.texts():
        spec.error(
            "kueue/flavor-labels",
            "at least one nodeLabel is required when topology is set",
            "set spec.nodeLabels to a label that the flavor's nodes carry",
        )
    if topology in cluster.topologies:
        return
    if cluster.topologies or cluster.knows_topologies:
        text = f'there is no Topology "{topology}" for TAS flavor "{name_of(root)}"'
        fix = cluster.missing(topology)
        (spec / "topologyName").error("kueue/topology-exists", text, fix)


def _check_flavor_unchanged(spec: Field, before: Field) -> None:
    """Note changes that Kueue rejects if the flavor had a topology."""
    if not before / "topologyName":
        return
    rule, fix = "kueue/flavor-immutable", "create a new ResourceFlavor"
    topology = spec / "topologyName"
    if topology.value != (before / "topologyName").value:
        topology.error(rule, "topologyName is immutable when topologyName is set", fix)
    for name in ("nodeLabels", "tolerations"):
        field = spec / name
        if field.value != (before / name).value:
            text = f"Kueue before 0.20 rejects it: {name} are immutable when topologyName is set"
            field.warn(rule, text, f"before 0.20 {fix}")


def _is_topology(document: Mapping[str, Any]) -> bool:
    return kind_of(document) == (GROUP, TOPOLOGIES.kind)


def _is_flavor(document: Mapping[str, Any]) -> bool:
    return kind_of(document) == (GROUP, "ResourceFlavor")


TOPOLOGY: Final = System("Kueue", _is_topology, _read)
FLAVOR: Final = System("Kueue", _is_flavor, _read_flavor, "kueue")
READERS: Final = (TOPOLOGY, FLAVOR)
