"""What holds pods back before a scheduler looks at them: gates, suspension, quota, refusals, unknown schedulers."""

from typing import Any

import pytest
from tests.support.checked_cluster import GPU, CheckedCluster
from tests.support.checking import error, warning

pytestmark = pytest.mark.regression

Object = dict[str, Any]
SPEC = "spec.template.spec"
RESOURCES = f"{SPEC}.containers[0].resources"
FITS = "fits: 2 pods on 2 nodes"
REFUSED = "cannot fit: the API server rejects its pods"
SUSPENDED = "does not fit now: spec.suspend is true: no pods are created until it is set to false"


@pytest.fixture
def cluster() -> CheckedCluster:
    """Two nodes of 8 GPUs, 64 CPU cores and 1 TiB of memory; a Job of two pods with 8 GPUs each."""
    return CheckedCluster("placement/clusters/two-nodes", "placement/plain-job")


def named(version: str, kind: str, name: str, **fields: Any) -> Object:
    """An object without a namespace."""
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name},
        **fields,
    }


def in_ml(kind: str, name: str, **fields: Any) -> Object:
    """An object of the Job's namespace."""
    return {**named("v1", kind, name, **fields), "metadata": {"name": name, "namespace": "ml"}}


def quota(hard: Object, used: Object | None = None, **spec: Any) -> Object:
    """A ResourceQuota of the Job's namespace."""
    return in_ml("ResourceQuota", "team", spec={"hard": hard, **spec}, status={"hard": hard, "used": used or {}})


def limit_range(**container: Any) -> Object:
    """A LimitRange of the Job's namespace, for each container."""
    return in_ml("LimitRange", "bounds", spec={"limits": [{"type": "Container", **container}]})


def runtime_class(**fields: Any) -> Object:
    """The RuntimeClass `kata`."""
    return named("node.k8s.io/v1", "RuntimeClass", "kata", handler="kata", **fields)


def priority_class(name: str) -> Object:
    """A PriorityClass of 1000."""
    return named("scheduling.k8s.io/v1", "PriorityClass", name, value=1000)


def is_held(cluster: CheckedCluster) -> bool:
    """Whether the Job does not fit any more."""
    return cluster.check().verdict != FITS


def test_plain_job_fits_where_nothing_holds_it_back(cluster: CheckedCluster) -> None:
    assert cluster.check().verdict == FITS


def test_scheduling_gate_holds_the_pods(cluster: CheckedCluster) -> None:
    cluster.edit_workload(f"{SPEC}.schedulingGates", [{"name": "example.com/data"}])

    assert cluster.check().verdict == (
        "does not fit now: scheduling gates on pods (example.com/data) block scheduling: "
        "no scheduler considers its pods until they are removed"
    )


def test_gate_that_its_system_removes_does_not_count(cluster: CheckedCluster) -> None:
    cluster.edit_workload(f"{SPEC}.schedulingGates", [{"name": "kueue.x-k8s.io/admission"}])

    assert cluster.check().verdict == FITS


def test_suspended_job_has_no_pods(cluster: CheckedCluster) -> None:
    cluster.edit_workload("spec.suspend", True)

    assert cluster.check().verdict == SUSPENDED


def test_unknown_scheduler_is_unclear(cluster: CheckedCluster) -> None:
    cluster.edit_workload(f"{SPEC}.schedulerName", "mine")

    assert cluster.check().verdict == "unclear: schedulerName mine: the rules of that scheduler are unknown"


@pytest.mark.regression
@pytest.mark.parametrize(
    ("scheduler", "verdict"),
    [
        pytest.param("default-scheduler", "fits: 2 pods on 2 nodes", id="kube-scheduler"),
        pytest.param(
            "volcano",
            "unclear: schedulerName volcano: Volcano places these pods, and only the rules of Kubernetes were checked",
            id="volcano",
        ),
    ],
)
def test_other_scheduler_than_the_one_it_is_read_for_is_unclear(
    cluster: CheckedCluster, scheduler: str, verdict: str
) -> None:
    cluster.edit_workload(f"{SPEC}.schedulerName", scheduler)

    assert cluster.check().verdict == verdict


