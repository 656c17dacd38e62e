"""The controller's last count, from the status of a ClusterTopology.

It is small, however large the cluster is.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from toposcope.api.cluster_topology import Topology
from toposcope.api.conditions import NO_RAILS, READY
from toposcope.cli.output import counted
from toposcope.cli.terminal import Screen
from toposcope.integrations.framework.document import Field


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
        "levels": [_level(level) for level in (status / "levels").items()],
        "conditions": [_condition(condition) for condition in (status / "conditions").items()],
    }


def _level(level: Field) -> dict[str, Any]:
    return {
        "domain": (level / "domain").text(),
        "key": (level / "key").text(),
        "domains": (level / "domains").number(0),
        "nodes": (level / "nodes").number(0),
        "missing": (level / "missing").number(0),
        "available": (level / "available").flag(),
    }


def _condition(condition: Field) -> dict[str, Any]:
    return {
        "type": (condition / "type").text(),
        "status": (condition / "status").text(),
        "reason": (condition / "reason").text(),
        "message": (condition / "message").text(),
    }


def well(topology: Topology) -> bool:
    """Whether the controller found nothing wrong."""
    counts = document(topology)
    if any(level["missing"] for level in counts["levels"]):
        return False
    for condition in counts["conditions"]:
        if condition["type"] == READY and condition["status"] == "True":
            return True
    return False


def page(screen: Screen, topology: Topology) -> Iterator[str]:
    """Each level's domains, broadest first, and the conditions that are not True."""
    counts = document(topology)
    levels = counts["levels"]
    path = " > ".join(level["domain"] or "?" for level in levels) or "no levels"
    heading = f"ClusterTopology {topology.name}: {path} (by the controller's last count)"
    yield screen.paint(heading, "bold")
    yield f"{topology.name}: {counted(counts['nodes'], 'node')}, {counted(counts['gpus'], 'GPU')}"
    for depth, level in enumerate(levels):
        text = "   " * depth + _domains_of(level)
        problem = _problem_of(level)
        if problem:
            text += f"  {screen.paint(problem, 'yellow')}"
        yield text

    for condition in counts["conditions"]:
        if _needs_attention(condition):
            text = (
                f"! {condition['type']}={condition['status']} "
                f"({condition['reason']}): {condition['message']}"
            )
            yield screen.paint(text, "yellow")


def _domains_of(level: Mapping[str, Any]) -> str:
    """How many domains a level has, and how large they are."""
    domains = level["domains"]
    text = f"└─ {counted(domains, level['domain'] or '?')}"
    if domains and level["nodes"] > domains:
        text += f", {level['nodes'] / domains:,.1f} nodes each on average"
    return text


def _problem_of(level: Mapping[str, Any]) -> str:
    if level["missing"]:
        return f"! {counted(level['missing'], 'node')} without it"
    return "" if level["available"] else "! not available"


def _needs_attention(condition: Mapping[str, Any]) -> bool:
    """Ready sums up the others, and a cluster without rails is as it should be."""
    if condition["type"] == READY or condition["reason"] == NO_RAILS:
        return False
    return bool(condition["status"] != "True")
