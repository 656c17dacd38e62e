"""What the readers of all systems share."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from demand.document import Part
from demand.reading import Ladder, near

LEVELS_FIRST: Final = "room is not checked before the levels are right"
"""The note on a workload whose levels are not understood: what would fit without them says nothing."""


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


def key_fix(term: str, ladders: Iterable[Ladder]) -> str:
    """What to write where a label key was expected and `term` is none of those that the topologies have."""
    levels = [level for ladder in ladders for level in ladder.levels]
    for level in levels:
        if level.domain == term:
            return f"label keys are taken here: write {level.key!r}"
    return near(term, (level.key for level in levels))
