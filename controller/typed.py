"""A ClusterTopology's fields by their types: what the CRD's schema sees to, for servers with an older CRD or none.

A field of another type is as if it were not there, and is told.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from topology.words import printable, type_words


class _Expression(msgspec.Struct, frozen=True):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] | None = None


class _Selector(msgspec.Struct, frozen=True, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: list[_Expression] | None = None


class _Level(msgspec.Struct, frozen=True):
    domain: str = ""
    key: str = ""


_SPEC: Final[dict[str, Any]] = {
    "nodeSelector": _Selector,
    "levels": list[_Level],
    "required": list[str],
    "gracePeriod": str,
    "removalPolicy": str,
    "segments": str,
    "publish": dict[str, str],
}


class _SaidLevel(msgspec.Struct, frozen=True):
    domain: str
    key: str
    available: bool = True
    expired: bool = False


class _SaidCondition(msgspec.Struct, frozen=True, rename="camel"):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class _SaidNeed(msgspec.Struct, frozen=True):
    domain: str
    workloads: int


class _SaidPreference(_SaidNeed, frozen=True):
    available: bool


class _SaidObject(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    name: str
    in_sync: bool
    message: str = ""


class _SegmentLevel(msgspec.Struct, frozen=True):
    domain: str
    key: str


class _SaidSegment(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    levels: list[_SegmentLevel] | None = None
    first_nodes: list[str] | None = None
    node_selector: dict[str, Any] | None = None


_STATUS: Final[dict[str, Any]] = {
    "levels": list[_SaidLevel],
    "conditions": list[_SaidCondition],
    "requiredBy": list[_SaidNeed],
    "preferredBy": list[_SaidPreference],
    "published": list[_SaidObject],
    "segments": list[_SaidSegment],
}


def typed_spec(given: Any) -> tuple[dict[str, Any], list[str]]:
    """The fields of a spec that have their types, and a sentence for each other one."""
    if given is None:
        return {}, []
    if not isinstance(given, dict):
        return {}, ["spec: is no mapping; write fields such as levels below it"]
    problems: list[str] = []
    return _typed(given, _SPEC, problems), problems


def typed_status(given: Any) -> dict[str, Any]:
    """The fields of a status that have their types: what was said before and cannot be read was not said."""
    return _typed(given, _STATUS, []) if isinstance(given, dict) else {}


def _typed(given: Mapping[str, Any], types: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    fields = dict(given)
    for name in given.keys() & types.keys():
        if given[name] is None:
            continue  # as if it were not there
        try:
            msgspec.convert(given[name], types[name])
        except (msgspec.ValidationError, RecursionError) as error:
            words, _, path = str(error).partition(" - at `$")
            problems.append(f"spec.{name}{path.rstrip('`')}: {printable(type_words(words))}; it is left out")
            del fields[name]
    problems.sort()
    return fields
