"""Writes the annotation `gpu.topology/switches` to the program's own Node.

Only on a difference, guarded by its uid. Only the controller can tell which cables are wrong, and
it may write no Node; so this program reads what it found.
"""

from collections.abc import Mapping
from typing import Any, Final

from toposcope.api.label_keys import SWITCHES
from toposcope.hardware.rails import Miscabled, reported
from toposcope.kube.account_rights import Right
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.confinement import FOREIGN_NODE_WRITES, NOBODY
from toposcope.kube.pages import pages
from toposcope.kube.requests import NODES, apply, get, merge_patch

MANAGER: Final = "toposcope-switches"
RIGHTS: Final = frozenset(
    {
        Right("", "nodes", "get"),
        Right("", "nodes", "patch"),
        Right("gpu.topology", "clustertopologies", "list"),
    }
)
"""What RBAC may grant `toposcope switches`."""
_TOPOLOGIES: Final = "/apis/gpu.topology/v1alpha1/clustertopologies"
_PAGE_OBJECTS: Final = 16
"""ClusterTopologies of one answer, up to half a MiB with all that manages them."""


def _token_of(page: Mapping[str, Any]) -> str:
    return page["metadata"].get("continue") or ""


class SwitchesPublisher:
    """Keeps the one annotation of one Node."""

    def __init__(self, client: ApiClient, node_name: str) -> None:
        self._client = client
        self._name = node_name
        self._path = f"{NODES}/{node_name}"
        self._metadata: dict[str, Any] | None = None
        """The Node's, as far as it is known."""

    def forget(self) -> None:
        """Have the next publish read the Node, and so find what others changed."""
        self._metadata = None

    def publish(self, text: str | None) -> bool:
        """Make the Node carry this value, or none; whether that took a write.

        Raises KubeError, and then the next time reads the Node first: it may be another of the same
        name.
        """
        current = self._metadata
        if current is None:
            read = get(self._path, is_metadata_only=True)
            current = self._client.call(read)["metadata"]
        annotations = current.get("annotations") or {}
        if annotations.get(SWITCHES) == text:
            self._metadata = current
            return False
        metadata = {
            "name": self._name,
            "uid": current["uid"],
            "annotations": {} if text is None else {SWITCHES: text},
        }
        body = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
        self.forget()  # what the Node carries is unknown until the server has answered
        request = apply(self._path, body, MANAGER, force=True, is_metadata_only=True)
        node = self._client.call(request)
        self._metadata = node["metadata"]
        return True

    def miscabled(self) -> tuple[dict[str, Miscabled], int]:
        """What ClusterTopologies find wrong here, by NIC, and how many requests that took.

        Raises KubeError.
        """
        by_nic: dict[str, Miscabled] = {}
        requests = 0
        request = Request("GET", _TOPOLOGIES, {})
        for page in pages(request, self._client.call, _token_of, limit=_PAGE_OBJECTS):
            requests += 1
            for topology in page.get("items") or ():
                status = topology.get("status") or {}
                for rail in reported(status):
                    if rail.node == self._name:
                        by_nic[rail.nic] = rail
        return by_nic, requests

    def foreign_writes(self) -> dict[str, Request]:
        """Writes that the admission policy must refuse, by what each of them would do."""
        label = {f"{NOBODY}/unconfined": "true"}
        annotation = {f"{SWITCHES}.{NOBODY}": "true"}
        writes = {
            "a label": {"metadata": {"labels": label}},
            "another annotation": {"metadata": {"annotations": annotation}},
            **FOREIGN_NODE_WRITES,
        }
        requests = {}
        for what, body in writes.items():
            requests[what] = merge_patch(self._path, MANAGER, body)
        return requests
