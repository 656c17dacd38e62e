"""The paths of all nodes as text that an admission policy can look up while a pod is bound.

A MutatingAdmissionPolicy on `pods/binding` sees the name of the node and one object, of kind
NodePaths. The parameter of a policy cost each binding by the number of its entries and not by their
bytes, as was measured with a ConfigMap; `make bench ARGS=bindings` measures the object. So it has
few entries with many lines:

- `starts`: the first node of each shard, one a line. Nodes are sorted by name, and a node is in the
  last shard whose first node does not come after it.
- `0`, `1`, ...: the shards. A line is `NODE=PATH NUMBER`; a newline stands before each line too.
- `paths`: a line is `NUMBER:PATH`. Nodes share a path but for their own name: a level that ends
  with `=` is completed by the name of the node. That is its host, and its NVLink domain where that
  ends at the node.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toposcope.api.cluster_topology import API_VERSION, MANAGED_BY, TOPOSCOPE
from toposcope.integrations.node_path import PathStep

KIND: Final = "NodePaths"
"""Of our own API group (manifests/components/binding-labels/crd.yaml)."""
NAME: Final = "toposcope-node-paths"
"""The object in the controller's namespace."""
STARTS: Final = "starts"
PATHS: Final = "paths"
SHARDS: Final = 64
ENTRIES: Final = frozenset({STARTS, PATHS, *map(str, range(SHARDS))})
"""All that the object may have."""
LONGEST_PATH: Final = 2048
"""Characters that the policy writes onto a pod."""
LARGEST: Final = 960 << 10
"""Bytes of all entries; etcd takes 1.5 MiB, with each line break as two bytes."""

LONGEST_LEVEL: Final = 58
"""Characters of the name of a level, which follows `path-` in the name of a label."""

_NODE: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)
_LEVEL: Final = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?", re.ASCII)
_VALUE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_LONGEST_NODE: Final = 253
_LONGEST_VALUE: Final = 63
"""Characters of a label value."""
_DIGITS: Final = 7
"""Room for the number of a path."""


@dataclass(frozen=True, slots=True)
class EncodedPaths:
    """The entries of the object, and how many nodes they leave out."""

    data: Mapping[str, str]
    without_room: int = 0
    """Nodes, the last by name, whose lines do not fit."""
    unusable: int = 0
    """Nodes whose name is none: their line could pass for another."""


def path_of_object(namespace: str) -> str:
    """Where the API server has the object."""
    return f"/apis/{API_VERSION}/namespaces/{namespace}/nodepaths/{NAME}"


def node_paths(namespace: str, data: Mapping[str, str]) -> dict[str, Any]:
    """The object with these entries."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": NAME,
            "namespace": namespace,
            "labels": {MANAGED_BY: TOPOSCOPE},
        },
        "data": dict(data),
    }


def path_text(steps: Sequence[PathStep]) -> str:
    """The path, broadest first, as `block=b1,rack=r2,host=n7`; empty without a level.

    Raises ValueError for what is no level name or no label value, because it could pass for another
    line, and for a path of more than 2,048 characters, which the policy would leave out.
    """
    written = []
    for step in steps:
        level, value = step.level, step.value
        if len(level) > LONGEST_LEVEL or not _LEVEL.fullmatch(level):
            raise ValueError(f"{level!r} is not the name of a level")
        if len(value) > _LONGEST_VALUE or not _VALUE.fullmatch(value):
            raise ValueError(f"{value!r} is not the value of a label")
        written.append(f"{level}={value}")
    text = ",".join(written)
    size = len(text)
    if size > LONGEST_PATH:
        raise ValueError(f"the path has {size} characters, more than {LONGEST_PATH}")
    return text


def shared_path(node: str, steps: Sequence[PathStep]) -> str:
    """The path as nodes of one place share it: `rack=r2,host=` where the host is the node's name.

    Raises ValueError as `path_text`.
    """
    text = path_text(steps)
    if not any(step.value == node for step in steps):
        return text
    shared = []
    for step in steps:
        value = "" if step.value == node else step.value
        shared.append(f"{step.level}={value}")
    return ",".join(shared)


def encode(
    paths: Mapping[str, str], *, largest: int = LARGEST, shards: int = SHARDS
) -> EncodedPaths:
    """The entries for the path of each node, as `shared_path` gives it, by the node's name.

    They are the same for the same paths. Nodes without a path are not in them. Together they have
    at most `largest` bytes, and there are at most `shards` beside `starts` and `paths`.
    """
    numbers: dict[str, int] = {}
    lines: dict[str, str] = {}
    unusable = 0
    # A shard's first node stands in `starts` too.
    room = largest - shards * (_LONGEST_NODE + 2)
    without_room = 0
    for node, path in sorted(paths.items()):
        if not path:
            continue
        if len(node) > _LONGEST_NODE or not _NODE.fullmatch(node):
            unusable += 1
            continue
        number = numbers.get(path, len(numbers))
        line = f"{node}={number}\n"
        cost = len(line)
        if path not in numbers:
            cost += _DIGITS + len(f":{path}\n")
        if without_room or cost > room:
            without_room += 1
            continue
        room -= cost
        numbers[path] = number
        lines[node] = line

    data = _sharded(lines, shards)
    data[PATHS] = _path_lines(numbers)
    return EncodedPaths(data, without_room, unusable)


def _sharded(lines: Mapping[str, str], shards: int) -> dict[str, str]:
    """The shards by number, and their first nodes."""
    nodes = list(lines)
    texts = list(lines.values())
    per_shard = math.ceil(len(nodes) / shards) or 1
    entries = {}
    starts: list[str] = []
    for first in range(0, len(nodes), per_shard):
        end = first + per_shard
        number = str(len(starts))
        starts.append(nodes[first])
        entries[number] = "\n" + "".join(texts[first:end])
    entries[STARTS] = "\n".join(starts)
    return entries


def _path_lines(numbers: Mapping[str, int]) -> str:
    lines = [f"{number}:{path}\n" for path, number in numbers.items()]
    return "\n" + "".join(lines)
