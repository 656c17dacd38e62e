"""No verdict where a field that can decide it was not read."""

from typing import Any

import pytest
from tests.support.checked_cluster import CheckedCluster
from tests.support.checking import checker_of
from tests.support.recorded import CheckQuestion
from tests.support.workloads import Object, template, workload
from toposcope.placement.check import Checked

FITS = "fits: 2 pods on 2 nodes"
FIELD = "Toposcope does not know this field, which may decide where pods run"
KEY = "Toposcope does not know this key, which may decide where pods run"
NAME = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
    "'-' or '.', and must start and end with an alphanumeric character"
)
PODS = "Toposcope does not read the pods of this kind"


@pytest.fixture
def cluster() -> CheckedCluster:
    """Two empty nodes with 8 GPUs each, and a Deployment of two pods with 8 GPUs."""
    cluster = CheckedCluster("placement/clusters/two-nodes", "placement/kueue-job")
    cluster.workload = deployment()
    return cluster


def deployment(replicas: int = 2, **spec: Any) -> Object:
    return workload("apps/v1", "Deployment", {"replicas": replicas, "template": template(8, **spec)})


def results(cluster: CheckedCluster, document: Object) -> tuple[Checked, ...]:
    """What each system says of a document; of none, where it makes no pods."""
    question = CheckQuestion(document, tuple(cluster.objects.values()), {}, ())
    return checker_of(question).check(document)


def test_workload_when_all_fields_are_read_fits(cluster: CheckedCluster) -> None:
    answer = cluster.check()
    assert answer.verdict == FITS
    assert answer.json["unread"] == []


def test_field_when_not_modelled_makes_it_unclear(cluster: CheckedCluster) -> None:
    cluster.workload = deployment(os={"name": "windows"})
    answer = cluster.check()
    assert answer.verdict == f"unclear: spec.template.spec.os.name is not read; without it: {FITS}"
    assert answer.json["unread"] == [
        {"field": "spec.template.spec.os.name", "line": None, "why": "kubelets of another system refuse the pod"}
    ]
    assert answer.json["well"] is False


def test_field_when_unknown_makes_it_unclear(cluster: CheckedCluster) -> None:
    cluster.workload = deployment(gangway={"of": 3})
    answer = cluster.check()
    assert answer.json["unread"] == [{"field": "spec.template.spec.gangway", "line": None, "why": FIELD}]


def test_fields_when_several_are_unread_are_all_named(cluster: CheckedCluster) -> None:
    cluster.workload = deployment(nodeName="n0", os={"name": "windows"})
    pod = "spec.template.spec"
    assert cluster.check().verdict == f"unclear: {pod}.nodeName, {pod}.os.name are not read; without them: {FITS}"


def test_room_when_short_is_said_beside_what_is_unread(cluster: CheckedCluster) -> None:
    cluster.workload = deployment(replicas=3, nodeName="n0")
    verdict = cluster.check().verdict
    assert verdict.startswith("unclear: spec.template.spec.nodeName is not read; without it: cannot fit: ")


@pytest.mark.parametrize("value", [None, {}, {"name": "linux"}])
def test_field_when_it_decides_nothing_leaves_the_verdict(cluster: CheckedCluster, value: Any) -> None:
    cluster.workload = deployment(os=value)
    assert cluster.check().verdict == FITS


def test_key_of_a_system_when_unknown_makes_it_unclear(cluster: CheckedCluster) -> None:
    cluster.annotate_pods("scheduling.k8s.io/later", "true")
    field = "spec.template.metadata.annotations[scheduling.k8s.io/later]"
    assert cluster.check().json["unread"] == [{"field": field, "line": None, "why": KEY}]


@pytest.mark.parametrize(
    "key",
    [
        "scheduling.x-k8s.io/pod-group",
        "pod-group.scheduling.sigs.k8s.io/min-available",
        "yunikorn.apache.org/task-group-name",
        "gang.scheduling.koordinator.sh/name",
    ],
)
def test_key_of_a_scheduler_that_is_not_modelled_makes_it_unclear(cluster: CheckedCluster, key: str) -> None:
    cluster.annotate_pods(key, "group")
    assert cluster.check().unread == [f"spec.template.metadata.annotations[{key}]"]


def test_error_when_a_field_is_unread_stays_an_error(cluster: CheckedCluster) -> None:
    cluster.workload = deployment(nodeName="n0", overhead={"cpu": "-1"})
    answer = cluster.check()
    assert [finding.rule for finding in answer.findings] == ["pods/quantity"]
    assert answer.json["well"] is False


