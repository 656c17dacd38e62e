"""Keeps a status within its size limit: names are cut before numbers.

The verdict about levels is never cut: the next controller reads it back. Of a segment it reads
name, levels and first nodes; a segment that is left out is a new one to it, and has to last for the
grace period.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import msgspec

from toposcope.api.conditions import LEVELS_AVAILABLE

MOST_BYTES: Final = 16 << 10
_FEW: Final = 2
_SHORT: Final = 1024
_SHORTEST: Final = 400
_MOST_NEEDS: Final = 16
_MOST_HINTS: Final = 8
_ELLIPSIS: Final = " ... (cut: the status would be too large)"

Status = dict[str, Any]


def fit_to_size(status: Status, most: int = MOST_BYTES) -> Status:
    """The status in at most `most` bytes of JSON, as far as leaving out names can achieve that."""
    steps = (
        partial(_lists_cut, most=_FEW),
        partial(_messages_cut, most=_SHORT),
        partial(_lists_cut, most=0),
        _no_selectors,
        partial(_messages_cut, most=_SHORTEST),
        _fewer_needs,
        _fewer_hints,
    )
    for smaller in steps:
        if _fits(status, most):
            return status
        status = smaller(status)
    while status.get("segments") and not _fits(status, most):
        status = _one_segment_less(status)
    return status


def _fits(status: Status, most: int) -> bool:
    return len(msgspec.json.encode(status)) <= most


def _lists_cut(status: Status, most: int) -> Status:
    levels = [_cut(level, ("missingNodes", "degraded"), most) for level in status["levels"]]
    fabric = (
        {"fabric": _cut(status["fabric"], ("splits", "small", "rebuilds"), most)}
        if "fabric" in status
        else {}
    )
    rails = (
        {"rails": _cut(status["rails"], ("miscabled", "sharedNames"), most)}
        if "rails" in status
        else {}
    )
    # One name stays: it shows that the segment's nodes exist and have changed.
    segments = [_cut(segment, ("firstNodes",), 1) for segment in status.get("segments") or ()]
    return (
        status | {"levels": levels} | fabric | rails | ({"segments": segments} if segments else {})
    )


def _cut(entry: dict[str, Any], fields: Iterable[str], most: int) -> dict[str, Any]:
    shorter = {name: entry[name][:most] for name in fields if name in entry}
    return {name: value for name, value in (entry | shorter).items() if value != []}


def _no_selectors(status: Status) -> Status:
    """Whole selectors go: one that was cut would select other nodes."""
    if "segments" not in status:
        return status
    bare = [
        {name: value for name, value in segment.items() if name != "nodeSelector"}
        for segment in status["segments"]
    ]
    return status | {"segments": bare}


def _one_segment_less(status: Status) -> Status:
    """Sum up the last segment, which has the fewest nodes, with the others."""
    *segments, last = status["segments"]
    before = status.get("otherSegments") or {}
    added = {"segments": 1, "nodes": last["nodes"], "gpus": last["gpus"]}
    others = {name: before.get(name, 0) + count for name, count in added.items()}
    left = {name: value for name, value in status.items() if name != "segments"} | {
        "otherSegments": others
    }
    return left | ({"segments": segments} if segments else {})


def _fewer_hints(status: Status) -> Status:
    """The most urgent ones come first, and stay."""
    return status | ({"hints": status["hints"][:_MOST_HINTS]} if "hints" in status else {})


def _fewer_needs(status: Status) -> Status:
    """A cluster has a dozen levels; of sixty-four requested ones most are typos."""
    return status | {
        name: status[name][:_MOST_NEEDS] for name in ("requiredBy", "preferredBy") if name in status
    }


def _messages_cut(status: Status, most: int) -> Status:
    def shorter(entry: dict[str, Any]) -> dict[str, Any]:
        message = entry.get("message", "")
        if entry.get("type") == LEVELS_AVAILABLE or len(message) <= most:
            return entry
        return entry | {"message": message[: most - len(_ELLIPSIS)] + _ELLIPSIS}

    lists = ("conditions", "published", "hints")
    shortened = {
        name: [shorter(entry) for entry in status[name]] for name in lists if name in status
    }
    return status | shortened
