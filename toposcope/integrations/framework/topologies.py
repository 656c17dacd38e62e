"""The topologies that KAI and Kueue are given, and the ResourceFlavor that leads Kueue to its own.

Rules and messages: the CRDs (schema and CEL) of KAI 0.17 and Kueue 0.19, KAI's webhook, Kueue's ClusterQueue status.
"""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from toposcope.api.label_keys import HOSTNAME
from toposcope.integrations.framework.document import Part
from toposcope.integrations.framework.pod_sets import kind_of
from toposcope.integrations.framework.reading import Known, Reading, key_fix, merged, near
from toposcope.topology.levels import MAX_LEVELS

_KEY: Final = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])",
    re.ASCII,
)
_LONGEST: Final = 316
_ANEW: Final = "delete the Topology and create it anew; nothing may use it meanwhile"


class KaiTopology:
    """Checks KAI's Topology."""

    name = "KAI"

    def claims(self, document: Mapping[str, Any]) -> bool:
        """Every Topology of KAI's API group."""
        return kind_of(document) == ("kai.scheduler", "Topology")

    def read(self, document: Mapping[str, Any], known: Known, before: Mapping[str, Any] | None = None) -> Reading:
        """What KAI would refuse; nothing is to be placed. See System."""
        root = Part(document)
        levels = root / "spec" / "levels"
        keys = _check_levels(levels, known, "kai", "nodeLabel must be unique")
        if before is not None and keys != _keys(Part(before) / "spec" / "levels"):
            text = "nodeLabel structure is immutable; only aliases may be edited"
            levels.error("kai/topology-immutable", text, _ANEW)
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


class KueueTopology:
    """Checks Kueue's Topology."""

    name = "Kueue"

    def claims(self, document: Mapping[str, Any]) -> bool:
        """Every Topology of Kueue's API group."""
        return kind_of(document) == ("kueue.x-k8s.io", "Topology")

    def read(self, document: Mapping[str, Any], known: Known, before: Mapping[str, Any] | None = None) -> Reading:
        """What Kueue's CRD would refuse; nothing is to be placed. See System."""
        root = Part(document)
        levels = root / "spec" / "levels"
        keys = _check_levels(levels, known, "kueue", "must be unique")
        if before is not None and keys != _keys(Part(before) / "spec" / "levels"):
            levels.error("kueue/topology-immutable", "field is immutable", _ANEW)
        return Reading(None, merged(root.findings))


class KueueFlavor:
    """Checks Kueue's ResourceFlavor, where it leads to a topology."""

    name = "Kueue"

    def claims(self, document: Mapping[str, Any]) -> bool:
        """ResourceFlavors that name a topology, or should."""
        return kind_of(document) == ("kueue.x-k8s.io", "ResourceFlavor")

    def read(self, document: Mapping[str, Any], known: Known, before: Mapping[str, Any] | None = None) -> Reading:
        """What Kueue would refuse, or find missing; nothing is to be placed. See System."""
        root = Part(document)
        spec = root / "spec"
        if before is not None:
            _check_flavor_unchanged(spec, Part(before) / "spec")
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


def _check_flavor_unchanged(spec: Part, before: Part) -> None:
    if not before / "topologyName":
        return
    for name in ("nodeLabels", "tolerations", "topologyName"):
        if (spec / name).value != (before / name).value:
            (spec / name).error(
                "kueue/flavor-immutable",
                f"{name} {'is' if name == 'topologyName' else 'are'} immutable when topologyName is set",
                "make a new ResourceFlavor",
            )


def _keys(levels: Part) -> list[str]:
    return [(level / "nodeLabel").text() or "" for level in levels.items()]


def _check_levels(levels: Part, known: Known, system: str, duplicate: str) -> list[str]:
    """The label keys, broadest first; what the schema, CEL or the nodes say against them is noted."""
    rule = f"{system}/topology-levels"
    keys = _keys(levels)
    if not keys:
        levels.error(rule, "should have at least 1 items", "name the node labels, broadest first")
    if len(keys) > MAX_LEVELS:
        levels.error(rule, f"must have at most {MAX_LEVELS} items", "leave out levels that nobody asks for")
    for each, key in zip(levels.items(), keys, strict=True):
        part = each / "nodeLabel"
        if not key or len(key) > _LONGEST or not _KEY.fullmatch(key):
            part.error(rule, "should be the key of a node label", "a lower-case DNS prefix, a slash and a name")
        elif known.labels and key not in known.labels:
            part.warn(
                f"{system}/topology-label",
                "no node carries this label, so the topology has no nodes",
                key_fix(key, known.ladders.values()),
            )
    if len(set(keys)) < len(keys):
        levels.error(rule, duplicate, "name each label once")
    if HOSTNAME in keys[:-1]:
        text = "the kubernetes.io/hostname label can only be used at the lowest level of topology"
        levels.error(rule, text, "move it to the end")
    return keys
