"""Pods of every kind of workload: how many, what they request, which nodes they may use; how nonsense is reported."""

from typing import Any

import pytest
from tests.support.workloads import Object, leader_worker_set, template, workload
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.node_affinity import Expression, Operator, Taint, Toleration
from toposcope.integrations.framework.pods import Structure, chunks, pods_of, structure_of
from toposcope.integrations.lws.workload import sub_groups
from toposcope.placement.check import Checker
from toposcope.placement.sentences import answer, why
from toposcope.snapshot.model import NodeView, Snapshot

GPU = "nvidia.com/gpu"


def container(**resources: Any) -> Object:
    """A container with these `requests` and `limits`."""
    return {"name": "c", "resources": resources}


def requests_of(spec: Any) -> dict[str, int]:
    """What a pod of this spec requests, where nothing is wrong with it."""
    field = Field(spec, "spec")
    pods = pods_of("p", 1, field)
    assert field.findings == []
    return dict(pods.requests)


def findings_of(spec: Any) -> list[str]:
    """What is wrong with the spec of a pod."""
    field = Field(spec, "spec")
    pods_of("p", 1, field)
    return [f"{finding.field}: {finding.message}" for finding in field.findings]


def structure(document: Object) -> Structure:
    """The pods of a document that has some."""
    found = structure_of(Field(document))
    assert found is not None
    return found


def sets_of(document: Object) -> list[tuple[str, int]]:
    """Names of sets of pods, and how many pods of one copy each has."""
    return [(pods.name, pods.count) for pods in structure(document).sets]


def with_node_affinity(*terms: list[Object]) -> Object:
    """The spec of a pod whose node has to match one of these lists of expressions."""
    selector = {"nodeSelectorTerms": [{"matchExpressions": expressions} for expressions in terms]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}}


def test_limit_counts_where_nothing_is_requested() -> None:
    spec = {"containers": [container(requests={"cpu": "500m"}, limits={"cpu": 2, GPU: "8"})]}
    assert requests_of(spec) == {"cpu": 500, GPU: 8}


def test_init_containers_run_before_and_sidecars_beside() -> None:
    spec = {
        "containers": [container(requests={"cpu": "1", "memory": "1Gi"})],
        "initContainers": [
            {**container(requests={"cpu": "200m"}), "restartPolicy": "Always"},
            container(requests={"cpu": "3"}),
        ],
    }
    assert requests_of(spec) == {"cpu": 3200, "memory": 1073741824}


def test_resources_of_the_pod_replace_the_sum() -> None:
    spec = {"containers": [container(requests={"cpu": "1"})], "resources": {"requests": {"cpu": "4"}}}
    assert requests_of(spec) == {"cpu": 4000}


CPU = "spec.containers[0].resources.requests.cpu"
FIRST_EXPRESSION = (
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]"
)


@pytest.mark.regression
@pytest.mark.parametrize(
    ("spec", "finding"),
    [
        pytest.param({"containers": "none"}, "spec.containers: is 'none', expected a list", id="containers"),
        pytest.param(
            {"containers": [container(requests={"cpu": "lots"}, limits=None)]},
            f"{CPU}: 'lots' is not a quantity",
            id="no-quantity",
        ),
        pytest.param(
            {"containers": [container(requests={"cpu": "-1"}, limits=None)]},
            f"{CPU}: '-1' is negative",
            id="below-zero",
        ),
        pytest.param(
            {"containers": [container(requests={"cpu": [1]}, limits=None)]},
            f"{CPU}: is [1], expected a quantity such as 8, 500m or 2Gi",
            id="list-as-quantity",
        ),
        pytest.param({"containers": [7]}, "spec.containers[0]: is 7, expected an object", id="container"),
        pytest.param("nothing", "spec: is 'nothing', expected an object", id="spec"),
        pytest.param(
            with_node_affinity([{"key": "a", "operator": "Like"}]),
            f"{FIRST_EXPRESSION}.operator: 'Like' is not one of In, NotIn, Exists, DoesNotExist, Gt, Lt",
            id="operator",
        ),
    ],
)
def test_malformed_pod_is_reported_with_its_path(spec: Any, finding: str) -> None:
    assert finding in findings_of(spec)


