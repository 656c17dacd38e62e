"""Fields of objects: their schema, how an apply merges them, and who owns which (KEP-555).

A field path is a tuple of `fieldsV1` elements: `f:name` for a map's entry, `k:{...}` for an item of
a list with keys, `v:...` for an item of a set. What no schema describes merges map by map, and
lists are replaced whole.
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
Values = Mapping[Path, Any]

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
_INT32_MIN = -(2**31)
_INT32_MAX = 2**31 - 1
_ABSENT = object()
_ITEM = object()
"""The value of a list's item itself, beside those of its fields.

Its place in the list has an owner too.
"""

_UNOWNED_METADATA = (
    "name",
    "namespace",
    "creationTimestamp",
    "uid",
    "generation",
    "managedFields",
    "resourceVersion",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_NEVER_OWNED: Paths = {("f:apiVersion",), ("f:kind",), ("f:metadata",)} | {
    ("f:metadata", f"f:{name}") for name in _UNOWNED_METADATA
}


@dataclass(frozen=True, slots=True)
class Schema:
    """One node of a structural schema.

    `rules` holds the OpenAPI keywords that only validation reads.
    """

    properties: "Mapping[str, Schema]" = field(default_factory=dict)
    values: "Schema | None" = None  # additionalProperties
    items: "Schema | None" = None
    is_preserving: bool = False
    is_atomic: bool = False
    list_type: str = "atomic"
    list_keys: tuple[str, ...] = ()
    rules: Mapping[str, Any] = field(default_factory=dict)

    def field(self, key: str) -> "Schema | None":
        """Schema of a map's entry, None when the schema does not know it."""
        return self.properties.get(key) or self.values or (ANY if self.is_preserving else None)


ANY = Schema(is_preserving=True)


def compile_schema(spec: Mapping[str, Any]) -> Schema:
    """Turn an OpenAPI v3 schema (as in a CRD) into a `Schema`."""
    properties = {}
    for name, child in spec.get("properties", {}).items():
        properties[name] = compile_schema(child)
    items = None
    if "items" in spec:
        items = compile_schema(spec["items"])
    return Schema(
        properties=properties,
        values=_additional_properties(spec.get("additionalProperties")),
        items=items,
        is_preserving=bool(spec.get("x-kubernetes-preserve-unknown-fields")),
        is_atomic=spec.get("x-kubernetes-map-type") == "atomic",
        list_type=spec.get("x-kubernetes-list-type", "atomic"),
        list_keys=tuple(spec.get("x-kubernetes-list-map-keys", ())),
        rules=spec,
    )


def _additional_properties(spec: Any) -> Schema | None:
    if isinstance(spec, dict):
        return compile_schema(spec)
    if spec is True:
        return ANY
    return None


def settle(value: Any, schema: Schema, path: str = "") -> list[str]:
    """Drop unknown fields and nulls, fill in defaults, all in place; return the unknown paths."""
    unknown: list[str] = []
    if isinstance(value, dict):
        unknown += _drop_unknown(value, schema, path)
        _fill_defaults(value, schema)
        for key, item in value.items():
            field = schema.field(key) or ANY
            field_path = _join(path, key)
            unknown += settle(item, field, field_path)
    elif isinstance(value, list) and schema.items is not None:
        for index, item in enumerate(value):
            unknown += settle(item, schema.items, f"{path}[{index}]")
    return unknown


def _drop_unknown(value: dict[str, Any], schema: Schema, path: str) -> list[str]:
    """Delete fields that the schema does not know, and nulls; return the paths of the first."""
    unknown = []
    for key in list(value):
        child = schema.field(key)
        if child is None:
            unknown.append(_join(path, key))
            del value[key]
        elif value[key] is None and not _is_nullable(child):
            del value[key]
    return unknown


def _fill_defaults(value: dict[str, Any], schema: Schema) -> None:
    for key, child in schema.properties.items():
        if key in value or "default" not in child.rules:
            continue
        default = child.rules["default"]
        value[key] = copy.deepcopy(default)


def _is_nullable(schema: Schema) -> bool:
    return schema is ANY or bool(schema.rules.get("nullable"))


