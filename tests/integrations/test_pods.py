"""Pods of every kind of workload: how many, what they request, which nodes they may use; how nonsense is reported."""

from typing import Any

import msgspec
import pytest

from tests.support.tables import each_row
from tests.support.workloads import Object, job, jobset, leader_worker_set, replicated, template, workload
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.node_affinity import (
    OPERATORS,
    Expression,
    NodeFilter,
    Operator,
    Taint,
    Toleration,
)
from toposcope.integrations.framework.pods import chunks, pods_of, structure_of
from toposcope.integrations.lws.workload import sub_groups

REQUIRED = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"


def container(requests: Any = None, limits: Any = None, **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests, "limits": limits}, **more}


def affinity(expression: Any) -> dict[str, Any]:
    """The part of a pod spec that requires nodes with this expression."""
    terms = [{"matchExpressions": [expression]}]
    return {"affinity": {"nodeAffinity": {REQUIRED.rpartition(".")[2]: {"nodeSelectorTerms": terms}}}}


def requested(spec: Any) -> tuple[dict[str, int], list[str]]:
    part = Field(spec, "spec")
    return dict(pods_of("p", 1, part).requests), [f"{f.field}: {f.message}" for f in part.findings]


def test_limits_count_where_nothing_is_requested() -> None:
    spec = {"containers": [container({"cpu": "500m"}, {"cpu": 2, "nvidia.com/gpu": "8"})]}
    assert requested(spec) == ({"cpu": 500, "nvidia.com/gpu": 8}, [])


def test_init_containers_run_before_and_sidecars_beside() -> None:
    spec = {
        "containers": [container({"cpu": "1", "memory": "1Gi"})],
        "initContainers": [container({"cpu": "200m"}, restartPolicy="Always"), container({"cpu": "3"})],
        "overhead": {"cpu": "100m"},
    }
    assert requested(spec)[0] == {"cpu": 3300, "memory": 1 << 30}


def test_pod_level_resources_replace_the_sum() -> None:
    spec = {"containers": [container({"cpu": "1"})], "resources": {"requests": {"cpu": "4"}}}
    assert requested(spec)[0] == {"cpu": 4000}


