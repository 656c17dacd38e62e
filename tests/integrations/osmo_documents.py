"""OSMO workflows, pools and what is known with them, for tests."""

from typing import Any

from toposcope.integrations.framework.system import ClusterFacts, Reading
from toposcope.integrations.osmo.workload import SYSTEM as OSMO
from toposcope.integrations.registry import with_documents
from toposcope.topology.levels import Level

ZONE, SPINE = Level("zone", "topology.kubernetes.io/zone"), Level("spine", "example.com/spine")
RACK = Level("rack", "example.com/rack")


def pool(*levels: Level, name: str = "train-pool", **more: Any) -> dict[str, Any]:
    keys = [{"key": level.domain, "label": level.key} for level in levels or (ZONE, SPINE, RACK)]
    return {"pools": {name: {"backend": "default", "topology_keys": keys, **more}}}


def asks(key: str, group: str | None = None, kind: str | None = None) -> dict[str, str]:
    """One topology requirement; what is None is left to its default."""
    given = {"key": key, "group": group, "requirementType": kind}
    return {name: value for name, value in given.items() if value is not None}


def workflow(tasks: dict[str, str], resources: dict[str, list[Any]], **more: Any) -> dict[str, Any]:
    """One group of tasks by name and resource; every resource is a node of 8 GPUs with these requirements."""
    group = {
        "name": "train",
        "tasks": [{"name": name, "image": "python", "resource": resource} for name, resource in tasks.items()],
    }
    specs = {name: {"gpu": 8, "topology": topology} for name, topology in resources.items()}
    return {"workflow": {"name": "llm", "groups": [group], "resources": specs, **more}}


def read(document: dict[str, Any], *others: dict[str, Any], known: ClusterFacts | None = None) -> Reading:
    """The document in one run with others; without them with the usual pool."""
    return OSMO.read(document, with_documents(known or ClusterFacts(), others or (pool(),)))


def reported(reading: Reading) -> list[tuple[str, str, str]]:
    return [(finding.rule, finding.field, finding.message) for finding in reading.findings]
