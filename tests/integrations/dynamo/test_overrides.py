"""Dynamo's providerOverride: Grove's own constraints, which Dynamo hands on as they stand."""

from typing import Any

import pytest
from tests.integrations.clusters import CLUSTER
from tests.support.checking import Read, error, read
from tests.support.documents import Edits, document, text

pytestmark = pytest.mark.regression

LEVELS_FIRST = "room is not checked until the levels are right"
SOME_LATER = "room is checked for 6 of 9 pods: KAI starts these together, and the others if there is room"
PLACED_ALONE = (
    "KAI places replicas of a scaling group beyond its minAvailable separately, so not always in the rack of the others"
)
SET_OVERRIDE_LEVEL = "spec.providerOverride.value.spec.template.topologyConstraint"
SET_OVERRIDE = "spec.providerOverride"
PREFILL_OVERRIDE = "spec.components[1].providerOverride"
DECODE_OVERRIDE = "spec.components[2].providerOverride"
IN_ONE_RACK = text("""
    Dynamo dynamographdeployment/llm -n ml on cluster, a gang
      llm: required rack
        component frontend: 1 frontend
        component prefill: 4 prefill (nvidia.com/gpu=8)
        2 x replica of decode: 2 decode (nvidia.com/gpu=8)
      at once: llm: required rack
                 replica of decode: 2 decode (nvidia.com/gpu=8)
                 component frontend: 1 frontend
                 component prefill: 1 prefill (nvidia.com/gpu=8)
      at once: replica of decode: required rack; 2 decode (nvidia.com/gpu=8)
""")
WITHOUT_LEVELS = text("""
    Dynamo dynamographdeployment/llm -n ml, not placeable
      llm
        component frontend: 1 frontend
        component prefill: 4 prefill (nvidia.com/gpu=8)
        2 x replica of decode: 2 decode (nvidia.com/gpu=8)
""")
IN_ONE_RACK_UNCHECKED = text("""
    Dynamo dynamographdeployment/llm -n ml on cluster, a gang, not placeable
      llm: required rack
        component frontend: 1 frontend
        component prefill: 4 prefill (nvidia.com/gpu=8)
        2 x replica of decode: 2 decode (nvidia.com/gpu=8)
      at once: llm: required rack
                 replica of decode: 2 decode (nvidia.com/gpu=8)
                 component frontend: 1 frontend
                 component prefill: 1 prefill (nvidia.com/gpu=8)
      at once: replica of decode: required rack; 2 decode (nvidia.com/gpu=8)
""")


def override(pack: dict[str, str]) -> dict[str, Any]:
    """What a component or a role hands on to Grove."""
    return {"apiVersion": "grove.io/v1alpha1", "value": {"topologyConstraint": {"pack": pack}}}


def set_override(pack: dict[str, str], topology: str = "cluster", **more: Any) -> dict[str, Any]:
    """What the deployment hands on to Grove for the whole PodCliqueSet."""
    constraint = {"topologyName": topology, "pack": pack, **more}
    return {"apiVersion": "grove.io/v1alpha1", "value": {"spec": {"template": {"topologyConstraint": constraint}}}}


def read_dynamo(name: str, edits: Edits | None = None, *, before: Any = None) -> Read:
    return read("Dynamo", document(f"dynamo/{name}", edits), CLUSTER, before=before)


