"""Field sets and the structured merge: which fields an object has, how two of them differ or combine.

A field path is a tuple of `fieldsV1` elements: `f:name` for a map entry, `k:{...}` for an item of a keyed
list, `v:...` for an item of a set. A set of paths is a plain set. The rules are those of KEP-555 and of the
structured-merge-diff library that kube-apiserver uses; with the same input they give the same ownership.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from toposcope.errors import ToposcopeError
from toposcope.simulator.apiserver.errors import StatusError
from toposcope.simulator.apiserver.schema import ANY, CONTAINERS, Schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Path = tuple[str, ...]
Paths = set[Path]


class _Absent:
    """The field is not there, which is not the same as null."""

    def __bool__(self) -> bool:
        return False


_ABSENT: Any = _Absent()


class TypedPatchError(ToposcopeError, ValueError):
    """An applied object does not fit its schema; the message names the field."""


def encode(paths: Iterable[Path]) -> dict[str, Any]:
    """Nest paths as `fieldsV1`: `.` marks a map or item that is owned itself besides its fields."""
    tree: dict[str, Any] = {}
    for path in sorted(paths):  # a parent sorts before its children
        node = tree
        for element in path:
            node = node.setdefault(element, {})
        node["."] = {}
    _unmark_leaves(tree)
    return tree


def _unmark_leaves(node: dict[str, Any]) -> None:
    for child in node.values():
        if len(child) == 1 and "." in child:
            child.clear()
        else:
            _unmark_leaves(child)


def decode(tree: Mapping[str, Any], path: Path = ()) -> Paths:
    """Invert `encode`."""
    paths: Paths = set()
    for element, child in tree.items():
        if element == ".":
            paths.add(path)
        else:
            below = (*path, element)
            paths |= decode(child, below) if child else {below}
    return paths


def printed(path: Path) -> str:
    """`.metadata.labels.a`, `.spec.levels[domain="rack"].key`: how conflicts name a field."""
    text = ""
    for element in path:
        kind, _, rest = element.partition(":")
        if kind == "f":
            text += f".{rest}"
        elif kind == "v":
            text += f"[={rest}]"
        else:
            keys = msgspec.json.decode(rest)
            text += "[" + ",".join(f"{key}={_compact(value)}" for key, value in keys.items()) + "]"
    return text


def reading_order(path: Path) -> list[tuple[bool, str]]:
    """Sort key that lists what is owned at each level before what lies below it."""
    return [(depth < len(path) - 1, element) for depth, element in enumerate(path)]


def _compact(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def element_of(item: Any, schema: Schema) -> str:
    """Path element of an item of an associative list."""
    if schema.list_type == "set":
        return f"v:{_compact(item)}"
    given = item if isinstance(item, dict) else {}
    keys = {key: value for key in schema.list_keys if (value := given.get(key, _default(schema, key))) is not _ABSENT}
    if not keys:
        listed = " ".join(f'"{key}"' for key in schema.list_keys)
        raise TypedPatchError(
            f"associative list with keys has an element that omits all key fields [{listed}] "
            "(and doesn't have default values for any key fields)"
        )
    return f"k:{_compact(keys)}"


def _default(schema: Schema, key: str) -> Any:
    declared = schema.items.properties.get(key) if schema.items else None
    return declared.rules.get("default", _ABSENT) if declared else _ABSENT


def child_schema(schema: Schema, element: str) -> Schema:
    """Schema below a path element."""
    if element.startswith("f:"):
        return schema.field(element[2:]) or ANY
    return schema.items or ANY


def field_set(value: Any, schema: Schema, path: Path = ()) -> Paths:
    """List the paths an applied object claims; raises `TypedPatchError` where it does not fit the schema."""
    _check_type(value, schema, path)
    if isinstance(value, dict) and not schema.atomic:
        paths: Paths = set()
        for key, item in value.items():
            child = schema.field(key)
            below = (*path, f"f:{key}")
            if child is None:
                raise TypedPatchError(f"{printed(below)}: field not declared in schema")
            paths |= field_set(item, child, below)
            if item is None or item == {} or key not in schema.properties:
                paths.add(below)
        return paths
    if isinstance(value, list) and schema.associative:
        paths = set()
        for index, item in enumerate(value):
            try:
                below = (*path, element_of(item, schema))
            except TypedPatchError as error:
                raise TypedPatchError(f"{printed(path)}: element {index}: {error}") from None
            if below in paths:
                raise TypedPatchError(f"{printed(path)}: duplicate entries for key {printed(below[-1:])}")
            paths |= {below} | field_set(item, schema.items or ANY, below)
        return paths
    granular_null = value is None and (schema.associative or (schema.type == "object" and not schema.atomic))
    return set() if granular_null else {path}


_GO_NAMES = {"object": "map", "array": "list", "string": "string", "boolean": "boolean", "number": "numeric"}


def _check_type(value: Any, schema: Schema, path: Path) -> None:
    wanted = "number" if schema.type == "integer" else schema.type
    if value is None or not wanted:
        return
    given = (
        "object" if isinstance(value, dict)
        else "array" if isinstance(value, list)
        else "string" if isinstance(value, str)
        else "boolean" if isinstance(value, bool)
        else "number"
    )  # fmt: skip
    if given != wanted:
        raise TypedPatchError(
            f"{printed(path)}: expected {_GO_NAMES[wanted]}, got &value.valueUnstructured{{Value:{_compact(value)}}}"
        )


def merge(live: Any, applied: Any, schema: Schema) -> Any:
    """Lay an applied object over the live one; `_ABSENT` on either side means that it is not there."""
    newest = live if applied is _ABSENT else applied
    if schema.atomic or not (live or applied):
        return newest
    if not isinstance(live, CONTAINERS) and not isinstance(applied, CONTAINERS):
        return newest
    if _is_map(live, applied) and schema.type in ("object", ""):
        old, new = _items(live, dict), _items(applied, dict)
        return {
            key: merge(old.get(key, _ABSENT), new.get(key, _ABSENT), schema.field(key) or ANY) for key in {**old, **new}
        }
    if schema.associative:
        return _merge_lists(_items(live, list), _items(applied, list), schema)
    return newest


def _is_map(live: Any, applied: Any) -> bool:
    """Both sides are maps, where null and absent fit any shape."""
    sides = [side for side in (live, applied) if side is not _ABSENT and side is not None]
    maps = [side for side in sides if isinstance(side, dict)]
    return bool(maps) and len(maps) == len(sides)


def _items(value: Any, kind: type) -> Any:
    return value if isinstance(value, kind) else kind()


def _merge_lists(live: list[Any], applied: list[Any], schema: Schema) -> list[Any]:
    """Merge by identity: applied order for shared items, live-only items stay before what they preceded."""
    old = {element_of(item, schema): item for item in live}
    new = {element_of(item, schema): item for item in applied}
    order = list(old)
    merged: list[Any] = []
    done: set[str] = set()
    position = 0
    item_schema = schema.items or ANY
    for element, item in new.items():
        while position < len(order):
            head = order[position]
            if head in new and head not in done and (element not in old or head == element):
                break
            if head not in new:
                merged.append(old[head])
            position += 1
        merged.append(merge(old.get(element, _ABSENT), item, item_schema))
        done.add(element)
    merged += [old[head] for head in order[position:] if head not in new]
    return merged


class Difference:
    """Paths that `new` removed, changed or added."""

    def __init__(self, old: Any, new: Any, schema: Schema) -> None:
        self.removed: Paths = set()
        self.modified: Paths = set()
        self.added: Paths = set()
        self._walk(old, new, schema, ())

    def _walk(self, old: Any, new: Any, schema: Schema, path: Path) -> None:
        if old is not _ABSENT and new is not _ABSENT and old == new and type(old) is type(new):
            return
        if not schema.atomic and (old or new):
            if _is_map(old, new):
                before, after = _items(old, dict), _items(new, dict)
                for key in {**before, **after}:
                    self._walk(
                        before.get(key, _ABSENT), after.get(key, _ABSENT), schema.field(key) or ANY, (*path, f"f:{key}")
                    )
                self._mark(old, new, path, changed=False)
                return
            if schema.associative:
                earlier, later = _by_element(old, schema), _by_element(new, schema)
                for element in {**earlier, **later}:
                    self._walk(
                        earlier.get(element, _ABSENT),
                        later.get(element, _ABSENT),
                        schema.items or ANY,
                        (*path, element),
                    )
                self._mark(old, new, path, changed=False)
                return
            # A map that became something else, or the other way round: what was in it went, or came.
            for gone, came in ((old, _ABSENT), (_ABSENT, new)):
                if old is not _ABSENT and new is not _ABSENT and isinstance(gone or came, dict):
                    for key in gone or came:
                        below = (*path, f"f:{key}")
                        self._walk(_item(gone, key), _item(came, key), schema.field(key) or ANY, below)
        self._mark(old, new, path, changed=True)

    def _mark(self, old: Any, new: Any, path: Path, *, changed: bool) -> None:
        if old is _ABSENT:
            self.added.add(path)
        elif new is _ABSENT:
            self.removed.add(path)
        elif changed:
            self.modified.add(path)


def _item(value: Any, key: str) -> Any:
    return value.get(key, _ABSENT) if isinstance(value, dict) else _ABSENT


def _by_element(value: Any, schema: Schema) -> dict[str, Any]:
    return {element_of(item, schema): item for item in _items(value, list)}


def with_named_parents(paths: Paths, schema: Schema) -> Paths:
    """Add the struct fields on the way to each path: they exist for their content only."""
    result = set(paths)
    for path in paths:
        node = schema
        for depth, element in enumerate(path[:-1]):
            if element.startswith("f:") and element[2:] in node.properties:
                result.add(path[: depth + 1])
            node = child_schema(node, element)
    return result


def without(value: Any, paths: Paths, schema: Schema) -> Any:
    """Copy of `value` without the given fields and items; a map or list left empty becomes None."""
    if not paths or schema.atomic:
        return value
    whole = {path[0] for path in paths if len(path) == 1}
    below: dict[str, Paths] = {}
    for path in paths:
        if len(path) > 1:
            below.setdefault(path[0], set()).add(path[1:])
    if isinstance(value, dict):
        return {
            key: without(item, below.get(f"f:{key}", set()), schema.field(key) or ANY)
            for key, item in value.items()
            if f"f:{key}" not in whole
        } or None
    if isinstance(value, list) and schema.associative:
        kept = [(element, item) for item in value if (element := element_of(item, schema)) not in whole]
        return [without(item, below.get(element, set()), schema.items or ANY) for element, item in kept] or None
    return value


def typed_patch_error(error: TypedPatchError, namespace: str, name: str, kind: str) -> StatusError:
    """500 as the real server gives it: not transient, whatever the code suggests."""
    return StatusError(500, "", f"failed to create typed patch object ({namespace}/{name}; {kind}): {error}")
