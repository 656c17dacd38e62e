"""Dynamo's kvTransferPolicy: which workers may hand their caches to each other."""

from typing import Any

import pytest
from tests.integrations.clusters import CLUSTER, NODES_WITH_ZONES_ONLY
from tests.support.checking import Read, error, read, warning
from tests.support.documents import Edits, document, text
from toposcope.integrations.framework.system import ClusterFacts

pytestmark = pytest.mark.regression

POLICY = "spec.experimental.kvTransferPolicy"
ONE_SOURCE = "exactly one of labelKey or clusterTopologyName is required"
NAME_ONE_SOURCE = "name a node label in labelKey, or a topology in clusterTopologyName, not both"
NOT_FOUND = "references a ClusterTopologyBinding resource that was not found"
LABEL = "topology.kubernetes.io/zone"
POLICY_ONLY = text("""
    Dynamo dynamographdeployment/llm
      llm
""")


def with_policy(policy: dict[str, Any], *, grove: str = "true") -> Edits:
    """A deployment of nothing but a policy."""
    return {
        "metadata": {"name": "llm", "annotations": {"nvidia.com/enable-grove": grove}},
        "spec": {"experimental": {"kvTransferPolicy": policy}},
    }


def read_dynamo(name: str, edits: Edits | None = None, *, cluster: ClusterFacts = CLUSTER, before: Any = None) -> Read:
    return read("Dynamo", document(f"dynamo/{name}", edits), cluster, before=before)


@pytest.mark.parametrize(
    "edits",
    [
        pytest.param(
            with_policy({"clusterTopologyName": "cluster", "domain": "zone", "enforcement": "required"}), id="topology"
        ),
        pytest.param(with_policy({"labelKey": LABEL, "domain": "zone"}), id="label"),
        pytest.param(
            with_policy({"labelKey": LABEL, "domain": "zone", "enforcement": "preferred", "preferredWeight": 0.85}),
            id="preferred-label",
        ),
    ],
)
def test_policy_that_keeps_the_rules_is_accepted(edits: Edits) -> None:
    answer = read_dynamo("v1beta1", edits, cluster=NODES_WITH_ZONES_ONLY)
    assert answer.findings == []
    assert answer.workload == POLICY_ONLY
    assert answer.notes == []


def test_policy_of_the_older_version_takes_any_domain() -> None:
    answer = read_dynamo(
        "v1alpha1", with_policy({"labelKey": LABEL, "domain": "anything"}), cluster=NODES_WITH_ZONES_ONLY
    )
    assert answer.findings == []
    assert answer.workload == POLICY_ONLY
    assert answer.notes == []


@pytest.mark.parametrize(
    "edits",
    [
        pytest.param(with_policy({"domain": "zone"}), id="none"),
        pytest.param(with_policy({"labelKey": LABEL, "clusterTopologyName": "cluster", "domain": "zone"}), id="both"),
    ],
)
def test_policy_needs_exactly_one_source(edits: Edits) -> None:
    answer = read_dynamo("v1beta1", edits, cluster=NODES_WITH_ZONES_ONLY)
    assert answer.findings == [error("dynamo/transfer-source", POLICY, ONE_SOURCE, fix=NAME_ONE_SOURCE)]


def test_policy_without_domain_is_refused() -> None:
    answer = read_dynamo("v1beta1", with_policy({"labelKey": LABEL}), cluster=NODES_WITH_ZONES_ONLY)
    assert answer.findings == [
        error(
            "dynamo/transfer-domain",
            "spec.experimental.kvTransferPolicy.domain",
            "Required value",
            fix="set the domain, such as zone or rack",
        )
    ]


def test_policy_on_unknown_topology_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1", with_policy({"clusterTopologyName": "other", "domain": "zone"}), cluster=NODES_WITH_ZONES_ONLY
    )
    assert answer.findings == [
        error(
            "dynamo/transfer-topology",
            "spec.experimental.kvTransferPolicy.clusterTopologyName",
            NOT_FOUND,
            fix="there are: cluster",
        )
    ]


def test_policy_on_unknown_domain_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1", with_policy({"clusterTopologyName": "cluster", "domain": "spine"}), cluster=NODES_WITH_ZONES_ONLY
    )
    assert answer.findings == [
        error(
            "dynamo/transfer-domain",
            "spec.experimental.kvTransferPolicy.domain",
            'does not exist in ClusterTopologyBinding "cluster"; available domains: [rack zone]',
            fix="there are: rack, zone",
        )
    ]


def test_policy_on_a_level_that_no_node_carries_is_warned_of() -> None:
    answer = read_dynamo(
        "v1beta1", with_policy({"clusterTopologyName": "cluster", "domain": "rack"}), cluster=NODES_WITH_ZONES_ONLY
    )
    assert answer.findings == [
        warning(
            "dynamo/transfer-label",
            "spec.experimental.kvTransferPolicy.domain",
            "no node carries the label 'example.com/rack', so workers will not know their domain",
            fix="there are: topology.kubernetes.io/zone",
        )
    ]


def test_policy_on_a_label_that_no_node_carries_is_warned_of() -> None:
    answer = read_dynamo(
        "v1beta1",
        with_policy({"labelKey": "topology.kubernetes.io/zones", "domain": "zone"}),
        cluster=NODES_WITH_ZONES_ONLY,
    )
    assert answer.findings == [
        warning(
            "dynamo/transfer-label",
            "spec.experimental.kvTransferPolicy.labelKey",
            "no node carries the label 'topology.kubernetes.io/zones', so workers will not know their domain",
            fix="did you mean 'topology.kubernetes.io/zone'?",
        )
    ]


