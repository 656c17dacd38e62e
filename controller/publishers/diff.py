"""The difference between two objects as people read it: unified, over their YAML, without what servers fill in."""

import difflib
from collections.abc import Mapping
from typing import Any, Final

_KEPT: Final = ("name", "labels", "annotations", "ownerReferences", "finalizers")
_LONGEST: Final = 700
"""Characters of a diff in a status: with what stands around it less than the 1024 that the CRD allows."""


def unified(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, name: str) -> str:
    """The diff from `before` to `after`, either of which may not be there; empty when nothing would change."""
    lines = difflib.unified_diff(_text(before), _text(after), f"live/{name}", f"wanted/{name}")
    return "".join(lines)


def shortened(diff: str) -> str:
    """As many whole lines of a diff as fit into a status, without the two that name the files."""
    lines = diff.splitlines()[2:]
    kept, size = 0, 0
    while kept < len(lines) and size + len(lines[kept]) < _LONGEST:
        size += len(lines[kept]) + 1
        kept += 1
    more = len(lines) - kept
    return "\n".join((*lines[:kept], f"... {more} more lines" if more else "")).rstrip()


def _text(document: Mapping[str, Any] | None) -> list[str]:
    if document is None:
        return []
    import yaml  # noqa: PLC0415 - a controller that writes has no use for it

    shown = dict(document)
    if "metadata" in document:  # a whole object, with a status that is not ours to compare
        shown.pop("status", None)
        shown["metadata"] = {key: value for key, value in document["metadata"].items() if key in _KEPT}
    text: str = yaml.safe_dump(shown, default_flow_style=False, sort_keys=True, allow_unicode=True, width=1000)
    return text.splitlines(keepends=True)
