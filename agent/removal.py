"""Taking back what an agent has written on a Node: the requests, built from the Node's metadata."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from agent.compat import MANAGER as NVIDIA_MANAGER
from agent.compat import owners
from agent.publish import MANAGER
from kube.apply import apply
from kube.client import METADATA, Request
from kube.paths import NODES
from topology.json_text import compact
from topology.keys import PREFIX


class Removal(NamedTuple):
    """What has to be sent for one Node, in this order, and how many labels and annotations that removes."""

    requests: tuple[Request, ...]
    keys: int


def removal(metadata: Mapping[str, Any]) -> Removal:
    """Everything under our prefix, whoever else owns it too, and those labels under `nvidia.com/` that only we own."""
    gone = {
        field: {key: None for key in metadata.get(field) or {} if key.startswith(PREFIX)}
        for field in ("labels", "annotations")
    }
    keys = sum(map(len, gone.values()))
    requests = []
    path, uid = f"{NODES}/{metadata['name']}", metadata["uid"]
    if keys:
        # A merge patch, because an apply cannot remove what another manager co-owns.
        body = compact({"metadata": {"uid": uid, **gone}}).encode()
        query = {"fieldManager": MANAGER}
        requests.append(Request("PATCH", path, query, body, "application/merge-patch+json", METADATA))
    ours, theirs = owners(metadata)
    if ours:
        # An apply that names none: the server removes those that nobody else owns, and only gives up the others.
        nothing = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": metadata["name"], "uid": uid}}
        requests.append(apply(path, nothing, NVIDIA_MANAGER, force=False, metadata_only=True))
    return Removal(tuple(requests), keys + len(ours - theirs))
