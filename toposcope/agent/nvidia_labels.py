"""The well-known `nvidia.com/` labels, for tools that read those.

Opt-in, and only where they have no other writer. GPU Feature Discovery and the DRA driver write the
same keys. The owners of a key are in managedFields: a key of others is left alone, and ours is
given up when another owner appears. Applied without force and under a field manager of its own, so
that a conflict here never delays the labels under our own prefix.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from toposcope.agent.describe import Description
from toposcope.agent.owners import managed_keys, node_body
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
    ours = description.labels.by_key
    labels = {label_keys.GPU_COUNT: ours[label_keys.GPUS]}
    interconnect = ours.get(label_keys.INTERCONNECT)
    if interconnect is not None:
        switched = interconnect == Interconnect.NVSWITCH
        labels[_NVSWITCH] = "true" if switched else "false"
    if description.topology.clique:
        labels[_CLIQUE] = description.topology.clique
    for theirs in (_PRODUCT, _NVLINK_VERSION):
        key = _SOURCES[theirs]
        if key in ours:
            labels[theirs] = ours[key]
    return labels


class Owners(NamedTuple):
    """The keys of `KEYS` that we own, and those that others own or that have no owner.

    A key can be in both.
    """

    ours: frozenset[str]
    theirs: frozenset[str]


def owners(metadata: Mapping[str, Any]) -> Owners:
    """Who owns the well-known labels of a Node."""
    ours: set[str] = set()
    theirs: set[str] = set()
    for entry in metadata.get("managedFields") or ():
        is_ours = entry.get("manager") == MANAGER
        owned = ours if is_ours else theirs
        for field in managed_keys(entry, "labels"):
            key = field.removeprefix("f:")
            owned.add(key)
    for key in metadata.get("labels") or {}:
        if key not in ours:
            theirs.add(key)
    return Owners(KEYS & ours, KEYS & theirs)


def wanted_labels(description: Description, metadata: Mapping[str, Any]) -> dict[str, str]:
    """The labels without another owner that a Node should carry.

    Labels whose value is unknown now stay unchanged.
    """
    ours, theirs = owners(metadata)
    wanted = {}
    for key, value in nvidia_labels_for(description).items():
        if key not in theirs:
            wanted[key] = value

    unknown = description.labels.unknown
    carried = metadata.get("labels") or {}
    for key in ours - theirs:
        source = _SOURCES.get(key)
        if key in carried and source in unknown:
            wanted[key] = carried[key]
    return wanted


class NvidiaLabelPublisher:
    """Keeps the well-known labels without another owner on one Node."""

    def __init__(self, client: ApiClient, node_name: str) -> None:
        self._client = client
        self._path = f"{NODES}/{node_name}"
        self._name = node_name

    def publish(self, description: Description, metadata: Mapping[str, Any]) -> bool:
        """Write the labels without another owner, given the Node's metadata as last read.

        Whether a write was needed. Raises KubeError; a 409 means that an owner appeared since the
        Node was read.
        """
        if description.problem:
            return False  # nothing is known: the labels stay
        labels = metadata.get("labels") or {}
        present = {key: labels.get(key) for key in owners(metadata).ours}
        wanted = wanted_labels(description, metadata)
        if wanted == present:
            return False
        body = node_body(
            {
                "name": self._name,
                "uid": metadata["uid"],
                "labels": wanted,
            }
        )
        request = apply(self._path, body, MANAGER, force=False, is_metadata_only=True)
        self._client.call(request)
        return True
