"""Topologies that list node labels, as KAI and Kueue have them: what both refuse."""

import re
from typing import Final

from toposcope.api.label_keys import HOSTNAME
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import key_fix
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.topology.levels import MAX_LEVELS

_KEY: Final = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])",
    re.ASCII,
)
_LONGEST: Final = 316
RECREATE: Final = "delete the Topology and create it anew; nothing may use it meanwhile"


def label_keys(levels: Field) -> list[str]:
    """The node labels of a Topology, in order; an empty string for an entry without one."""
    return [(level / "nodeLabel").text() or "" for level in levels.items()]


def check_levels(levels: Field, known: ClusterFacts, system: str, duplicate: str) -> list[str]:
    """The label keys, broadest first; what the schema, CEL or the nodes say against them is noted."""
    rule = f"{system}/topology-levels"
    keys = label_keys(levels)
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