@pytest.mark.regression
def test_pods_with_claims_never_fit_by_their_requests_alone() -> None:
    node = NodeView("n", "", {}, (), True, True, (), {"cpu": 8000, "pods": 9}, {}, None)
    claims = [{"name": "a", "resourceClaimTemplateName": "t"}, {"name": "b", "resourceClaimName": "c"}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"resourceClaims": claims}}
    (checked,) = Checker(Snapshot("test", None, (node,), ())).check(pod)
    assert checked.verdict
    assert answer(checked.verdict) == (
        "unclear: it is unknown which devices its pods get: resourceclaimtemplate/t -n default is unknown"
    )


def test_node_filter_has_selector_terms_and_tolerations() -> None:
    spec = {
        "nodeSelector": {"pool": "gpu"},
        "tolerations": [{"operator": "Exists"}],
        **with_node_affinity([{"key": "zone", "operator": "In", "values": ["a"]}]),
    }
    node_filter = pods_of("p", 1, Field(spec)).node_filter
    assert node_filter.selector == (("pool", "gpu"),)
    assert node_filter.terms == ((Expression("zone", "In", ("a",)),),)
    assert node_filter.tolerations == (Toleration(operator="Exists"),)


TEMPLATE = {"spec": {"containers": [container(limits={GPU: 8})]}}


def job(**spec: Any) -> Object:
    return {"apiVersion": "batch/v1", "kind": "Job", "spec": {**spec, "template": TEMPLATE}}


def app(kind: str, **spec: Any) -> Object:
    return {"apiVersion": "apps/v1", "kind": kind, "spec": {**spec, "template": TEMPLATE}}


@pytest.mark.parametrize(
    ("document", "pods"),
    [
        pytest.param(job(parallelism=4, completions=4), 4, id="parallel-job"),
        pytest.param(job(parallelism=4, completions=3), 3, id="fewer-completions"),
        pytest.param(job(), 1, id="plain-job"),
        pytest.param(app("Deployment", replicas=5), 5, id="deployment"),
        pytest.param(app("StatefulSet"), 1, id="stateful-set"),
    ],
)
def test_workload_of_one_template_has_one_set_of_pods(document: Object, pods: int) -> None:
    assert sets_of(document) == [("pods", pods)]
    assert structure(document).copies == 1


def test_pod_is_a_set_of_its_own() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": TEMPLATE["spec"]}
    assert sets_of(pod) == [("pod", 1)]
    assert structure(pod).copies == 1


def test_jobset_has_the_pods_of_all_jobs_of_a_kind() -> None:
    jobs = [
        {"name": "a", "replicas": 2, "template": {"spec": {"parallelism": 3, "template": TEMPLATE}}},
        {"name": "b", "replicas": 1, "template": {"spec": {"parallelism": 4, "template": TEMPLATE}}},
    ]
    job_set = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {"replicatedJobs": jobs}}
    assert sets_of(job_set) == [("a", 6), ("b", 4)]
    assert structure(job_set).copies == 1


def test_leader_of_a_leaderworkerset_is_a_set_where_it_has_a_template() -> None:
    groups = {"size": 5, "leaderTemplate": TEMPLATE, "workerTemplate": TEMPLATE}
    assert sets_of(groups_of(groups)) == [("leader", 1), ("worker", 4)]
    assert structure(groups_of(groups)).copies == 3

    without_leader = {"size": 5, "workerTemplate": TEMPLATE}
    assert sets_of(groups_of(without_leader)) == [("pods", 5)]
    assert structure(groups_of(without_leader)).copies == 3


def groups_of(group: Object) -> Object:
    """A LeaderWorkerSet of three groups."""
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "spec": {"replicas": 3, "leaderWorkerTemplate": group},
    }


def test_pytorchjob_has_a_set_for_each_role() -> None:
    roles = {"Master": {"template": TEMPLATE}, "Worker": {"replicas": 7}}
    pytorch_job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": roles}}
    assert sets_of(pytorch_job) == [("Master", 1), ("Worker", 7)]
    assert structure(pytorch_job).copies == 1


