"""The forms in which clients ask for objects: whole, metadata only, or as a table for people."""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from toposcope.simulator.apiserver.resources import NAME, Column, Resource
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
_UNITS = (("y", 31_536_000, 2), ("d", 86_400, 2), ("h", 3_600, 3), ("m", 60, 2))
# Below this many units the next smaller unit is shown too.
_DETAILED = {"y": 8, "d": 8, "h": 8, "m": 10}


class _Metadata(msgspec.Struct):
    metadata: msgspec.Raw


_metadata_decoder = msgspec.json.Decoder(_Metadata)


class View(msgspec.Struct, frozen=True):
    """How objects of a resource are written out; ages are counted to `now`."""

    form: Form
    now: datetime

    @classmethod
    def negotiate(cls, accept: str, now: datetime) -> "View":
        """Choose the first form of an Accept header that is known; raises `StatusError` (406) for none."""
        return cls(_form(accept), now)

    def one(self, resource: Resource, item: Stored) -> bytes:
        """Write one object, as GET and watch events carry it."""
        if self.form == "table":
            return b"".join(self.many(resource, [item], {"resourceVersion": str(item.revision)}))
        if self.form == "metadata":
            return _metadata_of(item)
        return resource.type_prefix + item.body

    def many(
        self, resource: Resource, items: Sequence[Stored], metadata: Mapping[str, Any]
    ) -> Iterator[bytes]:
        """Write a list in pieces; as on the real server, items of built-in kinds do not carry their type."""
        if self.form == "table":
            yield msgspec.json.encode(self._table(resource, items, metadata))
            return
        kind, version = f"{resource.kind}List", resource.group_version
        if self.form == "metadata":
            kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
        head = msgspec.json.encode({"kind": kind, "apiVersion": version, "metadata": metadata})
        yield head[:-1] + b',"items":['
        for index, item in enumerate(items):
            typed = self.form == "metadata" or resource.custom
            body = self.one(resource, item) if typed else b"{" + item.body
            yield b"," + body if index else body
        yield b"]}"

    def bookmark(self, resource: Resource, metadata: Mapping[str, Any]) -> bytes:
        """Write the empty object that a bookmark carries."""
        if self.form == "metadata":
            return _METADATA + msgspec.json.encode(metadata) + b"}"
        if self.form == "table":
            return msgspec.json.encode(self._table(resource, (), metadata))
        return (
            resource.type_prefix + msgspec.json.encode({"metadata": metadata, **resource.zero})[1:]
        )

    def _table(
        self, resource: Resource, items: Sequence[Stored], metadata: Mapping[str, Any]
    ) -> Object:
        columns = (NAME, *resource.columns)
        rows = []
        for item in items:
            row = [_cell(column, item.decode(), self.now) for column in columns]
            rows.append({"cells": row, "object": msgspec.Raw(_metadata_of(item))})
        definitions = [
            {
                "name": c.name,
                "type": c.type,
                "format": "name" if c is NAME else "",
                "priority": int(c.wide),
            }
            for c in columns
        ]
        head = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
        return {**head, "columnDefinitions": definitions, "rows": rows}


@functools.lru_cache(64)
def _form(accept: str) -> Form:
    for choice in accept.split(",") if accept else ("*/*",):
        media, *parameters = (part.strip() for part in choice.split(";"))
        wanted = dict(part.split("=", 1) for part in parameters if "=" in part).get("as", "")
        if media in ("application/json", "application/*", "*/*"):
            if wanted in ("PartialObjectMetadata", "PartialObjectMetadataList"):
                return "metadata"
            if wanted in ("", "Table"):
                return "table" if wanted else "whole"
    message = "only the following media types are accepted: application/json"
    raise StatusError(406, "NotAcceptable", message, details={})


def _metadata_of(item: Stored) -> bytes:
    return _METADATA + bytes(_metadata_decoder.decode(b"{" + item.body).metadata) + b"}"


def _cell(column: Column, obj: Object, now: datetime) -> Any:
    """What `kubectl get` shows in a column."""
    value = next(iter(_values(obj, column.path)), None)
    if value is None:
        return None
    return (
        _age(value, now)
        if column.type == "date"
        else str(value)
        if column.type == "string"
        else value
    )


def _values(obj: Any, path: str) -> list[Any]:
    """Values at a JSONPath (fields, indexes, equality filters); empty when there are none."""
    values = [obj]
    for step in _STEP.finditer(path):
        name = step["field"] or step["quoted"]
        if name:
            values = [
                item[name]
                for item in values
                if isinstance(item, dict) and item.get(name) is not None
            ]
            continue
        items = [item for listed in values if isinstance(listed, list) for item in listed]
        if step["key"]:
            values = [item for item in items if step["value"] in _values(item, f".{step['key']}")]
        else:
            values = items if step["index"] == "*" else items[int(step["index"]) :][:1]
    return values


def _age(timestamp: str, now: datetime) -> str:
    """Render a time as kubectl does: `42s`, `7m`, `3h12m`, `5d`, `2y40d`."""
    seconds = max(0, int((now - datetime.fromisoformat(timestamp)).total_seconds()))
    for index, (unit, size, doubled) in enumerate(_UNITS):
        count, rest = divmod(seconds, size)
        if count >= doubled:
            smaller, smaller_size, _ = _UNITS[index + 1] if index + 1 < len(_UNITS) else ("s", 1, 0)
            fraction = rest // smaller_size
            return (
                f"{count}{unit}{fraction}{smaller}"
                if fraction and count < _DETAILED[unit]
                else f"{count}{unit}"
            )
    return f"{seconds}s"
