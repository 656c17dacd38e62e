"""The keys of ours on a Node, and who owns a key by its managedFields."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class OwnedKeys(NamedTuple):
    """The labels and annotations of ours on a Node, as they are or as they should be."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]


def managers(metadata: Mapping[str, Any], field: str, key: str) -> frozenset[str]:
    """The field managers of one key of `labels` or `annotations`; none where somebody has cleared managedFields."""
    found = set()
    for entry in metadata.get("managedFields") or ():
        owned = ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get(f"f:{field}") or {}
        if f"f:{key}" in owned:
            found.add(entry.get("manager") or "")
    return frozenset(found)
