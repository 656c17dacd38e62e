"""Kueue's `Topology` (kueue.x-k8s.io, Kueue v0.9 and later), in the newest version that is served."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final

from toposcope.api.cluster_topology import Topology
from toposcope.controller.publishers.immutable_topology import DELAY_SECONDS, ImmutableTopologyPublisher
from toposcope.controller.publishers.objects import Clock, served_resources
from toposcope.integrations.framework.published import Published, Target, finalizers
from toposcope.integrations.kueue.api import FLAVORS, TOPOLOGIES
from toposcope.kube.client import Caller, find
from toposcope.topology.levels import Level

_IN_USE: Final = f"finalizer {TOPOLOGIES.group}/resource-in-use"


class KueuePublisher:
    """Keeps the Topology named like its ClusterTopology equal to it."""

    name = TOPOLOGIES.option
    group = TOPOLOGIES.group

    def __init__(self, client: Caller, monotonic: Clock, delay: float = DELAY_SECONDS) -> None:
        self._client = client
        self._keeper = ImmutableTopologyPublisher(client, monotonic, delay, functools.partial(holders, client))
        self._version = TOPOLOGIES.versions[0]

    def served(self) -> bool:
        """Whether the API server serves the kind now; `publish` uses the version found. Raises KubeError."""
        group = find(self._client, f"/apis/{self.group}") or {"versions": ()}
        served = {entry["version"] for entry in group["versions"]}
        for version in TOPOLOGIES.versions:
            if version in served and TOPOLOGIES.plural in served_resources(self._client, f"{self.group}/{version}"):
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
        return TOPOLOGIES.target(topology.name, self._version)


def holders(client: Caller, document: Mapping[str, Any]) -> list[str]:
    """What must let go of a Topology before Kueue does: ResourceFlavors that name it, and others' finalizers.

    Kueue adds its own finalizer to every Topology, used or not, and removes it from a deleted one once no flavor names
    it (its topology controller): it holds nothing by itself. Raises KubeError.
    """
    name = document["metadata"]["name"]
    paths = (FLAVORS.target("", version).collection for version in FLAVORS.versions)
    flavors = next((served.get("items") or () for path in paths if (served := find(client, path)) is not None), ())
    users = [f["metadata"]["name"] for f in flavors if (f.get("spec") or {}).get("topologyName") == name]
    return [*(f"ResourceFlavor {user}" for user in users), *(f for f in finalizers(document) if f != _IN_USE)]
