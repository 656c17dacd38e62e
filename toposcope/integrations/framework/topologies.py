"""Rules that topologies of KAI, Kueue, Run:ai and OSMO share: a list of node labels, broadest first.

KAI and Kueue: schema and CEL of the CRDs of KAI 0.17 and Kueue 0.19. Run:ai and OSMO make KAI's Topology of theirs.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from toposcope.api.label_keys import HOSTNAME
from toposcope.api.levels import MAX_LEVELS
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import did_you_mean_key
from toposcope.integrations.framework.system import ClusterFacts

_KEY: Final = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])",
    re.ASCII,
)
_MAX_KEY: Final = 316
HOSTNAME_LAST: Final = (
    "the kubernetes.io/hostname label can only be used at the lowest level of topology"
)
RECREATE: Final = "delete the Topology and create it again; nothing may use it meanwhile"
NOT_A_KEY: Final = (
    "should be the key of a node label",
    "a lower-case DNS prefix, a slash and a name",
)


def label_keys(levels: Field) -> list[str]:
    """The node labels of a Topology, in order; an empty string for an entry without one."""
    return [(level / "nodeLabel").text() or "" for level in levels.items()]


def check_count(
    levels: Field, keys: Sequence[str], rule: str, order: str = "broadest first"
) -> None:
    """Note a list that is empty or too long."""
    if not keys:
        levels.error(rule, "should have at least 1 items", f"name the node labels, {order}")
    if len(keys) > MAX_LEVELS:
        levels.error(
            rule, f"must have at most {MAX_LEVELS} items", "leave out levels that nobody asks for"
        )


def check_levels(levels: Field, cluster: ClusterFacts, system: str, duplicate: str) -> list[str]:
    """The label keys of a KAI or Kueue Topology; notes what the schema, CEL or the nodes' labels object to."""
    rule = f"{system}/topology-levels"
    keys = label_keys(levels)
    check_count(levels, keys, rule)
    for level, key in zip(levels.items(), keys, strict=True):
        if len(key) > _MAX_KEY or not _KEY.fullmatch(key):
            (level / "nodeLabel").error(rule, *NOT_A_KEY)
        elif cluster.lacks_label(key):
            text = "no node carries this label, so the topology has no nodes"
            fix = did_you_mean_key(key, cluster.topologies.values())
            (level / "nodeLabel").warn(f"{system}/topology-label", text, fix)
    if len(set(keys)) < len(keys):
        levels.error(rule, duplicate, "name each label once")
    if HOSTNAME in keys[:-1]:
        levels.error(rule, HOSTNAME_LAST, "move it to the end")
    return keys


def check_order(
    entries: Sequence[tuple[Field, str]], cluster: ClusterFacts, rule: str, *, end: str, fix: str
) -> None:
    """Warn of the first label that a known topology has above the label before it: no system checks the order.

    `entries` are label keys with the field to report, `end` completes the message.
    """
    for topology in cluster.topologies.values():
        known = [(field, level) for field, key in entries if (level := topology.by_key(key))]
        for (_, above), (field, level) in pairwise(known):
            if topology.rank(level) < topology.rank(above) and above.key != HOSTNAME:
                text = f"{level.key!r} comes after {above.key!r}, but is broader in topology {topology.name!r}"
                field.warn(rule, text + end, fix)
                return
