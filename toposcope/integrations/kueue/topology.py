"""Kueue's `Topology`: label keys, the same fields in three API versions.

And the ResourceFlavor that names it. Rules and messages: the CRDs of Kueue 0.19 (schema and CEL)
and the status of its ClusterQueue.
"""

from typing import Any, Final

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


def write(topology: TopologyLevels, version: str = VERSIONS[0]) -> dict[str, Any]:
    """The Topology; `read_node_labels` reads it back. Raises ExportError."""
    levels = exportable(topology).levels
    if version == VERSIONS[-1] and len(levels) > _MAX_LEVELS_V1ALPHA1:
        text = f"there are {len(levels)} levels, and Kueue's v1alpha1 takes {_MAX_LEVELS_V1ALPHA1}"
        raise ExportError(f"{text}; use --without or v1beta2")
    entries = [{"nodeLabel": level.key} for level in levels]
    return topology_object(f"{GROUP}/{version}", TOPOLOGIES.kind, topology.name, entries)


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    check_fields(root, schema("kueue", "Topology"), "kueue/field", VERSION)
    levels = root / "spec" / "levels"
    keys = check_levels(levels, cluster, "kueue", "must be unique")
    if before is not None and keys != label_keys(before / "spec" / "levels"):
        levels.error("kueue/topology-immutable", "field is immutable", RECREATE)
    return Reading()


def _read_flavor(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    spec = root / "spec"
    check_fields(root, schema("kueue", "ResourceFlavor"), "kueue/field", VERSION)
    if before is not None:
        _check_flavor_unchanged(spec, before / "spec")
    topology = (spec / "topologyName").text()
    if topology and not (spec / "nodeLabels").texts():
        text = "at least one nodeLabel is required when topology is set"
        spec.error(
            "kueue/flavor-labels",
            text,
            "set spec.nodeLabels to a label that the flavor's nodes carry",
        )
    if (
        topology
        and topology not in cluster.topologies
        and (cluster.topologies or cluster.knows_topologies)
    ):
        text = f'there is no Topology "{topology}" for TAS flavor "{name_of(root)}"'
        (spec / "topologyName").error("kueue/topology-exists", text, cluster.missing(topology))
    return Reading()


def _check_flavor_unchanged(spec: Field, before: Field) -> None:
    if not before / "topologyName":
        return
    for name in ("nodeLabels", "tolerations", "topologyName"):
        if (spec / name).value != (before / name).value:
            text = (
                f"{name} {'is' if name == 'topologyName' else 'are'} immutable when topologyName "
                "is set"
            )
            (spec / name).error("kueue/flavor-immutable", text, "make a new ResourceFlavor")


TOPOLOGY: Final = System(
    "Kueue", lambda document: kind_of(document) == (GROUP, TOPOLOGIES.kind), _read
)
FLAVOR: Final = System(
    "Kueue", lambda document: kind_of(document) == (GROUP, "ResourceFlavor"), _read_flavor, "kueue"
)
READERS: Final = (TOPOLOGY, FLAVOR)
