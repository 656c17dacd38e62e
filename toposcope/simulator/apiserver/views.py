"""The forms in which clients ask for objects: whole, metadata only, or as a table for people."""

import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

import msgspec

from toposcope.simulator.apiserver.resources import NAME, PrinterColumn, ServedResource
from toposcope.simulator.apiserver.statuses import Object, StatusError
from toposcope.simulator.apiserver.store import Stored

Form = Literal["whole", "metadata", "table"]
_METADATA = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":'
# One step of a printer column's JSONPath: a field, an index, a filter on an equal field.
_STEP = re.compile(
    r"""\.(?P<field>[\w-]+) | \['(?P<quoted>[^']+)'\] | \[(?P<index>\d+|\*)\]
        | \[\?\(@\.(?P<key>[\w.-]+)\s*==\s*["'](?P<value>[^"']*)["']\)\]""",
    re.VERBOSE,
)


class _Unit(NamedTuple):
    """One unit of an age, shown where there are at least so many of it."""

    name: str
    seconds: int
    shown_from: int


_UNITS = (
    _Unit("y", 31_536_000, shown_from=2),
    _Unit("d", 86_400, shown_from=2),
    _Unit("h", 3_600, shown_from=3),
    _Unit("m", 60, shown_from=2),
)
_SECONDS = _Unit("s", 1, shown_from=0)
# Below this many units the next smaller unit is shown too.
_DETAILED = {"y": 8, "d": 8, "h": 8, "m": 10}


class _Metadata(msgspec.Struct):
    metadata: msgspec.Raw


_metadata_decoder = msgspec.json.Decoder(_Metadata)


class ObjectView(msgspec.Struct, frozen=True):
    """How objects of a resource are written out; ages are counted to `now`."""

    form: Form
    now: datetime

    @classmethod
    def negotiate(cls, accept: str, now: datetime) -> "ObjectView":
        """Choose the first form of an Accept header that is known.

        Raises `StatusError` (406) for none.
        """
        return cls(_form(accept), now)

    def one_object(self, resource: ServedResource, item: Stored) -> bytes:
        """Write one object, as GET and watch events carry it."""
        if self.form == "table":
            return b"".join(self.many(resource, [item], {"resourceVersion": str(item.revision)}))
        if self.form == "metadata":
            return _metadata_of(item)
        return resource.type_prefix + item.body

    def many(
        self, resource: ServedResource, items: Sequence[Stored], metadata: Mapping[str, Any]
    ) -> Iterator[bytes]:
        """Write a list in pieces.

        As on the real server, items of built-in kinds do not carry their type.
        """
        if self.form == "table":
            yield msgspec.json.encode(self._table(resource, items, metadata))
            return
        head = {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.group_version,
            "metadata": metadata,
        }
        if self.form == "metadata":
            head["kind"] = "PartialObjectMetadataList"
            head["apiVersion"] = "meta.k8s.io/v1"
        yield msgspec.json.encode(head)[:-1] + b',"items":['
        is_typed = self.form == "metadata" or resource.is_custom
        separator = b""
        for item in items:
            body = self.one_object(resource, item) if is_typed else b"{" + item.body
            yield separator + body
            separator = b","
        yield b"]}"

    def bookmark(self, resource: ServedResource, metadata: Mapping[str, Any]) -> bytes:
        """Write the empty object that a bookmark carries."""
        if self.form == "metadata":
            return _METADATA + msgspec.json.encode(metadata) + b"}"
        if self.form == "table":
            return msgspec.json.encode(self._table(resource, (), metadata))
        return (
            resource.type_prefix + msgspec.json.encode({"metadata": metadata, **resource.zero})[1:]
        )

    def _table(
        self, resource: ServedResource, items: Sequence[Stored], metadata: Mapping[str, Any]
    ) -> Object:
        columns = (NAME, *resource.columns)
        rows = []
        for item in items:
            obj = item.decode()
            cells = [_cell(column, obj, self.now) for column in columns]
            rows.append({"cells": cells, "object": msgspec.Raw(_metadata_of(item))})
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": [_definition(column) for column in columns],
            "rows": rows,
        }


def _definition(column: PrinterColumn) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": "name" if column is NAME else "",
        "priority": int(column.is_wide),
    }


@functools.lru_cache(64)
def _form(accept: str) -> Form:
    for choice in (accept or "*/*").split(","):
        media, *parameters = choice.split(";")
        if media.strip() not in ("application/json", "application/*", "*/*"):
            continue
        wanted = _wanted_kind(parameters)
        if wanted == "":
            return "whole"
        if wanted == "Table":
            return "table"
        if wanted in ("PartialObjectMetadata", "PartialObjectMetadataList"):
            return "metadata"
    message = "only the following media types are accepted: application/json"
    raise StatusError(406, "NotAcceptable", message, details={})


def _wanted_kind(parameters: Sequence[str]) -> str:
    """The last `as=` among the parameters of a media type, or an empty text."""
    wanted = ""
    for parameter in parameters:
        name, _, value = parameter.strip().partition("=")
        if name == "as":
            wanted = value
    return wanted


def _metadata_of(item: Stored) -> bytes:
    return _METADATA + bytes(_metadata_decoder.decode(b"{" + item.body).metadata) + b"}"


def _cell(column: PrinterColumn, obj: Object, now: datetime) -> Any:
    """What `kubectl get` shows in a column."""
    values = _values(obj, column.path)
    if not values or values[0] is None:
        return None
    value = values[0]
    if column.type == "date":
        return _age(value, now)
    if column.type == "string":
        return str(value)
    return value


def _values(obj: Any, path: str) -> list[Any]:
    """Values at a JSONPath (fields, indexes, equality filters); empty when there are none."""
    values = [obj]
    for step in _STEP.finditer(path):
        values = _values_of_step(step, values)
    return values


def _values_of_step(step: re.Match[str], values: Sequence[Any]) -> list[Any]:
    name = step["field"] or step["quoted"]
    if name:
        return _fields_named(name, values)
    items = _items_of(values)
    if step["key"]:
        path = f".{step['key']}"
        return [item for item in items if step["value"] in _values(item, path)]
    if step["index"] == "*":
        return items
    index = int(step["index"])
    return items[index : index + 1]


def _fields_named(name: str, values: Sequence[Any]) -> list[Any]:
    fields = []
    for value in values:
        if not isinstance(value, dict):
            continue
        field = value.get(name)
        if field is not None:
            fields.append(field)
    return fields


def _items_of(values: Sequence[Any]) -> list[Any]:
    items = []
    for value in values:
        if isinstance(value, list):
            items += value
    return items


def _age(timestamp: str, now: datetime) -> str:
    """Render a time as kubectl does: `42s`, `7m`, `3h12m`, `5d`, `2y40d`."""
    created = datetime.fromisoformat(timestamp)
    elapsed = now - created
    seconds = max(0, int(elapsed.total_seconds()))
    units = (*_UNITS, _SECONDS)
    for unit, smaller in itertools.pairwise(units):
        count, seconds_left = divmod(seconds, unit.seconds)
        if count < unit.shown_from:
            continue
        fraction = seconds_left // smaller.seconds
        text = f"{count}{unit.name}"
        if fraction and count < _DETAILED[unit.name]:
            text += f"{fraction}{smaller.name}"
        return text
    return f"{seconds}s"
