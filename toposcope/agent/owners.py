"""The keys of ours on a Node, and who owns a key by its managedFields."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class OwnedKeys(NamedTuple):
    """The labels and annotations of ours on a Node, as they are or as they should be."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]


def managers(metadata: Mapping[str, Any], field: str, key: str) -> frozenset[str]:
    """The field managers of one key of `labels` or `annotations`.

    None where managedFields was cleared.
    """
    names = set()
    for entry in metadata.get("managedFields") or ():
        keys = managed_keys(entry, field)
        if f"f:{key}" in keys:
            name = entry.get("manager") or ""
            names.add(name)
    return frozenset(names)


def managed_keys(entry: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    """The keys of `labels` or `annotations` in an entry of managedFields, with `f:` in front."""
    fields = entry.get("fieldsV1") or {}
    metadata = fields.get("f:metadata") or {}
    return metadata.get(f"f:{field}") or {}


def node_body(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What an apply of a Node's metadata sends."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
    }
