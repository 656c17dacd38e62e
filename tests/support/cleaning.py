"""Emptying the real API server, which outlives the tests that write to it."""

from typing import Any

from tests.support.api import CRDS, KEPT, NODES, ApiUnderTest

_STARTING_NAMESPACES = {"default", "kube-node-lease", "kube-public", "kube-system"}
# What tests make outside of namespaces of their own, besides nodes and CRDs.
_COLLECTIONS = (
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/events",
    "/api/v1/namespaces/default/pods",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    NODES,
)

# Our own among what the server itself brings along.
_OURS = "labelSelector=app.kubernetes.io/part-of%3Dtoposcope"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_AMONG_OTHERS = (
    f"{_RBAC}/clusterrolebindings",
    f"{_RBAC}/clusterroles",
    f"{_RBAC}/namespaces/default/rolebindings",
    f"{_RBAC}/namespaces/default/roles",
)


def clean(api: ApiUnderTest) -> None:
    """Remove what a test made: the real server outlives it."""
    for path in _AMONG_OTHERS:
        if api.get(f"{path}?limit=1&{_OURS}")["items"]:
            code, answer = api.request("DELETE", f"{path}?{_OURS}")
            assert code == 200, answer
    for path in _COLLECTIONS:
        if api.get(f"{path}?limit=1")["items"]:
            options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
            code, answer = api.request("DELETE", path, options)
            assert code == 200, answer
    gone = []
    for crd in api.get(CRDS)["items"]:
        if KEPT in crd["metadata"].get("labels", {}):
            served = (
                f"/apis/{crd['spec']['group']}/{crd['spec']['versions'][0]['name']}/{crd['spec']['names']['plural']}"
            )
            api.request("DELETE", served)
        else:
            gone.append(crd["metadata"]["name"])
            api.request("DELETE", f"{CRDS}/{gone[-1]}")
    for name in gone:  # the server removes them side by side
        api.remove_crd(name)
    for namespace in api.get("/api/v1/namespaces")["items"]:
        if namespace["metadata"]["name"] not in _STARTING_NAMESPACES:
            _remove_namespace(api, namespace)


def _remove_namespace(api: ApiUnderTest, namespace: dict[str, Any]) -> None:
    """Do what the namespace controller would do: nothing else runs here."""
    path = f"/api/v1/namespaces/{namespace['metadata']['name']}"
    api.request("DELETE", path)
    for root in [
        "/api/v1",
        *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in api.get("/apis")["groups"]),
    ]:
        for resource in api.get(root)["resources"]:
            if resource["namespaced"] and "deletecollection" in resource["verbs"]:
                within = f"{root}/namespaces/{namespace['metadata']['name']}/{resource['name']}"
                api.request("DELETE", within, {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
    code, terminating = api.request("GET", path)
    if code == 200:
        terminating["spec"]["finalizers"] = []
        api.request("PUT", f"{path}/finalize", terminating)