def test_preferred_policy_without_weight_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1",
        with_policy({"labelKey": LABEL, "domain": "zone", "enforcement": "preferred"}),
        cluster=NODES_WITH_ZONES_ONLY,
    )
    assert answer.findings == [
        error(
            "dynamo/transfer-weight",
            POLICY,
            "preferredWeight is required when enforcement is preferred",
            fix="add preferredWeight, such as 0.85",
        )
    ]


def test_required_policy_with_weight_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1",
        with_policy({"labelKey": LABEL, "domain": "zone", "preferredWeight": 0.5}),
        cluster=NODES_WITH_ZONES_ONLY,
    )
    assert answer.findings == [
        error(
            "dynamo/transfer-weight",
            POLICY,
            "preferredWeight may only be set when enforcement is preferred",
            fix="remove it, or set enforcement: preferred",
        )
    ]


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        pytest.param(
            with_policy({"labelKey": LABEL, "domain": "zone", "enforcement": "preferred", "preferredWeight": 2}),
            "spec.experimental.kvTransferPolicy.preferredWeight in body should be less than or equal to 1",
            id="above",
        ),
        pytest.param(
            with_policy({"labelKey": LABEL, "domain": "zone", "enforcement": "preferred", "preferredWeight": -0.5}),
            "spec.experimental.kvTransferPolicy.preferredWeight in body should be greater than or equal to 0",
            id="below",
        ),
    ],
)
def test_weight_outside_of_zero_to_one_is_refused(edits: Edits, message: str) -> None:
    answer = read_dynamo("v1beta1", edits, cluster=NODES_WITH_ZONES_ONLY)
    assert answer.findings == [
        error(
            "dynamo/transfer-weight",
            "spec.experimental.kvTransferPolicy.preferredWeight",
            message,
            fix="set a number from 0 to 1",
        )
    ]


def test_unknown_enforcement_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1",
        with_policy({"labelKey": LABEL, "domain": "zone", "enforcement": "always"}),
        cluster=NODES_WITH_ZONES_ONLY,
    )
    assert answer.findings == [
        error(
            "dynamo/transfer-enforcement",
            "spec.experimental.kvTransferPolicy.enforcement",
            'Unsupported value: "always": supported values: "required", "preferred"',
            fix="set one of them, or remove it: the default is required",
        )
    ]


def test_domain_in_capitals_is_refused() -> None:
    answer = read_dynamo("v1beta1", with_policy({"labelKey": LABEL, "domain": "Zone"}), cluster=NODES_WITH_ZONES_ONLY)
    assert answer.findings == [
        error(
            "dynamo/transfer-domain",
            "spec.experimental.kvTransferPolicy.domain",
            "spec.experimental.kvTransferPolicy.domain in body should match '^[a-z0-9]([a-z0-9-]*[a-z0-9])?$'",
            fix="use lower-case letters, digits and '-'",
        )
    ]


def test_unknown_field_of_a_policy_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1", with_policy({"labelKey": LABEL, "domain": "zone", "weight": 1}), cluster=NODES_WITH_ZONES_ONLY
    )
    assert answer.findings == [
        error(
            "dynamo/field",
            "spec.experimental.kvTransferPolicy.weight",
            'unknown field "spec.experimental.kvTransferPolicy.weight"',
            fix="Dynamo (main, 2026-08) has no such field: kubectl rejects it, Helm drops it",
        )
    ]


def test_policy_of_the_older_version_needs_a_label() -> None:
    answer = read_dynamo("v1alpha1", with_policy({"domain": "zone"}), cluster=NODES_WITH_ZONES_ONLY)
    assert answer.findings == [
        error(
            "dynamo/transfer-source",
            "spec.experimental.kvTransferPolicy.labelKey",
            "Required value",
            fix="set the node label that carries the domain",
        )
    ]


def test_policy_on_a_topology_needs_grove() -> None:
    answer = read_dynamo(
        "v1beta1",
        with_policy({"clusterTopologyName": "cluster", "domain": "zone"}, grove="false"),
        cluster=NODES_WITH_ZONES_ONLY,
    )
    assert answer.findings == [
        error(
            "dynamo/transfer-grove",
            "spec.experimental.kvTransferPolicy.clusterTopologyName",
            'requires the Grove pathway; remove or unset annotation "nvidia.com/enable-grove" (currently "false")',
            fix="let Grove place the pods, or name the node label in labelKey instead",
        )
    ]


def test_policy_on_a_label_needs_no_grove() -> None:
    answer = read_dynamo(
        "v1beta1", with_policy({"labelKey": LABEL, "domain": "zone"}, grove="false"), cluster=NODES_WITH_ZONES_ONLY
    )
    assert answer.findings == []
    assert answer.workload == POLICY_ONLY
    assert answer.notes == []


def test_policy_that_writes_its_default_is_unchanged() -> None:
    answer = read_dynamo(
        "v1beta1",
        with_policy({"labelKey": LABEL, "domain": "zone"}),
        cluster=NODES_WITH_ZONES_ONLY,
        before=document(
            "dynamo/v1beta1", with_policy({"labelKey": LABEL, "domain": "zone", "enforcement": "required"})
        ),
    )
    assert answer.findings == []
    assert answer.workload == POLICY_ONLY
    assert answer.notes == []


def test_changed_policy_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1",
        with_policy({"labelKey": LABEL, "domain": "zone"}),
        cluster=NODES_WITH_ZONES_ONLY,
        before=document("dynamo/v1beta1", with_policy({"labelKey": LABEL, "domain": "rack"})),
    )
    assert answer.findings == [
        error(
            "dynamo/immutable",
            POLICY,
            (
                "is immutable and cannot be added, removed, or changed after creation; delete and recreate "
                "the DynamoGraphDeployment to change the KV transfer policy"
            ),
            fix="keep the value in the cluster",
        )
    ]
