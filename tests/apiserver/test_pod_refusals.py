"""What `toposcope check` says against pods, and what a real API server says of the same ones."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.api import ApiUnderTest, create_namespace, create_service_account, wait_until
from tests.support.checking import check

pytestmark = pytest.mark.real_api("the embedded server admits every pod")

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
PODS = "/api/v1/namespaces/ml/pods?dryRun=All"
PATHS = {
    "LimitRange": "/api/v1/namespaces/ml/limitranges",
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n0"},
    "status": {
        "allocatable": {"cpu": "64", "memory": "1Ti", "pods": "110", GPU: "8", "hugepages-2Mi": "1Gi"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
OTHERS: tuple[Object, ...] = (
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "low"},
        "value": 1,
    },
    {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "kata"},
        "handler": "kata",
        "overhead": {"podFixed": {"cpu": "1"}},
        "scheduling": {"nodeSelector": {"sandbox": "yes"}},
    },
    {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "bounds", "namespace": "ml"},
        "spec": {
            "limits": [
                {"type": "Container", "max": {"cpu": "32"}, "min": {"cpu": "100m"}, "default": {"cpu": "4"}},
                {"type": "Pod", "max": {"memory": "64Gi"}},
            ]
        },
    },
)
"""One of each kind, so that each kind is known."""
MEMORY = {"memory": "1Gi"}


def pod(resources: Object, **spec: Any) -> Object:
    container = {"name": "main", "image": "none", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "ml"},
        "spec": {"containers": [container], **spec},
    }


def limited(**limits: str) -> Object:
    return {"limits": {**MEMORY, **limits}}


REFUSED = {
    "gpu-fraction": pod(limited(**{GPU: "500m"})),
    "gpu-without-limit": pod({"requests": {GPU: "1"}, "limits": MEMORY}),
    "gpu-request-below-limit": pod({"requests": {GPU: "1"}, "limits": {**MEMORY, GPU: "2"}}),
    "request-above-limit": pod({"requests": {"cpu": "2"}, "limits": {**MEMORY, "cpu": "1"}}),
    "request-above-default-limit": pod({"requests": {"cpu": "8"}, "limits": MEMORY}),
    "unknown-resource": pod(limited(gpu="1")),
    "missing-priority-class": pod(limited(), priorityClassName="high"),
    "missing-runtime-class": pod(limited(), runtimeClassName="gvisor"),
    "other-overhead": pod(limited(), runtimeClassName="kata", overhead={"cpu": "2"}),
    "other-node-selector": pod(limited(), runtimeClassName="kata", nodeSelector={"sandbox": "no"}),
    "container-above-maximum": pod(limited(cpu="33")),
    "container-below-minimum": pod({"requests": {"cpu": "50m"}, "limits": MEMORY}),
    "pod-above-maximum": pod(limited(memory="65Gi")),
    "pod-without-limit": pod({"requests": MEMORY}),
}
TAKEN = {
    "whole-gpus": pod(limited(**{GPU: "8"})),
    "whole-gpus-in-thousandths": pod(limited(**{GPU: "2000m"})),
    "equal-gpus": pod({"requests": {GPU: "2"}, "limits": {**MEMORY, GPU: "2"}}),
    "huge-pages": pod(limited(**{"hugepages-2Mi": "4Mi"})),
    "priority-class": pod(limited(), priorityClassName="low"),
    "class-of-kubernetes": pod(limited(), priorityClassName="system-node-critical"),
    "runtime-class": pod(limited(), runtimeClassName="kata", overhead={"cpu": "1"}),
    "at-the-maximum": pod(limited(cpu="32", memory="64Gi")),
}


@pytest.fixture
def server(api: ApiUnderTest) -> Iterator[ApiUnderTest]:
    """A server with a namespace, and one object of each kind that decides about pods."""
    create_namespace(api, "ml")
    create_service_account(api, "ml", "default")
    for document in OTHERS:
        api.create(PATHS[document["kind"]], document)

    def code_for(document: Object) -> int:
        """The status for a new pod that is not stored."""
        code, _ = api.request("POST", PODS, document)
        return code

    # Admission reads each kind through a watch of its own.
    wait_until(lambda: code_for(REFUSED["container-above-maximum"]) == 403, "the LimitRange counts")
    wait_until(lambda: code_for(TAKEN["priority-class"]) == 201, "the PriorityClass counts")
    wait_until(lambda: code_for(TAKEN["runtime-class"]) == 201, "the RuntimeClass counts")
    yield api
    for kind, name in (("RuntimeClass", "kata"), ("PriorityClass", "low")):
        api.request("DELETE", f"{PATHS[kind]}/{name}")


def errors(document: Object) -> list[str]:
    """What `check` calls an error."""
    answer = check(document, [NODE, *OTHERS])
    return [finding.message for finding in answer.findings if finding.severity == "error"]


def test_each_refusal_is_in_the_words_of_the_api_server(server: ApiUnderTest) -> None:
    for name, document in REFUSED.items():
        code, answer = server.request("POST", PODS, document)
        assert code in (403, 422), name
        messages = errors(document)
        assert messages, (name, answer["message"])
        for message in messages:
            assert message in answer["message"], name


def test_what_the_api_server_takes_has_no_errors(server: ApiUnderTest) -> None:
    for name, document in TAKEN.items():
        code, answer = server.request("POST", PODS, document)
        assert code == 201, (name, answer)
        assert errors(document) == [], name
