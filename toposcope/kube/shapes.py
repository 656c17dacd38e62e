"""What answers look like as far as readers rely on it: JSON of a login page or a broken proxy is not an API object.

Without msgspec, because the agent does without. Paths as in the Kubernetes API conventions.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

_WORDS: Final[dict[Any, str]] = {str: "text", dict: "a mapping", list: "a list"}
_EVERY: Final = "*"


class Optional(NamedTuple):
    """A field that may be missing or null."""

    shape: Any


Shape = Any
"""`str`, `dict` or `list`; a list that holds its entries' shape; or a mapping of fields to shapes, `*` for all."""

_TEXTS: Final[Shape] = Optional({_EVERY: str})
_OWNED: Final[Shape] = Optional({"f:metadata": Optional({"f:labels": Optional(dict)})})
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
OBJECT: Final[Shape] = {"metadata": _METADATA, "spec": Optional(dict), "status": Optional(dict), "data": Optional(dict)}
LIST: Final[Shape] = {"metadata": {"continue": Optional(str)}, "items": Optional([OBJECT])}
_GROUPS: Final[Shape] = {"groups": [{"name": str, "versions": [{"version": str}]}]}
_GROUP: Final[Shape] = {"versions": [{"version": str}]}
_RESOURCES: Final[Shape] = {"resources": [{"name": str}]}


def parts(path: str) -> list[str]:
    """Plural, name and subresource, as far as the path goes; none for discovery."""
    first, *rest = path.strip("/").split("/")
    below = rest[2:] if first == "apis" else rest[1:]
    in_namespace = below[:1] == ["namespaces"] and len(below) > 2  # noqa: PLR2004 - else the namespace itself
    return below[2:] if in_namespace else below


def shape_of(method: str, path: str) -> Shape:
    """The shape of a good answer; that to a DELETE is an object or a Status."""
    if method == "DELETE":
        return dict
    below = parts(path)
    if below:
        return LIST if len(below) == 1 and method == "GET" else OBJECT
    first, *rest = path.strip("/").split("/")
    documents = {"apis": (_GROUPS, _GROUP, _RESOURCES), "api": (dict, _RESOURCES)}.get(first, (dict,))
    return documents[min(len(rest), len(documents) - 1)]


def problem(value: Any, shape: Shape) -> str:
    """The first place where a JSON value is not of the shape, in words; empty if it is."""
    return next(_problems(value, shape, ""), "")


def _problems(value: Any, shape: Shape, at: str) -> Iterator[str]:
    if isinstance(shape, Optional):
        if value is not None:
            yield from _problems(value, shape.shape, at)
        return
    wanted: Any = shape if isinstance(shape, type) else type(shape)
    if not isinstance(value, wanted):
        what = "is missing" if value is None and at else f"is not {_WORDS[wanted]}"
        yield f"{at or 'it'} {what}"
    elif isinstance(shape, list):
        for place, entry in enumerate(value):
            yield from _problems(entry, shape[0], f"{at}[{place}]")
    elif isinstance(shape, dict):
        for name in value if _EVERY in shape else shape:
            yield from _problems(value.get(name), shape.get(_EVERY, shape.get(name)), f"{at}.{name}".lstrip("."))
