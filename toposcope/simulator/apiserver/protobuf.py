"""Objects that typed clients send as protobuf, as JSON has them: `kubectl create namespace` sends one.

Field numbers are those of Kubernetes' generated.proto. Only kinds that kubectl creates by name and this server serves
are known.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

MAGIC: Final = b"k8s\x00"
"""What begins every protobuf of Kubernetes; a `runtime.Unknown` follows."""

_TEXT, _NUMBER, _FLAG, _MAP = "text", "number", "flag", "map"
_Fields = Mapping[int, tuple[str, Any]]

_PORT_OR_NAME: Final[_Fields] = {1: ("type", _NUMBER), 2: ("intVal", _NUMBER), 3: ("strVal", _TEXT)}
_META: Final[_Fields] = {
    1: ("name", _TEXT),
    2: ("generateName", _TEXT),
    3: ("namespace", _TEXT),
    11: ("labels", _MAP),
    12: ("annotations", _MAP),
    14: ("finalizers", [_TEXT]),
}
_PORT: Final[_Fields] = {
    1: ("name", _TEXT),
    2: ("protocol", _TEXT),
    3: ("port", _NUMBER),
    4: ("targetPort", _PORT_OR_NAME),
    5: ("nodePort", _NUMBER),
}
_SERVICE: Final[_Fields] = {
    1: ("ports", [_PORT]),
    2: ("selector", _MAP),
    3: ("clusterIP", _TEXT),
    4: ("type", _TEXT),
    10: ("externalName", _TEXT),
}
_DELETE_OPTIONS: Final[_Fields] = {
    1: ("gracePeriodSeconds", _NUMBER),
    2: ("preconditions", {1: ("uid", _TEXT), 2: ("resourceVersion", _TEXT)}),
    4: ("propagationPolicy", _TEXT),
    5: ("dryRun", [_TEXT]),
}
_KINDS: Final[Mapping[tuple[str, str], _Fields]] = {
    ("v1", "Namespace"): {1: ("metadata", _META), 2: ("spec", {1: ("finalizers", [_TEXT])})},
    ("v1", "ConfigMap"): {1: ("metadata", _META), 2: ("data", _MAP), 4: ("immutable", _FLAG)},
    ("v1", "ServiceAccount"): {1: ("metadata", _META), 4: ("automountServiceAccountToken", _FLAG)},
    ("v1", "Service"): {1: ("metadata", _META), 2: ("spec", _SERVICE)},
    ("v1", "DeleteOptions"): _DELETE_OPTIONS,
}


def decoded(body: bytes) -> dict[str, Any]:
    """The object in a body that begins with `MAGIC`.

    Raises LookupError, with its version and kind, for a kind that is not known, and ValueError for bytes that are no
    protobuf.
    """
    unknown = _message(
        body[len(MAGIC) :], {1: ("type", {1: ("apiVersion", _TEXT), 2: ("kind", _TEXT)}), 2: ("raw", None)}
    )
    kind = unknown.get("type", {})
    fields = _KINDS.get((kind.get("apiVersion", ""), kind.get("kind", "")))
    if fields is None:
        raise LookupError(f"{kind.get('apiVersion', '')}, Kind={kind.get('kind', '')}")
    return {**kind, **_message(unknown.get("raw", b""), fields)}


def _message(data: bytes, fields: _Fields) -> dict[str, Any]:
    """The fields of a message that are named and set: Go writes empty texts and messages where JSON leaves them out."""
    found: dict[str, Any] = {}
    for number, value in _parts(data):
        name, form = fields.get(number, ("", None))
        if form == _MAP:
            entry = _message(value, {1: ("key", _TEXT), 2: ("value", _TEXT)})
            found.setdefault(name, {})[entry.get("key", "")] = entry.get("value", "")
        elif isinstance(form, list):
            found.setdefault(name, []).append(_value(value, form[0]))
        elif name and (read := _value(value, form)) not in ("", {}):
            found[name] = read
    return found


def _value(value: Any, form: Any) -> Any:
    if form == _TEXT:
        return value.decode()
    if form == _FLAG:
        return bool(value)
    if form is _PORT_OR_NAME:
        either = _message(value, form)
        return either.get("strVal", "") if either.get("type") else either.get("intVal", 0)
    return _message(value, form) if isinstance(form, dict) else value


def _parts(data: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers with their values, int or bytes; raises ValueError."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
        elif tag & 7 == 2:  # noqa: PLR2004 - protobuf's wire type of texts and messages
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError("unexpected EOF")
            yield tag >> 3, data[at : at + size]
            at += size
        else:
            raise ValueError(f"wire type {tag & 7} is in none of the known messages")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins at a place, and where it ends; raises ValueError."""
    value = shift = 0
    while at < len(data):
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:  # noqa: PLR2004 - the top bit says that more follows
            return value, at
    raise ValueError("unexpected EOF")
