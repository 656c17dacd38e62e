"""The well-known `nvidia.com/` labels, for tools that read those: opt-in, and only where they have no other writer.

GPU Feature Discovery and the DRA driver write the same keys. The owners of a key are in managedFields: a key of
others is left alone, and ours is given up when another owner appears. Applied without force and under a field manager
of its own, so that a conflict here never delays the labels under our own prefix.
"""

from collections.abc import Mapping
from typing import Any, Final

from toposcope.agent.describe import Description
from toposcope.api import label_keys
from toposcope.hardware.topology import Interconnect
from toposcope.kube.client import ApiClient
from toposcope.kube.requests import NODES, apply

MANAGER: Final = "toposcope-agent-nvidia"

_CLIQUE: Final = "nvidia.com/gpu.clique"
_PRODUCT: Final = "nvidia.com/gpu.product"
_NVLINK_VERSION: Final = "nvidia.com/nvlink.version"
_NVSWITCH: Final = "nvidia.com/nvswitch.present"
KEYS: Final = frozenset({_CLIQUE, label_keys.GPU_COUNT, _PRODUCT, _NVLINK_VERSION, _NVSWITCH})
_SOURCES: Final = {
    _CLIQUE: label_keys.NVLINK_DOMAIN,
    _PRODUCT: label_keys.GPU_PRODUCT,
    _NVLINK_VERSION: label_keys.NVLINK_VERSION,
    _NVSWITCH: label_keys.INTERCONNECT,
}
"""The label of ours that says the same: while that is unknown, theirs keeps its value too."""


def nvidia_labels_for(description: Description) -> dict[str, str]:
    """The `nvidia.com/` labels for a description; none for a node without GPUs."""
    if description.topology is None:
        return {}
    ours = description.labels.known
    gpus = ours[label_keys.GPUS]
    labels = {label_keys.GPU_COUNT: gpus}
    if label_keys.INTERCONNECT in ours:
        labels[_NVSWITCH] = (
            "true" if ours[label_keys.INTERCONNECT] == Interconnect.NVSWITCH else "false"
        )
    if description.topology.clique:
        labels[_CLIQUE] = description.topology.clique
    for theirs, key in (
        (_PRODUCT, label_keys.GPU_PRODUCT),
        (_NVLINK_VERSION, label_keys.NVLINK_VERSION),
    ):
        if key in ours:
            labels[theirs] = ours[key]
    return labels


def owners(metadata: Mapping[str, Any]) -> tuple[frozenset[str], frozenset[str]]:
    """Those of `KEYS` that we own, and those that others do (a key without an owner too); a key can be in both."""
    ours: set[str] = set()
    theirs: set[str] = set()
    for entry in metadata.get("managedFields") or ():
        fields = ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:labels") or {}
        (ours if entry.get("manager") == MANAGER else theirs).update(
            key.removeprefix("f:") for key in fields
        )
    labels = metadata.get("labels") or {}
    return KEYS & ours, KEYS & (theirs | (labels.keys() - ours))


def wanted_labels(description: Description, metadata: Mapping[str, Any]) -> dict[str, str]:
    """The labels without another owner that a Node should carry, those whose value is unknown now as they are."""
    ours, theirs = owners(metadata)
    carried = metadata.get("labels") or {}
    wanted = {
        key: value for key, value in nvidia_labels_for(description).items() if key not in theirs
    }
    for key in (ours & carried.keys()) - theirs:
        if _SOURCES.get(key) in description.labels.unknown:
            wanted[key] = carried[key]
    return wanted


class NvidiaLabelPublisher:
    """Keeps the well-known labels without another owner on one Node."""

    def __init__(self, client: ApiClient, node_name: str) -> None:
        self._client = client
        self._path = f"{NODES}/{node_name}"
        self._name = node_name

    def publish(self, description: Description, metadata: Mapping[str, Any]) -> bool:
        """Write the labels without another owner, given the Node's metadata as last read; whether a write was needed.

        Raises KubeError; a 409 means that an owner appeared since the Node was read.
        """
        if description.problem:
            return False  # nothing is known: the labels stay
        ours, _ = owners(metadata)
        carried = metadata.get("labels") or {}
        wanted = wanted_labels(description, metadata)
        if wanted == {key: carried.get(key) for key in ours}:
            return False
        changed = {"name": self._name, "uid": metadata["uid"], "labels": wanted}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": changed}
        self._client.call(apply(self._path, body, MANAGER, force=False, metadata_only=True))
        return True
