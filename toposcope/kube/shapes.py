"""What answers look like as far as readers rely on it.

JSON of a login page or a broken proxy is not an API object. Without msgspec, because the agent does
without. Paths as in the Kubernetes API conventions.
"""

import functools
from typing import Any, Final, NamedTuple

_WORDS: Final[dict[Any, str]] = {str: "text", dict: "a mapping", list: "a list"}
_EVERY: Final = "*"


class Optional(NamedTuple):
    """A field that may be missing or null."""

    shape: Any


Shape = Any
"""`str`, `dict` or `list`.

A list that holds its entries' shape; or a mapping of fields to shapes, `*` for all.
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


@functools.lru_cache(256)
def parts(path: str) -> tuple[str, ...]:
    """Plural, name and subresource, as far as the path goes; none for discovery."""
    first, *rest = path.strip("/").split("/")
    below = rest[2:] if first == "apis" else rest[1:]
    in_namespace = below[:1] == ["namespaces"] and len(below) > 2  # noqa: PLR2004 - else the namespace itself
    return tuple(below[2:] if in_namespace else below)


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
    documents = {"apis": (_GROUPS, _GROUP, _RESOURCES), "api": (dict, _RESOURCES)}.get(
        first, (dict,)
    )
    return documents[min(len(rest), len(documents) - 1)]


def problem(value: Any, shape: Shape) -> str:
    """The first place where a JSON value is not of the shape, in words; empty if it is."""
    if (wrong := _problem(value, shape)) is None:
        return ""
    at, part, wanted = wrong
    return f"{at.lstrip('.') or 'it'} {'is missing' if part is None and at else f'is not {_WORDS[wanted]}'}"


def _problem(value: Any, shape: Shape) -> tuple[str, Any, Any] | None:
    """Where that is, what is there, and of which type it should be.

    Paths are made only of what is wrong.
    """
    if isinstance(shape, Optional):
        if value is None:
            return None
        shape = shape.shape
    wanted: Any = shape if isinstance(shape, type) else type(shape)
    if not isinstance(value, wanted):
        return "", value, wanted
    entries: Any = ()
    if isinstance(shape, list):
        entries = ((place, entry, shape[0]) for place, entry in enumerate(value))
    elif isinstance(shape, dict):
        every = shape.get(_EVERY)
        entries = (
            (name, value.get(name), every or shape[name]) for name in (value if every else shape)
        )
    for name, entry, below in entries:
        if type(entry) is below or (entry is None and type(below) is Optional):
            continue  # as most are
        if wrong := _problem(entry, below):
            at, part, wanted = wrong
            return f"[{name}]{at}" if isinstance(shape, list) else f".{name}{at}", part, wanted
    return None
