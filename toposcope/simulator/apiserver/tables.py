"""Columns and cells of `kubectl get`."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from toposcope.simulator.apiserver.resources import AGE, NAME, Column

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from toposcope.simulator.apiserver.resources import Resource

# One step of a printer column's JSONPath: a field, an index, a filter on an equal field.
_STEP = re.compile(
    r"""\.(?P<field>[\w-]+) | \['(?P<quoted>[^']+)'\] | \[(?P<index>\d+|\*)\]
        | \[\?\(@\.(?P<key>[\w.-]+)\s*==\s*["'](?P<value>[^"']*)["']\)\]""",
    re.VERBOSE,
)
_UNITS = (("y", 31_536_000, 2), ("d", 86_400, 2), ("h", 3_600, 3), ("m", 60, 2))


def columns_of(resource: Resource) -> tuple[Column, ...]:
    """Columns of the resource: its own ones, a CRD's printer columns, or name and age."""
    if resource.plural in _SPECIAL and not resource.group:
        return _SPECIAL[resource.plural][0]
    return (NAME, *(resource.columns if resource.columns is not None else (AGE,)))


def definition(column: Column) -> dict[str, Any]:
    """One entry of `columnDefinitions`."""
    return {
        "name": column.name,
        "type": column.type,
        "format": "name" if column == NAME else "",
        "description": column.description,
        "priority": int(column.wide),
    }


def cells(resource: Resource, columns: tuple[Column, ...], obj: Mapping[str, Any], now: datetime) -> list[Any]:
    """Cells of one object's row."""
    if resource.plural in _SPECIAL and not resource.group:
        return _SPECIAL[resource.plural][1](obj, now)
    return [_cell(column, obj, now) for column in columns]


def _cell(column: Column, obj: Mapping[str, Any], now: datetime) -> Any:
    found = find(obj, column.path)
    if not found:
        return None
    if column.type == "date":
        return age(found[0], now)
    if column.type == "string":
        return found[0] if isinstance(found[0], str) else str(found[0])
    return found[0]


def find(obj: Any, path: str) -> list[Any]:
    """Values at a JSONPath (fields, indexes, equality filters); empty when there are none."""
    found = [obj]
    for step in _STEP.finditer(path):
        name = step["field"] or step["quoted"]
        if name:
            found = [item[name] for item in found if isinstance(item, dict) and item.get(name) is not None]
            continue
        items = [item for listed in found if isinstance(listed, list) for item in listed]
        if step["key"]:
            found = [item for item in items if step["value"] in find(item, f".{step['key']}")]
        else:
            found = items if step["index"] == "*" else items[int(step["index"]) :][:1]
    return found


def age(timestamp: str, now: datetime) -> str:
    """Render a time as kubectl does: `42s`, `7m`, `3h12m`, `5d`, `2y40d`."""
    seconds = max(0, int((now - datetime.fromisoformat(timestamp)).total_seconds()))
    for index, (unit, size, doubled) in enumerate(_UNITS):
        count, rest = divmod(seconds, size)
        if count >= doubled:
            smaller, smaller_size, _ = _UNITS[index + 1] if index + 1 < len(_UNITS) else ("s", 1, 0)
            fraction = rest // smaller_size
            return f"{count}{unit}{fraction}{smaller}" if fraction and count < _DETAILED[unit] else f"{count}{unit}"
    return f"{seconds}s"


# Below this many units the next smaller unit is shown too.
_DETAILED = {"y": 8, "d": 8, "h": 8, "m": 10}


def _node_cells(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    ready = find(obj, '.status.conditions[?(@.type=="Ready")].status')
    state = "Unknown" if not ready else "Ready" if ready[0] == "True" else "NotReady"
    if find(obj, ".spec.unschedulable") == [True]:
        state += ",SchedulingDisabled"
    labels = obj["metadata"].get("labels") or {}
    prefix = "node-role.kubernetes.io/"
    roles = sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix))
    info = obj.get("status", {}).get("nodeInfo", {})
    addresses = {item.get("type"): item.get("address") for item in find(obj, ".status.addresses[*]")}
    return [
        obj["metadata"]["name"],
        state,
        ",".join(roles) or "<none>",
        age(obj["metadata"]["creationTimestamp"], now),
        info.get("kubeletVersion", ""),
        *(addresses.get(kind) or "<none>" for kind in ("InternalIP", "ExternalIP")),
        *(info.get(name) or "<unknown>" for name in ("osImage", "kernelVersion", "containerRuntimeVersion")),
    ]


def _event_cells(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    involved, series = obj.get("involvedObject", {}), obj.get("series") or {}
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    last = series.get("lastObservedTime") or obj.get("lastTimestamp") or first
    source = obj.get("source") or {}
    count = series.get("count") or obj.get("count") or 1
    return [
        age(last, now) if last else "<unknown>",
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{involved.get('kind', '').lower()}/{involved.get('name', '')}",
        involved.get("fieldPath", ""),
        ", ".join(filter(None, (source.get("component") or obj.get("reportingComponent"), source.get("host")))),
        obj.get("message", "").strip(),
        age(first, now) if first else "<unknown>",
        count,
        obj["metadata"]["name"],
    ]


def _plain(*names: str) -> tuple[Column, ...]:
    """Columns whose cells are computed; a leading `+` marks one for `-o wide`."""
    return tuple(
        NAME if name == "Name" else Column(name.lstrip("+"), "string", "", wide=name.startswith("+")) for name in names
    )


_SPECIAL: dict[str, tuple[tuple[Column, ...], Callable[[Mapping[str, Any], datetime], list[Any]]]] = {
    "nodes": (
        _plain("Name", "Status", "Roles", "Age", "Version", "+Internal-IP", "+External-IP", "+OS-Image",
               "+Kernel-Version", "+Container-Runtime"),
        _node_cells,
    ),
    "events": (
        _plain("Last Seen", "Type", "Reason", "Object", "+Subobject", "+Source", "Message", "+First Seen", "+Count",
               "+Name"),
        _event_cells,
    ),
}  # fmt: skip
