"""Fields of objects: what their schema says of them, how an apply merges them, and who owns which (KEP-555).

A field path is a tuple of `fieldsV1` elements: `f:name` for a map's entry, `k:{...}` for an item of a list with keys,
`v:...` for an item of a set. What no schema describes merges map by map, and lists are replaced whole.
"""

import copy
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from toposcope.simulator.apiserver.statuses import Object, StatusError

Path = tuple[str, ...]
Paths = set[Path]

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
_ITEM = object()
"""The value of a list's item itself, beside those of its fields: its place in the list has an owner too."""

_NEVER_OWNED: Paths = {("f:apiVersion",), ("f:kind",), ("f:metadata",)} | {
    ("f:metadata", f"f:{name}")
    for name in (
        *(
            "name",
            "namespace",
            "creationTimestamp",
            "uid",
            "generation",
            "managedFields",
            "resourceVersion",
        ),
        *("deletionTimestamp", "deletionGracePeriodSeconds"),
    )
}


@dataclass(frozen=True, slots=True)
class Schema:
    """One node of a structural schema; `rules` holds the OpenAPI keywords that only validation reads."""

    properties: "Mapping[str, Schema]" = field(default_factory=dict)
    values: "Schema | None" = None  # additionalProperties
    items: "Schema | None" = None
    preserve: bool = False
    atomic: bool = False
    list_type: str = "atomic"
    list_keys: tuple[str, ...] = ()
    rules: Mapping[str, Any] = field(default_factory=dict)

    def field(self, key: str) -> "Schema | None":
        """Schema of a map's entry, None when the schema does not know it."""
        return self.properties.get(key) or self.values or (ANY if self.preserve else None)


ANY = Schema(preserve=True)


def compile_schema(spec: Mapping[str, Any]) -> Schema:
    """Turn an OpenAPI v3 schema (as in a CRD) into a `Schema`."""
    extra = spec.get("additionalProperties")
    return Schema(
        properties={
            name: compile_schema(child) for name, child in spec.get("properties", {}).items()
        },
        values=compile_schema(extra)
        if isinstance(extra, dict)
        else (ANY if extra is True else None),
        items=compile_schema(spec["items"]) if "items" in spec else None,
        preserve=bool(spec.get("x-kubernetes-preserve-unknown-fields")),
        atomic=spec.get("x-kubernetes-map-type") == "atomic",
        list_type=spec.get("x-kubernetes-list-type", "atomic"),
        list_keys=tuple(spec.get("x-kubernetes-list-map-keys", ())),
        rules=spec,
    )


def settle(value: Any, schema: Schema, path: str = "") -> list[str]:
    """Drop fields that the schema does not know and nulls, fill in defaults, in place; return the unknown paths."""
    unknown: list[str] = []
    if isinstance(value, dict):
        for key in list(value):
            child = schema.field(key)
            if child is None:
                unknown.append(_join(path, key))
            if child is None or (
                value[key] is None and child is not ANY and not child.rules.get("nullable")
            ):
                del value[key]
        for key, child in schema.properties.items():
            if key not in value and "default" in child.rules:
                value[key] = copy.deepcopy(child.rules["default"])
        for key, item in value.items():
            unknown += settle(item, schema.field(key) or ANY, _join(path, key))
    elif isinstance(value, list) and schema.items is not None:
        for index, item in enumerate(value):
            unknown += settle(item, schema.items, f"{path}[{index}]")
    return unknown


