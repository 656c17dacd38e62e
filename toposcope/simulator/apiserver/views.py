"""The forms in which clients ask for objects: whole, metadata only, or as a table for people."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import msgspec

from toposcope.simulator.apiserver.requests import Object, StatusError
from toposcope.simulator.apiserver.resources import NAME, Column, Resource
from toposcope.simulator.apiserver.store import Stored

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


@dataclass(frozen=True, slots=True)
class View:
    """How objects of a resource are written out; ages are counted to `now`."""

    form: Literal["whole", "metadata", "table"]
    now: datetime

    @classmethod
    def negotiate(cls, accept: str, now: datetime) -> "View":
        """Choose the first form of an Accept header that is known; raises `StatusError` (406) for none."""
        for choice in accept.split(",") if accept else ("*/*",):
            media, *parameters = (part.strip() for part in choice.split(";"))
            wanted = dict(part.split("=", 1) for part in parameters if "=" in part).get("as", "")
            if media in ("application/json", "application/*", "*/*"):
                if wanted in ("PartialObjectMetadata", "PartialObjectMetadataList"):
                    return cls("metadata", now)
                if wanted in ("", "Table"):
                    return cls("table" if wanted else "whole", now)
        message = "only the following media types are accepted: application/json"
        raise StatusError(406, "NotAcceptable", message, details={})

    def one(self, resource: Resource, item: Stored) -> bytes:
        """Write one object, as GET and watch events carry it."""
        if self.form == "table":
            return b"".join(self.many(resource, [item], {"resourceVersion": str(item.revision)}))
        if self.form == "metadata":
            return _metadata_of(item)
        return msgspec.json.encode(typed(resource, item)) if resource.renamed else resource.type_prefix + item.body

    def many(self, resource: Resource, items: Sequence[Stored], metadata: Mapping[str, Any]) -> Iterator[bytes]:
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
            if self.form == "metadata" or resource.custom:
                body = self.one(resource, item)
            elif resource.renamed:
                body = msgspec.json.encode(_renamed(resource, item.decode()))
            else:
                body = b"{" + item.body
            yield b"," + body if index else body
        yield b"]}"

    def bookmark(self, resource: Resource, metadata: Mapping[str, Any]) -> bytes:
        """Write the empty object that a bookmark carries."""
        if self.form == "metadata":
            return _METADATA + msgspec.json.encode(metadata) + b"}"
        if self.form == "table":
            return msgspec.json.encode(self._table(resource, (), metadata))
        return resource.type_prefix + msgspec.json.encode({"metadata": metadata, **resource.zero})[1:]

    def _table(self, resource: Resource, items: Sequence[Stored], metadata: Mapping[str, Any]) -> Object:
        columns, cells = _SPECIAL.get(resource.storage) or ((NAME, *resource.columns), None)
        rows = []
        for item in items:
            obj = item.decode()
            row = cells(obj, self.now) if cells else [_cell(column, obj, self.now) for column in columns]
            rows.append({"cells": row, "object": msgspec.Raw(_metadata_of(item))})
        definitions = [
            {"name": c.name, "type": c.type, "format": "name" if c is NAME else "", "priority": int(c.wide)}
            for c in columns
        ]
        head = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
        return {**head, "columnDefinitions": definitions, "rows": rows}


def typed(resource: Resource, item: Stored) -> Object:
    """Return the object as a dict with its type."""
    return {"kind": resource.kind, "apiVersion": resource.group_version, **_renamed(resource, item.decode())}


def _renamed(resource: Resource, obj: Object) -> Object:
    """Give fields the names they have in this API group."""
    names = {stored: shown for shown, stored in resource.renamed.items()}
    return {names.get(key, key): value for key, value in obj.items()}


def _metadata_of(item: Stored) -> bytes:
    return _METADATA + bytes(_metadata_decoder.decode(b"{" + item.body).metadata) + b"}"


# Cells of `kubectl get`


def _cell(column: Column, obj: Object, now: datetime) -> Any:
    found = _find(obj, column.path)
    if not found:
        return None
    if column.type == "date":
        return _age(found[0], now)
    return str(found[0]) if column.type == "string" else found[0]


def _find(obj: Any, path: str) -> list[Any]:
    """Values at a JSONPath (fields, indexes, equality filters); empty when there are none."""
    found = [obj]
    for step in _STEP.finditer(path):
        name = step["field"] or step["quoted"]
        if name:
            found = [item[name] for item in found if isinstance(item, dict) and item.get(name) is not None]
            continue
        items = [item for listed in found if isinstance(listed, list) for item in listed]
        if step["key"]:
            found = [item for item in items if step["value"] in _find(item, f".{step['key']}")]
        else:
            found = items if step["index"] == "*" else items[int(step["index"]) :][:1]
    return found


def _age(timestamp: str, now: datetime) -> str:
    """Render a time as kubectl does: `42s`, `7m`, `3h12m`, `5d`, `2y40d`."""
    seconds = max(0, int((now - datetime.fromisoformat(timestamp)).total_seconds()))
    for index, (unit, size, doubled) in enumerate(_UNITS):
        count, rest = divmod(seconds, size)
        if count >= doubled:
            smaller, smaller_size, _ = _UNITS[index + 1] if index + 1 < len(_UNITS) else ("s", 1, 0)
            fraction = rest // smaller_size
            return f"{count}{unit}{fraction}{smaller}" if fraction and count < _DETAILED[unit] else f"{count}{unit}"
    return f"{seconds}s"


def _node_cells(obj: Object, now: datetime) -> list[Any]:
    ready = _find(obj, '.status.conditions[?(@.type=="Ready")].status')
    state = "Unknown" if not ready else "Ready" if ready[0] == "True" else "NotReady"
    if _find(obj, ".spec.unschedulable") == [True]:
        state += ",SchedulingDisabled"
    prefix = "node-role.kubernetes.io/"
    roles = sorted(key.removeprefix(prefix) for key in obj["metadata"].get("labels") or {} if key.startswith(prefix))
    info = obj.get("status", {}).get("nodeInfo", {})
    addresses = {item.get("type"): item.get("address") for item in _find(obj, ".status.addresses[*]")}
    return [
        *(obj["metadata"]["name"], state, ",".join(roles) or "<none>"),
        *(_age(obj["metadata"]["creationTimestamp"], now), info.get("kubeletVersion", "")),
        *(addresses.get(kind) or "<none>" for kind in ("InternalIP", "ExternalIP")),
        *(info.get(name) or "<unknown>" for name in ("osImage", "kernelVersion", "containerRuntimeVersion")),
    ]


def _event_cells(obj: Object, now: datetime) -> list[Any]:
    involved, series = obj.get("involvedObject", {}), obj.get("series") or {}
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    last = series.get("lastObservedTime") or obj.get("lastTimestamp") or first
    return [
        *(_age(last, now) if last else "<unknown>", obj.get("type", ""), obj.get("reason", "")),
        *(f"{involved.get('kind', '').lower()}/{involved.get('name', '')}", obj.get("reportingComponent", "")),
        *(obj.get("message", "").strip(), series.get("count") or obj.get("count") or 1, obj["metadata"]["name"]),
    ]


def _plain(names: str) -> tuple[Column, ...]:
    """Columns whose cells are computed; a leading `+` marks one for `-o wide`."""
    return tuple(
        NAME if name == "Name" else Column(name.lstrip("+"), "string", "", wide=name.startswith("+"))
        for name in names.split(",")
    )


_SPECIAL: dict[str, tuple[tuple[Column, ...], Callable[[Object, datetime], list[Any]]]] = {
    "nodes": (
        _plain("Name,Status,Roles,Age,Version,+Internal-IP,+External-IP,+OS-Image,+Kernel-Version,+Container-Runtime"),
        _node_cells,
    ),
    "events": (_plain("Last Seen,Type,Reason,Object,+Source,Message,+Count,+Name"), _event_cells),
}
