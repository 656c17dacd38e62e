"""Label and field selectors of a request, as one predicate over stored objects."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from toposcope.simulator.apiserver.errors import bad_request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from toposcope.simulator.apiserver.resources import Resource
    from toposcope.simulator.apiserver.store import Stored

    Predicate = Callable[[Stored], bool]

# A comma inside parentheses belongs to a set and does not end the requirement.
_REQUIREMENT = re.compile(r"[^,(]+(?:\([^)]*\))?")
_IN_SET = re.compile(r"(?P<key>\S+)\s+(?P<how>in|notin)\s*\((?P<values>[^)]*)\)")
_EQUALITY = re.compile(r"(?P<key>[^=!<>\s]+)\s*(?P<how>!=|==|=)\s*(?P<value>[^=!<>\s]*)")
_PRESENCE = re.compile(r"(?P<absent>!?)\s*(?P<key>[A-Za-z0-9][-A-Za-z0-9_./]*)")


def predicate(resource: Resource, query: Mapping[str, str]) -> Predicate | None:
    """Return the selection a request asks for, None for everything. Raises `StatusError` (400)."""
    tests = _label_tests(query.get("labelSelector", "")) + _field_tests(resource, query.get("fieldSelector", ""))
    if not tests:
        return None
    return lambda item: all(test(item) for test in tests)


def _label_tests(selector: str) -> list[Predicate]:
    return [_label_test(part.strip()) for part in _REQUIREMENT.findall(selector)]


def _label_test(text: str) -> Predicate:
    if match := _IN_SET.fullmatch(text):
        key, values = match["key"], {value.strip() for value in match["values"].split(",")}
        if match["how"] == "in":
            return lambda item: item.labels.get(key) in values
        return lambda item: item.labels.get(key) not in values
    if match := _EQUALITY.fullmatch(text):
        key, value = match["key"], match["value"]
        if match["how"] == "!=":
            return lambda item: item.labels.get(key) != value
        return lambda item: item.labels.get(key) == value
    if match := _PRESENCE.fullmatch(text):
        key, absent = match["key"], bool(match["absent"])
        return lambda item: (key in item.labels) is not absent
    raise bad_request(f'unable to parse requirement: "{text}" is not key, !key, key=value, key!=value, key in (...)')


def _field_tests(resource: Resource, selector: str) -> list[Predicate]:
    tests: list[Predicate] = []
    for part in filter(None, selector.split(",")):
        match = _EQUALITY.fullmatch(part.strip())
        if not match:
            raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
        tests.append(_field_test(resource, match["key"], match["value"], equal=match["how"] != "!="))
    return tests


def _field_test(resource: Resource, path: str, value: str, *, equal: bool) -> Predicate:
    if path == "metadata.name":
        return lambda item: (item.key[1] == value) is equal
    if path == "metadata.namespace":
        return lambda item: (item.key[0] == value) is equal
    first, dot, rest = path.partition(".")
    path = resource.renamed.get(first, first) + dot + rest
    if path not in resource.selectable:
        raise bad_request(f"field label not supported: {path}")
    names = path.split(".")

    def test(item: Stored) -> bool:
        found: Any = item.decode()
        for name in names:
            found = found.get(name) if isinstance(found, dict) else None
        text = str(found).lower() if isinstance(found, bool) else str(found or "")
        return (text == value) is equal

    return test
