"""Emptying the real API server, which outlives the tests that write to it."""

import re
from typing import Any

from tests.support.api import ALL, CRDS, KEPT, NODES, RBAC, ApiUnderTest
from toposcope.kube.client import METADATA_LIST

_STARTING_NAMESPACES = {"default", "kube-node-lease", "kube-public", "kube-system"}

_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_COLLECTIONS = {
    "validatingadmissionpolicybindings": f"{_ADMISSION}/validatingadmissionpolicybindings",
    "validatingadmissionpolicies": f"{_ADMISSION}/validatingadmissionpolicies",
    "configmaps/default": "/api/v1/namespaces/default/configmaps",
    "events/default": "/api/v1/namespaces/default/events",
    "pods/default": "/api/v1/namespaces/default/pods",
    "serviceaccounts/default": "/api/v1/namespaces/default/serviceaccounts",
    "leases/default": "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    "minions": NODES,
}
"""Where a kube-apiserver stores what tests make outside of namespaces of their own, besides CRDs; its collection."""

_COLLECTIONS_SHARED_WITH_THE_SERVER = {
    "clusterrolebindings": f"{RBAC}/clusterrolebindings",
    "clusterroles": f"{RBAC}/clusterroles",
    "rolebindings/default": f"{RBAC}/namespaces/default/rolebindings",
    "roles/default": f"{RBAC}/namespaces/default/roles",
}
"""The same for kinds of which the server itself brings some along."""

# By default a deleted Job waits for a garbage collector, which is not here.
_AT_ONCE = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "propagationPolicy": "Background"}
_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

# What the server itself brings along has names of these forms; our own among it has this label.
_OURS = "labelSelector=app.kubernetes.io/part-of%3Dtoposcope"
_BROUGHT_ALONG = re.compile(r"system:.*|cluster-admin|admin|edit|view")
_CRD = "apiextensions.k8s.io/customresourcedefinitions"


def clean(api: ApiUnderTest, *, is_module_over: bool = False) -> None:
    """Remove what a test made: the real server outlives it; where the module is over, also the CRDs that it shared.

    One look at what is stored tells what to ask for: most tests leave little.
    """
    stored = api.stored()
    folders = set()
    for folder, name in stored:
        if not _BROUGHT_ALONG.fullmatch(name):
            folders.add(folder)

    for folder, path in _COLLECTIONS_SHARED_WITH_THE_SERVER.items():
        if folder in folders:
            code, answer = api.request("DELETE", f"{path}?{_OURS}")
            assert code == 200, answer
    for folder, path in _COLLECTIONS.items():
        if folder in folders:
            _delete_collection(api, path)
    if _CRD in folders:
        _clean_crds(api, folders, is_module_over=is_module_over)
    _empty_namespaces(api, stored)


def _delete_collection(api: ApiUnderTest, path: str) -> None:
    code, answer = api.request("DELETE", path, _AT_ONCE)
    assert code == 200, answer
    held = []
    for item in answer.get("items") or ():
        metadata = item["metadata"]
        if metadata.get("finalizers"):
            held.append(metadata)
    assert not held, f"these stay in the way of other tests: take their finalizers off, {held}"


def _clean_crds(api: ApiUnderTest, folders: set[str], *, is_module_over: bool) -> None:
    removed = []
    for crd in api.ask("GET", CRDS, accept=METADATA_LIST).body["items"]:
        metadata = crd["metadata"]
        name = metadata["name"]
        owner = metadata.get("labels", {}).get(KEPT)
        is_kept = owner == ALL or (owner and not is_module_over)
        if is_kept:
            _delete_objects_of_crd(api, name, folders)
            continue
        removed.append(name)
        api.request("DELETE", f"{CRDS}/{name}")
    for name in removed:  # the server removes them side by side
        api.remove_crd(name)


def _delete_objects_of_crd(api: ApiUnderTest, name: str, folders: set[str]) -> None:
    plural, _, group = name.partition(".")
    folder_of_kind = f"{group}/{plural}/"
    has_objects = any(f"{folder}/".startswith(folder_of_kind) for folder in folders)
    if not has_objects:
        return
    crd = api.get(f"{CRDS}/{name}")
    versions = crd["spec"]["versions"]
    version = versions[0]["name"]
    collection = f"/apis/{group}/{version}/{plural}"
    api.request("DELETE", collection)


def empty_namespaces(api: ApiUnderTest) -> None:
    """Remove all namespaces but those that a server starts with, and what is in them."""
    _empty_namespaces(api, api.stored())


def _empty_namespaces(api: ApiUnderTest, stored: list[tuple[str, str]]) -> None:
    namespaces = []
    for folder, name in stored:
        if folder == "namespaces" and name not in _STARTING_NAMESPACES:
            namespaces.append(name)
    if not namespaces:
        return

    kinds = _namespaced_kinds(api)
    for namespace in namespaces:
        stored_kinds: set[str] = set()
        for folder, _ in stored:
            if folder.endswith(f"/{namespace}"):
                stored_kinds.update(folder.split("/")[:-1])
        present = []
        for root, plural in kinds:
            if plural in stored_kinds:
                present.append((root, plural))
        remove_namespace(api, namespace, present)


def _namespaced_kinds(api: ApiUnderTest) -> list[tuple[str, str]]:
    """Root of the path and name of whatever a namespace may hold.

    All in two answers: asked for one by one, a group may go between two requests.
    """
    kinds = []
    for group in [*_discovered(api, "/api"), *_discovered(api, "/apis")]:
        group_name = group["metadata"].get("name")
        for served in group["versions"][:1]:
            root = f"/apis/{group_name}/{served['version']}" if group_name else "/api/v1"
            for resource in served["resources"]:
                if resource["scope"] == "Namespaced" and "deletecollection" in resource["verbs"]:
                    kinds.append((root, resource["resource"]))
    return kinds


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