def test_unknown_scheduler_still_cannot_fit_without_room(cluster: CheckedCluster) -> None:
    cluster.edit_workload(f"{SPEC}.schedulerName", "mine")
    cluster.gpus_per_pod(16)

    assert cluster.check().verdict.startswith("cannot fit: a pod of train needs 16 GPUs")


def test_exceeded_quota_holds_pods_back(cluster: CheckedCluster) -> None:
    cluster.add(quota({f"requests.{GPU}": "16"}, {f"requests.{GPU}": "8"}))

    assert cluster.check().verdict == (
        "does not fit now: not all of its pods are created: exceeded quota: team, requested: "
        "requests.nvidia.com/gpu=16, used: requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=16"
    )


def test_quota_smaller_than_the_workload_never_lets_it_fit(cluster: CheckedCluster) -> None:
    cluster.add(quota({"pods": "1"}))

    assert cluster.check().verdict == (
        "cannot fit: not all of its pods are created: exceeded quota: team, requested: pods=2, used: pods=0, "
        "limited: pods=1"
    )


def test_quota_of_cpu_wants_each_container_to_name_it(cluster: CheckedCluster) -> None:
    cluster.add(quota({"limits.memory": "1Ti"}))

    assert cluster.check().verdict == (
        "cannot fit: the API server rejects its pods: failed quota: team: must specify limits.memory for: main"
    )


@pytest.mark.parametrize(
    "bound",
    [
        pytest.param(quota({"pods": "1"}), id="quota"),
        pytest.param(limit_range(default={"memory": "2Ti"}), id="limit-range"),
    ],
)
def test_bound_of_another_namespace_does_not_count(cluster: CheckedCluster, bound: Object) -> None:
    cluster.add(bound)
    assert is_held(cluster)

    cluster.edit(f"{bound['kind']}/{bound['metadata']['name']}", "metadata.namespace", "web")
    assert not is_held(cluster)


@pytest.mark.parametrize(
    ("spec", "counts"),
    [
        pytest.param({"scopes": ["NotTerminating"]}, True, id="without-deadline"),
        pytest.param({"scopes": ["Terminating"]}, False, id="with-deadline"),
        pytest.param({"scopes": ["NotBestEffort"]}, True, id="not-best-effort"),
        pytest.param({"scopes": ["BestEffort"]}, False, id="best-effort"),
        pytest.param({"scopes": ["PriorityClass"]}, False, id="any-class"),
        pytest.param({"scopes": ["CrossNamespacePodAffinity"]}, False, id="affinity"),
    ],
)
def test_scope_of_a_quota_selects_pods(cluster: CheckedCluster, spec: Object, counts: bool) -> None:
    cluster.add(quota({"pods": "1"}, **spec))
    cluster.edit_workload(f"{RESOURCES}.requests", {"cpu": "1"})

    assert is_held(cluster) is counts


@pytest.mark.parametrize(
    ("operator", "values", "counts"),
    [
        pytest.param("In", ["high"], True, id="in"),
        pytest.param("In", ["low"], False, id="in-others"),
        pytest.param("NotIn", ["low"], True, id="not-in"),
        pytest.param("Exists", [], True, id="exists"),
        pytest.param("DoesNotExist", [], False, id="does-not-exist"),
    ],
)
def test_quota_selects_priority_classes(
    cluster: CheckedCluster, operator: str, values: list[str], counts: bool
) -> None:
    requirement = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    cluster.add(priority_class("high"))
    cluster.add(quota({"pods": "1"}, scopeSelector={"matchExpressions": [requirement]}))
    cluster.edit_workload(f"{SPEC}.priorityClassName", "high")

    assert is_held(cluster) is counts


def test_limit_range_defaults_count_as_requests(cluster: CheckedCluster) -> None:
    cluster.add(limit_range(default={"memory": "2Ti"}))

    assert cluster.check().verdict == (
        "cannot fit: a pod of train needs 2048 GiB of memory, and no node that it may use has more than 1024 GiB (n0)"
    )


