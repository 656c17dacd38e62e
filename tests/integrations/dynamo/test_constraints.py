"""Dynamo's topology constraints, of the deployment and of its components, in both versions of the API."""

from typing import Any

import pytest
from tests.integrations.clusters import CLUSTER
from tests.integrations.dynamo.versions import BOTH_VERSIONS, CONSTRAINT, DOMAIN, V1ALPHA1, V1BETA1, Version
from tests.support.checking import Finding, Read, error, read, warning
from tests.support.documents import text

pytestmark = pytest.mark.regression

ENABLE_GROVE = "metadata.annotations[nvidia.com/enable-grove]"
LEVELS_FIRST = "room is not checked until the levels are right"
SOME_LATER = "room is checked for 6 of 9 pods: KAI starts these together, and the others if there is room"
PLACED_ALONE = (
    "KAI places replicas of a scaling group beyond its minAvailable separately, so not always in the {} of the others"
)
PATTERN = f"{DOMAIN} in body should match '^[a-z0-9]([a-z0-9-]*[a-z0-9])?$'"
NOT_FOUND = "references a ClusterTopologyBinding resource that was not found"
ZONE_AND_RACKS = text("""
    Dynamo dynamographdeployment/llm -n ml on cluster, a gang
      llm: required zone
        component frontend: 1 frontend
        component prefill: 4 prefill (nvidia.com/gpu=8)
        2 x replica of decode: required rack; 2 decode (nvidia.com/gpu=8)
      at once: llm: required zone
                 replica of decode: required rack; 2 decode (nvidia.com/gpu=8)
                 component frontend: 1 frontend
                 component prefill: 1 prefill (nvidia.com/gpu=8)
      at once: replica of decode: required rack; 2 decode (nvidia.com/gpu=8)
""")
NO_LEVELS = text("""
    Dynamo dynamographdeployment/llm -n ml
      llm
        component frontend: 1 frontend
        component prefill: 4 prefill (nvidia.com/gpu=8)
        2 x replica of decode: 2 decode (nvidia.com/gpu=8)
""")
LEVELS_NOT_KNOWN = text("""
    Dynamo dynamographdeployment/llm -n ml, not placeable
      llm
        component frontend: 1 frontend
        component prefill: 4 prefill (nvidia.com/gpu=8)
        2 x replica of decode: 2 decode (nvidia.com/gpu=8)
""")
LEVEL_OF_DECODE_ALONE = text("""
    Dynamo dynamographdeployment/llm -n ml on cluster, a gang, not placeable
      llm
        component frontend: 1 frontend
        component prefill: 4 prefill (nvidia.com/gpu=8)
        2 x replica of decode: required host; 2 decode (nvidia.com/gpu=8)
      at once: llm
                 replica of decode: required host; 2 decode (nvidia.com/gpu=8)
                 component frontend: 1 frontend
                 component prefill: 1 prefill (nvidia.com/gpu=8)
      at once: replica of decode: required host; 2 decode (nvidia.com/gpu=8)
""")


def read_dynamo(deployment: Any) -> Read:
    return read("Dynamo", deployment, CLUSTER)


def on_one_host(field: str) -> Finding:
    """The warning that a replica of decode, on two nodes, is to be on one host."""
    return warning(
        "dynamo/host-multinode",
        field,
        "'host' keeps all 2 nodes' pods of a replica of 'decode' on a single host",
        fix="use a broader level, such as the rack, for a component that spans several nodes",
    )


@BOTH_VERSIONS
def test_deployment_in_a_zone_has_components_in_racks(version: Version) -> None:
    answer = read_dynamo(version.deployment(domain="zone", decode="rack"))
    assert answer.findings == []
    assert answer.workload == ZONE_AND_RACKS
    assert answer.notes == [SOME_LATER, PLACED_ALONE.format("zone")]


