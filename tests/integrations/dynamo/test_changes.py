"""What may change of the topology constraints of a DynamoGraphDeployment that exists."""

from typing import Any

import pytest
from tests.integrations.clusters import CLUSTER, TWO_TOPOLOGIES
from tests.integrations.dynamo.versions import BOTH_VERSIONS, CONSTRAINT, DOMAIN, V1ALPHA1, V1BETA1, Version
from tests.support.checking import Finding, Read, error, read, warning
from tests.support.documents import text

pytestmark = pytest.mark.regression

NOT_IN_TOPOLOGY = 'does not exist in ClusterTopologyBinding "cluster"; available domains: [host rack zone]'
LEVELS = "there are: host, rack, zone"
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
NOTES = [
    "room is checked for 6 of 9 pods: KAI starts these together, and the others if there is room",
    (
        "KAI places replicas of a scaling group beyond its minAvailable separately, so not always in the zone of "
        "the others"
    ),
]


def read_change(version: Version, deployment: Any) -> Read:
    """Read what is to replace a deployment in one zone, with replicas of decode in one rack each."""
    existing = version.deployment(domain="zone", decode="rack")
    return read("Dynamo", deployment, TWO_TOPOLOGIES, before=existing)


def immutable(field: str, existing: str) -> Finding:
    """The error on a constraint that differs from that of the object in the cluster."""
    return error(
        "dynamo/immutable",
        field,
        "is immutable and cannot be added, removed, or changed after creation; "
        "delete and recreate the DynamoGraphDeployment to change topology constraints",
        fix=f"it is {existing} in the cluster",
    )


def deployment_is_immutable() -> Finding:
    return immutable(CONSTRAINT, "topology 'cluster', packDomain 'zone'")


def decode_is_immutable(version: Version) -> Finding:
    return immutable(version.decode_constraint, "packDomain 'rack'")


@BOTH_VERSIONS
def test_unchanged_constraints_are_accepted(version: Version) -> None:
    answer = read_change(version, version.deployment(domain="zone", decode="rack"))
    assert answer.findings == []
    assert answer.workload == ZONE_AND_RACKS
    assert answer.notes == NOTES


@BOTH_VERSIONS
def test_changed_domain_is_refused(version: Version) -> None:
    answer = read_change(version, version.deployment(domain="rack", decode="rack"))
    assert answer.findings == [deployment_is_immutable()]


@BOTH_VERSIONS
def test_changed_topology_is_refused(version: Version) -> None:
    answer = read_change(version, version.deployment(topology="other", domain="zone", decode="rack"))
    assert answer.findings == [deployment_is_immutable()]


@BOTH_VERSIONS
def test_removed_constraints_are_refused(version: Version) -> None:
    answer = read_change(version, version.deployment(decode=None, edits={CONSTRAINT: None}))
    assert answer.findings == [deployment_is_immutable(), decode_is_immutable(version)]


@BOTH_VERSIONS
def test_changed_domain_of_a_component_is_refused(version: Version) -> None:
    answer = read_change(version, version.deployment(domain="zone", decode="host"))
    assert answer.findings == [
        decode_is_immutable(version),
        warning(
            "dynamo/host-multinode",
            version.decode_domain,
            "'host' keeps all 2 nodes' pods of a replica of 'decode' on a single host",
            fix="use a broader level, such as the rack, for a component that spans several nodes",
        ),
    ]


@BOTH_VERSIONS
def test_removed_constraint_of_a_component_is_refused(version: Version) -> None:
    answer = read_change(version, version.deployment(domain="zone", decode=None))
    assert answer.findings == [decode_is_immutable(version)]


def test_newer_version_of_the_same_constraints_is_no_change() -> None:
    existing = V1ALPHA1.deployment(domain="zone", decode="rack")
    answer = read("Dynamo", V1BETA1.deployment(domain="zone", decode="rack"), CLUSTER, before=existing)
    assert answer.findings == []
    assert answer.workload == ZONE_AND_RACKS
    assert answer.notes == NOTES


@BOTH_VERSIONS
def test_deployment_on_a_level_that_went_may_change(version: Version) -> None:
    deployment = version.deployment(domain="shelf", decode=None)
    existing = version.deployment(domain="shelf", decode=None)
    answer = read("Dynamo", deployment, CLUSTER, before=existing)
    assert answer.findings == [warning("dynamo/domain-exists", DOMAIN, NOT_IN_TOPOLOGY, fix=LEVELS)]


@BOTH_VERSIONS
def test_unchanged_deployment_on_a_level_that_went_is_refused(version: Version) -> None:
    deployment = version.deployment(domain="shelf", decode=None)
    answer = read("Dynamo", deployment, CLUSTER, before=deployment)
    assert answer.findings == [error("dynamo/domain-exists", DOMAIN, NOT_IN_TOPOLOGY, fix=LEVELS)]