def test_limit_range_refuses_what_is_over_its_maximum(cluster: CheckedCluster) -> None:
    cluster.add(limit_range(max={GPU: "4"}))

    answer = cluster.check()

    refusal = error(
        "pods/limit-range",
        RESOURCES,
        "maximum nvidia.com/gpu usage per Container is 4, but limit is 8",
        fix="LimitRange bounds of namespace ml requires this",
    )
    assert answer.findings == [refusal]
    assert answer.verdict == REFUSED


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        pytest.param(
            {"type": "Pod", "max": {"cpu": "1500m"}},
            "maximum cpu usage per Pod is 1500m, but limit is 2",
            id="large-pod",
        ),
        pytest.param(
            {"maxLimitRequestRatio": {"cpu": "1.5"}},
            "cpu max limit to request ratio per Container is 1.5, but provided ratio is 2.000000",
            id="limit-far-above-request",
        ),
    ],
)
def test_limit_range_refuses_two_cores_for_one(cluster: CheckedCluster, limits: Object, message: str) -> None:
    cluster.add(limit_range(**limits))
    cluster.edit_workload(f"{RESOURCES}.requests", {"cpu": "1"})
    cluster.edit_workload(f"{RESOURCES}.limits.cpu", "2")

    messages = [finding.message for finding in cluster.check().findings]
    assert messages == [message]


def test_runtime_class_adds_its_overhead(cluster: CheckedCluster) -> None:
    cluster.add(runtime_class(overhead={"podFixed": {"cpu": "60"}}))
    cluster.edit_workload(f"{SPEC}.runtimeClassName", "kata")
    cluster.edit_workload(f"{RESOURCES}.requests", {"cpu": "8"})

    assert cluster.check().verdict == (
        "cannot fit: a pod of train needs 68 CPU cores, and no node that it may use has more than 64 (n0)"
    )


def test_runtime_class_selects_nodes(cluster: CheckedCluster) -> None:
    cluster.add(runtime_class(scheduling={"nodeSelector": {"sandbox": "yes"}}))
    cluster.edit_workload(f"{SPEC}.runtimeClassName", "kata")
    cluster.label_node("n0", "sandbox", "yes")

    answer = cluster.check()
    assert answer.verdict.startswith("cannot fit: train needs 16 GPUs, the nodes it may use have 8")
    assert answer.explanation == ["1 node is left out: does not match nodeSelector sandbox=yes (n1)"]


def test_runtime_class_tolerates_taints(cluster: CheckedCluster) -> None:
    toleration = {"key": "sandbox", "operator": "Exists"}
    cluster.add(runtime_class(scheduling={"tolerations": [toleration]}))
    cluster.taint("n0", "sandbox=yes:NoSchedule")
    cluster.taint("n1", "sandbox=yes:NoSchedule")
    assert cluster.check().verdict.startswith("cannot fit")

    cluster.edit_workload(f"{SPEC}.runtimeClassName", "kata")
    assert cluster.check().verdict == FITS


def test_runtime_class_against_the_own_selector_is_refused(cluster: CheckedCluster) -> None:
    cluster.add(runtime_class(scheduling={"nodeSelector": {"sandbox": "yes"}}))
    cluster.edit_workload(f"{SPEC}.runtimeClassName", "kata")
    cluster.edit_workload(f"{SPEC}.nodeSelector", {"sandbox": "no"})

    answer = cluster.check()

    conflict = "conflict: runtimeClass.scheduling.nodeSelector[sandbox] = yes; pod.spec.nodeSelector[sandbox] = no"
    assert [finding.message for finding in answer.findings] == [conflict]
    assert answer.verdict == REFUSED


@pytest.mark.parametrize(
    ("field", "existing", "rule", "message"),
    [
        pytest.param(
            "runtimeClassName",
            runtime_class(),
            "pods/runtime-class-exists",
            'pod rejected: RuntimeClass "missing" not found',
            id="runtime-class",
        ),
        pytest.param(
            "priorityClassName",
            priority_class("low"),
            "pods/priority-class-exists",
            "no PriorityClass with name missing was found",
            id="priority-class",
        ),
    ],
)
def test_missing_class_refuses_the_pods(
    cluster: CheckedCluster, field: str, existing: Object, rule: str, message: str
) -> None:
    cluster.edit_workload(f"{SPEC}.{field}", "missing")
    cluster.add(existing)

    answer = cluster.check()

    missing = error(rule, f"{SPEC}.{field}", message, fix="create it, or name one that exists")
    assert answer.findings == [missing]
    assert answer.verdict == REFUSED


