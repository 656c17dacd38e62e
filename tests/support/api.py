"""One API server under test, real or embedded, and what tests do with it."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.support.http_client import Answer, HttpClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from toposcope.simulator.apiserver import EmbeddedApiServer

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

NODES = "/api/v1/nodes"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# Label of CRDs that outlive a test; their objects do not. Its value is the module whose tests share them, or ALL.
KEPT = "kept-between-tests"
ALL = "all"
_PATIENCE = 30.0  # seconds until something that must happen is declared missing
_MOMENT = 0.01  # seconds between two questions


@dataclass
class ApiUnderTest:
    """A server with its administrator's credentials; `embedded` gives its faults where it is ours."""

    name: str
    url: str
    kubeconfig: Path
    ca_file: Path | None = None
    admin_token: str | None = None
    embedded: EmbeddedApiServer | None = None
    module: str = ALL
    client: HttpClient = field(init=False)

    def __post_init__(self) -> None:
        self.client = HttpClient(self.url, self.ca_file)

    @classmethod
    def of_embedded(cls, server: EmbeddedApiServer, folder: Path) -> ApiUnderTest:
        """The embedded server, with a kubeconfig in a folder."""
        server.write_kubeconfig(folder / "kubeconfig")
        return cls("embedded", server.url, folder / "kubeconfig", embedded=server)

    @property
    def is_real(self) -> bool:
        """Whether this is a kube-apiserver."""
        return self.embedded is None

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        token: str | None = None,
    ) -> Answer:
        """Send a request as the administrator, or as the owner of `token`."""
        return self.client.request(
            method, path, body, content_type=content_type, accept=accept, token=token or self.admin_token
        )

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        token: str | None = None,
    ) -> tuple[int, Any]:
        """`ask` without the headers."""
        answer = self.ask(method, path, body, content_type=content_type, accept=accept, token=token)
        return answer.code, answer.body

    def get(self, path: str) -> Any:
        """Return what must be there."""
        code, body = self.request("GET", path)
        assert code == 200, body
        return body

    def create(self, path: str, obj: Any) -> Any:
        """Create what must not be there yet."""
        code, body = self.request("POST", path, obj)
        assert code == 201, body
        return body

    def apply(self, path: str, obj: Any, manager: str = "tester", *, force: bool = False) -> tuple[int, Any]:
        """Server-side apply."""
        query = f"?fieldManager={manager}" + ("&force=true" if force else "")
        return self.request("PATCH", path + query, obj, content_type=APPLY)

    @contextmanager
    def watch(self, path: str, query: str, *, accept: str = "application/json") -> Iterator[Iterator[dict[str, Any]]]:
        """Open a watch; iterate over its events as long as the server sends them."""
        with self.client.open("GET", f"{path}?watch=1&{query}", accept=accept, token=self.admin_token) as response:
            assert response.status == 200, response.read()
            yield (json.loads(line) for line in response)

    def install_crd(self, crd: dict[str, Any]) -> dict[str, Any]:
        """Create a CRD; return it once its names are accepted and it is served, or refused."""
        self.create(CRDS, crd)
        return self.settled_crd(crd["metadata"]["name"])

    def ensure_crd(self, crd: dict[str, Any]) -> None:
        """Have a CRD served that stays for other tests: a new one takes a real server two seconds to accept objects.

        Only for kinds that no program looks for: what stays would change what its tests see.
        """
        self._keep_crd(crd, ALL)

    def share_crd(self, crd: dict[str, Any]) -> None:
        """Have a CRD served for all tests of the module that follow: one that counts on its absence removes it."""
        self._keep_crd(crd, self.module)

    def _keep_crd(self, crd: dict[str, Any], owner: str) -> None:
        if self.request("GET", f"{CRDS}/{crd['metadata']['name']}")[0] != 200:
            self.install_crd({**crd, "metadata": {**crd["metadata"], "labels": {KEPT: owner}}})

    def settled_crd(self, name: str) -> dict[str, Any]:
        """Wait until a CRD is established and served, or its names are refused."""

        def decided() -> bool:
            states = crd_conditions(self.get(f"{CRDS}/{name}"))
            if states.get("Established") == "True":
                return self._is_served(name)
            return states.get("NamesAccepted") == "False"

        wait_until(decided, f"CRD {name} is served or refused")
        if self.is_real:
            self._let_objects_in(name)
        crd: dict[str, Any] = self.get(f"{CRDS}/{name}")
        return crd

    def _let_objects_in(self, name: str) -> None:
        """Give a CRD the age at which a kube-apiserver takes its objects at once.

        In the first two seconds it holds back each create, for the sake of further servers that may not know the kind
        yet (apiextensions' customresource_handler.go). Here is one server.
        """
        states = self.get(f"{CRDS}/{name}")["status"]["conditions"]
        for at, state in enumerate(states):
            if (state["type"], state["status"]) == ("Established", "True"):
                entry = f"/status/conditions/{at}"
                aged = [
                    {"op": "test", "path": f"{entry}/type", "value": "Established"},
                    {"op": "replace", "path": f"{entry}/lastTransitionTime", "value": "2026-01-02T03:04:05Z"},
                ]
                code, answer = self.request("PATCH", f"{CRDS}/{name}/status", aged, content_type=JSON_PATCH)
                assert code == 200, answer

    def remove_crd(self, name: str) -> None:
        """Delete a CRD and wait until it is gone with its objects."""
        self.request("DELETE", f"{CRDS}/{name}")
        wait_until(lambda: self.request("GET", f"{CRDS}/{name}")[0] == 404, f"CRD {name} is gone")

    def _is_served(self, name: str) -> bool:
        plural, _, group = name.partition(".")
        spec = self.get(f"{CRDS}/{name}")["spec"]
        served = [version["name"] for version in spec["versions"] if version["served"]]
        return all(self.request("GET", f"/apis/{group}/{version}/{plural}")[0] == 200 for version in served)


