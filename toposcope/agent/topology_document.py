"""What pods may know of the agent's own node, as one JSON document.

It follows from the Node's metadata and the controller's plan alone. What is not known is null,
never zero. docs/programs.md lists its fields.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from toposcope.agent.planned import NodeLabels
from toposcope.api.label_keys import GPU_PRODUCT, MATRIX, NVLINK_DOMAIN, RAILS, STATE
from toposcope.hardware.rails import parse_rails
from toposcope.integrations.node_path import NO_PATH, NodePath, paths_of
from toposcope.integrations.node_plan import NodePlan
from toposcope.text import compact, parse

VERSION: Final = 1


def topology_document(node_name: str, metadata: Mapping[str, Any], plan: NodePlan) -> str:
    """The document of the node with this metadata, as compact JSON."""
    labels = metadata.get("labels") or {}
    annotations = metadata.get("annotations") or {}
    paths = paths_of(plan, NodeLabels(labels))
    first = paths[0] if paths else NO_PATH
    matrix = _matrix(annotations.get(MATRIX))
    document = {
        "version": VERSION,
        "node": node_name,
        **_path(first),
        "topologies": [_path(path) for path in paths],
        "nvlinkDomain": labels.get(NVLINK_DOMAIN),
        "state": labels.get(STATE),
        "gpus": _gpus(matrix, labels.get(GPU_PRODUCT)),
        "nics": _nics(matrix, annotations.get(RAILS)),
        "matrix": matrix,
    }
    return compact(document)


def _path(path: NodePath) -> dict[str, Any]:
    steps = []
    for step in path.steps:
        steps.append({"level": step.level, "key": step.key, "value": step.value})
    return {"topology": path.topology, "path": steps, "complete": path.is_complete}


def _matrix(annotation: str | None) -> Mapping[str, Any] | None:
    """What the annotation says; None where it is missing or no JSON object."""
    if annotation is None:
        return None
    try:
        content = parse(annotation)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _gpus(matrix: Mapping[str, Any] | None, product: str | None) -> list[dict[str, Any]] | None:
    if matrix is None:
        return None
    gpus = []
    for device in _devices(matrix, "gpus"):
        gpu = {field: device.get(field) for field in ("index", "uuid", "pci", "numa")}
        gpu["product"] = product
        gpus.append(gpu)
    return gpus


def _nics(matrix: Mapping[str, Any] | None, rails: str | None) -> list[dict[str, Any]] | None:
    """The NICs with their place in rail order; Data Direct functions are none."""
    if matrix is None:
        return None
    rail_numbers = _rail_numbers(rails)
    nics = []
    for device in _devices(matrix, "nics"):
        if device.get("dd"):
            continue
        nic = {field: device.get(field) for field in ("name", "pci", "numa", "switch", "port")}
        nic["rail"] = rail_numbers.get(str(device.get("name")))
        nics.append(nic)
    return nics


def _rail_numbers(annotation: str | None) -> dict[str, int]:
    """The place of each NIC in rail order; nothing where that is not known."""
    if annotation is None:
        return {}
    try:
        rails = parse_rails(annotation)
    except ValueError:
        return {}
    numbers = {}
    for number, rail in enumerate(rails):
        if rail is not None:
            numbers[rail.nic] = number
    return numbers


def _devices(matrix: Mapping[str, Any], kind: str) -> Iterator[Mapping[str, Any]]:
    devices = matrix.get(kind)
    if not isinstance(devices, list):
        return
    for device in devices:
        if isinstance(device, dict):
            yield device