def validate(value: Any, schema: Schema, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield path and problem of each wrong field: types, enums, patterns and what is required."""
    if value is None and _is_nullable(schema):
        return

    problem = _own_problem(value, schema.rules, path)
    if problem is not None:
        yield problem
    elif isinstance(value, dict):
        yield from _validate_map(value, schema, path)
    elif isinstance(value, list):
        of_item = schema.items or ANY
        for index, item in enumerate(value):
            item_path = f"{path}[{index}]"
            yield from validate(item, of_item, item_path)


def _validate_map(value: Object, schema: Schema, path: str) -> Iterator[tuple[str, str]]:
    required = schema.rules.get("required", ())
    for name in required:
        if name not in value:
            yield _join(path, name), "Required value"

    for key, item in value.items():
        field = schema.field(key) or ANY
        item_path = _join(path, key)
        yield from validate(item, field, item_path)


def _own_problem(value: Any, rules: Mapping[str, Any], path: str) -> tuple[str, str] | None:
    """What is wrong with a value itself, not with what is in it."""
    if not _has_type(value, rules):
        type_name = rules["type"]
        return path, f"Invalid value: {path} in body must be of type {type_name}"
    is_int32 = rules.get("format") == "int32"
    if is_int32 and not _INT32_MIN <= value <= _INT32_MAX:
        problem = "Checked value must be of type integer with format int32 in"
        return "<nil>", f'Invalid value: "": {problem} {path}'

    choices = rules.get("enum")
    if choices is not None and value not in choices:
        supported = ", ".join(map(_shown, choices))
        shown = _shown(value)
        problem = f"Unsupported value: {shown}: supported values: {supported}"
        return path, problem

    pattern = rules.get("pattern")
    if pattern is None or not isinstance(value, str):
        return None
    compiled = _pattern(pattern)
    if compiled.search(value):
        return None
    shown = _shown(value)
    problem = f"Invalid value: {shown}: {path} in body should match '{pattern}'"
    return path, problem


def _has_type(value: Any, rules: Mapping[str, Any]) -> bool:
    wanted = rules.get("type", "")
    if not wanted or rules.get("x-kubernetes-int-or-string"):
        return True
    if isinstance(value, bool):
        return bool(wanted == "boolean")
    return isinstance(value, _TYPES[wanted])


@functools.cache
def _pattern(pattern: str) -> re.Pattern[str]:
    """The pattern as Go means it: Python's `$` also accepts a final newline."""
    if pattern.endswith("$"):
        pattern = f"{pattern[:-1]}\\Z"
    # linear: the patterns of a CRD, for the demo and tests; those of our own CRD are judged by
    # tools/regexes
    return re.compile(pattern)


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
        if element == ".":
            paths.add(path)
        elif child:
            paths |= decode(child, below)
        else:
            paths.add(below)
    return paths


def printed(path: Path) -> str:
    """`.metadata.labels.a`, `.spec.levels[domain="rack"].key`: how conflicts name a field."""
    text = ""
    for element in path:
        kind, _, content = element.partition(":")
        if kind == "k":
            keys = []
            for key, value in msgspec.json.decode(content).items():
                keys.append(f"{key}={_shown(value)}")
            text += f"[{','.join(keys)}]"
        elif kind == "f":
            text += f".{content}"
        else:
            text += f"[={content}]"
    return text


def _elements(value: list[Any], schema: Schema) -> dict[str, Any]:
    """Items of a list with keys or of a set by path element."""
    elements = {}
    for item in value:
        if schema.list_type == "set":
            element = f"v:{_shown(item)}"
        else:
            keys = {key: item.get(key) for key in schema.list_keys}
            element = f"k:{_shown(keys)}"
        elements[element] = item
    return elements


def _has_elements(schema: Schema) -> bool:
    return schema.list_type in ("map", "set")


def _children(value: Any, schema: Schema) -> dict[str, tuple[Any, Schema]] | None:
    """What lies below a value, by path element; None where the value is owned whole."""
    if not value:
        return None
    children = {}
    if isinstance(value, dict) and not schema.is_atomic:
        for key, item in value.items():
            children[f"f:{key}"] = (item, schema.field(key) or ANY)
        return children
    if isinstance(value, list) and _has_elements(schema):
        items_schema = schema.items or ANY
        for element, item in _elements(value, schema).items():
            children[element] = (item, items_schema)
        return children
    return None


def leaves(value: Any, schema: Schema, path: Path = ()) -> dict[Path, Any]:
    """Every field that has an owner of its own, with its value."""
    children = _children(value, schema)
    if children is None:
        return {path: value}
    owned: dict[Path, Any] = {}
    if path and path[-1].startswith("k:"):
        owned[path] = _ITEM
    for element, (item, below) in children.items():
        if type(item) is str:  # as most are
            owned[*path, element] = item
        else:
            owned |= leaves(item, below, (*path, element))
    return owned


def merge(live: Any, applied: Any, schema: Schema) -> Any:
    """Lay an applied value over the live one; the order of a list with keys is the applier's."""
    if isinstance(live, dict) and isinstance(applied, dict):
        if schema.is_atomic:
            return applied
        return _merge_maps(live, applied, schema)

    if isinstance(live, list) and isinstance(applied, list):
        if not _has_elements(schema):
            return applied
        return _merge_lists(live, applied, schema)

    return applied


def _merge_maps(live: Object, applied: Object, schema: Schema) -> Object:
    merged = {**live, **applied}
    for key, item in applied.items():
        if key in live:
            merged[key] = merge(live[key], item, schema.field(key) or ANY)
    return merged


def _merge_lists(live: list[Any], applied: list[Any], schema: Schema) -> list[Any]:
    old = _elements(live, schema)
    new = _elements(applied, schema)
    of_item = schema.items or ANY
    merged = []
    for element, item in old.items():
        if element not in new:
            merged.append(item)

    for element, item in new.items():
        laid_over = item
        if element in old:
            laid_over = merge(old[element], item, of_item)
        merged.append(laid_over)
    return merged


def without(value: Any, paths: Paths, schema: Schema, path: Path = ()) -> Any:
    """Return a copy of `value` without these fields and items.

    A map or list that loses its last entry goes too, as None.
    """
    if path in paths:
        return None
    children = _children(value, schema)
    if children is None:
        return value
    kept = {}
    for element, (item, below) in children.items():
        rest = without(item, paths, below, (*path, element))
        if rest is not None or item is None:
            kept[element] = rest
    if not kept:
        return None
    if isinstance(value, dict):
        return {element.removeprefix("f:"): item for element, item in kept.items()}
    return list(kept.values())


# Ownership


class FieldWriter(msgspec.Struct, frozen=True):
    """Who writes, in which version and when, and the fields that the endpoint leaves alone."""

    name: str
    version: str
    now: str
    subresource: str = ""
    ignored: tuple[str, ...] = ()

    def own(self, paths: Iterable[Path]) -> Paths:
        """Those that this endpoint can own."""
        owned = set()
        for path in paths:
            if path and path[0].removeprefix("f:") not in self.ignored:
                owned.add(path)
        return owned - _NEVER_OWNED

    def entry(self, operation: str) -> Object:
        """Its entry in `managedFields`, without the fields."""
        entry = {
            "manager": self.name,
            "operation": operation,
            "apiVersion": self.version,
            "fieldsType": "FieldsV1",
        }
        if self.subresource:
            entry["subresource"] = self.subresource
        return entry


@dataclass(frozen=True, slots=True)
class _Identity:
    """What makes two entries of `managedFields` the same one."""

    operation: str
    manager: str
    version: str
    subresource: str


@dataclass(slots=True)
class _Claim:
    """One entry of `managedFields`."""

    entry: Object
    paths: Paths

    @property
    def identity(self) -> _Identity:
        """Appliers are the same manager in every version."""
        operation = self.entry.get("operation", "Update")
        version = ""
        if operation == "Update":
            version = self.entry.get("apiVersion", "")
        return _Identity(
            operation=operation,
            manager=self.entry.get("manager", ""),
            version=version,
            subresource=self.entry.get("subresource", ""),
        )

    def __str__(self) -> str:
        """Return the way conflict messages name it."""
        identity = self.identity
        text = f'"{identity.manager}"'
        if identity.subresource:
            text += f' with subresource "{identity.subresource}"'
        if identity.operation == "Update":
            text += f" using {identity.version}"
        return text


def apply(
    live: Object, config: Object, schema: Schema, writer: FieldWriter, *, force: bool
) -> Object:
    """Merge an applied configuration into the live object.

    Fields that only this manager applied before and no longer lists are removed; a field that is
    listed, differs, and belongs to somebody else is a conflict (409) unless `force`. Raises
    `StatusError`.
    """
    before = leaves(live, schema)
    wanted = leaves(config, schema)
    not_empty = []
    for path, value in wanted.items():
        if value != {}:
            not_empty.append(path)
    listed = writer.own(not_empty)
    claims = _claims(live)
    mine, others = _mine(claims, writer, "Apply")
    changed = _changed(listed, before, wanted)
    _take_over(others, changed, force=force)

    owned_by_others: Paths = set()
    for claim in others:
        owned_by_others |= claim.paths
    no_longer_owned = mine.paths - listed - owned_by_others
    dropped = no_longer_owned & before.keys()
    dropped -= _shared_items(dropped, before, owned_by_others)
    laid_over = merge(live, config, schema)
    merged = without(laid_over, dropped, schema)

    if changed or dropped or mine.paths != listed:
        mine.entry["time"] = writer.now
    mine.paths = listed
    return _with_claims(merged, [*others, mine])


def _changed(paths: Iterable[Path], before: Values, after: Values) -> Paths:
    """Those of the paths that are new or have another value than before."""
    changed = set()
    for path in paths:
        if path not in before or before[path] != after[path]:
            changed.add(path)
    return changed


def _take_over(others: list[_Claim], changed: Paths, *, force: bool) -> None:
    """Take changed fields from their owners; raises `StatusError` (409) unless `force`."""
    contested = []
    for claim in others:
        paths = claim.paths & changed
        if paths:
            contested.append((claim, paths))
    if contested and not force:
        raise _conflict(contested)
    for claim, paths in contested:
        claim.paths -= paths


def _shared_items(dropped: Paths, before: Values, owned_by_others: Paths) -> Paths:
    """Items of lists to keep.

    An item goes with everything in it, unless somebody else has a field there.
    """
    shared = set()
    for path in dropped:
        if before[path] is not _ITEM:
            continue
        if any(owned[: len(path)] == path for owned in owned_by_others):
            shared.add(path)
    return shared


def update(live: Object, new: Object, schema: Schema, writer: FieldWriter) -> Object:
    """Record a create, update or patch.

    Its manager owns what it changes from now on; nobody owns what it drops.
    """
    old_parts, new_parts = _different(live, new)
    before = leaves(old_parts, schema)
    after = leaves(new_parts, schema)
    changed = writer.own(_changed(after, before, after))
    gone = writer.own(before.keys() - after.keys())

    claims = _claims(live)
    mine, others = _mine(claims, writer, "Update")
    mine.paths -= gone
    touched = changed | gone
    for claim in others:
        claim.paths -= touched
    if changed:
        mine.paths |= changed
        mine.entry["time"] = writer.now
    return _with_claims(new, [*others, mine])


def _different(live: Object, new: Object) -> tuple[Object, Object]:
    """What differs of two objects, down to the parts of metadata: a write changes few of many."""
    old_parts: Object = {}
    new_parts: Object = {}
    for key in live.keys() | new.keys():
        old = live.get(key, _ABSENT)
        now = new.get(key, _ABSENT)
        # The name always, so that metadata is never empty, which is a value of its own.
        if old == now and key != "name":
            continue
        if key in live:
            old_parts[key] = old
        if key in new:
            new_parts[key] = now

    if "metadata" in old_parts and "metadata" in new_parts:
        old_metadata, new_metadata = _different(old_parts["metadata"], new_parts["metadata"])
        old_parts["metadata"] = old_metadata
        new_parts["metadata"] = new_metadata
    return old_parts, new_parts


def _claims(obj: Object) -> list[_Claim]:
    claims = []
    for entry in obj.get("metadata", {}).get("managedFields") or ():
        paths = decode(entry.get("fieldsV1", {}))
        claims.append(_Claim(dict(entry), paths))
    return claims


def _mine(claims: list[_Claim], writer: FieldWriter, operation: str) -> tuple[_Claim, list[_Claim]]:
    """The writer's claim, an empty one where it has none, and those of others."""
    new = _Claim(writer.entry(operation), set())
    mine = None
    others = []
    for claim in claims:
        if claim.identity != new.identity:
            others.append(claim)
        elif mine is None:
            mine = claim
    if mine is None:
        return new, others
    mine.entry["apiVersion"] = writer.version
    return mine, others


def _with_claims(obj: Object, claims: list[_Claim]) -> Object:
    """Copy of `obj` with `managedFields` written from `claims`."""
    metadata = dict(obj.get("metadata") or {})
    metadata.pop("managedFields", None)
    entries = []
    for claim in claims:
        if claim.paths:
            encoded = encode(frozenset(claim.paths))
            entries.append({**claim.entry, "fieldsV1": encoded})
    if entries:
        metadata["managedFields"] = sorted(entries, key=_operation_and_time)
    return {**obj, "metadata": metadata}


def _operation_and_time(entry: Object) -> tuple[str, str]:
    return entry["operation"], entry.get("time", "")


def _conflict(contested: list[tuple[_Claim, Paths]]) -> StatusError:
    causes = []
    for claim, paths in sorted(contested, key=_owner):
        for path in sorted(paths):
            cause = {
                "reason": "FieldManagerConflict",
                "message": f"conflict with {claim}",
                "field": printed(path),
            }
            causes.append(cause)
    message = f"Apply failed with {_conflicts_text(causes)}"
    return StatusError(
        409,
        "Conflict",
        message,
        details={"causes": causes},
    )


def _owner(entry: tuple[_Claim, Paths]) -> str:
    return str(entry[0])


def _conflicts_text(causes: list[Object]) -> str:
    if len(causes) == 1:
        cause = causes[0]
        message = cause["message"]
        field = cause["field"]
        return f"1 conflict: {message}: {field}"

    lines: list[str] = []
    for cause in causes:
        message = cause["message"]
        plural_message = message.replace("conflict with", "conflicts with")
        head = f"{plural_message}:"
        if head not in lines:
            lines.append(head)
        field = cause["field"]
        lines.append(f"- {field}")
    text = "\n".join(lines)
    return f"{len(causes)} conflicts: {text}"
