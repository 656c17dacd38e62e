"""Loads the objects around a workload from a running cluster: one namespace, and why some kinds cannot be read."""

from functools import partial
from typing import Final

from toposcope.explain.object_store import AROUND, POD, SUBJECTS, ObjectStore
from toposcope.integrations.framework.features import Kind
from toposcope.kube.client import ApiClient
from toposcope.kube.errors import ApiError
from toposcope.kube.listing import everything
from toposcope.snapshot.problems import Progress, silent

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
        _load(client, POD, store, progress, f"metadata.name={pod}")
    return store


def _load(client: ApiClient, kind: Kind, into: ObjectStore, progress: Progress, fields: str = "") -> None:
    """All objects of a kind in the version that is served; none where it is not served."""
    progress(kind.name, 0)
    for version in kind.versions:
        api_version = f"{kind.group}/{version}" if kind.group else version
        root = f"/apis/{api_version}" if kind.group else f"/api/{version}"
        path = f"{root}/namespaces/{into.namespace}/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"
        try:
            for item in everything(client, path, fields=fields, progress=partial(progress, kind.name)):
                # Items of a list have neither.
                into.put({**item, "apiVersion": api_version, "kind": kind.kind})
        except ApiError as error:
            if error.forbidden:
                into.unread[kind.key] = f"{kind.name}{UNLISTED}"
                return
            if not error.not_found:
                raise
        else:
            return
