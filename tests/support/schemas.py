"""Schemas of other projects' kinds, and the fields in them that no `field_uses.yaml` has.

tests/fixtures/schemas.yaml says which files of which Go modules have them. A file is a CRD, or one of Kubernetes' own
descriptions of its API. The modules are downloaded once.
"""

import functools
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from tests.support.paths import FIXTURES
from tests.support.upstream_crds import upstream_crd
from tools.apiserver.build import usable_go
from toposcope.integrations.framework.field_uses import ANY_KIND, EACH, ITEM, KEYS, FieldUses, Known, entry_of

Schema = dict[str, Any]
MODULES: dict[str, Any] = yaml.load((FIXTURES / "schemas.yaml").read_bytes(), yaml.CSafeLoader)
"""Module and version to its checksum, and the files with schemas."""
_REFERENCE = "#/components/schemas/"
_KEY = re.compile(r'"((?:[a-z0-9-]+\.)+[a-z0-9-]+/(?!v\d)[A-Za-z0-9][A-Za-z0-9._-]*)"')
"""A key in Go; a version of an API is none."""
_GVK = "x-kubernetes-group-version-kind"


@dataclass(frozen=True)
class KindSchema:
    """The schema of one version of a kind."""

    group: str
    version: str
    kind: str
    schema: Schema
    components: dict[str, Schema] = field(default_factory=dict, repr=False)
    """The schemas that it refers to, by name."""

    @property
    def api_version(self) -> str:
        """As objects have it."""
        return f"{self.group}/{self.version}" if self.group else self.version


def schemas_of_module(module: str) -> list[KindSchema]:
    """The schemas in the files of a Go module; raises BuildError without Go of that version."""
    pinned = MODULES[module]
    folder = _download(module, pinned["sum"])
    schemas: list[KindSchema] = []
    for file in pinned["files"]:
        schemas += _schemas_of_file(folder / file)
    kinds = pinned.get("kinds")
    return [schema for schema in schemas if kinds is None or schema.kind in kinds]


def keys_of_module(module: str) -> set[str]:
    """The labels and annotations that the sources of a Go module name; raises BuildError like the above."""
    pinned = MODULES[module]
    folder = _download(module, pinned["sum"])
    keys: set[str] = set()
    for name in pinned.get("keys", ()):
        for file in (folder / name).rglob("*.go"):
            if not file.name.endswith("_test.go"):
                keys.update(_KEY.findall(file.read_text(encoding="utf-8")))
    return keys - set(pinned.get("other names", ()))


@functools.cache
def _download(module: str, checksum: str) -> Path:
    command = [usable_go(), "mod", "download", "-json", module]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    answer = json.loads(process.stdout)
    assert answer.get("Sum") == checksum, answer
    return Path(answer["Dir"])


def _schemas_of_file(file: Path) -> Iterator[KindSchema]:
    if file.suffix == ".json":
        yield from schemas_of_openapi(json.loads(file.read_bytes()))
        return
    for document in yaml.load_all(file.read_bytes(), yaml.CSafeLoader):
        if document and document.get("kind") == "CustomResourceDefinition":
            yield from _schemas_of_crd(document)


def _schemas_of_crd(crd: dict[str, Any]) -> Iterator[KindSchema]:
    spec = crd["spec"]
    for version in spec["versions"]:
        if version["served"]:
            schema = version["schema"]["openAPIV3Schema"]
            yield KindSchema(spec["group"], version["name"], spec["names"]["kind"], schema)


def schemas_at_hand(name: str) -> list[KindSchema]:
    """The schemas of a CRD that is no part of a module: what its project publishes, else what tests rely on of it."""
    return list(_schemas_of_crd(upstream_crd(name)))


def schemas_of_openapi(answer: dict[str, Any]) -> Iterator[KindSchema]:
    """The kinds in what a kube-apiserver answers below /openapi/v3."""
    components = answer["components"]["schemas"]
    for schema in components.values():
        is_object = "metadata" in schema.get("properties", {})
        kinds = schema.get(_GVK, ())
        if not is_object or len(kinds) != 1 or kinds[0]["kind"].endswith("List"):
            continue
        yield KindSchema(kinds[0]["group"], kinds[0]["version"], kinds[0]["kind"], schema, components)


def fields_on_no_list(uses: FieldUses, kind: KindSchema) -> list[str]:
    """The paths of a kind's fields that no list has; `any` where no list has the kind."""
    type_ = uses.type_of({"apiVersion": kind.api_version, "kind": kind.kind})
    if not type_:
        return ["any"]
    walk = _Walk(uses, kind.components)
    walk.below(kind.schema, uses.of_type(type_), "", is_covered=False)
    return walk.missing


@dataclass
class _Walk:
    uses: FieldUses
    components: dict[str, Schema]
    missing: list[str] = field(default_factory=list)
    _visited: set[tuple[int, tuple[int, ...]]] = field(default_factory=set)

    def visit(self, schema: Schema, entries: Known, path: str, *, is_covered: bool) -> None:
        """One field."""
        schema = self._resolved(schema)
        if not entries:
            if not is_covered:
                self.missing.append(path)
            return
        entry = entry_of(entries)
        if entry is not None:
            is_covered = is_covered or entry.has_all_below
        if {KEYS, ANY_KIND} & {each.type for each in entries}:
            return
        has_below = self.below(schema, entries, path, is_covered=is_covered)
        has_type = any(each.type for each in entries)  # that of an object of which the schema says no more
        if not has_below and not has_type and entry is None and not is_covered:
            self.missing.append(path)

    def below(self, schema: Schema, entries: Known, path: str, *, is_covered: bool) -> bool:
        """What is below a field; whether there is anything that has fields of its own."""
        key = (id(schema), tuple(map(id, entries)))
        if key in self._visited:
            return True
        self._visited.add(key)
        properties = schema.get("properties", {})
        for name, value in properties.items():
            child = self.uses.child(entries, name)
            self.visit(value, child, f"{path}.{name}".lstrip("."), is_covered=is_covered)
        has_below = bool(properties)
        for step, keyword in ((ITEM, "items"), (EACH, "additionalProperties")):
            each = schema.get(keyword)
            if isinstance(each, dict) and self._has_fields(each):
                child = self.uses.child(entries, step)
                self.visit(each, child, f"{path}{step}" if step == ITEM else f"{path}.{step}", is_covered=is_covered)
                has_below = True
        return has_below

    def _has_fields(self, schema: Schema) -> bool:
        schema = self._resolved(schema)
        if schema.get("properties"):
            return True
        inner = schema.get("items") or schema.get("additionalProperties")
        return isinstance(inner, dict) and self._has_fields(inner)

    def _resolved(self, schema: Schema) -> Schema:
        """The schema, or the one that it refers to."""
        reference = schema.get("$ref")
        for part in schema.get("allOf", ()):
            reference = reference or part.get("$ref")
        if reference is None:
            return schema
        return self.components[reference.removeprefix(_REFERENCE)]
