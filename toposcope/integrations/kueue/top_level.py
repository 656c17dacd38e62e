"""Nodes whose name is also the value of the topology's top level.

Kueue 0.14 to 0.19.0 keeps both in one table, and ignores such a node in every placement
(kueue#14009; fixed in 0.19.1 and in later patches of 0.18 and 0.17).
"""

from collections.abc import Iterator
from typing import Final

from toposcope.api.label_keys import HOSTNAME
from toposcope.integrations.framework.document import Finding
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.placement import ClusterView
from toposcope.text import listing, plural

_RULE: Final = "kueue/top-level-hostname"
_MOST_NAMED: Final = 3


def named_like_their_domain(topology: TopologyLevels, view: ClusterView) -> Iterator[Finding]:
    """A finding if nodes of a topology have the name of their top-level domain."""
    keys = topology.keys
    if len(keys) < 2 or keys[-1] != HOSTNAME:  # noqa: PLR2004 - a level above the host
        return
    top = keys[0]
    names = []
    for name, node in view.by_name.items():
        value = node.label(top)
        if value is not None and value == node.label(HOSTNAME):
            names.append(name)
    if not names:
        return
    nodes = plural(len(names), "node")
    yield Finding(
        rule=_RULE,
        severity="warning",
        field="",
        message=(
            f"Kueue 0.14 to 0.19.0 ignores {len(names)} {nodes} ({listing(names, _MOST_NAMED)}) "
            f"whose {HOSTNAME} is also the value of {top}, the top level of Topology "
            f"{topology.name} (kueue#14009)"
        ),
        fix=(
            f"update Kueue to 0.19.1 or the newest patch of 0.18 or 0.17, or remove {top} from "
            "the Topology"
        ),
    )
