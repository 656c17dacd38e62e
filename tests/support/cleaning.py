"""Emptying the real API server, which outlives the tests that write to it."""

from typing import Any

from tests.support.api import ALL, CRDS, KEPT, NODES, ApiUnderTest

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
_AT_ONCE = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

# Our own among what the server itself brings along.
_OURS = "labelSelector=app.kubernetes.io/part-of%3Dtoposcope"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_AMONG_OTHERS = (
    f"{_RBAC}/clusterrolebindings",
    f"{_RBAC}/clusterroles",
    f"{_RBAC}/namespaces/default/rolebindings",
    f"{_RBAC}/namespaces/default/roles",
)


def clean(api: ApiUnderTest, *, unshare: bool = False) -> None:
    """Remove what a test made: the real server outlives it; with `unshare` also the CRDs that its module shared."""
    for path in _AMONG_OTHERS:
        if api.get(f"{path}?limit=1&{_OURS}")["items"]:
            code, answer = api.request("DELETE", f"{path}?{_OURS}")
            assert code == 200, answer
    for path in _COLLECTIONS:
        if api.get(f"{path}?limit=1")["items"]:
            code, answer = api.request("DELETE", path, _AT_ONCE)
            assert code == 200, answer
    gone = []
    for crd in api.get(CRDS)["items"]:
        owner = crd["metadata"].get("labels", {}).get(KEPT)
        if owner == ALL or (owner and not unshare):
            served = (
                f"/apis/{crd['spec']['group']}/{crd['spec']['versions'][0]['name']}/{crd['spec']['names']['plural']}"
            )
            api.request("DELETE", served)
        else:
            gone.append(crd["metadata"]["name"])
            api.request("DELETE", f"{CRDS}/{gone[-1]}")
    for name in gone:  # the server removes them side by side
        api.remove_crd(name)
    empty_namespaces(api)


def empty_namespaces(api: ApiUnderTest) -> None:
    """Remove all namespaces but those that a server starts with, and what is in them."""
    left = [item["metadata"]["name"] for item in api.get("/api/v1/namespaces")["items"]]
    if made := [name for name in left if name not in _STARTING_NAMESPACES]:
        kinds = _namespaced_kinds(api)
        for name in made:
            remove_namespace(api, name, kinds)


def _namespaced_kinds(api: ApiUnderTest) -> list[tuple[str, str]]:
    """Root of the path and name of whatever a namespace may hold.

    All in two answers: asked for one by one, a group may go between two requests.
    """
    return [
        (f"/apis/{group['metadata']['name']}/{served['version']}" if "name" in group["metadata"] else "/api/v1", plural)
        for root in ("/api", "/apis")
        for group in _discovered(api, root)
        for served in group["versions"][:1]
        for plural in (
            kind["resource"]
            for kind in served["resources"]
            if kind["scope"] == "Namespaced" and "deletecollection" in kind["verbs"]
        )
    ]


def _discovered(api: ApiUnderTest, root: str) -> list[dict[str, Any]]:
    answer = api.ask("GET", root, accept=_DISCOVERY)
    assert answer.code == 200, answer.body
    return answer.body["items"]


def remove_namespace(api: ApiUnderTest, name: str, kinds: list[tuple[str, str]]) -> None:
    """Do what the namespace controller would do: nothing else runs here."""
    path = f"/api/v1/namespaces/{name}"
    api.request("DELETE", path)
    for root, plural in kinds:
        # 404: its CRD has gone meanwhile, and its objects with it.
        within = f"{root}/namespaces/{name}/{plural}"
        code, answer = api.request("DELETE", within, _AT_ONCE)
        assert code in {200, 404}, answer
    code, terminating = api.request("GET", path)
    if code == 200:
        terminating["spec"]["finalizers"] = []
        api.request("PUT", f"{path}/finalize", terminating)
