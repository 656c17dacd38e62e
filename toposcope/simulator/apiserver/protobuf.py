"""Objects that typed clients send as protobuf, as JSON has them.

`kubectl create namespace` sends one.

Only kinds of v1 that kubectl creates by name and this server serves are known: those of
`messages.yaml`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from toposcope.api.yaml_text import load

MAGIC: Final = b"k8s\x00"
"""What begins every protobuf of Kubernetes; a `runtime.Unknown` follows."""

_Fields = Mapping[int, tuple[str, Any]]
_KINDS: Final[Mapping[str, _Fields]] = load(Path(__file__).with_name("messages.yaml").read_bytes())[
    "kinds"
]
_UNKNOWN: Final[_Fields] = {
    1: ("type", {1: ("apiVersion", "text"), 2: ("kind", "text")}),
    2: ("raw", None),
}
_EITHER: Final[_Fields] = {1: ("type", "number"), 2: ("intVal", "number"), 3: ("strVal", "text")}
_ENTRY: Final[_Fields] = {1: ("key", "text"), 2: ("value", "text")}


def decoded(body: bytes) -> dict[str, Any]:
    """The object in a body that begins with `MAGIC`.

    Raises LookupError, with its version and kind, for a kind that is not known, and ValueError for
    bytes that are no protobuf.
    """
    content = body[len(MAGIC) :]
    unknown = _message(content, _UNKNOWN)
    type_meta = unknown.get("type", {})
    version = type_meta.get("apiVersion", "")
    kind = type_meta.get("kind", "")
    fields = _KINDS.get(kind)
    if fields is None or version != "v1":
        raise LookupError(f"{version}, Kind={kind}")

    raw = unknown.get("raw", b"")
    message = _message(raw, fields)
    return {**type_meta, **message}


def _message(data: bytes, fields: _Fields) -> dict[str, Any]:
    """The fields of a message that are named and set.

    Go writes empty texts and messages where JSON leaves them out.
    """
    message: dict[str, Any] = {}
    for number, value in _parts(data):
        name, form = fields.get(number, ("", None))
        if form == "map":
            entry = _message(value, _ENTRY)
            key = entry.get("key", "")
            entries = message.setdefault(name, {})
            entries[key] = entry.get("value", "")
        elif isinstance(form, list):
            item = _value(value, form[0])
            items = message.setdefault(name, [])
            items.append(item)
        elif name:
            decoded_value = _value(value, form)
            if decoded_value not in ("", {}):
                message[name] = decoded_value
    return message


def _value(value: Any, form: Any) -> Any:
    if form == "text":
        return value.decode()
    if form == "flag":
        return bool(value)
    if form == "either":
        either = _message(value, _EITHER)
        if either.get("type"):
            return either.get("strVal", "")
        return either.get("intVal", 0)
    if isinstance(form, dict):
        return _message(value, form)
    return value


def _parts(data: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers with their values, int or bytes; raises ValueError."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number = tag >> 3
        wire_type = tag & 7
        if wire_type == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire_type != 2:  # noqa: PLR2004 - protobuf's wire type of texts and messages
            raise ValueError(f"wire type {wire_type} is in none of the known messages")

        size, at = _varint(data, at)
        end = at + size
        if end > len(data):
            raise ValueError("unexpected EOF")
        yield number, data[at:end]
        at = end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins at a place, and where it ends; raises ValueError."""
    value = shift = 0
    while at < len(data):
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:  # noqa: PLR2004 - the top bit says that more follows
            return value, at
    raise ValueError("unexpected EOF")