def validate(value: Any, schema: Schema, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield path and problem of each wrong field: types, enums, patterns and what is required."""
    rules = schema.rules
    if value is None and (rules.get("nullable") or schema is ANY):
        return
    wanted = rules.get("type", "")
    if wanted and not rules.get("x-kubernetes-int-or-string") and not _fits(value, wanted):
        yield path, f"Invalid value: {path} in body must be of type {wanted}"
    elif rules.get("format") == "int32" and not -(2**31) <= value < 2**31:
        yield (
            "<nil>",
            f'Invalid value: "": Checked value must be of type integer with format int32 in {path}',
        )
    elif "enum" in rules and value not in rules["enum"]:
        listed = ", ".join(map(_shown, rules["enum"]))
        yield path, f"Unsupported value: {_shown(value)}: supported values: {listed}"
    elif (
        isinstance(value, str)
        and "pattern" in rules
        and not _pattern(rules["pattern"]).search(value)
    ):
        yield (
            path,
            f"Invalid value: {_shown(value)}: {path} in body should match '{rules['pattern']}'",
        )
    elif isinstance(value, dict):
        yield from (
            (_join(path, name), "Required value")
            for name in rules.get("required", ())
            if name not in value
        )
        for key, item in value.items():
            yield from validate(item, schema.field(key) or ANY, _join(path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from validate(item, schema.items or ANY, f"{path}[{index}]")


def _fits(value: Any, wanted: str) -> bool:
    return isinstance(value, _TYPES[wanted]) and (
        wanted == "boolean" or not isinstance(value, bool)
    )


@functools.cache
def _pattern(pattern: str) -> re.Pattern[str]:
    """The pattern as Go means it: Python's `$` also accepts a final newline."""
    # linear: the patterns of a CRD, for the demo and tests; those of our own CRD are judged by
    # tools/regexes
    return re.compile(f"{pattern[:-1]}\\Z" if pattern.endswith("$") else pattern)


def _shown(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


# Paths


@functools.lru_cache(512)
def encode(paths: frozenset[Path]) -> Object:
    """Nest paths as `fieldsV1`: `.` marks an item that is owned itself besides its fields."""
    tree: Object = {}
    for path in sorted(paths):  # a parent sorts before its children
        node = tree
        for element in path:
            node = node.setdefault(element, {})
        node["."] = {}
    _unmark_leaves(tree)
    return tree


def _unmark_leaves(node: Object) -> None:
    for child in node.values():
        if len(child) == 1 and "." in child:
            child.clear()
        else:
            _unmark_leaves(child)


def decode(tree: Mapping[str, Any], path: Path = ()) -> Paths:
    """Invert `encode`."""
    paths: Paths = set()
    for element, child in tree.items():
        below = (*path, element)
        paths |= {path} if element == "." else decode(child, below) if child else {below}
    return paths


def printed(path: Path) -> str:
    """`.metadata.labels.a`, `.spec.levels[domain="rack"].key`: how conflicts name a field."""
    text = ""
    for element in path:
        kind, _, rest = element.partition(":")
        if kind == "k":
            keys = msgspec.json.decode(rest).items()
            text += "[" + ",".join(f"{key}={_shown(value)}" for key, value in keys) + "]"
        else:
            text += f".{rest}" if kind == "f" else f"[={rest}]"
    return text


def _elements(value: list[Any], schema: Schema) -> dict[str, Any]:
    """Items of a list with keys or of a set by path element."""
    if schema.list_type == "set":
        return {f"v:{_shown(item)}": item for item in value}
    return {f"k:{_shown({key: item.get(key) for key in schema.list_keys})}": item for item in value}


def _has_elements(schema: Schema) -> bool:
    return schema.list_type in ("map", "set")


def _children(value: Any, schema: Schema) -> dict[str, tuple[Any, Schema]] | None:
    """What lies below a value, by path element; None where the value is owned whole."""
    if isinstance(value, dict) and value and not schema.atomic:
        return {f"f:{key}": (item, schema.field(key) or ANY) for key, item in value.items()}
    if isinstance(value, list) and value and _has_elements(schema):
        return {
            element: (item, schema.items or ANY)
            for element, item in _elements(value, schema).items()
        }
    return None


def leaves(value: Any, schema: Schema, path: Path = ()) -> dict[Path, Any]:
    """Every field that has an owner of its own, with its value."""
    children = _children(value, schema)
    if children is None:
        return {path: value}
    owned: dict[Path, Any] = {path: _ITEM} if path and path[-1].startswith("k:") else {}
    for element, (item, below) in children.items():
        if type(item) is str:  # as most are
            owned[*path, element] = item
        else:
            owned |= leaves(item, below, (*path, element))
    return owned


def merge(live: Any, applied: Any, schema: Schema) -> Any:
    """Lay an applied value over the live one; the order of a list with keys is the applier's."""
    if isinstance(live, dict) and isinstance(applied, dict) and not schema.atomic:
        both = {**live, **applied}
        return {
            key: merge(live[key], applied[key], schema.field(key) or ANY)
            if key in live and key in applied
            else item
            for key, item in both.items()
        }
    if isinstance(live, list) and isinstance(applied, list) and _has_elements(schema):
        old, new = _elements(live, schema), _elements(applied, schema)
        kept = [item for element, item in old.items() if element not in new]
        return kept + [
            merge(old[e], item, schema.items or ANY) if e in old else item
            for e, item in new.items()
        ]
    return applied


def without(value: Any, paths: Paths, schema: Schema, path: Path = ()) -> Any:
    """Copy of `value` without these fields and items; a map or list that loses its last one goes too, as None."""
    children = _children(value, schema)
    if path in paths:
        return None
    if children is None:
        return value
    kept = {
        element: left
        for element, (item, below) in children.items()
        if (left := without(item, paths, below, (*path, element))) is not None or item is None
    }
    if not kept:
        return None
    return (
        {e[2:]: item for e, item in kept.items()}
        if isinstance(value, dict)
        else list(kept.values())
    )


# Ownership


class Writer(msgspec.Struct, frozen=True):
    """Who writes, in which version and at what time, and the top-level fields that the endpoint leaves alone."""

    name: str
    version: str
    now: str
    subresource: str = ""
    ignored: tuple[str, ...] = ()

    def own(self, paths: Iterable[Path]) -> Paths:
        """Those that this endpoint can own."""
        return {path for path in paths if path and path[0][2:] not in self.ignored} - _NEVER_OWNED

    def entry(self, operation: str) -> Object:
        """Its entry in `managedFields`, without the fields."""
        entry = {
            "manager": self.name,
            "operation": operation,
            "apiVersion": self.version,
            "fieldsType": "FieldsV1",
        }
        return entry | ({"subresource": self.subresource} if self.subresource else {})


@dataclass(slots=True)
class _Claim:
    """One entry of `managedFields`."""

    entry: Object
    paths: Paths

    @property
    def identity(self) -> tuple[str, ...]:
        """Appliers are the same manager in every version."""
        operation = self.entry.get("operation", "Update")
        version = self.entry.get("apiVersion", "") if operation == "Update" else ""
        return operation, self.entry.get("manager", ""), version, self.entry.get("subresource", "")

    def __str__(self) -> str:
        """Return the way conflict messages name it."""
        operation, name, version, subresource = self.identity
        text = f'"{name}"' + (f' with subresource "{subresource}"' if subresource else "")
        return f"{text} using {version}" if operation == "Update" else text


def apply(live: Object, config: Object, schema: Schema, writer: Writer, *, force: bool) -> Object:
    """Merge an applied configuration into the live object.

    Fields that only this manager applied before and no longer lists are removed; a field that is
    listed, differs, and belongs to somebody else is a conflict (409) unless `force`. Raises
    `StatusError`.
    """
    before = leaves(live, schema)
    wanted = {path: value for path, value in leaves(config, schema).items() if value != {}}
    claims = _claims(live)
    mine, others = _mine(claims, writer, "Apply")
    listed = writer.own(wanted)
    changed = {path for path in listed if path not in before or before[path] != wanted[path]}
    contested = [(claim, claim.paths & changed) for claim in others if claim.paths & changed]
    if contested and not force:
        raise _conflict(contested)
    for claim, paths in contested:
        claim.paths -= paths
    owned = set().union(*(claim.paths for claim in others))
    dropped = {path for path in mine.paths - listed - owned if path in before}
    # An item goes with all that is in it, unless somebody else has a field there.
    dropped -= {
        path
        for path in dropped
        if before[path] is _ITEM and any(o[: len(path)] == path for o in owned)
    }
    merged = without(merge(live, config, schema), dropped, schema)
    if changed or dropped or mine.paths != listed:
        mine.entry["time"] = writer.now
    mine.paths = listed
    return _with_claims(merged, [*others, mine])


def update(live: Object, new: Object, schema: Schema, writer: Writer) -> Object:
    """Record a create, update or patch: what it changes is its own from now on, what it drops is nobody's."""
    before, after = (leaves(side, schema) for side in _different(live, new))
    changed = writer.own(
        path for path, value in after.items() if path not in before or before[path] != value
    )
    gone = writer.own(before.keys() - after.keys())
    mine, others = _mine(_claims(live), writer, "Update")
    for claim in (*others, mine):
        claim.paths -= gone if claim is mine else changed | gone
    if changed:
        mine.paths |= changed
        mine.entry["time"] = writer.now
    return _with_claims(new, [*others, mine])


def _different(live: Object, new: Object) -> tuple[Object, Object]:
    """What differs of two objects, down to the parts of metadata: a write changes few of many."""
    other = {
        key
        for key in live.keys() | new.keys()
        if key not in live or key not in new or live[key] != new[key]
    }
    other.add("name")  # so that metadata is never empty, which is a value of its own
    one, two = ({key: part[key] for key in part.keys() & other} for part in (live, new))
    if "metadata" in one and "metadata" in two:
        one["metadata"], two["metadata"] = _different(one["metadata"], two["metadata"])
    return one, two


def _claims(obj: Object) -> list[_Claim]:
    entries = obj.get("metadata", {}).get("managedFields") or ()
    return [_Claim(dict(entry), decode(entry.get("fieldsV1", {}))) for entry in entries]


def _mine(claims: list[_Claim], writer: Writer, operation: str) -> tuple[_Claim, list[_Claim]]:
    """The writer's claim, an empty one where it has none, and those of others."""
    mine = _Claim(writer.entry(operation), set())
    others = [claim for claim in claims if claim.identity != mine.identity]
    same = next((claim for claim in claims if claim.identity == mine.identity), mine)
    same.entry["apiVersion"] = writer.version
    return same, others


def _with_claims(obj: Object, claims: list[_Claim]) -> Object:
    """Copy of `obj` with `managedFields` written from `claims`."""
    metadata = {
        key: value for key, value in (obj.get("metadata") or {}).items() if key != "managedFields"
    }
    entries = [
        {**claim.entry, "fieldsV1": encode(frozenset(claim.paths))}
        for claim in claims
        if claim.paths
    ]
    if entries:
        metadata["managedFields"] = sorted(
            entries, key=lambda entry: (entry["operation"], entry.get("time", ""))
        )
    return {**obj, "metadata": metadata}


def _conflict(contested: list[tuple[_Claim, Paths]]) -> StatusError:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {claim}",
            "field": printed(path),
        }
        for claim, paths in sorted(contested, key=lambda entry: str(entry[0]))
        for path in sorted(paths)
    ]
    if len(causes) == 1:
        text = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines = []
        for cause in causes:
            head = cause["message"].replace("conflict with", "conflicts with") + ":"
            lines += ([] if head in lines else [head]) + [f"- {cause['field']}"]
        text = f"{len(causes)} conflicts: " + "\n".join(lines)
    return StatusError(409, "Conflict", f"Apply failed with {text}", details={"causes": causes})
