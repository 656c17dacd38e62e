"""The last count of a controller, from a ClusterTopology's status: small in any cluster."""

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
    """What `-o json` and `-o yaml` print; docs/check.md describes it."""
    status = Field(topology.status)
    nodes = status / "nodes"
    gpus = status / "gpus"
    levels = status / "levels"
    conditions = status / "conditions"
    return {
        "topology": topology.name,
        "origin": "status",
        "nodes": nodes.number(0),
        "gpus": gpus.number(0),
        "levels": [_level(level) for level in levels.items()],
        "conditions": [_condition(condition) for condition in conditions.items()],
    }


def _level(level: Field) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    for name in ("domain", "key"):
        field = level / name
        entry[name] = field.text()
    for name in ("domains", "nodes", "missing"):
        field = level / name
        entry[name] = field.number(0)

    available = level / "available"
    entry["available"] = available.flag()
    return entry


def _condition(condition: Field) -> dict[str, Any]:
    entry = {}
    for name in ("type", "status", "reason", "message"):
        field = condition / name
        entry[name] = field.text()
    return entry


def is_healthy(topology: Topology) -> bool:
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
    path = " > ".join(level["domain"] or "?" for level in levels)
    about = path or "no levels"
    heading = f"ClusterTopology {topology.name}: {about} (by the controller's last count)"
    yield screen.paint(heading, "bold")
    nodes = counted(counts["nodes"], "node")
    gpus = counted(counts["gpus"], "GPU")
    yield f"{topology.name}: {nodes}, {gpus}"

    for depth, level in enumerate(levels):
        indent = "   " * depth
        text = indent + _domains_of(level)
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
    nodes = level["nodes"]
    name = level["domain"] or "?"
    text = f"└─ {counted(domains, name)}"
    if domains and nodes > domains:
        average = nodes / domains
        text += f", {average:,.1f} nodes each on average"
    return text


def _problem_of(level: Mapping[str, Any]) -> str:
    if level["missing"]:
        return f"! {counted(level['missing'], 'node')} without it"
    return "" if level["available"] else "! not available"


def _needs_attention(condition: Mapping[str, Any]) -> bool:
    """Whether to show the condition.

    Ready sums up the others, and a cluster without rails is as it should be.
    """
    if condition["type"] == READY or condition["reason"] == NO_RAILS:
        return False
    return bool(condition["status"] != "True")
