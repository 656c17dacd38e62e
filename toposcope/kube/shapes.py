"""The shapes of answers, as far as readers rely on them.

JSON of a login page or a broken proxy is not an API object. It does without msgspec, because the
agent does. Paths are as in the Kubernetes API conventions.
"""

import functools
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

_WORDS: Final[dict[Any, str]] = {str: "text", dict: "a mapping", list: "a list"}
_EVERY: Final = "*"


class Optional(NamedTuple):
    """A field that may be missing or null."""

    shape: Any


Shape = Any
"""What a JSON value has to look like.

It is `str`, `dict` or `list`; a list that holds its entries' shape; or a mapping of fields to
shapes, with `*` for all fields.
"""

_TEXTS: Final[Shape] = Optional({_EVERY: str})
_OWNED: Final[Shape] = Optional(
    {"f:metadata": Optional({"f:labels": Optional(dict), "f:annotations": Optional(dict)})}
)
_METADATA: Final[Shape] = {
    "name": str,
    "uid": str,
    "namespace": Optional(str),
    "labels": _TEXTS,
    "annotations": _TEXTS,
    "finalizers": Optional([str]),
    "ownerReferences": Optional([{"apiVersion": str, "kind": str}]),
    "managedFields": Optional([{"manager": Optional(str), "fieldsV1": _OWNED}]),
}
OBJECT: Final[Shape] = {
    "metadata": _METADATA,
    "spec": Optional(dict),
    "status": Optional(dict),
    "data": Optional(dict),
}
_WORD_LIST: Final[Shape] = Optional([str])
_RULE: Final[Shape] = {
    "verbs": [str],
    "apiGroups": _WORD_LIST,
    "resources": _WORD_LIST,
    "resourceNames": _WORD_LIST,
}
RULES_REVIEW: Final[Shape] = {"status": {"resourceRules": Optional([_RULE])}}
"""It answers about rights: it is no object, and has no name."""
LIST: Final[Shape] = {"metadata": {"continue": Optional(str)}, "items": Optional([OBJECT])}
_GROUPS: Final[Shape] = {"groups": [{"name": str, "versions": [{"version": str}]}]}
_GROUP: Final[Shape] = {"versions": [{"version": str}]}
_RESOURCES: Final[Shape] = {"resources": [{"name": str}]}
_DISCOVERY: Final[dict[str, tuple[Shape, ...]]] = {
    "apis": (_GROUPS, _GROUP, _RESOURCES),
    "api": (dict, _RESOURCES),
}
"""The documents below the first part of a path, by how many parts follow."""


@functools.lru_cache(256)
def parts(path: str) -> tuple[str, ...]:
    """Plural, name and subresource, as far as the path goes; none for discovery."""
    first, *rest = path.strip("/").split("/")
    has_group = first == "apis"
    below = rest[2:] if has_group else rest[1:]
    match below:
        case ["namespaces", _name, _plural, *_]:
            below = below[2:]
    return tuple(below)


def shape_of(method: str, path: str) -> Shape:
    """The shape of a good answer; that to a DELETE is an object or a Status."""
    if method == "DELETE":
        return dict
    below = parts(path)
    if below == ("selfsubjectrulesreviews",):
        return RULES_REVIEW
    if below:
        return LIST if len(below) == 1 and method == "GET" else OBJECT
    first, *rest = path.strip("/").split("/")
    documents = _DISCOVERY.get(first, (dict,))
    return documents[min(len(rest), len(documents) - 1)]


class _Wrong(NamedTuple):
    """What is not of its shape."""

    at: str
    """Where: `.metadata.name`."""
    value: Any
    wanted: Any
    """The type that it should be of."""

    def below(self, name: str | int) -> "_Wrong":
        """The same, seen from the list or mapping in which this is an entry."""
        place = f"[{name}]" if isinstance(name, int) else f".{name}"
        return self._replace(at=place + self.at)


def problem(value: Any, shape: Shape) -> str:
    """The first place where a JSON value is not of the shape, in words; empty if it is."""
    wrong = _problem(value, shape)
    if wrong is None:
        return ""
    place = wrong.at.lstrip(".") or "it"
    if wrong.value is None and wrong.at:
        return f"{place} is missing"
    return f"{place} is not {_WORDS[wrong.wanted]}"


def _problem(value: Any, shape: Shape) -> _Wrong | None:
    """A path is built only for a value that is wrong."""
    if isinstance(shape, Optional):
        if value is None:
            return None
        shape = shape.shape
    wanted: Any = shape if isinstance(shape, type) else type(shape)
    if not isinstance(value, wanted):
        return _Wrong("", value, wanted)
    for name, entry, below in _entries(value, shape):
        if type(entry) is below or (entry is None and type(below) is Optional):
            continue  # as most are
        wrong = _problem(entry, below)
        if wrong:
            return wrong.below(name)
    return None


def _entries(value: Any, shape: Shape) -> Iterator[tuple[Any, Any, Shape]]:
    """The entries or fields of a value that its shape is about: name, value and shape."""
    if isinstance(shape, list):
        for place, entry in enumerate(value):
            yield place, entry, shape[0]
    elif isinstance(shape, dict) and _EVERY in shape:
        for name, entry in value.items():
            yield name, entry, shape[_EVERY]
    elif isinstance(shape, dict):
        for name, below in shape.items():
            yield name, value.get(name), below