def crd_conditions(crd: dict[str, Any]) -> dict[str, str]:
    """Status of each condition."""
    return {entry["type"]: entry["status"] for entry in (crd.get("status", {}).get("conditions") or ())}


def node(name: str, **metadata: Any) -> dict[str, Any]:
    """Node with the given metadata."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **metadata}}


def create_namespace(api: ApiUnderTest, name: str) -> None:
    """Create a namespace."""
    api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def create_service_account(api: ApiUnderTest, namespace: str, name: str) -> None:
    """Create a service account, `default` too where a pod needs it: no controller does."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", account)


def create_pod(api: ApiUnderTest, namespace: str, name: str, *, service_account: str, node_name: str) -> dict[str, Any]:
    """Create a pod that is bound to a node."""
    spec = {
        "nodeName": node_name,
        "serviceAccountName": service_account,
        "containers": [{"name": "main", "image": "example.invalid/main"}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    created: dict[str, Any] = api.create(f"/api/v1/namespaces/{namespace}/pods", pod)
    return created


def pod_token(api: ApiUnderTest, pod: dict[str, Any]) -> str:
    """Token as kubelet gets it for a pod: bound to the pod, with its node as a claim. Real servers only."""
    metadata = pod["metadata"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"boundObjectRef": bound, "expirationSeconds": 3600, "audiences": []},
    }
    account = pod["spec"]["serviceAccountName"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{account}/token"
    token: str = api.create(path, body)["status"]["token"]
    return token


def wait_until(done: Callable[[], bool], what: str, patience: float = _PATIENCE) -> None:
    """Ask until the answer is yes, with a moment in between: who is asked needs the processor more than who asks."""
    deadline = time.monotonic() + patience
    while not done():
        assert time.monotonic() < deadline, f"did not happen within {patience:.0f} s: {what}"
        time.sleep(_MOMENT)
