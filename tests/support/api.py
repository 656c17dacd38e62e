"""The API server under test, real or embedded, and what tests do with it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.apiserver.client import (
    APPLY,
    CRDS,
    JSON_PATCH,
    MERGE,
    NODES,
    AdminApi,
    crd_conditions,
    pod_token,
    wait_until,
)
from tools.apiserver.server import RealApiServer
from toposcope.kube.client import ApiClient
from toposcope.kube.errors import ApiError, KubeError, UnreachableError
from toposcope.simulator.apiserver import EmbeddedApiServer

__all__ = ["APPLY", "CRDS", "JSON_PATCH", "MERGE", "NODES", "crd_conditions", "pod_token", "wait_until"]

RBAC = "/apis/rbac.authorization.k8s.io/v1"
STRATEGIC = "application/strategic-merge-patch+json"
# Label of CRDs that outlive a test; their objects do not. Its value is the module whose tests share them, or ALL.
KEPT = "kept-between-tests"
ALL = "all"
Clients = Callable[[], ApiClient]
"""Makes production clients."""


@dataclass
class ApiUnderTest(AdminApi):
    """A server with its administrator's credentials; `embedded` gives its faults where it is ours."""

    embedded: EmbeddedApiServer | None = None
    module: str = ALL
    keys: Callable[[], list[str]] = list
    """Reads what a real server stores, by key."""

    @classmethod
    def of_embedded(cls, server: EmbeddedApiServer, folder: Path) -> "ApiUnderTest":
        """The embedded server, with a kubeconfig in a folder."""
        server.write_kubeconfig(folder / "kubeconfig")
        return cls("embedded", server.url, folder / "kubeconfig", embedded=server)

    @classmethod
    def of_real(cls, server: RealApiServer, kubeconfig: Path, module: str = ALL) -> "ApiUnderTest":
        """A kube-apiserver; `module` owns the CRDs that its tests share."""
        api = cls("real", server.url, kubeconfig, server.ca_file, server.admin_token, module=module, keys=server.keys)
        api.client = server.client
        return api

    def stored(self) -> list[tuple[str, str]]:
        """What a real server stores: the folder of each object (its kind, and perhaps namespace) and its name."""
        stored = []
        for key in self.keys():
            folder, _, name = key.removeprefix("/registry/").rpartition("/")
            stored.append((folder, name))
        return stored

    def ensure_crd(self, crd: dict[str, Any]) -> None:
        """Have a CRD served that stays for other tests: a new one takes a real server two seconds to accept objects.

        Only for kinds that no program looks for: what stays would change what its tests see.
        """
        self._keep_crd(crd, ALL)

    def share_crd(self, crd: dict[str, Any]) -> None:
        """Have a CRD served for all tests of the module that follow: one that counts on its absence removes it."""
        self._keep_crd(crd, self.module)

    def _keep_crd(self, crd: dict[str, Any], owner: str) -> None:
        metadata = crd["metadata"]
        name = metadata["name"]
        status, _ = self.request("GET", f"{CRDS}/{name}")
        if status == 200:
            return
        labelled = metadata | {"labels": {KEPT: owner}}
        self.install_crd(crd | {"metadata": labelled})


def error_of(answer: str | list[Any]) -> KubeError:
    """By status, reason, message and perhaps seconds to wait; a text alone: the server cannot be reached."""
    if isinstance(answer, str):
        return UnreachableError(answer)
    return ApiError(*answer)


def node(name: str, **metadata: Any) -> dict[str, Any]:
    """Node with the given metadata."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **metadata}}


def create_namespace(api: ApiUnderTest, name: str) -> None:
    """Create a namespace."""
    api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def create_service_account(api: ApiUnderTest, namespace: str, name: str) -> None:
    """Create a service account, `default` too where a pod needs it: no controller does."""
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name},
    }
    api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", account)


def account_token(api: ApiUnderTest, namespace: str, name: str) -> str:
    """A token as `kubectl create token` gets it: bound to no pod, so that it names no node."""
    token_request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {},
    }
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}"
    answer = api.create(f"{account}/token", token_request)
    return answer["status"]["token"]


def bind(api: ApiUnderTest, role: dict[str, Any], namespace: str, name: str) -> None:
    """Create a ClusterRole, and bind a service account to it."""
    metadata = role["metadata"]
    binding = {
        "apiVersion": role["apiVersion"],
        "kind": "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": metadata["name"],
        },
        "subjects": [
            {
                "kind": "ServiceAccount",
                "namespace": namespace,
                "name": name,
            }
        ],
    }
    api.create(f"{RBAC}/clusterroles", role)
    api.create(f"{RBAC}/clusterrolebindings", binding)


def role(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    """A ClusterRole, with the label by which it is removed after the test."""
    return {
        "apiVersion": RBAC.removeprefix("/apis/"),
        "kind": "ClusterRole",
        "metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/part-of": "toposcope"},
        },
        "rules": list(rules),
    }
