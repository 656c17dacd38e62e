"""Loads the objects around a workload from a running cluster: one namespace, and why some kinds cannot be read."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from toposcope.explain.object_store import AROUND, POD, SUBJECTS, ObjectStore
from toposcope.integrations.framework.features import Kind
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.errors import ApiError, ResourceExpiredError
from toposcope.snapshot.problems import Progress, silent

_PAGE: Final = "500"
_FORBIDDEN: Final = 403
_TRIES: Final = 3
UNLISTED: Final = " may not be listed with these credentials"


def load_objects(client: ApiClient, namespace: str | None, pod: str | None, progress: Progress = silent) -> ObjectStore:
    """Everything that may matter for a workload in this namespace (None: that of the kubeconfig's context).

    `pod` is loaded too where one is asked about; all other pods are in the snapshot. Raises KubeError when the server
    does not answer; kinds that these credentials may not list go to `ObjectStore.unread`.
    """
    store = ObjectStore(namespace=namespace or client.namespace or "default")
    for kind in (*SUBJECTS, *AROUND):
        _load(client, kind, store, progress)
    if pod is not None:
        _load(client, POD, store, progress, {"fieldSelector": f"metadata.name={pod}"})
    return store


def _load(
    client: ApiClient, kind: Kind, into: ObjectStore, progress: Progress, query: Mapping[str, str] | None = None
) -> None:
    """All objects of a kind in the version that is served; none where it is not served."""
    progress(kind.name, 0)
    for version in kind.versions:
        api_version = f"{kind.group}/{version}" if kind.group else version
        root = f"/apis/{api_version}" if kind.group else f"/api/{version}"
        path = f"{root}/namespaces/{into.namespace}/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"
        try:
            for item in _list(client, path, query or {}, partial(progress, kind.name)):
                # Items of a list have neither.
                into.put({**item, "apiVersion": api_version, "kind": kind.kind})
        except ApiError as error:
            if error.status == _FORBIDDEN:
                into.unread[kind.key] = f"{kind.name}{UNLISTED}"
                return
            if not error.not_found:
                raise
        else:
            return


def _list(
    client: ApiClient, path: str, query: Mapping[str, str], progress: Callable[[int], None]
) -> list[Mapping[str, Any]]:
    for attempt in range(_TRIES):
        try:
            return _pages(client, path, query, progress)
        except ResourceExpiredError:
            if attempt == _TRIES - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def _pages(
    client: ApiClient, path: str, query: Mapping[str, str], progress: Callable[[int], None]
) -> list[Mapping[str, Any]]:
    objects: list[Mapping[str, Any]] = []
    token = ""
    while True:
        page = client.call(Request("GET", path, {**query, "limit": _PAGE} | ({"continue": token} if token else {})))
        objects += page.get("items") or ()
        progress(len(objects))
        token = page["metadata"].get("continue") or ""
        if not token:
            return objects
