"""Kueue's `Topology` (v0.9 and later) in the cluster, in the newest version that is served."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.levels import Level
from toposcope.integrations.framework.published import Published, Target, finalizers
from toposcope.integrations.framework.publishing import objects
from toposcope.integrations.framework.publishing.immutable_topology import (
    ImmutableTopologyPublisher,
)
from toposcope.integrations.framework.publishing.publisher import DELAY_SECONDS, SystemPublishing
from toposcope.integrations.kueue.api import FLAVORS, TOPOLOGIES
from toposcope.kube.client import Caller, find
from toposcope.kube.runtime import REAL, Runtime

_IN_USE: Final = f"finalizer {TOPOLOGIES.group}/resource-in-use"

Document = Mapping[str, Any]


class KueuePublisher:
    """Keeps the Topology named like its ClusterTopology equal to it."""

    name = TOPOLOGIES.option
    group = TOPOLOGIES.group
    keeps_retained_levels = False

    def __init__(
        self, client: Caller, runtime: Runtime = REAL, delay: float = DELAY_SECONDS
    ) -> None:
        def held_by(document: Document) -> list[str]:
            return holders(client, document)

        self._client = client
        self._keeper = ImmutableTopologyPublisher(client, runtime, delay, held_by)
        self._version = TOPOLOGIES.versions[0]

    def served(self) -> bool:
        """Whether the API server serves the kind now; `publish` uses the version found.

        Raises KubeError.
        """
        group = find(self._client, f"/apis/{self.group}")
        if not group:
            return False
        versions = [entry["version"] for entry in group["versions"]]
        for version in TOPOLOGIES.versions:
            if version in versions and self._is_served(version):
                self._version = version
                return True
        return False

    def publish(self, topology: Topology, levels: Sequence[Level]) -> Published:
        """Give the Topology these levels. Raises KubeError if the server does not answer."""
        target = self._target(topology)
        return self._keeper.publish(target, topology, levels)

    def retract(self, topology: Topology) -> Published | None:
        """Delete the Topology if Toposcope manages it.

        Returns None once it is gone. Raises KubeError.
        """
        target = self._target(topology)
        return self._keeper.retract(target, topology)

    def _is_served(self, version: str) -> bool:
        api_version = f"{self.group}/{version}"
        resources = objects.served_resources(self._client, api_version)
        return TOPOLOGIES.plural in resources

    def _target(self, topology: Topology) -> Target:
        return TOPOLOGIES.target(topology.name, self._version)


def holders(client: Caller, document: Document) -> list[str]:
    """What must release a Topology before Kueue does: flavors that name it, others' finalizers.

    Kueue adds its own finalizer to every Topology, used or not, and removes it from a deleted one
    once no flavor names it (its topology controller), so it is not listed. Raises KubeError.
    """
    topology = document["metadata"]["name"]
    held = []
    for flavor in _flavors(client):
        spec = flavor.get("spec") or {}
        if spec.get("topologyName") == topology:
            name = flavor["metadata"]["name"]
            held.append(f"ResourceFlavor {name}")
    for finalizer in finalizers(document):
        if finalizer != _IN_USE:
            held.append(finalizer)
    return held


def _flavors(client: Caller) -> Sequence[Document]:
    """All ResourceFlavors, in the first served version."""
    for version in FLAVORS.versions:
        target = FLAVORS.target("", version)
        answer = find(client, target.collection)
        if answer is not None:
            return answer.get("items") or ()
    return ()


class _KueuePublishing(SystemPublishing):
    """Kueue's Topology."""

    @staticmethod
    def holders(client: Caller, document: Document) -> list[str]:
        return holders(client, document)

    def publisher(self, client: Caller, delay: float) -> KueuePublisher:
        return KueuePublisher(client, self.settings.runtime, delay)


PUBLISHING: Final = _KueuePublishing
