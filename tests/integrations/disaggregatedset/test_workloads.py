"""DisaggregatedSet: its roles, and the domain that each slice has."""

from typing import Any

import pytest
from tests.integrations.clusters import CLUSTER, RACK
from tests.support.checking import Read, check, error, read
from tests.support.documents import Edits, edited, text
from toposcope.integrations.disaggregatedset.api import DISAGGREGATED_SETS
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.level_requests import Annotated

pytestmark = pytest.mark.regression

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
POLICY = "spec.placementPolicy"


def role(name: str, *, replicas: int = 1, size: int = 1, gpus: int = 8) -> Object:
    """A role whose replicas have `size` pods each."""
    container = {"name": "c", "resources": {"limits": {GPU: str(gpus)}}}
    template = {"size": size, "workerTemplate": {"spec": {"containers": [container]}}}
    return {"name": name, "spec": {"replicas": replicas, "leaderWorkerTemplate": template}}


def disaggregated_set(edits: Edits | None = None) -> Object:
    """Two slices of two prefill pods and one decode replica of two pods, each in one rack."""
    document = {
        "apiVersion": "disaggregatedset.x-k8s.io/v1",
        "kind": "DisaggregatedSet",
        "metadata": {"name": "llm", "namespace": "ml"},
        "spec": {
            "slices": 2,
            "placementPolicy": {"type": "ExclusiveSlice", "topology": RACK.key},
            "roles": [role("prefill", replicas=2), role("decode", size=2)],
        },
    }
    result: Object = edited(document, edits or {})
    return result


def read_set(edits: Edits | None = None) -> Read:
    return read("DisaggregatedSet", disaggregated_set(edits), CLUSTER)


