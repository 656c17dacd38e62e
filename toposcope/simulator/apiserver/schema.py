"""Structural schemas: what a field is, how lists merge, defaults, pruning and validation.

Rules and messages: the structural schema and list-type rules of apiextensions-apiserver and
kube-openapi's validator. CEL (`x-kubernetes-validations`) is not evaluated.
"""

from __future__ import annotations

import copy
import functools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toposcope.simulator.apiserver.errors import Cause, required, shown, wrong, wrong_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
CONTAINERS = (dict, list)


@dataclass(frozen=True, slots=True)
class Schema:
    """One node of a structural schema; `rules` holds the OpenAPI keywords that only validation reads."""

    type: str = ""
    properties: Mapping[str, Schema] = field(default_factory=dict)
    values: Schema | None = None  # additionalProperties
    items: Schema | None = None
    preserve: bool = False
    atomic: bool = False
    list_type: str = "atomic"
    list_keys: tuple[str, ...] = ()
    rules: Mapping[str, Any] = field(default_factory=dict)
    defaults: bool = False  # whether a field somewhere below has one

    def field(self, key: str) -> Schema | None:
        """Schema of a map's entry, None when the schema does not know it."""
        return self.properties.get(key) or self.values or (ANY if self.preserve else None)

    @property
    def associative(self) -> bool:
        """Whether the items of this list have an identity of their own."""
        return self.list_type in ("map", "set")


# What no schema describes: maps merge key by key, lists are replaced.
ANY = Schema(preserve=True)


def compile_schema(spec: Mapping[str, Any]) -> Schema:
    """Turn an OpenAPI v3 schema (as in a CRD) into a `Schema`."""
    extra = spec.get("additionalProperties")
    int_or_string = bool(spec.get("x-kubernetes-int-or-string"))
    properties = {name: compile_schema(child) for name, child in spec.get("properties", {}).items()}
    values = compile_schema(extra) if isinstance(extra, dict) else (ANY if extra is True else None)
    items = compile_schema(spec["items"]) if "items" in spec else None
    below = [child for child in (*properties.values(), values, items) if child is not None]
    return Schema(
        type="" if int_or_string else spec.get("type", ""),
        properties=properties,
        values=values,
        items=items,
        preserve=bool(spec.get("x-kubernetes-preserve-unknown-fields")),
        atomic=spec.get("x-kubernetes-map-type") == "atomic",
        list_type=spec.get("x-kubernetes-list-type", "atomic"),
        list_keys=tuple(spec.get("x-kubernetes-list-map-keys", ())),
        rules=spec,
        defaults=any("default" in child.rules or child.defaults for child in below),
    )


def prune(value: Any, schema: Schema, path: str = "") -> list[str]:
    """Drop fields that the schema does not know, in place; return their paths."""
    dropped: list[str] = []
    if isinstance(value, dict):
        for key in list(value):
            child = schema.field(key)
            if child is None:
                del value[key]
                dropped.append(join(path, key))
            elif child is not ANY and isinstance(value[key], CONTAINERS):
                dropped += prune(value[key], child, join(path, key))
    elif isinstance(value, list) and schema.items is not None:
        for index, item in enumerate(value):
            dropped += prune(item, schema.items, f"{path}[{index}]")
    return dropped


def fill_defaults(value: Any, schema: Schema) -> None:
    """Write defaults into maps, in place, also over a null where none is allowed."""
    if not schema.defaults:
        return
    if isinstance(value, dict):
        for name, child in schema.properties.items():
            missing = name not in value or (value[name] is None and not child.rules.get("nullable"))
            if missing and "default" in child.rules:
                value[name] = copy.deepcopy(child.rules["default"])
        for key, item in value.items():
            fill_defaults(item, schema.field(key) or ANY)
    elif isinstance(value, list) and schema.items is not None:
        for item in value:
            fill_defaults(item, schema.items)


def drop_nulls(value: Any, schema: Schema) -> None:
    """Drop nulls that are not allowed and that no default replaces, in place: what decoding a request does."""
    if isinstance(value, dict):
        for key in list(value):
            child = schema.field(key) or ANY
            if (
                value[key] is None
                and child is not ANY
                and not child.rules.get("nullable")
                and "default" not in child.rules
            ):
                del value[key]
            elif child is not ANY:
                drop_nulls(value[key], child)
    elif isinstance(value, list) and schema.items is not None:
        for item in value:
            drop_nulls(item, schema.items)


