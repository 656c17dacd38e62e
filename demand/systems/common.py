"""What the readers of all systems share."""

from collections.abc import Mapping
from typing import Any

from demand.document import Part


def is_kind(document: Mapping[str, Any], group: str, *kinds: str) -> bool:
    """Whether the document is of one of the kinds, in any version of the API group (empty: the core group)."""
    version, kind = document.get("apiVersion"), document.get("kind")
    if not isinstance(version, str) or kind not in kinds:
        return False
    return version.rpartition("/")[0] == group


def handle_of(root: Part) -> str:
    """How people name the object: `kind/name -n namespace`, as kubectl takes it."""
    kind = ((root / "kind").text() or "object").lower()
    metadata = root / "metadata"
    name = (metadata / "name").text() or ((metadata / "generateName").text() or "") + "?"
    namespace = (metadata / "namespace").text()
    return f"{kind}/{name}" + (f" -n {namespace}" if namespace else "")