def test_field_in_a_list_has_the_path_of_its_item(cluster: CheckedCluster) -> None:
    items = [deployment(), deployment(nodeName="n0")]
    first, second = results(cluster, {"apiVersion": "v1", "kind": "List", "items": items})
    assert first.unread == ()
    assert [unread.field for unread in second.unread] == ["items[1].spec.template.spec.nodeName"]


def test_kind_when_nobody_reads_its_pods_is_unclear(cluster: CheckedCluster) -> None:
    cluster.workload = workload("serving.example.com/v1", "Service", {"blue": template(), "green": [template()]})
    answer = cluster.check()
    assert answer.verdict == "unclear: too little is known to check for room"
    assert answer.json["system"] is None
    assert answer.json["unread"] == [
        {"field": "spec.blue.spec", "line": None, "why": PODS},
        {"field": "spec.green[0].spec", "line": None, "why": PODS},
    ]


@pytest.mark.parametrize(
    ("version", "kind", "why"),
    [
        ("apps/v1", "DaemonSet", "it runs a pod on each node that its template allows, which is not checked"),
        ("serving.kserve.io/v1alpha1", "LLMInferenceService", "the pods that its controller makes of it are not read"),
    ],
)
def test_kind_when_it_makes_pods_of_its_own_is_unclear(
    cluster: CheckedCluster, version: str, kind: str, why: str
) -> None:
    cluster.workload = workload(version, kind, {"template": template()})
    assert cluster.check().json["unread"] == [{"field": "kind", "line": None, "why": why}]


@pytest.mark.parametrize(
    ("version", "kind", "content"),
    [
        ("v1", "ConfigMap", {"containers": ["a", {"b": "c"}]}),
        ("v1", "PodTemplate", template()),
        ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", template()),
    ],
)
def test_kind_when_it_makes_no_pods_has_no_answer(
    cluster: CheckedCluster, version: str, kind: str, content: Object
) -> None:
    assert results(cluster, workload(version, kind, content)) == ()


def app_wrapper(*components: Object, **metadata: Any) -> Object:
    spec = {"components": [{"template": component} for component in components]}
    wrapper = workload("workload.codeflare.dev/v1beta2", "AppWrapper", spec)
    wrapper["metadata"] |= metadata
    return wrapper


def test_app_wrapper_of_one_object_has_its_answer(cluster: CheckedCluster) -> None:
    cluster.workload = app_wrapper(deployment(), {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}})
    assert cluster.check().verdict == FITS
    cluster.workload = app_wrapper(deployment(replicas=3))
    assert cluster.check().verdict.startswith("cannot fit: ")


def test_app_wrapper_of_several_objects_is_unclear_where_each_fits(cluster: CheckedCluster) -> None:
    first, second = results(cluster, app_wrapper(deployment(), deployment(replicas=3)))
    assert first.verdict is not None
    assert first.verdict.limitation == "the other objects that are created with it need room too"
    assert second.verdict is not None
    assert second.verdict.kind == "never"


def test_app_wrapper_when_a_field_in_it_is_unread_is_unclear(cluster: CheckedCluster) -> None:
    cluster.workload = app_wrapper(deployment(nodeName="n0"))
    (unread,) = cluster.check().json["unread"]
    assert unread["field"] == "spec.components[0].template.spec.template.spec.nodeName"


def test_app_wrapper_in_a_queue_is_admitted_as_a_whole(cluster: CheckedCluster) -> None:
    queue = {"kueue.x-k8s.io/queue-name": "queue"}
    cluster.workload = app_wrapper(deployment(replicas=1), deployment(replicas=1), labels=queue)
    answer = cluster.check()
    assert answer.workload.splitlines()[0] == "Kueue appwrapper/train -n ml"
    assert answer.verdict == FITS


@pytest.mark.parametrize(
    ("name", "messages"),
    [
        ("train-1.a", []),
        ("Train", [NAME]),
        ("a..b", [NAME]),
        ("-a", [NAME]),
        ("a" * 254, ["must be no more than 253 characters"]),
    ],
    ids=["good", "upper case", "empty label", "hyphen first", "long"],
)
def test_name_when_the_api_server_refuses_it_is_an_error(
    cluster: CheckedCluster, name: str, messages: list[str]
) -> None:
    cluster.edit_workload("metadata.name", name)
    assert [finding.message for finding in cluster.check().findings] == messages
