"""The guard of the component binding-labels on a real kube-apiserver: nobody sets, changes or removes a pod's path."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.support.api import APPLY, MERGE, ApiUnderTest, create_namespace, create_service_account, wait_until
from tests.support.bound_pods import NAMESPACE_SWITCH, waiting_pod
from tests.support.paths import MANIFESTS

pytestmark = pytest.mark.real_api("admission")

GUARD = MANIFESTS / "components" / "binding-labels" / "guard.yaml"
GROUP = "/apis/admissionregistration.k8s.io/v1"
PODS = "/api/v1/namespaces/on/pods"
PATH = "gpu.topology/path"
RACK = "gpu.topology/path-rack"
REFUSED = "nobody else may set, change or remove"
PLACED = {
    "labels": {RACK: "r1", "app": "train"},
    "annotations": {PATH: "rack=r1"},
}
FORGED = waiting_pod("forged", labels={RACK: "r1"})


@pytest.fixture(scope="module")
def cluster(real_api: ApiUnderTest) -> Iterator[ApiUnderTest]:
    """A server with the guard in force in namespace `on`, and with pod `placed` there that is bound with a path."""
    for namespace in ("on", "off"):
        create_namespace(real_api, namespace)
        create_service_account(real_api, namespace, "default")
    placed = waiting_pod("placed", **PLACED)
    real_api.create(PODS, placed)
    switched_on = {"metadata": {"labels": NAMESPACE_SWITCH}}
    real_api.patch("/api/v1/namespaces/on", switched_on)
    text = GUARD.read_text()
    policy, binding = yaml.load_all(text, yaml.CSafeLoader)
    real_api.create(f"{GROUP}/validatingadmissionpolicies", policy)
    real_api.create(f"{GROUP}/validatingadmissionpolicybindings", binding)
    wait_until(
        lambda: answer_to_pod(real_api, FORGED)[0] == 403,
        "the guard is in force",
    )
    yield real_api
    for plural in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
        real_api.request("DELETE", f"{GROUP}/{plural}/toposcope-path-labels.gpu.topology")


def answer_to_pod(api: ApiUnderTest, pod: dict[str, Any], pods: str = PODS) -> tuple[int, str]:
    """The status and message for a new pod that is not stored."""
    code, answer = api.request("POST", f"{pods}?dryRun=All", pod)
    return code, answer.get("message", "")


def answer_to_patch(api: ApiUnderTest, patch: dict[str, Any], subresource: str = "") -> tuple[int, str]:
    """The status and message for a merge patch of the placed pod that is not stored."""
    path = f"{PODS}/placed{subresource}?dryRun=All"
    code, answer = api.request("PATCH", path, patch, content_type=MERGE)
    return code, answer.get("message", "")


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"labels": {RACK: "r1"}}, id="label-of-a-level"),
        pytest.param({"labels": {PATH: "r1"}}, id="label-path"),
        pytest.param({"annotations": {PATH: "rack=r1"}}, id="annotation"),
        pytest.param({"annotations": {RACK: "r1"}}, id="annotation-of-a-level"),
    ],
)
def test_pod_that_brings_a_path_is_refused(cluster: ApiUnderTest, metadata: dict[str, Any]) -> None:
    pod = waiting_pod("brings", **metadata)
    code, message = answer_to_pod(cluster, pod)
    assert code == 403
    assert REFUSED in message
    assert "; leave " in message


@pytest.mark.parametrize("key", ["gpu.topology/pathology", "gpu.topology/state", "example.com/path"])
def test_pod_with_another_key_is_admitted(cluster: ApiUnderTest, key: str) -> None:
    pod = waiting_pod("other", labels={key: "x"})
    assert answer_to_pod(cluster, pod) == (201, "")


def test_namespace_without_the_label_is_not_guarded(cluster: ApiUnderTest) -> None:
    elsewhere = "/api/v1/namespaces/off/pods"
    assert answer_to_pod(cluster, FORGED, elsewhere) == (201, "")


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"labels": {RACK: "r9"}}, id="change-label"),
        pytest.param({"labels": {RACK: None}}, id="remove-label"),
        pytest.param({"labels": {"gpu.topology/path-block": "b1"}}, id="add-label"),
        pytest.param({"labels": None}, id="remove-all-labels"),
        pytest.param({"annotations": {PATH: "rack=r9"}}, id="change-annotation"),
        pytest.param({"annotations": {PATH: None}}, id="remove-annotation"),
        pytest.param({"annotations": None}, id="remove-all-annotations"),
    ],
)
@pytest.mark.parametrize("subresource", ["", "/status"])
def test_path_of_a_pod_stays(cluster: ApiUnderTest, subresource: str, metadata: dict[str, Any]) -> None:
    code, message = answer_to_patch(cluster, {"metadata": metadata}, subresource)
    assert code == 403
    assert REFUSED in message


@pytest.mark.parametrize("subresource", ["/resize", "/ephemeralcontainers"])
def test_subresource_that_is_not_guarded_cannot_change_it(cluster: ApiUnderTest, subresource: str) -> None:
    metadata = {
        "labels": {RACK: "r9"},
        "annotations": {PATH: None},
    }
    cluster.request(
        "PATCH",
        f"{PODS}/placed{subresource}",
        {"metadata": metadata},
        content_type=MERGE,
    )
    kept = cluster.get(f"{PODS}/placed")["metadata"]
    assert kept["labels"] == PLACED["labels"]
    assert kept["annotations"] == PLACED["annotations"]


def test_updates_that_leave_the_path_alone_pass(cluster: ApiUnderTest) -> None:
    ready = {
        "type": "Ready",
        "status": "True",
    }
    status = {
        "phase": "Running",
        "conditions": [ready],
    }
    assert answer_to_patch(cluster, {"status": status}, "/status") == (200, "")
    metadata = {
        "labels": {"app": None, "team": "a"},
        "annotations": {"example.com/note": "x"},
    }
    assert answer_to_patch(cluster, {"metadata": metadata}) == (200, "")


def test_apply_without_the_path_leaves_it_there(cluster: ApiUnderTest) -> None:
    applied = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "placed",
            "labels": {"team": "b"},
        },
    }
    path = f"{PODS}/placed?fieldManager=somebody&dryRun=All"
    code, after = cluster.request("PATCH", path, applied, content_type=APPLY)
    assert code == 200
    assert after["metadata"]["labels"] == {
        RACK: "r1",
        "app": "train",
        "team": "b",
    }


def test_pod_with_a_path_can_be_deleted(cluster: ApiUnderTest) -> None:
    code, answer = cluster.request("DELETE", f"{PODS}/placed?dryRun=All")
    assert code == 200, answer
