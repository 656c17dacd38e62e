"""Dynamo's policy for the transfer of KV caches: each rule kept and broken."""

from typing import Any

import pytest

from toposcope.integrations.dynamo.workload import SYSTEM as DYNAMO
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.system import ClusterFacts, Reading
from toposcope.topology.levels import Level

ZONE, RACK = Level("zone", "topology.kubernetes.io/zone"), Level("rack", "example.com/rack")
KNOWN = ClusterFacts({"cluster": TopologyLevels("cluster", (ZONE, RACK))}, frozenset({ZONE.key}))
POLICY = "spec.experimental.kvTransferPolicy"


def read(policy: Any, version: str = "v1beta1", before: Any = None, grove: str = "true") -> Reading:
    def document(having: Any) -> dict[str, Any]:
        return {
            "apiVersion": f"nvidia.com/{version}",
            "kind": "DynamoGraphDeployment",
            "metadata": {"name": "llm", "annotations": {"nvidia.com/enable-grove": grove}},
            "spec": {"experimental": {"kvTransferPolicy": having}},
        }

    return DYNAMO.read(document(policy), KNOWN, document(before) if before else None)


def said(reading: Reading) -> list[tuple[str, str, str]]:
    return [(finding.severity, finding.field, finding.message) for finding in reading.findings]


@pytest.mark.parametrize(
    ("version", "policy"),
    [
        ("v1beta1", {"clusterTopologyName": "cluster", "domain": "zone", "enforcement": "required"}),
        ("v1beta1", {"labelKey": ZONE.key, "domain": "zone"}),
        ("v1beta1", {"labelKey": ZONE.key, "domain": "zone", "enforcement": "preferred", "preferredWeight": 0.85}),
        ("v1alpha1", {"labelKey": ZONE.key, "domain": "anything"}),
    ],
)
def test_policies_that_keep_the_rules(version: str, policy: dict[str, Any]) -> None:
    assert said(read(policy, version)) == []


ONE_OF = "exactly one of labelKey or clusterTopologyName is required"
UNHEARD = "so workers will not know their domain"


@pytest.mark.parametrize(
    ("policy", "severity", "at", "message"),
    [
        ({"domain": "zone"}, "error", "", ONE_OF),
        ({"labelKey": ZONE.key, "clusterTopologyName": "cluster", "domain": "zone"}, "error", "", ONE_OF),
        ({"labelKey": ZONE.key}, "error", ".domain", "Required value"),
        (
            {"clusterTopologyName": "other", "domain": "zone"},
            "error",
            ".clusterTopologyName",
            "references a ClusterTopologyBinding resource that was not found",
        ),
        (
            {"clusterTopologyName": "cluster", "domain": "spine"},
            "error",
            ".domain",
            'does not exist in ClusterTopologyBinding "cluster"; available domains: [rack zone]',
        ),
        (
            {"clusterTopologyName": "cluster", "domain": "rack"},
            "warning",
            ".domain",
            f"no node carries the label 'example.com/rack', {UNHEARD}",
        ),
        (
            {"labelKey": "topology.kubernetes.io/zones", "domain": "zone"},
            "warning",
            ".labelKey",
            f"no node carries the label 'topology.kubernetes.io/zones', {UNHEARD}",
        ),
        (
            {"labelKey": ZONE.key, "domain": "zone", "enforcement": "preferred"},
            "error",
            "",
            "preferredWeight is required when enforcement is preferred",
        ),
        (
            {"labelKey": ZONE.key, "domain": "zone", "preferredWeight": 0.5},
            "error",
            "",
            "preferredWeight may only be set when enforcement is preferred",
        ),
    ],
)
def test_policies_that_break_one(policy: dict[str, Any], severity: str, at: str, message: str) -> None:
    reading = read(policy)
    assert said(reading) == [(severity, POLICY + at, message)]
    assert reading.findings[0].fix


def test_the_older_version_knows_labels_only() -> None:
    assert said(read({"domain": "zone"}, "v1alpha1")) == [("error", f"{POLICY}.labelKey", "Required value")]


def test_a_topology_needs_grove() -> None:
    message = 'requires the Grove pathway; remove or unset annotation "nvidia.com/enable-grove" (currently "false")'
    policy = {"clusterTopologyName": "cluster", "domain": "zone"}
    assert ("error", f"{POLICY}.clusterTopologyName", message) in said(read(policy, grove="false"))
    assert said(read({"labelKey": ZONE.key, "domain": "zone"}, grove="false")) == []


def test_a_policy_does_not_change() -> None:
    policy = {"labelKey": ZONE.key, "domain": "zone"}
    assert said(read(policy, before={**policy, "enforcement": "required"})) == []
    ((severity, field, message),) = said(read(policy, before={**policy, "domain": "rack"}))
    assert (severity, field) == ("error", POLICY)
    assert message == (
        "is immutable and cannot be added, removed, or changed after creation; "
        "delete and recreate the DynamoGraphDeployment to change the KV transfer policy"
    )
