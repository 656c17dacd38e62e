"""Kueue's `Topology` (kueue.x-k8s.io, Kueue v0.9 and later), in the newest version that is served."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final

from toposcope.api.cluster_topology import Topology
from toposcope.controller.publishers.backoff import Clock
from toposcope.controller.publishers.immutable_topology import DELAY_SECONDS, ImmutableTopologyPublisher
from toposcope.controller.publishers.objects import served_resources
from toposcope.integrations.framework.published import KUEUE_TOPOLOGIES, Published, Target, finalizers
from toposcope.kube.client import Caller, find
from toposcope.topology.levels import Level

_GROUP: Final = KUEUE_TOPOLOGIES.group
_VERSIONS: Final = KUEUE_TOPOLOGIES.versions
_PLURAL: Final = KUEUE_TOPOLOGIES.plural
_IN_USE: Final = f"finalizer {_GROUP}/resource-in-use"


class KueuePublisher:
    """Keeps the Topology named like its ClusterTopology equal to it."""

    name = "kueue"
    group = _GROUP

    def __init__(self, client: Caller, monotonic: Clock, delay: float = DELAY_SECONDS) -> None:
        self._client = client
        self._keeper = ImmutableTopologyPublisher(client, monotonic, delay, functools.partial(holders, client))
        self._version = _VERSIONS[0]

    def served(self) -> bool:
        """Whether the API server serves the kind just now; `publish` uses the version found. Raises KubeError."""
        group = find(self._client, f"/apis/{_GROUP}") or {"versions": ()}
        served = {entry["version"] for entry in group["versions"]}
        for version in _VERSIONS:
            if version in served and _PLURAL in served_resources(self._client, f"{_GROUP}/{version}"):
                self._version = version
                return True
        return False

    def publish(self, topology: Topology, levels: Sequence[Level]) -> Published:
        """Make the Topology have `levels`. Raises KubeError when the server does not answer."""
        return self._keeper.publish(self._target(topology), topology, levels)

    def retract(self, topology: Topology) -> Published | None:
        """Delete the Topology if it is ours; None when nothing of ours is left. Raises KubeError."""
        return self._keeper.retract(self._target(topology), topology)

    def _target(self, topology: Topology) -> Target:
        return Target(self.name, f"{_GROUP}/{self._version}", "Topology", _PLURAL, topology.name)


def holders(client: Caller, document: Mapping[str, Any]) -> list[str]:
    """What must let go of a Topology before Kueue does: ResourceFlavors that name it, and others' finalizers.

    Kueue puts its own finalizer on every Topology, used or not, and takes it off a deleted one once no flavor names it
    (its topology controller): it holds nothing by itself. Raises KubeError.
    """
    name = document["metadata"]["name"]
    flavors = next((found for version in _VERSIONS if (found := _flavors(client, version)) is not None), [])
    users = [f["metadata"]["name"] for f in flavors if (f.get("spec") or {}).get("topologyName") == name]
    return [*(f"ResourceFlavor {user}" for user in users), *(f for f in finalizers(document) if f != _IN_USE)]


def _flavors(client: Caller, version: str) -> list[dict[str, Any]] | None:
    found = find(client, f"/apis/{_GROUP}/{version}/resourceflavors")
    return None if found is None else found["items"]