RAY_CLUSTER = {
    "headGroupSpec": {"template": TEMPLATE},
    "workerGroupSpecs": [
        {"groupName": "big", "replicas": 2, "numOfHosts": 4, "template": TEMPLATE},
        {"groupName": "off", "replicas": 3, "suspend": True, "template": TEMPLATE},
        {"template": TEMPLATE},
    ],
}


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        pytest.param("RayCluster", RAY_CLUSTER, id="cluster"),
        pytest.param("RayJob", {"rayClusterSpec": RAY_CLUSTER}, id="job"),
        pytest.param("RayService", {"rayClusterConfig": RAY_CLUSTER}, id="service"),
    ],
)
def test_ray_has_a_set_for_each_group(kind: str, spec: Object) -> None:
    ray = {"apiVersion": "ray.io/v1", "kind": kind, "spec": spec}
    assert sets_of(ray) == [("head", 1), ("big", 8), ("off", 0), ("worker-group-2", 0)]
    assert structure(ray).copies == 1


def test_pods_take_what_their_template_requests() -> None:
    gpus = []
    for pods in structure(leader_worker_set(1, 3)).whole:
        gpus.append(dict(pods.requests)[GPU])
    assert gpus == [1, 8]


@pytest.mark.parametrize(("kind", "separate"), [("Deployment", True), ("ReplicaSet", True), ("StatefulSet", False)])
def test_only_pods_of_a_deployment_stand_alone(kind: str, separate: bool) -> None:
    assert structure(workload("apps/v1", kind, {"template": template()})).has_separate_pods is separate


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({}, id="empty"),
        pytest.param({"kind": "Job"}, id="no-version"),
        pytest.param({"apiVersion": 1, "kind": ["Job"]}, id="malformed"),
        pytest.param({"kind": "ConfigMap"}, id="config-map"),
    ],
)
def test_document_of_another_kind_has_no_pods(document: Any) -> None:
    assert structure_of(Field(document)) is None


@pytest.mark.parametrize(
    ("document", "field", "message"),
    [
        pytest.param(
            workload("batch/v1", "Job", {"parallelism": -1, "completions": -1, "template": template()}),
            "spec.parallelism",
            "is -1, expected a whole number of at least 0",
            id="negative-parallelism",
        ),
        pytest.param(
            workload("jobset.x-k8s.io/v1", "JobSet", {"replicatedJobs": [7]}),
            "spec.replicatedJobs[0]",
            "is 7, expected an object",
            id="number-as-job",
        ),
        pytest.param(
            leader_worker_set(1, 0),
            "spec.leaderWorkerTemplate.size",
            "is 0, expected a whole number of at least 1",
            id="size-of-zero",
        ),
        pytest.param(workload("ray.io/v1", "RayCluster", "x"), "spec", "is 'x', expected an object", id="text-as-spec"),
    ],
)
def test_malformed_counts_are_reported_with_their_path(document: Object, field: str, message: str) -> None:
    root = Field(document)
    structure_of(root)
    assert (field, message) in [(finding.field, finding.message) for finding in root.findings]


def sub_groups_of(size: int, sub_group: int, *, leader_excluded: bool = False) -> list[tuple[list[int], int]]:
    """Pods of each part of a sub-group (leader, workers), and how many sub-groups are alike."""
    found = []
    pods_in_all = 0
    for parts, times in sub_groups(
        structure(leader_worker_set(1, size)), sub_group, is_leader_excluded=leader_excluded
    ):
        counts = [pods.count for pods in parts]
        found.append((counts, times))
        pods_in_all += sum(counts) * times
    assert pods_in_all == size - leader_excluded
    return found


def test_leader_is_an_extra_pod_where_workers_can_be_divided() -> None:
    assert sub_groups_of(5, 2) == [([1, 2], 1), ([2], 1)]
    assert sub_groups_of(9, 2) == [([1, 2], 1), ([2], 3)]


def test_leader_is_one_of_the_first_where_all_pods_can_be_divided() -> None:
    assert sub_groups_of(6, 2) == [([1, 1], 1), ([2], 2)]
    assert sub_groups_of(1, 1) == [([1], 1)]


def test_leader_excluded_is_in_no_sub_group() -> None:
    assert sub_groups_of(5, 2, leader_excluded=True) == [([2], 2)]


def test_last_sub_group_is_filled_as_far_as_it_goes() -> None:
    assert sub_groups_of(6, 4) == [([1, 3], 1), ([2], 1)]