@BOTH_VERSIONS
def test_deployment_alone_keeps_all_in_its_rack(version: Version) -> None:
    answer = read_dynamo(version.deployment(domain="rack", decode=None))
    assert answer.findings == []
    assert answer.workload == text("""
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
    assert answer.notes == [SOME_LATER, PLACED_ALONE.format("rack")]


@BOTH_VERSIONS
def test_component_alone_keeps_its_replicas_in_racks(version: Version) -> None:
    answer = read_dynamo(version.deployment(domain=None, decode="rack"))
    assert answer.findings == []
    assert answer.workload == text("""
        Dynamo dynamographdeployment/llm -n ml on cluster, a gang
          llm
            component frontend: 1 frontend
            component prefill: 4 prefill (nvidia.com/gpu=8)
            2 x replica of decode: required rack; 2 decode (nvidia.com/gpu=8)
          at once: llm
                     replica of decode: required rack; 2 decode (nvidia.com/gpu=8)
                     component frontend: 1 frontend
                     component prefill: 1 prefill (nvidia.com/gpu=8)
          at once: replica of decode: required rack; 2 decode (nvidia.com/gpu=8)
    """)
    assert answer.notes == [SOME_LATER]


@BOTH_VERSIONS
def test_deployment_without_constraints_is_no_gang(version: Version) -> None:
    answer = read_dynamo(version.deployment(decode=None, edits={CONSTRAINT: None}))
    assert answer.findings == []
    assert answer.workload == NO_LEVELS
    assert answer.notes == []


@BOTH_VERSIONS
def test_component_may_have_the_level_of_its_deployment(version: Version) -> None:
    answer = read_dynamo(version.deployment(domain="rack", decode="rack"))
    assert answer.findings == []
    assert answer.workload == text("""
        Dynamo dynamographdeployment/llm -n ml on cluster, a gang
          llm: required rack
            component frontend: 1 frontend
            component prefill: 4 prefill (nvidia.com/gpu=8)
            2 x replica of decode: required rack; 2 decode (nvidia.com/gpu=8)
          at once: llm: required rack
                     replica of decode: required rack; 2 decode (nvidia.com/gpu=8)
                     component frontend: 1 frontend
                     component prefill: 1 prefill (nvidia.com/gpu=8)
          at once: replica of decode: required rack; 2 decode (nvidia.com/gpu=8)
    """)
    assert answer.notes == [SOME_LATER, PLACED_ALONE.format("rack")]


@BOTH_VERSIONS
def test_unknown_topology_is_refused(version: Version) -> None:
    answer = read_dynamo(version.deployment(topology="clutser", domain="rack", decode="host"))
    assert answer.findings == [
        error("dynamo/topology-exists", version.topology, NOT_FOUND, fix="did you mean 'cluster'?")
    ]
    assert answer.workload == LEVELS_NOT_KNOWN
    assert answer.notes == [LEVELS_FIRST]


@BOTH_VERSIONS
def test_unknown_domain_is_refused(version: Version) -> None:
    answer = read_dynamo(version.deployment(domain="rak", decode="host"))
    assert answer.findings == [
        error(
            "dynamo/domain-exists",
            DOMAIN,
            'does not exist in ClusterTopologyBinding "cluster"; available domains: [host rack zone]',
            fix="did you mean 'rack'?",
        ),
        on_one_host(version.decode_domain),
    ]
    assert answer.workload == LEVEL_OF_DECODE_ALONE
    assert answer.notes == [LEVELS_FIRST]


@BOTH_VERSIONS
@pytest.mark.parametrize(
    ("domain", "fix"),
    [
        pytest.param("example.com/rack", "Dynamo requires the domain here: write 'rack'", id="label-key"),
        pytest.param("Rack", "did you mean 'rack'?", id="capitals"),
        pytest.param("rack-", "did you mean 'rack'?", id="dash-at-the-end"),
        pytest.param("", "there are: host, rack, zone", id="empty"),
    ],
)
def test_malformed_domain_is_refused(version: Version, domain: str, fix: str) -> None:
    answer = read_dynamo(version.deployment(domain=domain, decode="host"))
    assert answer.findings == [
        error("dynamo/domain-pattern", DOMAIN, PATTERN, fix=fix),
        on_one_host(version.decode_domain),
    ]
    assert answer.workload == LEVEL_OF_DECODE_ALONE
    assert answer.notes == [LEVELS_FIRST]


@BOTH_VERSIONS
def test_constraint_without_topology_is_refused(version: Version) -> None:
    answer = read_dynamo(version.deployment(topology=None, domain="rack", decode="host"))
    assert answer.findings == [
        error("dynamo/topology-name", version.topology, "Required value", fix="there are: cluster")
    ]
    assert answer.workload == LEVELS_NOT_KNOWN
    assert answer.notes == [LEVELS_FIRST]


@BOTH_VERSIONS
def test_empty_topology_name_is_refused(version: Version) -> None:
    answer = read_dynamo(version.deployment(topology="", domain="rack", decode=None))
    assert answer.findings == [
        error(
            "dynamo/topology-name",
            version.topology,
            f"{version.topology} in body should be at least 1 chars long",
            fix="there are: cluster",
        )
    ]


@BOTH_VERSIONS
def test_constraint_without_any_domain_is_refused(version: Version) -> None:
    answer = read_dynamo(version.deployment(domain=None, decode=None))
    assert answer.findings == [
        error(
            "dynamo/some-domain",
            DOMAIN,
            "is required when no component topologyConstraint is set",
            fix="name a level here or on a component",
        )
    ]


@BOTH_VERSIONS
def test_component_broader_than_its_deployment_is_refused(version: Version) -> None:
    answer = read_dynamo(version.deployment(domain="rack", decode="zone"))
    assert answer.findings == [
        error(
            "dynamo/hierarchy",
            version.decode_domain,
            'must be equal to or narrower than the deployment-level domain "rack"',
            fix="use 'rack' or something narrower here, or something broader on the deployment",
        )
    ]


@BOTH_VERSIONS
def test_unknown_domain_of_a_component_is_refused(version: Version) -> None:
    answer = read_dynamo(version.deployment(domain="zone", decode="spine"))
    assert answer.findings == [
        error(
            "dynamo/domain-exists",
            version.decode_domain,
            'does not exist in ClusterTopology "cluster"; available domains: [host rack zone]',
            fix="there are: host, rack, zone",
        )
    ]


@pytest.mark.parametrize(
    ("version", "other"),
    [pytest.param(V1ALPHA1, V1BETA1, id="v1alpha1"), pytest.param(V1BETA1, V1ALPHA1, id="v1beta1")],
)
def test_topology_name_of_the_other_version_is_recognised(version: Version, other: Version) -> None:
    constraint = {other.topology_name: "cluster", "packDomain": "rack"}
    answer = read_dynamo(version.deployment(decode=None, edits={CONSTRAINT: constraint}))
    assert answer.findings == [
        error(
            "dynamo/topology-name",
            version.topology,
            "Required value",
            fix=f"in this version, '{other.topology_name}' is named '{version.topology_name}'",
        )
    ]


@BOTH_VERSIONS
def test_component_needs_the_topology_of_its_deployment(version: Version) -> None:
    answer = read_dynamo(version.deployment(decode="rack", edits={CONSTRAINT: None}))
    assert answer.findings == [
        error(
            "dynamo/topology-constraint",
            CONSTRAINT,
            "is required when any component topology constraint is set",
            fix=f"set the topology in {version.topology}; there are: cluster",
        )
    ]


def test_component_without_domain_is_refused_by_v1alpha1() -> None:
    answer = read_dynamo(V1ALPHA1.deployment(edits={V1ALPHA1.decode_constraint: {}}))
    assert answer.findings == [
        error(
            "dynamo/component-domain",
            V1ALPHA1.decode_domain,
            "Required value",
            fix="name a level, or remove topologyConstraint",
        )
    ]


def test_component_without_domain_is_refused_by_v1beta1() -> None:
    answer = read_dynamo(V1BETA1.deployment(edits={V1BETA1.decode_constraint: {}}))
    assert answer.findings == [
        error(
            "dynamo/domain-exists",
            V1BETA1.decode_domain,
            'does not exist in ClusterTopology "cluster"; available domains: [host rack zone]',
            fix="there are: host, rack, zone",
        )
    ]


@BOTH_VERSIONS
def test_component_of_two_nodes_on_one_host_is_warned_of(version: Version) -> None:
    answer = read_dynamo(version.deployment(domain=None, decode="host"))
    assert answer.findings == [on_one_host(version.decode_domain)]


@BOTH_VERSIONS
def test_deployment_with_a_component_of_two_nodes_on_one_host_is_warned_of(version: Version) -> None:
    answer = read_dynamo(version.deployment(domain="host", decode=None))
    assert answer.findings == [on_one_host(DOMAIN)]


@BOTH_VERSIONS
def test_component_of_one_node_may_be_on_one_host(version: Version) -> None:
    prefill = {f"{version.prefill}.topologyConstraint": {"packDomain": "host"}}
    answer = read_dynamo(version.deployment(domain=None, decode=None, edits=prefill))
    assert answer.findings == []
    assert answer.workload == text("""
        Dynamo dynamographdeployment/llm -n ml on cluster, a gang
          llm
            component frontend: 1 frontend
            component prefill: required host; 4 prefill (nvidia.com/gpu=8)
            2 x replica of decode: 2 decode (nvidia.com/gpu=8)
          at once: llm
                     replica of decode: 2 decode (nvidia.com/gpu=8)
                     component frontend: 1 frontend
                     component prefill: required host; 1 prefill (nvidia.com/gpu=8)
          at once: replica of decode: 2 decode (nvidia.com/gpu=8)
    """)
    assert answer.notes == [SOME_LATER]


@BOTH_VERSIONS
def test_constraints_without_grove_are_neither_checked_nor_kept(version: Version) -> None:
    without_grove = {"metadata.annotations": {"nvidia.com/enable-grove": "False"}}
    answer = read_dynamo(version.deployment(topology="unheard-of", domain="rack", decode="zone", edits=without_grove))
    assert answer.findings == [
        warning(
            "dynamo/grove-pathway",
            ENABLE_GROVE,
            "with nvidia.com/enable-grove: 'false' topology constraints are neither checked nor applied",
            fix="remove the annotation, or the constraints",
        )
    ]
    assert answer.workload == NO_LEVELS
    assert answer.notes == []


@BOTH_VERSIONS
def test_constraints_with_grove_enabled_are_checked(version: Version) -> None:
    with_grove = {"metadata.annotations": {"nvidia.com/enable-grove": "true"}}
    answer = read_dynamo(version.deployment(topology="unheard-of", domain="rack", decode="zone", edits=with_grove))
    assert answer.findings == [error("dynamo/topology-exists", version.topology, NOT_FOUND, fix="there are: cluster")]
    assert answer.workload == LEVELS_NOT_KNOWN
    assert answer.notes == [LEVELS_FIRST]


@pytest.mark.parametrize(
    ("version", "field", "value"),
    [
        pytest.param(V1ALPHA1, "topologyProfile", "cluster", id="v1alpha1"),
        pytest.param(V1BETA1, "level", "rack", id="v1beta1"),
    ],
)
def test_unknown_field_of_a_component_constraint_is_refused(version: Version, field: str, value: str) -> None:
    place = f"{version.decode_constraint}.{field}"
    answer = read_dynamo(version.deployment(edits={place: value}))
    assert answer.findings == [
        error(
            "dynamo/field",
            place,
            f'unknown field "{place}"',
            fix="Dynamo (main, 2026-08) has no such field: kubectl rejects it, Helm drops it",
        )
    ]