def test_overrides_are_a_tree() -> None:
    answer = read_dynamo(
        "v1beta1",
        {
            "spec.topologyConstraint": None,
            PREFILL_OVERRIDE: override({"required": "rack", "preferred": "host"}),
            DECODE_OVERRIDE: override({"required": "rack", "preferred": "host"}),
            "spec.components[2].roles": [
                {"name": "leader"},
                {"name": "worker", "providerOverride": override({"required": "host"})},
            ],
            SET_OVERRIDE: set_override({"required": "zone"}),
        },
    )
    assert answer.findings == []
    assert answer.workload == text("""
        Dynamo dynamographdeployment/llm -n ml on cluster, a gang
          llm: required zone
            component frontend: 1 frontend
            component prefill: required rack, preferred host; 4 prefill (nvidia.com/gpu=8)
            2 x replica of decode: required rack, preferred host; 1 decode leader (nvidia.com/gpu=8)
              worker of decode: required host; 1 decode worker (nvidia.com/gpu=8)
          at once: llm: required zone
                     replica of decode: required rack, preferred host; 1 decode leader (nvidia.com/gpu=8)
                       worker of decode: required host; 1 decode worker (nvidia.com/gpu=8)
                     component frontend: 1 frontend
                     component prefill: required rack, preferred host; 1 prefill (nvidia.com/gpu=8)
          at once: replica of decode: required rack, preferred host; 1 decode leader (nvidia.com/gpu=8)
                     worker of decode: required host; 1 decode worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == [
        SOME_LATER,
        (
            "KAI places replicas of a scaling group beyond its minAvailable separately, so not always in the zone "
            "of the others"
        ),
    ]


def test_override_on_unknown_level_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1", {"spec.topologyConstraint": None, SET_OVERRIDE: set_override({"required": "shelf"})}
    )
    assert answer.findings == [
        error(
            "dynamo/override-level",
            "spec.providerOverride.value.spec.template.topologyConstraint.pack.required",
            (
                "Grove's webhook refuses the PodCliqueSet later: topology domain 'shelf' does not exist in "
                "cluster topology [zone rack host]"
            ),
            fix="there are: host, rack, zone",
        )
    ]
    assert answer.workload == WITHOUT_LEVELS
    assert answer.notes == [LEVELS_FIRST]


def test_override_on_unknown_topology_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1",
        {"spec.topologyConstraint": None, SET_OVERRIDE: set_override({"required": "rack"}, topology="clutser")},
    )
    assert answer.findings == [
        error(
            "dynamo/override-level",
            "spec.providerOverride.value.spec.template.topologyConstraint.topologyName",
            'Grove\'s webhook refuses the PodCliqueSet later: ClusterTopologyBinding "clutser" not found',
            fix="did you mean 'cluster'?",
        )
    ]
    assert answer.workload == WITHOUT_LEVELS
    assert answer.notes == [LEVELS_FIRST]


def test_override_of_a_component_without_topology_is_refused() -> None:
    answer = read_dynamo("v1beta1", {"spec.topologyConstraint": None, PREFILL_OVERRIDE: override({"required": "rack"})})
    assert answer.findings == [
        error(
            "dynamo/override-level",
            "spec.components[1].providerOverride.value.topologyConstraint.topologyName",
            (
                "Grove's webhook refuses the PodCliqueSet later: topologyName is required when "
                "topologyConstraint is set and cannot be inherited"
            ),
            fix="set it on spec.template.topologyConstraint; there are: cluster",
        )
    ]
    assert answer.workload == text("""
        Dynamo dynamographdeployment/llm -n ml, not placeable
          llm
            component frontend: 1 frontend
            component prefill: required rack; 4 prefill (nvidia.com/gpu=8)
            2 x replica of decode: 2 decode (nvidia.com/gpu=8)
    """)
    assert answer.notes == [LEVELS_FIRST]


def test_component_broader_than_its_set_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1",
        {
            "spec.topologyConstraint": None,
            DECODE_OVERRIDE: override({"required": "zone"}),
            SET_OVERRIDE: set_override({"required": "rack"}),
        },
    )
    assert answer.findings == [
        error(
            "dynamo/override-level",
            SET_OVERRIDE_LEVEL,
            (
                "Grove's webhook refuses the PodCliqueSet later: PodCliqueSet topology constraint domain "
                "'rack' is narrower than PodCliqueScalingGroup 'decode' topology constraint domain 'zone'"
            ),
            fix=(
                "use 'zone' or something broader here, "
                "or 'rack' or something narrower on PodCliqueScalingGroup 'decode'"
            ),
        )
    ]
    assert answer.workload == text("""
        Dynamo dynamographdeployment/llm -n ml on cluster, a gang, not placeable
          llm: required rack
            component frontend: 1 frontend
            component prefill: 4 prefill (nvidia.com/gpu=8)
            2 x replica of decode: required zone; 2 decode (nvidia.com/gpu=8)
          at once: llm: required rack
                     replica of decode: required zone; 2 decode (nvidia.com/gpu=8)
                     component frontend: 1 frontend
                     component prefill: 1 prefill (nvidia.com/gpu=8)
          at once: replica of decode: required zone; 2 decode (nvidia.com/gpu=8)
    """)
    assert answer.notes == [LEVELS_FIRST]


def test_role_broader_than_its_set_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1",
        {
            "spec.topologyConstraint": None,
            "spec.components[2].roles": [
                {"name": "leader", "providerOverride": override({"required": "zone"})},
                {"name": "worker"},
            ],
            SET_OVERRIDE: set_override({"required": "rack"}),
        },
    )
    assert answer.findings == [
        error(
            "dynamo/override-level",
            SET_OVERRIDE_LEVEL,
            (
                "Grove's webhook refuses the PodCliqueSet later: PodCliqueSet topology constraint domain "
                "'rack' is narrower than PodClique 'decode-ldr' topology constraint domain 'zone'"
            ),
            fix="use 'zone' or something broader here, or 'rack' or something narrower on PodClique 'decode-ldr'",
        )
    ]
    assert answer.workload == text("""
        Dynamo dynamographdeployment/llm -n ml on cluster, a gang, not placeable
          llm: required rack
            component frontend: 1 frontend
            component prefill: 4 prefill (nvidia.com/gpu=8)
            2 x replica of decode: 1 decode worker (nvidia.com/gpu=8)
              leader of decode: required zone; 1 decode leader (nvidia.com/gpu=8)
          at once: llm: required rack
                     replica of decode: 1 decode worker (nvidia.com/gpu=8)
                       leader of decode: required zone; 1 decode leader (nvidia.com/gpu=8)
                     component frontend: 1 frontend
                     component prefill: 1 prefill (nvidia.com/gpu=8)
          at once: replica of decode: required rack; 1 decode worker (nvidia.com/gpu=8)
                     leader of decode: required zone; 1 decode leader (nvidia.com/gpu=8)
    """)
    assert answer.notes == [LEVELS_FIRST]


def test_override_of_cliques_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1",
        {
            "spec.topologyConstraint": None,
            SET_OVERRIDE: {"apiVersion": "grove.io/v1alpha1", "value": {"spec": {"template": {"cliques": []}}}},
        },
    )
    assert answer.findings == [
        error(
            "dynamo/override",
            "spec.providerOverride.value.spec.template.cliques",
            "is Dynamo-owned or not enabled for provider override",
            fix="set only topologyConstraint",
        ),
        error("dynamo/override", SET_OVERRIDE_LEVEL, "is required", fix="write an object"),
    ]
    assert answer.workload == WITHOUT_LEVELS
    assert answer.notes == [LEVELS_FIRST]


def test_override_without_template_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1",
        {"spec.topologyConstraint": None, SET_OVERRIDE: {"apiVersion": "grove.io/v1alpha1", "value": {"spec": {}}}},
    )
    assert answer.findings == [
        error("dynamo/override", "spec.providerOverride.value.spec.template", "is required", fix="write an object")
    ]
    assert answer.workload == WITHOUT_LEVELS
    assert answer.notes == [LEVELS_FIRST]


def test_override_that_is_no_object_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1", {"spec.topologyConstraint": None, SET_OVERRIDE: {"apiVersion": "grove.io/v1alpha1", "value": "rack"}}
    )
    assert answer.findings == [
        error("type", "spec.providerOverride.value", "is 'rack', expected an object", fix=""),
        error(
            "dynamo/override",
            "spec.providerOverride.value",
            "must be a JSON object",
            fix="set the part of Grove's object that it replaces",
        ),
    ]
    assert answer.workload == WITHOUT_LEVELS
    assert answer.notes == [LEVELS_FIRST]


def test_empty_override_of_a_component_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1", {"spec.topologyConstraint": None, PREFILL_OVERRIDE: {"apiVersion": "grove.io/v1alpha1", "value": {}}}
    )
    assert answer.findings == [
        error(
            "dynamo/override",
            "spec.components[1].providerOverride.value.topologyConstraint",
            "topologyConstraint, minAvailable or rollingUpdate is required",
            fix="set one of them",
        )
    ]
    assert answer.workload == WITHOUT_LEVELS
    assert answer.notes == [LEVELS_FIRST]


def test_override_for_another_target_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1",
        {
            "spec.topologyConstraint": None,
            SET_OVERRIDE: {
                "apiVersion": "grove.io/v1alpha1",
                "value": {
                    "spec": {
                        "template": {"topologyConstraint": {"topologyName": "cluster", "pack": {"required": "rack"}}}
                    }
                },
                "target": "PodClique",
            },
        },
    )
    assert answer.findings == [
        error(
            "dynamo/override",
            "spec.providerOverride.target",
            'must match the provider-context target "PodCliqueSet"',
            fix="remove it",
        )
    ]
    assert answer.workload == IN_ONE_RACK_UNCHECKED
    assert answer.notes == [LEVELS_FIRST]


def test_override_in_another_version_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1",
        {
            "spec.topologyConstraint": None,
            SET_OVERRIDE: {
                "apiVersion": "grove.io/v1",
                "value": {
                    "spec": {
                        "template": {"topologyConstraint": {"topologyName": "cluster", "pack": {"required": "rack"}}}
                    }
                },
            },
        },
    )
    assert answer.findings == [
        error(
            "dynamo/override",
            "spec.providerOverride.apiVersion",
            'Unsupported value: "grove.io/v1": supported values: "grove.io/v1alpha1"',
            fix="write grove.io/v1alpha1",
        )
    ]
    assert answer.workload == IN_ONE_RACK_UNCHECKED
    assert answer.notes == [LEVELS_FIRST]


def test_misspelt_field_of_an_override_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1", {"spec.topologyConstraint": None, SET_OVERRIDE: set_override({"required": "rack"}, pak={})}
    )
    assert answer.findings == [
        error(
            "dynamo/field",
            "spec.providerOverride.value.spec.template.topologyConstraint.pak",
            'unknown field "spec.providerOverride.value.spec.template.topologyConstraint.pak"',
            fix="did you mean 'pack'? Grove v0.1.0-alpha.12 has no such field: kubectl rejects it, Helm drops it",
        )
    ]
    assert answer.workload == IN_ONE_RACK_UNCHECKED
    assert answer.notes == [LEVELS_FIRST]


def test_override_beside_typed_constraint_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1",
        {
            PREFILL_OVERRIDE: {
                "apiVersion": "grove.io/v1alpha1",
                "value": {"topologyConstraint": {"topologyName": "cluster", "pack": {"required": "rack"}}},
            }
        },
    )
    assert answer.findings == [
        error(
            "dynamo/override-combined",
            "spec.components[1].providerOverride.value",
            (
                "cannot be combined with spec.topologyConstraint or components[].topologyConstraint; use "
                "either the typed topology API or provider-native Grove topology overrides"
            ),
            fix="keep one of the two",
        )
    ]


def test_unchanged_override_is_accepted() -> None:
    answer = read_dynamo(
        "v1beta1",
        {"spec.topologyConstraint": None, SET_OVERRIDE: set_override({"required": "rack"})},
        before=document(
            "dynamo/v1beta1", {"spec.topologyConstraint": None, SET_OVERRIDE: set_override({"required": "rack"})}
        ),
    )
    assert answer.findings == []
    assert answer.workload == IN_ONE_RACK
    assert answer.notes == [SOME_LATER, PLACED_ALONE]


def test_changed_override_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1",
        {"spec.topologyConstraint": None, SET_OVERRIDE: set_override({"required": "zone"})},
        before=document(
            "dynamo/v1beta1", {"spec.topologyConstraint": None, SET_OVERRIDE: set_override({"required": "rack"})}
        ),
    )
    assert answer.findings == [
        error(
            "dynamo/override-level",
            SET_OVERRIDE_LEVEL,
            (
                "Grove's webhook refuses the PodCliqueSet later: PodCliqueSet topology constraint cannot be "
                'changed from required="rack" preferred="" to required="zone" preferred=""'
            ),
            fix="keep the old value, or delete the PodCliqueSet and create it again",
        )
    ]


def test_override_without_grove_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1",
        {
            "metadata.annotations": {"nvidia.com/enable-grove": "false"},
            "spec.topologyConstraint": None,
            SET_OVERRIDE: set_override({"required": "rack"}),
        },
    )
    assert answer.findings == [
        error(
            "dynamo/override",
            SET_OVERRIDE,
            'requires workload provider "grove", but "component" is selected',
            fix="let Grove place the pods, or remove it",
        )
    ]
