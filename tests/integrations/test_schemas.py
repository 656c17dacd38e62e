"""Every field of the kinds that systems serve is on one of the lists: a new version shows here what it brings."""

from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest
from tests.support.api import ApiUnderTest
from tests.support.schemas import (
    MODULES,
    KindSchema,
    fields_on_no_list,
    keys_of_module,
    schemas_at_hand,
    schemas_of_module,
    schemas_of_openapi,
)
from toposcope.api.yaml_text import load
from toposcope.integrations.framework.field_uses import FILE, FieldUses
from toposcope.integrations.framework.pods import KINDS_WITH_PODS
from toposcope.integrations.registry import PLUGINS
from toposcope.integrations.unread import field_uses

BUILT_IN = {
    "api/v1": ["Pod"],
    "apis/apps/v1": ["Deployment", "ReplicaSet", "StatefulSet"],
    "apis/batch/v1": ["Job"],
}
LISTS = ("used", "irrelevant", "unread")


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_field_when_a_module_has_it_is_on_a_list(module: str) -> None:
    missing = {}
    for kind in schemas_of_module(module):
        fields = fields_on_no_list(field_uses(), kind)
        if fields:
            missing[f"{kind.api_version} {kind.kind}"] = fields
    assert missing == {}, "a new version? put these fields on a list of field_uses.yaml"


@pytest.mark.parametrize(
    "name",
    [
        "grove-podcliquesets-alpha12",
        "grove-clustertopologybindings-alpha10",
        "kai-podgroups-v0.17",
        "kai-topologies-v0.17",
        "dynamo-dynamographdeployments-v1alpha1-reduced",
        "dynamo-dynamographdeployments-v1beta1-reduced",
    ],
)
def test_field_when_a_crd_at_hand_has_it_is_on_a_list(name: str) -> None:
    (kind,) = schemas_at_hand(name)
    assert fields_on_no_list(field_uses(), kind) == []


WITH_KEYS = [module for module, pinned in MODULES.items() if "keys" in pinned]


@pytest.mark.slow
@pytest.mark.parametrize("module", WITH_KEYS)
def test_key_when_a_module_names_it_is_on_a_list(module: str) -> None:
    uses = field_uses()
    missing = []
    for key in sorted(keys_of_module(module)):
        if uses.is_key_of_systems(key) and uses.listed_key(key) is None:
            missing.append(key)
    assert missing == [], "a new version? put these keys on a list of field_uses.yaml"


@pytest.mark.real_api("the fields that it serves")
@pytest.mark.parametrize("path", BUILT_IN)
def test_field_when_the_api_server_serves_it_is_on_a_list(api: ApiUnderTest, path: str) -> None:
    answer = api.get(f"/openapi/v3/{path}")
    missing = {}
    for kind in schemas_of_openapi(answer):
        if kind.kind in BUILT_IN[path]:
            missing[kind.kind] = fields_on_no_list(field_uses(), kind)
    assert missing == {kind: [] for kind in BUILT_IN[path]}


def lists_of_systems() -> Iterator[tuple[str, Any]]:
    """The content of each field_uses.yaml, by system."""
    for plugin in PLUGINS:
        file = files(plugin.package) / FILE
        if file.is_file():
            yield plugin.name, load(file.read_bytes())


def test_field_is_on_one_list_only() -> None:
    repeated = []
    for system, content in lists_of_systems():
        for name, lists in [*content.get("types", {}).items(), ("keys", content.get("keys", {}))]:
            counts = Counter(path for each in LISTS for path in lists.get(each, ()))
            repeated += [f"{system}/{name}: {path}" for path, count in counts.items() if count > 1]
    assert repeated == []


def test_kind_is_listed_by_one_system_only() -> None:
    counts = Counter(kind for _, content in lists_of_systems() for kind in content.get("kinds", ()))
    assert [kind for kind, count in counts.items() if count > 1] == []


def test_type_of_each_part_exists() -> None:
    uses = field_uses()
    for type_ in [*uses.types, *uses.kinds.values()]:
        assert uses.of_type(type_)
    for system, content in lists_of_systems():
        for name, lists in content.get("types", {}).items():
            for part in lists.get("parts", {}).values():
                in_file = part in content["types"] or part in ("keys", "any_kind")
                assert in_file or part in uses.types, f"{system}/{name}: {part}"


def test_kind_that_a_system_reads_is_listed() -> None:
    uses = field_uses()
    unlisted = set()
    for group, kind in KINDS_WITH_PODS:
        document = {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind}
        if not uses.type_of(document):
            unlisted.add(kind if not group else f"{group}/{kind}")
    assert unlisted == set()


GANG = {
    "properties": {
        "name": {"type": "string"},
        "tiers": {"type": "array", "items": {"properties": {"size": {}, "label": {}}}},
        "pools": {"additionalProperties": {"properties": {"count": {}}}},
        "labels": {"additionalProperties": {"type": "string"}},
        "status": {"properties": {"phase": {}}},
    }
}


def test_field_of_a_schema_when_on_no_list_is_named() -> None:
    gang = {"used": ["name", "tiers[].size", "labels"], "irrelevant": ["status.**"]}
    uses = FieldUses({"x": {"kinds": {"example.com/Gang": "Gang"}, "types": {"Gang": gang}}})
    kind = KindSchema("example.com", "v1", "Gang", GANG)
    assert fields_on_no_list(uses, kind) == ["tiers[].label", "pools"]
