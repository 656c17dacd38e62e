"""Reading the objects around a workload from an API server, and the names of their kinds."""

import msgspec
import pytest
from toposcope.explain.object_store import kinds_called, load_objects
from toposcope.integrations.kueue.api import CLUSTER_QUEUE
from toposcope.kube.client import Request
from toposcope.kube.errors import ApiError

WAITING = {"metadata": {"name": "w", "namespace": "ml"}, "spec": {"schedulingGates": [{"name": "x"}]}}
RUNNING = {
    "metadata": {"name": "r", "namespace": "ml", "labels": {"app": "a"}},
    "spec": {"nodeName": "n", "containers": []},
}
ENDED = {"metadata": {"name": "e", "namespace": "ml"}, "status": {"phase": "Succeeded"}}


class PodsOnly:
    """An API server that serves nothing but pods, in two pages, and forbids ClusterQueues."""

    namespace = "ml"

    def call(self, request: Request) -> object:
        if "clusterqueues" in request.path:
            raise ApiError(403, "Forbidden", "no")
        if "/pods" not in request.path:
            raise ApiError(404, "NotFound", "page not found")
        if request.query["fieldSelector"] == "spec.nodeName=":
            return {"items": [WAITING, RUNNING, ENDED], "metadata": {}}
        assert request.query["fieldSelector"] == "metadata.name=p"
        if "continue" not in request.query:
            return {"items": [{"metadata": {"name": "q", "namespace": "ml"}}], "metadata": {"continue": "more"}}
        return msgspec.json.decode(b'{"items": [{"metadata": {"name": "p", "namespace": "ml"}}], "metadata": {}}')


def test_forbidden_kinds_are_unread_and_unserved_kinds_are_empty() -> None:
    store = load_objects(PodsOnly(), None, "p")  # type: ignore[arg-type]  # answers as a client does
    assert [ref.name for ref in store.objects] == ["q", "p"]
    assert list(store.unread) == [CLUSTER_QUEUE.key]
    assert store.why_unknown(CLUSTER_QUEUE) == "clusterqueues.kueue.x-k8s.io may not be listed with these credentials"


def test_pods_are_kept_while_they_have_no_node() -> None:
    store = load_objects(PodsOnly(), None, None)  # type: ignore[arg-type]  # answers as a client does
    assert list(store.pods.values()) == [{"apiVersion": "v1", "kind": "Pod", **WAITING}]


@pytest.mark.regression
@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("pcs", "PodCliqueSet"),
        ("PodCliqueSet", "PodCliqueSet"),
        ("podcliquesets.grove.io", "PodCliqueSet"),
        ("po", "Pod"),
        ("deploy", "Deployment"),
        ("wl", "Workload"),
        ("pg", "PodGroup"),
        ("jobs.batch", "Job"),
    ],
)
def test_kind_has_the_names_that_kubectl_takes(word: str, kind: str) -> None:
    first = next(iter(kinds_called(word)))
    assert first.kind == kind


@pytest.mark.regression
@pytest.mark.parametrize("word", ["podcliquesets.example.com", "nodes"])
def test_name_of_another_kind_is_none_of_a_workload(word: str) -> None:
    assert list(kinds_called(word)) == []
