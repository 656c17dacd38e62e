"""Who runs the pods of a deployment: Grove, or Dynamo itself."""

from typing import Any

import pytest
from tests.integrations.clusters import CLUSTER
from tests.support.checking import Read, error, read, warning
from tests.support.documents import Edits, document

pytestmark = pytest.mark.regression

TOPOLOGY = "spec.topologyConstraint.clusterTopologyName"
NOT_FOUND = "references a ClusterTopologyBinding resource that was not found"
PROVIDER = "metadata.annotations[nvidia.com/workload-provider]"


def read_dynamo(name: str, edits: Edits | None = None, *, before: Any = None) -> Read:
    return read("Dynamo", document(f"dynamo/{name}", edits), CLUSTER, before=before)


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({"nvidia.com/workload-provider": "grove"}, id="alone"),
        pytest.param(
            {"nvidia.com/workload-provider": "grove", "nvidia.com/enable-grove": "false"}, id="before-the-annotation"
        ),
    ],
)
def test_provider_grove_checks_constraints(annotations: dict[str, Any]) -> None:
    answer = read_dynamo("v1beta1", {"metadata.annotations": annotations, TOPOLOGY: "unheard-of"})
    assert answer.findings == [error("dynamo/topology-exists", TOPOLOGY, NOT_FOUND, fix="there are: cluster")]


def test_provider_component_keeps_no_constraint() -> None:
    answer = read_dynamo(
        "v1beta1", {"metadata.annotations": {"nvidia.com/workload-provider": "component"}, TOPOLOGY: "unheard-of"}
    )
    assert answer.findings == [
        warning(
            "dynamo/grove-pathway",
            PROVIDER,
            "with nvidia.com/workload-provider: 'component' topology constraints are neither checked nor applied",
            fix="remove the annotation, or the constraints",
        )
    ]


def test_unknown_provider_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1", {"metadata.annotations": {"nvidia.com/workload-provider": "slurm"}, TOPOLOGY: "unheard-of"}
    )
    assert answer.findings == [
        error(
            "dynamo/provider",
            PROVIDER,
            'Unsupported value: "slurm": supported values: "component", "grove", "disaggregatedset"',
            fix="remove it",
        ),
        warning(
            "dynamo/grove-pathway",
            PROVIDER,
            "with nvidia.com/workload-provider: 'slurm' topology constraints are neither checked nor applied",
            fix="remove the annotation, or the constraints",
        ),
    ]


def test_changed_provider_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1",
        {"metadata.annotations": {"nvidia.com/workload-provider": "component"}, TOPOLOGY: "unheard-of"},
        before=document(
            "dynamo/v1beta1",
            {"metadata.annotations": {"nvidia.com/workload-provider": "grove"}, TOPOLOGY: "unheard-of"},
        ),
    )
    assert answer.findings == [
        error("dynamo/provider", PROVIDER, "field is immutable", fix="it is 'grove' in the cluster"),
        warning(
            "dynamo/grove-pathway",
            PROVIDER,
            "with nvidia.com/workload-provider: 'component' topology constraints are neither checked nor applied",
            fix="remove the annotation, or the constraints",
        ),
    ]


def test_removed_provider_is_still_grove() -> None:
    answer = read_dynamo(
        "v1beta1",
        {TOPOLOGY: "unheard-of"},
        before=document(
            "dynamo/v1beta1",
            {"metadata.annotations": {"nvidia.com/workload-provider": "grove"}, TOPOLOGY: "unheard-of"},
        ),
    )
    assert answer.findings == [warning("dynamo/topology-exists", TOPOLOGY, NOT_FOUND, fix="there are: cluster")]


def test_policy_on_a_topology_needs_provider_grove() -> None:
    answer = read_dynamo(
        "v1beta1",
        {
            "metadata.annotations": {"nvidia.com/workload-provider": "component"},
            "spec": {"experimental": {"kvTransferPolicy": {"clusterTopologyName": "cluster", "domain": "zone"}}},
        },
    )
    assert answer.findings == [
        error(
            "dynamo/transfer-grove",
            "spec.experimental.kvTransferPolicy.clusterTopologyName",
            'requires the Grove pathway, but workload provider "component" is selected',
            fix="let Grove place the pods, or name the node label in labelKey instead",
        )
    ]


DISAGGREGATED = {"nvidia.com/enable-grove": "false", "nvidia.com/enable-disaggregatedset": "true"}
SWITCH = "metadata.annotations[nvidia.com/enable-grove]"


def disaggregated(edits: Edits | None = None, annotations: dict[str, str] | None = None) -> Read:
    """A deployment of two workers on two nodes each, without constraints, for a DisaggregatedSet."""
    workers = {
        "metadata.annotations": annotations or DISAGGREGATED,
        "spec.topologyConstraint": None,
        "spec.components[1].type": "prefill",
        "spec.components[1].multinode": {"nodeCount": 2},
        "spec.components[2].type": "decode",
    }
    return read_dynamo("v1beta1", {**workers, **(edits or {})})


def test_third_provider_is_accepted() -> None:
    answer = disaggregated()
    assert answer.findings == []
    assert "4 x replica of prefill: 2 prefill" in answer.workload


def test_third_provider_that_dynamo_wrote_is_accepted() -> None:
    written = {"nvidia.com/workload-provider": "disaggregatedset"}
    existing = document("dynamo/v1beta1", {"metadata.annotations": written})
    edits = {
        "metadata.annotations": written,
        "spec.components[1].type": "worker",
        "spec.components[1].multinode": {"nodeCount": 2},
        "spec.components[2].type": "worker",
    }
    answer = read_dynamo("v1beta1", edits, before=existing)
    assert [finding.rule for finding in answer.findings] == ["dynamo/grove-pathway"]


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        pytest.param(
            {"spec.components[1].type": "planner"},
            "DisaggregatedSet requires at least two eligible multinode worker roles",
            id="one-role",
        ),
        pytest.param(
            {"spec.components[1].multinode": None, "spec.components[2].multinode": None},
            "no eligible multinode worker roles found",
            id="no-role",
        ),
        pytest.param(
            {"spec.components[1].replicas": 0},
            "DisaggregatedSet requires replicas to be zero for all selected roles or positive for all selected roles",
            id="some-without-replicas",
        ),
    ],
)
def test_third_provider_makes_nothing_of_other_components(edits: Edits, message: str) -> None:
    assert disaggregated(edits).findings == [
        error("dynamo/disaggregated-set", SWITCH, message, fix="change the components, or remove the annotation")
    ]


def test_third_provider_takes_no_scaling_adapter() -> None:
    answer = disaggregated({"spec.components[2].scalingAdapter": {}})
    assert answer.findings == [
        error(
            "dynamo/disaggregated-set",
            "spec.components[2].scalingAdapter",
            'component "decode" uses scalingAdapter, but DisaggregatedSet does not support scale subresource '
            "integration",
            fix="remove it",
        )
    ]
