"""Kueue's `Topology`: label keys, in one of three API versions with the same fields."""

from collections.abc import Mapping
from typing import Any, Final

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import ExportError, TopologyLevels, checked, near
from toposcope.integrations.framework.pods import kind_of
from toposcope.integrations.framework.system import ClusterFacts, Reading, merged
from toposcope.integrations.framework.topologies import RECREATE, check_levels, label_keys
from toposcope.integrations.kai import topology as kai
from toposcope.topology.catalogue import BUILT_IN, Catalogue

VERSIONS: Final = ("v1beta2", "v1beta1", "v1alpha1")
"""Newest first: since v0.15; v0.14; up to v0.13."""
_FEW: Final = 8
"""All that Kueue takes before v0.13 (v1alpha1)."""


def write(hierarchy: TopologyLevels, version: str = VERSIONS[0]) -> dict[str, Any]:
    """The Topology. Raises Unwritable."""
    levels = checked(hierarchy).levels
    if version == VERSIONS[-1] and len(levels) > _FEW:
        raise ExportError(
            f"there are {len(levels)} levels, and Kueue's v1alpha1 takes {_FEW}; use --without or v1beta2"
        )
    entries = [{"nodeLabel": level.key} for level in levels]
    return kai.topology(f"kueue.x-k8s.io/{version}", hierarchy.name, entries)


def read(document: Any, catalogue: Catalogue = BUILT_IN) -> TopologyLevels:
    """Any version. Raises Unreadable."""
    return kai.read(document, catalogue)


class KueueTopology:
    """Checks Kueue's Topology."""

    name = "Kueue"

    def claims(self, document: Mapping[str, Any]) -> bool:
        """Every Topology of Kueue's API group."""
        return kind_of(document) == ("kueue.x-k8s.io", "Topology")

    def read(
        self, document: Mapping[str, Any], known: ClusterFacts, before: Mapping[str, Any] | None = None
    ) -> Reading:
        """What Kueue's CRD would refuse; nothing is to be placed. See System."""
        root = Field(document)
        levels = root / "spec" / "levels"
        keys = check_levels(levels, known, "kueue", "must be unique")
        if before is not None and keys != label_keys(Field(before) / "spec" / "levels"):
            levels.error("kueue/topology-immutable", "field is immutable", RECREATE)
        return Reading(None, merged(root.findings))


class KueueFlavor:
    """Checks Kueue's ResourceFlavor, where it leads to a topology."""

    name = "Kueue"

    def claims(self, document: Mapping[str, Any]) -> bool:
        """ResourceFlavors that name a topology, or should."""
        return kind_of(document) == ("kueue.x-k8s.io", "ResourceFlavor")

    def read(
        self, document: Mapping[str, Any], known: ClusterFacts, before: Mapping[str, Any] | None = None
    ) -> Reading:
        """What Kueue would refuse, or find missing; nothing is to be placed. See System."""
        root = Field(document)
        spec = root / "spec"
        if before is not None:
            _check_flavor_unchanged(spec, Field(before) / "spec")
        topology = (spec / "topologyName").text()
        if topology is None:
            return Reading(None, merged(root.findings))
        if not (spec / "nodeLabels").texts():
            spec.error(
                "kueue/flavor-labels",
                "at least one nodeLabel is required when topology is set",
                "set spec.nodeLabels to a label that the flavor's nodes carry",
            )
        if known.ladders and topology not in known.ladders:
            flavor = (root / "metadata" / "name").text() or ""
            (spec / "topologyName").error(
                "kueue/topology-exists",
                f'there is no Topology "{topology}" for TAS flavor "{flavor}"',
                near(topology, known.ladders),
            )
        return Reading(None, merged(root.findings))


def _check_flavor_unchanged(spec: Field, before: Field) -> None:
    if not before / "topologyName":
        return
    for name in ("nodeLabels", "tolerations", "topologyName"):
        if (spec / name).value != (before / name).value:
            (spec / name).error(
                "kueue/flavor-immutable",
                f"{name} {'is' if name == 'topologyName' else 'are'} immutable when topologyName is set",
                "make a new ResourceFlavor",
            )
