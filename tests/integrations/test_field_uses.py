"""The lists of fields that decide about a place: what is used, irrelevant and unread."""

from typing import Any

import pytest
import yaml
from toposcope.integrations.framework.document import UnreadField
from toposcope.integrations.framework.field_uses import FieldUses
from toposcope.integrations.unread import unread_fields, unread_pods

NEW_FIELD = "Toposcope does not know this field, which may decide where pods run"
NEW_KEY = "Toposcope does not know this key, which may decide where pods run"
LISTS = yaml.load(
    """
    kinds:
      example.com/Gang: Gang
      example.com/v2/Gang: GangV2
      example.com/Wrapper: Wrapper
    plain: {swarm: Swarm}
    types:
      Swarm:
        used: [swarm.size]
      Object:
        parts: {metadata.labels: keys, metadata.annotations: keys}
        used: [apiVersion, kind, metadata.name]
      Gang:
        extends: Object
        used: [spec.replicas, "spec.sizes[].count", spec.selector]
        irrelevant: [spec.color, status.**]
        unread:
          spec.spread.**: it limits how many pods a domain takes
          spec.mode: {why: it chooses the scheduler, unless: [Default]}
          spec.policy: {why: it drops nodes, only: [Strict]}
      GangV2:
        extends: Gang
        used: [spec.mode]
      Wrapper:
        extends: Object
        parts: {"spec.wrapped[]": any_kind}
    keys:
      prefixes: [example.com]
      used: [example.com/queue]
      irrelevant: ["team.example.com/*"]
      unread: {example.com/share: the pod gets a part of a GPU}
""",
    yaml.CSafeLoader,
)


@pytest.fixture
def uses() -> FieldUses:
    return FieldUses({"made-up": LISTS})


def gang(spec: dict[str, Any], version: str = "v1", **metadata: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": f"example.com/{version}", "kind": "Gang", "metadata": {"name": "g", **metadata}, "spec": spec}


def test_document_when_all_is_listed_has_nothing_unread(uses: FieldUses) -> None:
    spec = {"replicas": 2, "sizes": [{"count": 1}], "selector": {"a": "b"}, "color": "red"}
    assert uses.unread({**gang(spec), "status": {"anything": [1]}}) == ()


def test_field_when_not_modelled_is_unread(uses: FieldUses) -> None:
    found = uses.unread(gang({"spread": {"most": 2}}))
    assert found == (UnreadField("spec.spread", "it limits how many pods a domain takes"),)


def test_field_when_on_no_list_is_unread(uses: FieldUses) -> None:
    found = uses.unread(gang({"sizes": [{"count": 1}, {"weight": 3}]}))
    assert found == (UnreadField("spec.sizes[1].weight", NEW_FIELD, is_known=False),)


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}, "Default"])
def test_field_when_not_set_is_not_unread(uses: FieldUses, value: Any) -> None:
    assert uses.unread(gang({"mode": value})) == ()


@pytest.mark.parametrize(("value", "count"), [("Strict", 1), ("Lenient", 0)])
def test_field_when_some_values_decide_is_unread_for_these(uses: FieldUses, value: str, count: int) -> None:
    assert len(uses.unread(gang({"policy": value}))) == count


def test_kind_when_versions_differ_has_lists_of_its_version(uses: FieldUses) -> None:
    assert uses.unread(gang({"mode": "Other"}, "v1")) == (UnreadField("spec.mode", "it chooses the scheduler"),)
    assert uses.unread(gang({"mode": "Other"}, "v2")) == ()


def test_kind_when_on_no_list_is_unread(uses: FieldUses) -> None:
    why = "Toposcope has no list of the fields of this kind"
    assert uses.unread({"apiVersion": "v1", "kind": "Pod"}) == (UnreadField("kind", why, is_known=False),)


def test_document_without_a_kind_is_told_by_a_field(uses: FieldUses) -> None:
    assert uses.unread({"swarm": {"size": 1, "queen": "x"}}) == (UnreadField("swarm.queen", NEW_FIELD, is_known=False),)
    assert [unread.field for unread in uses.unread({"hive": {}})] == ["kind"]


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("example.com/queue", ""),
        ("example.com/share", "the pod gets a part of a GPU"),
        ("example.com/new", NEW_KEY),
        ("beta.example.com/new", NEW_KEY),
        ("team.example.com/new", ""),
    ],
)
def test_key_of_a_system_when_not_read_is_unread(uses: FieldUses, key: str, why: str) -> None:
    found = uses.unread(gang({}, annotations={key: "1"}))
    assert [unread.why for unread in found] == ([why] if why else [])


def test_key_of_others_is_never_unread(uses: FieldUses) -> None:
    assert uses.unread(gang({}, labels={"app": "x", "notexample.com/queue": "y"})) == ()


def test_object_in_a_field_is_read_by_its_own_kind(uses: FieldUses) -> None:
    pods = {"containers": [{"image": "x"}]}
    unheard = {"apiVersion": "a/v1", "kind": "Unheard", "spec": pods}
    wrapped = [gang({"spread": 1}), unheard, {"apiVersion": "v1", "kind": "Service"}]
    document = {"apiVersion": "example.com/v1", "kind": "Wrapper", "spec": {"wrapped": wrapped}}
    assert uses.unread(document) == (
        UnreadField("spec.wrapped[0].spec.spread", "it limits how many pods a domain takes"),
        UnreadField("spec.wrapped[1].spec", "Toposcope does not read the pods of this kind", is_known=False),
    )


@pytest.mark.parametrize("spec", [None, 7, [], {"sizes": 3, "spread": []}, {"sizes": {"count": 1}}])
def test_malformed_document_is_left_to_its_reader(uses: FieldUses, spec: Any) -> None:
    assert [unread.is_known for unread in uses.unread(gang(spec)) if unread.is_known] == []


def dynamo_component(**checkpoint: object) -> dict[str, object]:
    """A DynamoGraphDeployment of one component with a checkpoint."""
    component = {"name": "decode", "type": "worker", "experimental": {"checkpoint": checkpoint}}
    return {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": "g", "namespace": "ml"},
        "spec": {"components": [component]},
    }


@pytest.mark.regression
def test_checkpoint_of_dynamo_counts_where_it_is_enabled_alone() -> None:
    enabled = unread_fields(dynamo_component(enabled=True, startupPolicy="WaitForCheckpoint"))
    assert [unread.field for unread in enabled] == ["spec.components[0].experimental.checkpoint.enabled"]
    assert unread_fields(dynamo_component(enabled=False, startupPolicy="Immediate")) == ()


@pytest.mark.regression
@pytest.mark.parametrize("kind", ["DynamoGraphDeploymentRequest", "LPXGraphDeployment", "DynamoCheckpoint"])
def test_kind_from_which_dynamo_makes_pods_has_no_verdict(kind: str) -> None:
    document = {"apiVersion": "nvidia.com/v1beta1", "kind": kind, "metadata": {"name": "r"}, "spec": {}}
    assert [unread.field for unread in unread_pods(document)] == ["kind"]