def node(name: str, rack: str) -> Object:
    """A node of 8 GPUs."""
    labels = {RACK.key: rack, "kubernetes.io/hostname": name}
    allocatable = {GPU: "8", "pods": "110"}
    status = {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def racks(*sizes: int) -> list[Object]:
    """Nodes of racks r0, r1, ... of these sizes."""
    return [node(f"r{rack}-{number}", f"r{rack}") for rack, size in enumerate(sizes) for number in range(size)]


def slice_of(name: str, on: str) -> Object:
    """A pod of another set."""
    labels = {"disaggregatedset.x-k8s.io/name": name, "disaggregatedset.x-k8s.io/slice": "0"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{name}-0", "namespace": "ml", "labels": labels},
        "spec": {"nodeName": on, "containers": [{"name": "c"}]},
        "status": {"phase": "Running"},
    }


def test_each_slice_has_a_rack_with_all_roles() -> None:
    answer = read_set()
    assert answer.findings == []
    assert answer.workload == text("""
        DisaggregatedSet disaggregatedset/llm -n ml on labels example.com/rack
          2 x slice: required rack, apart by disaggregatedset.x-k8s.io/slice
            2 x replica of prefill: 1 pods (nvidia.com/gpu=8)
            replica of decode: 2 pods (nvidia.com/gpu=8)
    """)


@pytest.mark.parametrize("policy", [None, {"type": "None"}], ids=["absent", "none"])
def test_set_without_policy_goes_anywhere(policy: Object | None) -> None:
    answer = read_set({POLICY: policy, "spec.slices": None})
    assert answer.workload == text("""
        DisaggregatedSet disaggregatedset/llm -n ml
          slice
            2 x replica of prefill: 1 pods (nvidia.com/gpu=8)
            replica of decode: 2 pods (nvidia.com/gpu=8)
    """)


@pytest.mark.parametrize(
    ("edits", "rule", "field", "message", "fix"),
    [
        pytest.param(
            {POLICY: {"type": "ExclusiveSlice"}},
            "policy",
            "spec.placementPolicy.topology",
            "topology is required when type is not None",
            "set the node label of a domain",
            id="no-topology",
        ),
        pytest.param(
            {POLICY: {"type": "Exclusive", "topology": RACK.key}},
            "policy",
            "spec.placementPolicy.type",
            "Unsupported value: 'Exclusive'",
            "did you mean 'ExclusiveSlice'?",
            id="unknown-type",
        ),
        pytest.param(
            {"spec.roles": [role("prefill")]},
            "roles",
            "spec.roles",
            "has 1 roles, must have at least 2",
            "add a role",
            id="one-role",
        ),
        pytest.param(
            {"spec.roles[0].spec.replicas": 0},
            "roles",
            "spec.roles",
            "replicas must be zero for all non-External roles or non-zero for all of them",
            "scale all roles to zero, or none",
            id="some-at-zero",
        ),
    ],
)
def test_set_that_is_refused(edits: Edits, rule: str, field: str, message: str, fix: str) -> None:
    assert read_set(edits).findings == [error(f"disaggregatedset/{rule}", field, message, fix=fix)]


def test_group_annotation_beside_a_policy_is_refused() -> None:
    key = "leaderworkerset.sigs.k8s.io/exclusive-topology"
    answer = read_set({"spec.roles[0].metadata": {"annotations": {key: RACK.key}}})
    assert answer.findings == [
        error(
            "disaggregatedset/policy",
            f"spec.roles[0].metadata.annotations[{key}]",
            "the annotation must not be combined with a non-None spec.placementPolicy.type (ExclusiveSlice)",
            fix="remove one of them",
        )
    ]


def test_label_that_no_node_has_is_an_error() -> None:
    answer = read_set({f"{POLICY}.topology": "rack"})
    assert [finding.rule for finding in answer.findings] == ["disaggregatedset/label-exists"]


def test_replicas_of_a_scaler_are_unknown() -> None:
    answer = read_set({"spec.roles[0].scaling": {"mode": "External"}})
    assert answer.unknown == "a DisaggregatedSetRoleScaler sets the replicas of prefill, which is not read here"


def test_slices_fit_where_each_rack_has_room_for_one() -> None:
    assert check(disaggregated_set(), racks(4, 4)).verdict == "fits: 8 pods on 8 nodes"


def test_slice_that_no_rack_has_room_for_never_fits() -> None:
    answer = check(disaggregated_set({"spec.slices": 1}), racks(3, 3))
    assert answer.verdict == "cannot fit: slice needs 32 GPUs in one example.com/rack, largest has 24 (r0)"


def test_more_slices_than_racks_never_fit() -> None:
    answer = check(disaggregated_set(), racks(8))
    assert answer.verdict == "cannot fit: 2 copies of slice each need one example.com/rack to themselves; there are 1"


def test_first_pod_that_may_choose_a_small_rack_is_unclear() -> None:
    answer = check(disaggregated_set({"spec.slices": 1}), racks(4, 1))
    assert answer.verdict == (
        "unclear: the first pod of slice goes to any example.com/rack that has room for it, "
        "and the other 3 have to follow: not all of them would fit in r1"
    )


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        pytest.param("ExclusiveSlice", "fits: example.com/rack r0 (4 nodes, 32 free GPUs)", id="shared"),
        pytest.param(
            "ExclusiveTopology",
            "does not fit now: 1 of 1 example.com/rack is held by other groups: r0 by disaggregatedset/other -n ml",
            id="exclusive",
        ),
    ],
)
def test_rack_of_another_set(kind: str, verdict: str) -> None:
    workload = disaggregated_set({"spec.slices": 1, f"{POLICY}.type": kind})
    assert check(workload, [*racks(4), slice_of("other", "r0-0")]).verdict == verdict


def test_level_of_a_policy_is_requested() -> None:
    def nothing(_places: Annotated) -> Any:
        return iter(())

    (request,) = DISAGGREGATED_SETS.requests(Field(disaggregated_set()), nothing)
    assert (request.level, request.is_required) == (RACK.key, True)
