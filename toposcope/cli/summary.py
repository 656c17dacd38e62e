"""The controller's last count, from the status of a ClusterTopology: small, however large the cluster is."""

from collections.abc import Iterator
from typing import Any

from toposcope.api.cluster_topology import Topology
from toposcope.api.conditions import NO_RAILS
from toposcope.cli.output import counted
from toposcope.cli.terminal import Screen
from toposcope.integrations.framework.document import Field

_READY = "Ready"


def has_counts(topology: Topology) -> bool:
    """Whether a controller has written its counts."""
    return isinstance(topology.status.get("nodes"), int)


def document(topology: Topology) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print; docs/cli.md describes it."""
    status = Field(topology.status)
    return {
        "topology": topology.name,
        "origin": "status",
        "nodes": (status / "nodes").number(0),
        "gpus": (status / "gpus").number(0),
        "levels": [
            {
                "domain": (level / "domain").text(),
                "key": (level / "key").text(),
                "domains": (level / "domains").number(0),
                "nodes": (level / "nodes").number(0),
                "missing": (level / "missing").number(0),
                "available": (level / "available").flag(),
            }
            for level in (status / "levels").items()
        ],
        "conditions": [
            {name: (condition / name).text() for name in ("type", "status", "reason", "message")}
            for condition in (status / "conditions").items()
        ],
    }


def well(topology: Topology) -> bool:
    """Whether the controller found nothing wrong."""
    found = document(topology)
    ready = any(c["type"] == _READY and c["status"] == "True" for c in found["conditions"])
    return ready and not any(level["missing"] for level in found["levels"])


def page(screen: Screen, topology: Topology) -> Iterator[str]:
    """Each level's domains, broadest first, and the conditions that are not True."""
    found = document(topology)
    path = " > ".join(level["domain"] or "?" for level in found["levels"]) or "no levels"
    yield screen.paint(
        f"ClusterTopology {topology.name}: {path} (by the controller's last count)", "bold"
    )
    whole = found["nodes"]
    yield f"{topology.name}: {counted(whole, 'node')}, {counted(found['gpus'], 'GPU')}"
    for depth, level in enumerate(found["levels"]):
        average = level["nodes"] / level["domains"] if level["domains"] else 0
        size = f", {average:,.1f} nodes each on average" if average > 1 else ""
        text = f"{'   ' * depth}└─ {counted(level['domains'], level['domain'] or '?')}{size}"
        lack = f"! {counted(level['missing'], 'node')} without it" if level["missing"] else ""
        lack = lack or ("" if level["available"] else "! not available")
        yield text + (f"  {screen.paint(lack, 'yellow')}" if lack else "")
    for c in found["conditions"]:
        if c["status"] != "True" and c["type"] != _READY and c["reason"] != NO_RAILS:
            yield screen.paint(
                f"! {c['type']}={c['status']} ({c['reason']}): {c['message']}", "yellow"
            )
