"""KAI's `Topology` (KAI v0.12 and later) in the cluster.

It is published unless Grove makes it from a binding; one of ours that exists when Grove is
installed stays ours, and Grove's publisher names it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.levels import Level
from toposcope.integrations.framework.published import Published, Target, finalizers, is_ours
from toposcope.integrations.framework.publishing import objects
from toposcope.integrations.framework.publishing.immutable_topology import (
    ImmutableTopologyPublisher,
    Patience,
    level_keys,
)
from toposcope.integrations.framework.publishing.publisher import DELAY_SECONDS, SystemPublishing
from toposcope.integrations.grove.api import BINDINGS
from toposcope.integrations.grove.kai_reference import made_by_grove, made_from, names_kai_topology
from toposcope.integrations.grove.topology import target as grove_target
from toposcope.integrations.kai.api import TOPOLOGIES
from toposcope.kube.client import Caller, find
from toposcope.kube.errors import ApiError
from toposcope.kube.runtime import REAL, Runtime

Document = Mapping[str, Any]


class KaiPublisher:
    """Keeps the Topology named like its ClusterTopology equal to it; runs after Grove's."""

    name = TOPOLOGIES.option
    group = TOPOLOGIES.group
    keeps_retained_levels = True
    """Where Grove's binding is published, the Topology is made of it."""

    def __init__(
        self, client: Caller, runtime: Runtime = REAL, delay: float = DELAY_SECONDS
    ) -> None:
        self._client = client
        self._keeper = ImmutableTopologyPublisher(client, runtime, delay)
        self._patience = Patience(runtime)

    def served(self) -> bool:
        """Whether the API server serves the kind now. Raises KubeError."""
        resources = objects.served_resources(self._client, TOPOLOGIES.api_version())
        return TOPOLOGIES.plural in resources

    def publish(self, topology: Topology, levels: Sequence[Level]) -> Published:
        """Make the Topology have `levels`, or report how far Grove is.

        Raises KubeError without an answer.
        """
        target = TOPOLOGIES.target(topology.name)
        try:
            answer = self._publish(target, topology, levels)
        except ApiError as error:
            return target.failed(error)
        if answer.reason != "Waiting":
            self._patience.over(topology.name)
        return answer

    def retract(self, topology: Topology) -> Published | None:
        """Delete the Topology if it is ours; None when nothing of ours is left.

        Raises KubeError.
        """
        return self._keeper.retract(TOPOLOGIES.target(topology.name), topology)

    def _publish(self, target: Target, topology: Topology, levels: Sequence[Level]) -> Published:
        resources = objects.served_resources(self._client, BINDINGS.api_version())
        groves = grove_target(resources, topology.name)
        binding: Document | None = None
        if groves:
            binding = find(self._client, groves.path)
        existing = find(self._client, target.path)
        if groves and _is_left_to_grove(topology, binding):
            if existing is None or not is_ours(existing, topology):
                return self._groves(target, topology, levels, binding, existing)
            return self._not_named(target, topology, levels, binding, existing)
        if existing is not None and _is_leftover(existing, topology.name, binding):
            return self._leftover(target)
        return self._keeper.keep(target, topology, levels, existing)

    def _leftover(self, target: Target) -> Published:
        """Grove's Topology outlives its binding for a moment."""
        text = (
            "is still the one that Grove made from a ClusterTopologyBinding that is gone; "
            "it goes with it"
        )
        return target.not_in_sync("Waiting", text, self._patience.again_in(target.name))

    def _not_named(
        self,
        target: Target,
        topology: Topology,
        levels: Sequence[Level],
        binding: Document | None,
        ours: Document,
    ) -> Published:
        """What becomes of ours where Grove is installed, and no binding names it."""
        if binding is None:  # it will be created with the entry
            return self._keeper.keep(target, topology, levels, ours)
        if is_ours(binding, topology):
            # Grove may refuse the entry. Created again, ours could meet one that Grove has made in
            # the meantime.
            text = "stays as it is until Grove's ClusterTopologyBinding names it"
            return target.not_in_sync("Waiting", text, self._patience.again_in(target.name))
        # Grove's operator would not start with ours in the way of a binding that somebody else
        # created.
        why = "so that Grove can make its own"
        waiting = objects.remove(self._client, target, ours, why, finalizers(ours))
        return waiting or self._not_made_yet(target)

    def _groves(
        self,
        target: Target,
        topology: Topology,
        levels: Sequence[Level],
        binding: Document | None,
        existing: Document | None,
    ) -> Published:
        """How far Grove is with the Topology that it makes from the binding."""
        if existing is None:
            return self._not_made_yet(target)
        if not made_by_grove(existing, topology.name):
            return target.conflict()
        wanted = tuple(level.key for level in levels)
        if made_from(existing, binding) and level_keys(existing) == wanted:
            return target.in_sync("made by Grove from its ClusterTopologyBinding")
        if binding is not None and not is_ours(binding, topology):
            text = (
                "Grove makes it from a ClusterTopologyBinding of this name that Toposcope did not "
                "write; give the ClusterTopology another name"
            )
            return target.not_in_sync("Conflict", text)
        text = "Grove has not brought it in line with its ClusterTopologyBinding yet"
        return target.not_in_sync("Waiting", text, self._patience.again_in(target.name))

    def _not_made_yet(self, target: Target) -> Published:
        text = (
            "Grove makes it from its ClusterTopologyBinding and has not yet; is Grove's operator "
            "running, with kai-scheduler enabled? If KAI is used without Grove, set "
            "spec.publish.grove to Never; if it is not used, spec.publish.kai"
        )
        return target.not_in_sync("Waiting", text, self._patience.again_in(target.name))


def _is_leftover(existing: Document, name: str, binding: Document | None) -> bool:
    """Whether Grove made the Topology from a binding that is gone."""
    return made_by_grove(existing, name) and not made_from(existing, binding)


def _is_left_to_grove(topology: Topology, binding: Document | None) -> bool:
    """Whether Grove, which is installed, makes the Topology of this name.

    Perhaps only once its binding is written.
    """
    if binding is not None:
        return not names_kai_topology(binding)
    return topology.publish.get("grove", "Auto") == "Auto"


class _KaiPublishing(SystemPublishing):
    """KAI's Topology."""

    def publisher(self, client: Caller, delay: float) -> KaiPublisher:
        return KaiPublisher(client, self.settings.runtime, delay)


PUBLISHING: Final = _KaiPublishing
