"""Verb and resource of a request."""

import pytest

from toposcope.kube.client import Request
from toposcope.kube.requests import apply, create, get, resource_of, verb_of

STATUS = "/apis/gpu.topology/v1alpha1/clustertopologies/cluster/status"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/n/leases"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


@pytest.mark.parametrize(
    ("request_", "verb", "resource"),
    [
        (Request("GET", "/api/v1/nodes", {"limit": "500"}), "list", "nodes"),
        (Request("GET", "/api/v1/nodes", {"watch": "true"}), "watch", "nodes"),
        (get("/api/v1/nodes/n1"), "get", "nodes"),
        (get("/api/v1/namespaces/kube-system"), "get", "namespaces"),
        (Request("GET", "/api/v1/namespaces/a/pods", {}), "list", "pods"),
        (apply(STATUS, {}, "m", force=True), "apply", "clustertopologies.gpu.topology/status"),
        (create(EVENTS, {}, "m"), "create", "events.events.k8s.io"),
        (Request("PATCH", "/api/v1/nodes/n1", {}), "patch", "nodes"),
        (Request("PUT", f"{LEASES}/l", {}), "update", "leases.coordination.k8s.io"),
        (Request("DELETE", "/apis/kai.scheduler/v1alpha1/topologies/t", {}), "delete", "topologies.kai.scheduler"),
        (Request("DELETE", "/api/v1/nodes", {}), "deletecollection", "nodes"),
        (get("/apis/grove.io/v1alpha1"), "get", "discovery"),
        (get("/apis"), "get", "discovery"),
        (get("/api/v1"), "get", "discovery"),
    ],
)
def test_verb_and_resource(request_: Request, verb: str, resource: str) -> None:
    assert resource_of(request_) == resource
    assert verb_of(request_) == verb