@pytest.mark.parametrize(
    ("spec", "finding"),
    [
        ({"containers": "none"}, "spec.containers: is 'none', expected a list"),
        (
            {"containers": [container({"cpu": "lots"})]},
            "spec.containers[0].resources.requests.cpu: 'lots' is not a quantity",
        ),
        ({"containers": [container({"cpu": "-1"})]}, "spec.containers[0].resources.requests.cpu: '-1' is below zero"),
        (
            {"containers": [container({"cpu": [1]})]},
            "spec.containers[0].resources.requests.cpu: is [1], expected a quantity such as 8, 500m or 2Gi",
        ),
        ({"containers": [7]}, "spec.containers[0]: is 7, expected an object"),
        ("nothing", "spec: is 'nothing', expected an object"),
        (
            affinity({"key": "a", "operator": "Like"}),
            f"{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].operator: 'Like' is none of {', '.join(OPERATORS)}",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_path(spec: Any, finding: str) -> None:
    assert finding in requested(spec)[1]


def test_devices_from_claims_are_reported_as_left_out() -> None:
    _, (finding,) = requested({"resourceClaims": [{"name": "g"}]})
    assert "devices that come from resource claims are not counted" in finding


def test_the_choice_of_nodes() -> None:
    in_zone = affinity({"key": "zone", "operator": "In", "values": ["a"]})
    spec = {"nodeSelector": {"pool": "gpu"}, "tolerations": [{"operator": "Exists"}], **in_zone}
    choice = pods_of("p", 1, Field(spec)).node_filter
    assert choice.selector == (("pool", "gpu"),)
    assert choice.terms == ((Expression("zone", "In", ("a",)),),)
    assert choice.tolerations == (Toleration(operator="Exists"),)


def counted(document: Object) -> tuple[list[tuple[str, int]], int]:
    structure = structure_of(Field(document))
    assert structure is not None
    return [(set_.name, set_.count) for set_ in structure.sets], structure.copies


RAY_SPEC = {
    "headGroupSpec": {"template": template(0)},
    "workerGroupSpecs": [
        {"groupName": "big", "replicas": 2, "numOfHosts": 4, "template": template()},
        {"groupName": "off", "replicas": 3, "suspend": True, "template": template()},
        {"template": template()},
    ],
}
RAY = [("head", 1), ("big", 8), ("off", 0), ("worker-group-2", 0)]
PYTORCH_SPEC = {"pytorchReplicaSpecs": {"Master": {"template": template()}, "Worker": {"replicas": 7}}}


@pytest.mark.parametrize(
    ("document", "sets", "copies"),
    [
        (workload("v1", "Pod", template()["spec"]), [("pod", 1)], 1),
        (job(4), [("pods", 4)], 1),
        (job(4, completions=3), [("pods", 3)], 1),
        (workload("batch/v1", "Job", {"template": template()}), [("pods", 1)], 1),
        (workload("apps/v1", "Deployment", {"replicas": 5, "template": template()}), [("pods", 5)], 1),
        (workload("apps/v1", "StatefulSet", {"template": template()}), [("pods", 1)], 1),
        (jobset(replicated("a", 2, 3), replicated("b", 1, 4)), [("a", 6), ("b", 4)], 1),
        (leader_worker_set(3, 5), [("leader", 1), ("worker", 4)], 3),
        (leader_worker_set(3, 5, leader=False), [("pods", 5)], 3),
        (workload("kubeflow.org/v1", "PyTorchJob", PYTORCH_SPEC), [("Master", 1), ("Worker", 7)], 1),
        (workload("ray.io/v1", "RayCluster", RAY_SPEC), RAY, 1),
        (workload("ray.io/v1", "RayJob", {"rayClusterSpec": RAY_SPEC}), RAY, 1),
        (workload("ray.io/v1", "RayService", {"rayClusterConfig": RAY_SPEC}), RAY, 1),
    ],
)
def test_how_many_pods(document: Object, sets: list[tuple[str, int]], copies: int) -> None:
    assert counted(document) == (sets, copies)


def test_what_a_pod_takes_is_that_of_its_template() -> None:
    structure = structure_of(Field(leader_worker_set(1, 3)))
    assert structure is not None
    assert [dict(pods.requests)["nvidia.com/gpu"] for pods in structure.whole] == [1, 8]


def test_only_pods_of_a_deployment_stand_alone() -> None:
    kinds = {"Deployment": True, "ReplicaSet": True, "StatefulSet": False}
    for kind, separate in kinds.items():
        structure = structure_of(Field(workload("apps/v1", kind, {"template": template()})))
        assert structure is not None
        assert structure.separate == separate


@pytest.mark.parametrize("document", [{}, {"kind": "Job"}, {"apiVersion": 1, "kind": ["Job"]}, {"kind": "ConfigMap"}])
def test_kinds_without_pods(document: Any) -> None:
    assert structure_of(Field(document)) is None


@pytest.mark.parametrize(
    ("document", "field", "message"),
    [
        (job(-1), "spec.parallelism", "is -1, expected a whole number of at least 0"),
        (
            workload("jobset.x-k8s.io/v1", "JobSet", {"replicatedJobs": [7]}),
            "spec.replicatedJobs[0]",
            "is 7, expected an object",
        ),
        (leader_worker_set(1, 0), "spec.leaderWorkerTemplate.size", "is 0, expected a whole number of at least 1"),
        (workload("ray.io/v1", "RayCluster", "x"), "spec", "is 'x', expected an object"),
    ],
)
def test_nonsense_is_named(document: Object, field: str, message: str) -> None:
    root = Field(document)
    structure_of(root)
    assert (field, message) in [(finding.field, finding.message) for finding in root.findings]


@pytest.mark.parametrize(
    ("size", "subgroup", "apart", "expected"),
    [
        (5, 2, False, [([1, 2], 1), ([2], 1)]),  # size - 1 can be divided: the leader is the extra pod
        (9, 2, False, [([1, 2], 1), ([2], 3)]),
        (6, 2, False, [([1, 1], 1), ([2], 2)]),  # size can be divided: the leader is one of the first
        (5, 2, True, [([2], 2)]),
        (6, 4, False, [([1, 3], 1), ([2], 1)]),  # neither: KAI fills the last one as far as it goes
        (1, 1, False, [([1], 1)]),
    ],
)
def test_subgroups(size: int, subgroup: int, apart: bool, expected: list[tuple[list[int], int]]) -> None:
    structure = structure_of(Field(leader_worker_set(1, size)))
    assert structure is not None
    alike = sub_groups(structure, subgroup, leader_excluded=apart)
    assert [([pods.count for pods in parts], times) for parts, times in alike] == expected
    total = sum(sum(pods.count for pods in parts) * times for parts, times in alike)
    assert total == size - (1 if apart else 0)


def test_portions() -> None:
    assert list(chunks(10, 4)) == [(4, 2), (2, 1)]
    assert list(chunks(8, 4)) == [(4, 2)]
    assert list(chunks(3, 4)) == [(3, 1)]


LABELS = {"zone": "a", "gpus": "8"}


class Match(msgspec.Struct, forbid_unknown_fields=True):
    operator: Operator
    key: str
    values: tuple[str, ...]
    holds: bool


@each_row("operators.yaml", Match, ids=lambda row: f"{row.key} {row.operator} {','.join(row.values)}")
def test_each_operator(row: Match) -> None:
    assert Expression(row.key, row.operator, row.values).holds("node-1", LABELS) is row.holds


def test_a_field_is_the_name_of_the_node() -> None:
    chosen = Expression("metadata.name", "In", ("node-1",), field=True)
    assert chosen.holds("node-1", {})
    assert not chosen.holds("node-2", {"metadata.name": "node-1"})


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        (Toleration("gpu", "Equal", "yes", "NoSchedule"), True),
        (Toleration("gpu", "Equal", "no", "NoSchedule"), False),
        (Toleration("gpu", "Equal", "yes", "NoExecute"), False),
        (Toleration("gpu", "Exists"), True),
        (Toleration("cpu", "Exists"), False),
        (Toleration("", "Exists"), True),
        (Toleration("", "Equal"), False),
        (Toleration("gpu", "Equal", "yes"), True),
    ],
)
def test_tolerations(toleration: Toleration, covers: bool) -> None:
    assert toleration.covers(Taint("gpu", "yes", "NoSchedule")) is covers


def test_terms_are_alternatives_and_an_empty_one_matches_nothing() -> None:
    in_a, in_b = Expression("zone", "In", ("a",)), Expression("zone", "In", ("b",))
    assert NodeFilter(terms=((in_b,), (in_a,))).rejection("n", LABELS, ()) == ""
    assert NodeFilter(terms=((in_b, in_a),)).rejection("n", LABELS, ()) == "does not match the node affinity"
    assert NodeFilter(terms=((),)).rejection("n", LABELS, ()) == "does not match the node affinity"


def test_the_reason_names_what_stands_against_it() -> None:
    taint = Taint("dedicated", "infra", "NoSchedule")
    assert NodeFilter(selector=(("zone", "b"),)).rejection("n", LABELS, ()) == "does not match nodeSelector zone=b"
    assert NodeFilter().rejection("n", LABELS, (taint,)) == "has taint dedicated=infra:NoSchedule"