@pytest.mark.parametrize(
    ("field", "why"),
    [
        pytest.param(
            "runtimeClassName",
            "RuntimeClass any was not read, so the overhead, node selector and tolerations that it adds are unknown",
            id="runtime-class",
        ),
        pytest.param(
            "priorityClassName",
            "PriorityClass any was not read: the API server rejects the pods if it is missing",
            id="priority-class",
        ),
    ],
)
def test_unread_class_is_unclear(cluster: CheckedCluster, field: str, why: str) -> None:
    cluster.edit_workload(f"{SPEC}.{field}", "any")

    assert cluster.check().verdict == f"unclear: {why}"


def test_class_beside_the_workload_does_not_stand_for_all(cluster: CheckedCluster) -> None:
    cluster.edit_workload(f"{SPEC}.runtimeClassName", "gvisor")
    cluster.beside["RuntimeClass/kata"] = runtime_class()

    answer = cluster.check()
    assert answer.findings == []
    assert answer.verdict.startswith("unclear: RuntimeClass gvisor was not read")


def test_priority_classes_of_kubernetes_itself_exist(cluster: CheckedCluster) -> None:
    cluster.edit_workload(f"{SPEC}.priorityClassName", "system-cluster-critical")

    assert cluster.check().verdict == FITS


@pytest.mark.parametrize(
    ("resources", "field", "rule", "message"),
    [
        pytest.param(
            {"limits": {GPU: "500m"}},
            f".limits[{GPU}]",
            "pods/integer",
            "must be an integer",
            id="fraction",
        ),
        pytest.param(
            {"requests": {GPU: "1"}},
            ".limits",
            "pods/limit-required",
            "Limit must be set for non overcommitable resources",
            id="without-limit",
        ),
        pytest.param(
            {"requests": {GPU: "1"}, "limits": {GPU: "2"}},
            f".requests[{GPU}]",
            "pods/limit-equal",
            "must be equal to nvidia.com/gpu limit of 2",
            id="unequal",
        ),
        pytest.param(
            {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
            ".requests.cpu",
            "pods/request-over-limit",
            "must be less than or equal to cpu limit of 1",
            id="over-limit",
        ),
        pytest.param(
            {"limits": {"hugepages-2Mi": "4Mi"}},
            "",
            "pods/hugepages",
            "HugePages require cpu or memory",
            id="huge-pages",
        ),
        pytest.param(
            {"limits": {"gpu": "1"}},
            ".limits.gpu",
            "pods/resource-name",
            "must be a standard resource for containers",
            id="name",
        ),
    ],
)
def test_resources_that_the_api_server_refuses(
    cluster: CheckedCluster, resources: Object, field: str, rule: str, message: str
) -> None:
    """tests/apiserver/test_pod_refusals.py asks the API server."""
    cluster.edit_workload(RESOURCES, resources)

    answer = cluster.check()

    refusals = [(finding.rule, finding.field, finding.message) for finding in answer.findings]
    assert refusals == [(rule, RESOURCES + field, message)]
    assert answer.verdict == REFUSED


@pytest.mark.parametrize(
    ("on_host", "ports", "message"),
    [
        pytest.param(
            True,
            [{"containerPort": 80, "hostPort": 90}],
            "must match `containerPort` when `hostNetwork` is true",
            id="other-port-on-the-host-network",
        ),
        pytest.param(
            False,
            [{"containerPort": 80, "hostPort": 90}, {"containerPort": 81, "hostPort": 90}],
            "Duplicate value: TCP//90",
            id="same-host-port-twice",
        ),
        pytest.param(
            True,
            [{"containerPort": 80}, {"containerPort": 80}],
            "Duplicate value: TCP//80",
            id="same-port-twice-on-the-host-network",
        ),
    ],
)
def test_host_ports_that_the_api_server_refuses(
    cluster: CheckedCluster, on_host: bool, ports: list[Object], message: str
) -> None:
    cluster.edit_workload(f"{SPEC}.hostNetwork", on_host)
    cluster.edit_workload(f"{SPEC}.containers[0].ports", ports)

    answer = cluster.check()

    assert [(finding.rule, finding.message) for finding in answer.findings] == [("pods/host-port", message)]
    assert answer.verdict == REFUSED


def test_host_ports_of_two_protocols_are_two_ports(cluster: CheckedCluster) -> None:
    tcp = {"containerPort": 80, "hostPort": 90}
    cluster.edit_workload(f"{SPEC}.containers[0].ports", [tcp, {**tcp, "protocol": "UDP"}])

    assert cluster.check().verdict == FITS


def test_overhead_without_runtime_class_is_warned_of(cluster: CheckedCluster) -> None:
    cluster.edit_workload(f"{SPEC}.overhead", {"cpu": "1"})

    assert cluster.check().findings == [
        warning(
            "pods/overhead",
            f"{SPEC}.overhead",
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
            fix="remove it: the RuntimeClass sets it",
        )
    ]


def test_suspended_jobset_is_left_to_its_queue(cluster: CheckedCluster) -> None:
    """Kueue suspends what it has not admitted, and ends that itself."""
    cluster.edit_workload("spec.suspend", True)
    cluster.edit_workload("metadata.labels", {"kueue.x-k8s.io/queue-name": "q"})

    assert "spec.suspend" not in cluster.check().verdict


def test_suspended_wrapper_holds_what_is_in_it(cluster: CheckedCluster) -> None:
    spec = {"suspend": True, "components": [{"template": cluster.workload}]}
    cluster.workload = named("workload.codeflare.dev/v1beta2", "AppWrapper", "whole", spec=spec)

    assert cluster.check().verdict == SUSPENDED


def test_suspended_jobset_has_no_pods(cluster: CheckedCluster) -> None:
    jobs = [{"name": "w", "template": {"spec": {"template": cluster.workload["spec"]["template"]}}}]
    spec = {"suspend": True, "replicatedJobs": jobs}
    cluster.workload = named("jobset.x-k8s.io/v1alpha2", "JobSet", "train", spec=spec)

    assert cluster.check().verdict == SUSPENDED


def test_suspended_job_of_kubeflow_has_no_pods(cluster: CheckedCluster) -> None:
    worker = {"replicas": 1, "template": cluster.workload["spec"]["template"]}
    spec = {"runPolicy": {"suspend": True}, "pytorchReplicaSpecs": {"Worker": worker}}
    cluster.workload = named("kubeflow.org/v1", "PyTorchJob", "train", spec=spec)

    assert cluster.check().verdict == SUSPENDED.replace("spec.suspend", "spec.runPolicy.suspend")


@pytest.mark.parametrize("nonsense", [7, "x", [], [1], {}, {"a": 1}], ids=repr)
@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("ResourceQuota/team", "spec.scopeSelector.matchExpressions[0]"),
        ("ResourceQuota/team", "spec.hard"),
        ("ResourceQuota/team", "status"),
        ("LimitRange/bounds", "spec.limits[0].default"),
        ("LimitRange/bounds", "spec.limits[0].maxLimitRequestRatio"),
        ("RuntimeClass/kata", "scheduling"),
        ("RuntimeClass/kata", "overhead"),
        ("PriorityClass/high", "value"),
    ],
)
def test_nonsense_in_other_objects_is_passed_over(cluster: CheckedCluster, name: str, path: str, nonsense: Any) -> None:
    requirement = {"scopeName": "PriorityClass", "operator": "Exists"}
    cluster.add(quota({"pods": "9"}, scopeSelector={"matchExpressions": [requirement]}))
    cluster.add(limit_range(default={"memory": "1Gi"}, maxLimitRequestRatio={"memory": "2"}))
    cluster.add(runtime_class(scheduling={"nodeSelector": {}}, overhead={"podFixed": {"cpu": "1"}}))
    cluster.add(priority_class("high"))
    cluster.edit_workload(f"{SPEC}.runtimeClassName", "kata")
    cluster.edit_workload(f"{SPEC}.priorityClassName", "high")
    assert cluster.check().verdict == FITS

    cluster.edit(name, path, nonsense)
    assert cluster.check().verdict