@pytest.mark.parametrize(
    ("total", "expected"),
    [
        pytest.param(10, [(4, 2), (2, 1)], id="with-a-rest"),
        pytest.param(8, [(4, 2)], id="without-a-rest"),
        pytest.param(3, [(3, 1)], id="less-than-one"),
    ],
)
def test_chunks_of_four_end_with_the_rest(total: int, expected: list[tuple[int, int]]) -> None:
    assert list(chunks(total, 4)) == expected


LABELS = {"zone": "a", "gpus": "8"}


@pytest.mark.regression
@pytest.mark.parametrize(
    ("key", "operator", "values", "holds"),
    [
        ("zone", "In", ("a", "b"), True),
        ("zone", "In", ("b",), False),
        ("nowhere", "In", ("a",), False),
        ("zone", "NotIn", ("b",), True),
        ("zone", "NotIn", ("a",), False),
        ("nowhere", "NotIn", ("a",), True),
        ("zone", "Exists", (), True),
        ("nowhere", "Exists", (), False),
        ("nowhere", "DoesNotExist", (), True),
        ("zone", "DoesNotExist", (), False),
        ("gpus", "Gt", ("7",), True),
        ("gpus", "Gt", ("8",), False),
        ("gpus", "Lt", ("9",), True),
        ("zone", "Lt", ("9",), False),
        ("nowhere", "Gt", ("1",), False),
        ("gpus", "Gt", (), False),
        ("gpus", "Gt", ("many",), False),
    ],
    ids=str,
)
def test_expression_holds_for_labels(key: str, operator: Operator, values: tuple[str, ...], holds: bool) -> None:
    assert Expression(key, operator, values).holds("node-1", LABELS) is holds


def test_field_of_an_expression_is_the_name_of_the_node() -> None:
    expression = Expression("metadata.name", "In", ("node-1",), is_field=True)
    assert expression.holds("node-1", {})
    assert not expression.holds("node-2", {"metadata.name": "node-1"})


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        pytest.param(Toleration("gpu", "Equal", "yes", "NoSchedule"), True, id="the-same"),
        pytest.param(Toleration("gpu", "Equal", "no", "NoSchedule"), False, id="other-value"),
        pytest.param(Toleration("gpu", "Equal", "yes", "NoExecute"), False, id="other-effect"),
        pytest.param(Toleration("gpu", "Exists"), True, id="any-value"),
        pytest.param(Toleration("cpu", "Exists"), False, id="other-key"),
        pytest.param(Toleration("", "Exists"), True, id="any-key"),
        pytest.param(Toleration("", "Equal"), False, id="no-key"),
        pytest.param(Toleration("gpu", "Equal", "yes"), True, id="any-effect"),
    ],
)
def test_toleration_covers_a_taint(toleration: Toleration, covers: bool) -> None:
    assert toleration.covers(Taint("gpu", "yes", "NoSchedule")) is covers


ZONE_A = {"key": "zone", "operator": "In", "values": ["a"]}
ZONE_B = {"key": "zone", "operator": "In", "values": ["b"]}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        pytest.param(with_node_affinity([ZONE_B], [ZONE_A]), "", id="terms-are-alternatives"),
        pytest.param(
            with_node_affinity([ZONE_B, ZONE_A]), "does not match the node affinity", id="expressions-are-not"
        ),
        pytest.param(with_node_affinity([]), "does not match the node affinity", id="empty-term"),
        pytest.param({"nodeSelector": {"zone": "b"}}, "does not match nodeSelector zone=b", id="selector"),
    ],
)
def test_node_is_rejected_by_its_labels(spec: Object, reason: str) -> None:
    assert rejection(spec) == reason


def test_node_is_rejected_by_its_taint() -> None:
    assert rejection({}, Taint("dedicated", "infra", "NoSchedule")) == "has taint dedicated=infra:NoSchedule"


def rejection(spec: Object, *taints: Taint) -> str:
    """Why a node in zone a takes no pod of this spec; empty: it does."""
    node_filter = pods_of("p", 1, Field(spec)).node_filter
    exclusion = node_filter.rejection("n", LABELS, taints)
    return why(exclusion) if exclusion else ""