def validate(value: Any, schema: Schema, path: str = "") -> Iterator[Cause]:
    """Yield what is wrong with `value`; `path` names it in messages (`spec.levels[0].key`)."""
    rules = schema.rules
    if value is None and (rules.get("nullable") or schema is ANY):
        return
    mismatch = _type_mismatch(value, rules)
    if mismatch:
        yield wrong_type(path, _go_type(value), f"{path} in body must be of type {mismatch}")
        return
    if "enum" in rules and value not in rules["enum"]:
        listed = ", ".join(shown(choice) for choice in rules["enum"])
        yield Cause("FieldValueNotSupported", path, f"Unsupported value: {shown(value)}: supported values: {listed}")
    if isinstance(value, str):
        yield from _validate_string(value, rules, path)
    elif isinstance(value, list):
        yield from _validate_list(value, schema, path)
    elif isinstance(value, dict):
        yield from _validate_map(value, schema, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _validate_number(value, rules, path)
    for keyword, met in _BRANCHING.items() if not _BRANCHING.keys().isdisjoint(rules) else ():
        branches = rules.get(keyword, ())
        if branches and not met(not list(validate(value, compile_schema(branch), path)) for branch in branches):
            yield wrong(path, value, f"{path} in body must validate {_BRANCHES[keyword]} ({keyword})")


_BRANCHES = {"allOf": "all the schemas", "anyOf": "at least one schema", "oneOf": "one and only one schema"}


def _exactly_one(outcomes: Iterable[bool]) -> bool:
    return sum(outcomes) == 1


_BRANCHING: dict[str, Callable[[Iterable[bool]], bool]] = {"allOf": all, "anyOf": any, "oneOf": _exactly_one}


def _type_mismatch(value: Any, rules: Mapping[str, Any]) -> str:
    if rules.get("x-kubernetes-int-or-string"):
        fits = isinstance(value, int | str) and not isinstance(value, bool)
        return "" if fits else f'integer,string: "{_go_type(value)}"'
    name: str = rules.get("type", "")
    if not name:
        return ""
    fits = isinstance(value, _PYTHON_TYPES[name]) and (name == "boolean" or not isinstance(value, bool))
    return "" if fits else f'{name}: "{_go_type(value)}"'


def _counted(limit: int) -> str:
    return f"{limit} item" if limit == 1 else f"{limit} items"


def _go_type(value: Any) -> str:
    if value is None:
        return "null"
    return next(name for name, types in _PYTHON_TYPES.items() if isinstance(value, types))


def _validate_string(value: str, rules: Mapping[str, Any], path: str) -> Iterator[Cause]:
    if len(value) > rules.get("maxLength", len(value)):
        yield Cause("FieldValueTooLong", path, f"Too long: may not be more than {rules['maxLength']} bytes")
    if len(value) < rules.get("minLength", 0):
        yield wrong(path, value, f"{path} in body should be at least {rules['minLength']} chars long")
    if "pattern" in rules and not _pattern(rules["pattern"]).search(value):
        yield wrong(path, value, f"{path} in body should match '{rules['pattern']}'")


@functools.cache
def _pattern(pattern: str) -> re.Pattern[str]:
    """The pattern as Go means it: Python's `$` also accepts a final newline."""
    return re.compile(re.sub(r"\$$", r"\\Z", pattern))


def _validate_number(value: float, rules: Mapping[str, Any], path: str) -> Iterator[Cause]:
    if value > rules.get("maximum", value):
        yield wrong(path, value, f"{path} in body should be less than or equal to {rules['maximum']}")
    if value < rules.get("minimum", value):
        yield wrong(path, value, f"{path} in body should be greater than or equal to {rules['minimum']}")


def _validate_list(value: list[Any], schema: Schema, path: str) -> Iterator[Cause]:
    rules = schema.rules
    if len(value) > rules.get("maxItems", len(value)):
        yield Cause(
            "FieldValueTooMany", path, f"Too many: {len(value)}: must have at most {_counted(rules['maxItems'])}"
        )
    if len(value) < rules.get("minItems", 0):
        yield wrong(path, len(value), f"{path} in body should have at least {rules['minItems']} items")
    for index, item in enumerate(value):
        yield from validate(item, schema.items or ANY, f"{path}[{index}]")
    if schema.associative:
        seen: list[Any] = []
        for index, item in enumerate(value):
            same = {key: item.get(key) for key in schema.list_keys} if isinstance(item, dict) else item
            if same in seen:
                yield Cause("FieldValueDuplicate", f"{path}[{index}]", f"Duplicate value: {shown(same)}")
            seen.append(same)


def _validate_map(value: dict[str, Any], schema: Schema, path: str) -> Iterator[Cause]:
    rules = schema.rules
    for name in rules.get("required", ()):
        if name not in value:
            yield required(join(path, name))
    if len(value) > rules.get("maxProperties", len(value)):
        limit = _counted(rules["maxProperties"])
        yield Cause("FieldValueTooMany", path, f"Too many: {len(value)}: must have at most {limit}")
    if len(value) < rules.get("minProperties", 0):
        yield wrong(path, value, f"{path} in body should have at least {rules['minProperties']} properties")
    for key, item in value.items():
        child = schema.field(key)
        if child is not None and child is not ANY:
            yield from validate(item, child, join(path, key))


def join(path: str, key: str) -> str:
    """`spec` + `levels` -> `spec.levels`."""
    return f"{path}.{key}" if path else key
