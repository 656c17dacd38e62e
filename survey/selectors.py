"""Label selectors as kubectl takes them: `a=b,c!=d,e in (f,g),h notin (i),j,!k`."""

import re
from typing import Final

from controller.spec import Requirement

_PART: Final = re.compile(r"[^,(]+(?:\([^)]*\))?")
_KEY: Final = r"(?P<key>[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?)"
_SET: Final = re.compile(_KEY + r"\s+(?P<how>in|notin)\s*\(\s*(?P<values>[^()]*)\)")
_EQUAL: Final = re.compile(_KEY + r"\s*(?P<how>!=|==|=)\s*(?P<value>[-A-Za-z0-9_.]*)")
_THERE: Final = re.compile(r"(?P<absent>!?)\s*" + _KEY)


class NoSelector(Exception):
    """Text that is no label selector; the message names the part."""


def parse(text: str) -> tuple[Requirement, ...]:
    """The conditions of a selector, all of which must hold; none for an empty one. Raises NoSelector."""
    if text.strip() and _PART.sub("", text).strip(", "):
        raise NoSelector(f"label selector {text!r}: the brackets do not match")
    return tuple(_requirement(part.strip()) for part in _PART.findall(text) if part.strip())


def _requirement(part: str) -> Requirement:
    if match := _SET.fullmatch(part):
        values = frozenset(value.strip() for value in match["values"].split(","))
        return Requirement(match["key"], "In" if match["how"] == "in" else "NotIn", values)
    if match := _EQUAL.fullmatch(part):
        return Requirement(match["key"], "NotIn" if match["how"] == "!=" else "In", frozenset({match["value"]}))
    if match := _THERE.fullmatch(part):
        return Requirement(match["key"], "DoesNotExist" if match["absent"] else "Exists")
    raise NoSelector(
        f"label selector: {part!r} is none of key, !key, key=value, key!=value, key in (a,b), key notin (a,b)"
    )
