"""Keeps a status within its size limit: names are cut before numbers.

The verdict about levels is never cut: the next controller reads it back. Of a segment it reads
name, levels and first nodes; a segment that is left out is a new one to it, and has to last for the
grace period.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from toposcope.api.conditions import LEVELS_AVAILABLE

MOST_BYTES: Final = 16 << 10
_FEW_NAMES: Final = 2
_SHORT_CHARACTERS: Final = 1024
_SHORTEST_CHARACTERS: Final = 400
_MOST_NEEDS: Final = 16
_MOST_HINTS: Final = 8
_ELLIPSIS: Final = " ... (cut: the status would be too large)"

Status = dict[str, Any]


def fit_to_size(status: Status, most: int = MOST_BYTES) -> Status:
    """The status in at most `most` bytes of JSON, as far as leaving out names can achieve that."""
    for smaller in _STEPS:
        if _is_small_enough(status, most):
            return status
        status = smaller(status)
    while status.get("segments") and not _is_small_enough(status, most):
        status = _one_segment_less(status)
    return status


def _is_small_enough(status: Status, most: int) -> bool:
    return len(msgspec.json.encode(status)) <= most


def _short_lists(status: Status) -> Status:
    return _lists_cut(status, _FEW_NAMES)


def _no_lists(status: Status) -> Status:
    return _lists_cut(status, 0)


def _lists_cut(status: Status, most: int) -> Status:
    """Cut the lists of names to `most` entries."""
    cut = dict(status)
    cut["levels"] = _each_cut(status["levels"], ("missingNodes", "degraded"), most)
    if "fabric" in status:
        names: tuple[str, ...] = ("splits", "small", "rebuilds")
        cut["fabric"] = _cut(status["fabric"], names, most)
    if "rails" in status:
        names = ("miscabled", "sharedNames")
        cut["rails"] = _cut(status["rails"], names, most)
    if status.get("segments"):
        # One name stays: it shows that the segment's nodes exist and have changed.
        cut["segments"] = _each_cut(status["segments"], ("firstNodes",), 1)
    return cut


def _each_cut(
    entries: Iterable[dict[str, Any]], fields: Iterable[str], most: int
) -> list[dict[str, Any]]:
    return [_cut(entry, fields, most) for entry in entries]


def _cut(entry: dict[str, Any], fields: Iterable[str], most: int) -> dict[str, Any]:
    cut = {}
    for name, value in entry.items():
        shorter = value[:most] if name in fields else value
        if shorter != []:
            cut[name] = shorter
    return cut


def _no_selectors(status: Status) -> Status:
    """Whole selectors go: one that was cut would select other nodes."""
    if "segments" not in status:
        return status
    bare = [_without(segment, "nodeSelector") for segment in status["segments"]]
    return status | {"segments": bare}


def _without(entry: dict[str, Any], field: str) -> dict[str, Any]:
    without = dict(entry)
    without.pop(field, None)
    return without


def _one_segment_less(status: Status) -> Status:
    """Sum up the last segment, which has the fewest nodes, with the others."""
    *segments, last = status["segments"]
    others = status.get("otherSegments") or {}
    less = _without(status, "segments")
    less["otherSegments"] = {
        "segments": others.get("segments", 0) + 1,
        "nodes": others.get("nodes", 0) + last["nodes"],
        "gpus": others.get("gpus", 0) + last["gpus"],
    }
    if segments:
        less["segments"] = segments
    return less


def _fewer_hints(status: Status) -> Status:
    """The most urgent ones come first, and stay."""
    return _first_entries(status, ("hints",), _MOST_HINTS)


def _fewer_needs(status: Status) -> Status:
    """A cluster has a dozen levels; of sixty-four requested ones most are typos."""
    return _first_entries(status, ("requiredBy", "preferredBy"), _MOST_NEEDS)


def _first_entries(status: Status, fields: Iterable[str], most: int) -> Status:
    fewer = dict(status)
    for name in fields:
        if name in fewer:
            fewer[name] = fewer[name][:most]
    return fewer


def _short_messages(status: Status) -> Status:
    return _messages_cut(status, _SHORT_CHARACTERS)


def _shortest_messages(status: Status) -> Status:
    return _messages_cut(status, _SHORTEST_CHARACTERS)


def _messages_cut(status: Status, most: int) -> Status:
    cut = dict(status)
    for name in ("conditions", "published", "hints"):
        if name in cut:
            cut[name] = [_message_cut(entry, most) for entry in cut[name]]
    return cut


def _message_cut(entry: dict[str, Any], most: int) -> dict[str, Any]:
    if entry.get("type") == LEVELS_AVAILABLE:
        return entry
    message = entry.get("message", "")
    if len(message) <= most:
        return entry
    room = most - len(_ELLIPSIS)
    shorter = message[:room] + _ELLIPSIS
    return entry | {"message": shorter}


_STEPS: Final[tuple[Callable[[Status], Status], ...]] = (
    _short_lists,
    _short_messages,
    _no_lists,
    _no_selectors,
    _shortest_messages,
    _fewer_needs,
    _fewer_hints,
)
"""What makes a status smaller, the least loss first."""
