"""KAI's `Topology` (kai.scheduler/v1alpha1, KAI v0.12 and later), unless Grove makes it from a binding.

One of ours that is there when Grove comes stays ours: Grove's publisher names it in the binding.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from toposcope.api.cluster_topology import Topology
from toposcope.controller.publishers.backoff import Clock
from toposcope.controller.publishers.immutable_topology import (
    DELAY_SECONDS,
    ImmutableTopologyPublisher,
    Patience,
    level_keys,
)
from toposcope.controller.publishers.objects import remove, served_resources
from toposcope.integrations.framework.published import Published, Target, finalizers, is_ours
from toposcope.integrations.grove.kai_reference import (
    GROVE_API,
    KAI_API,
    TOPOLOGIES,
    grove_target,
    is_groves,
    is_made_from,
    kai_target,
    names_kai_topology,
)
from toposcope.kube.client import Caller, find
from toposcope.kube.errors import ApiError
from toposcope.topology.levels import Level


class KaiPublisher:
    """Keeps the Topology named like its ClusterTopology equal to it; to be asked after Grove's publisher."""

    name = "kai"
    group = "kai.scheduler"

    def __init__(self, client: Caller, monotonic: Clock, delay: float = DELAY_SECONDS) -> None:
        self._client = client
        self._keeper = ImmutableTopologyPublisher(client, monotonic, delay)
        self._patience = Patience(monotonic)

    def served(self) -> bool:
        """Whether the API server serves the kind just now. Raises KubeError."""
        return TOPOLOGIES in served_resources(self._client, KAI_API)

    def publish(self, topology: Topology, levels: Sequence[Level]) -> Published:
        """Make the Topology have `levels`, or say how Grove is getting on. Raises KubeError without an answer."""
        target = kai_target(topology.name)
        try:
            groves = grove_target(served_resources(self._client, GROVE_API), topology.name)
            binding = find(self._client, groves.path) if groves else None
            there = find(self._client, target.path)
            if groves and _is_left_to_grove(topology, binding):
                if there is not None and is_ours(there, topology):
                    answer = self._not_named(target, topology, levels, binding, there)
                else:
                    answer = self._groves(target, topology, levels, binding, there)
            elif there is not None and is_groves(there, topology.name) and not is_made_from(there, binding):
                text = "is still the one that Grove made from a ClusterTopologyBinding that is gone; it goes with it"
                answer = target.not_in_sync("Waiting", text, self._patience.again_in(topology.name))
            else:
                answer = self._keeper.keep(target, topology, levels, there)
        except ApiError as error:
            return target.failed(error)
        if answer.reason != "Waiting":
            self._patience.over(topology.name)
        return answer

    def retract(self, topology: Topology) -> Published | None:
        """Delete the Topology if it is ours; None when nothing of ours is left. Raises KubeError."""
        return self._keeper.retract(kai_target(topology.name), topology)

    def _not_named(
        self,
        target: Target,
        topology: Topology,
        levels: Sequence[Level],
        binding: Mapping[str, Any] | None,
        there: Mapping[str, Any],
    ) -> Published:
        """What becomes of ours where Grove is, and no binding names it."""
        if binding is None:  # it will be made with the entry
            return self._keeper.keep(target, topology, levels, there)
        if is_ours(binding, topology):
            # Grove may refuse the entry. Made anew, ours could meet one that Grove has made in the meantime.
            text = "stays as it is until Grove's ClusterTopologyBinding names it"
            return target.not_in_sync("Waiting", text, self._patience.again_in(target.name))
        # Grove's operator would not start with ours in the way of a binding that somebody else has made.
        waiting = remove(self._client, target, there, "so that Grove can make its own", finalizers(there))
        return waiting or self._not_made_yet(target)

    def _groves(
        self,
        target: Target,
        topology: Topology,
        levels: Sequence[Level],
        binding: Mapping[str, Any] | None,
        there: Mapping[str, Any] | None,
    ) -> Published:
        """How Grove is getting on with the Topology that it makes from the binding."""
        if there is None:
            return self._not_made_yet(target)
        if not is_groves(there, topology.name):
            return target.taken()
        if is_made_from(there, binding) and level_keys(there) == tuple(level.key for level in levels):
            return target.in_sync("made by Grove from its ClusterTopologyBinding")
        if binding is not None and not is_ours(binding, topology):
            text = "Grove makes it from a ClusterTopologyBinding of this name that Toposcope did not write"
            return target.not_in_sync("Conflict", f"{text}; give the ClusterTopology another name")
        text = "Grove has not brought it in line with its ClusterTopologyBinding yet"
        return target.not_in_sync("Waiting", text, self._patience.again_in(topology.name))

    def _not_made_yet(self, target: Target) -> Published:
        text = (
            "Grove makes it from its ClusterTopologyBinding and has not yet; is Grove's operator running, with "
            "kai-scheduler enabled? If KAI is used without Grove, set spec.publish.grove to Never; if it is not used, "
            "spec.publish.kai"
        )
        return target.not_in_sync("Waiting", text, self._patience.again_in(target.name))


def _is_left_to_grove(topology: Topology, binding: Mapping[str, Any] | None) -> bool:
    """Whether Grove, which is there, makes the Topology of this name, or will as soon as its binding is written."""
    if binding is not None:
        return not names_kai_topology(binding)
    return topology.publish.get("grove", "Auto") == "Auto"
