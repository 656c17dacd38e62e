"""KAI's `Topology` (KAI v0.12 and later) in the cluster.

It is published unless an operator creates it from its binding (`made_topology`). One that Toposcope
created before the operator was installed stays, and the binding's publisher names it.
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
from toposcope.integrations.kai import made_topology
from toposcope.integrations.kai.api import TOPOLOGIES
from toposcope.kube.client import Caller, find
from toposcope.kube.errors import ApiError
from toposcope.kube.runtime import REAL, Runtime

Document = Mapping[str, Any]


class KaiPublisher:
    """Keeps the Topology named like its ClusterTopology equal to it; runs after the binding's."""

    name = TOPOLOGIES.option
    group = TOPOLOGIES.group
    keeps_retained_levels = True
    """If a binding is published, the Topology is created from it."""

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
        """Give the Topology these levels, or report the operator's progress. Raises KubeError."""
        target = TOPOLOGIES.target(topology.name)
        try:
            answer = self._publish(target, topology, levels)
        except ApiError as error:
            return target.failed(error)
        if answer.reason != "Waiting":
            self._patience.over(topology.name)
        return answer

    def retract(self, topology: Topology) -> Published | None:
        """Delete the Topology if Toposcope manages it.

        Returns None once it is gone. Raises KubeError.
        """
        target = TOPOLOGIES.target(topology.name)
        return self._keeper.retract(target, topology)

    def _publish(self, target: Target, topology: Topology, levels: Sequence[Level]) -> Published:
        resources = objects.served_resources(self._client, made_topology.BINDING_API)
        binding_target = made_topology.binding_target(resources, topology.name)
        binding: Document | None = None
        if binding_target:
            binding = find(self._client, binding_target.path)
        existing = find(self._client, target.path)

        if binding_target and made_topology.is_left_to_operator(topology, binding):
            if existing is None or not is_ours(existing, topology):
                return self._operators(target, topology, levels, binding, existing)
            return self._not_named(target, topology, levels, binding, existing)
        if existing is not None and made_topology.is_leftover(existing, topology.name, binding):
            # the operator's Topology outlives its binding for a moment
            return self._waiting(target, made_topology.LEFT_OVER)
        return self._keeper.keep(target, topology, levels, existing)

    def _waiting(self, target: Target, why: str) -> Published:
        """The result while something else has to act first."""
        again_in = self._patience.again_in(target.name)
        return target.not_in_sync("Waiting", why, again_in)

    def _not_named(
        self,
        target: Target,
        topology: Topology,
        levels: Sequence[Level],
        binding: Document | None,
        ours: Document,
    ) -> Published:
        """The result for our Topology if the operator is installed and no binding names it."""
        if binding is None:  # it will be created with the entry
            return self._keeper.keep(target, topology, levels, ours)
        if is_ours(binding, topology):
            # The operator may refuse the entry. Created again, ours could meet one that it has made
            # in the meantime.
            return self._waiting(target, made_topology.NOT_NAMED)

        # The operator would not start with ours in the way of a binding that somebody else created.
        why = made_topology.MAKES_ITS_OWN
        held_by = finalizers(ours)
        waiting = objects.remove(self._client, target, ours, why, held_by)
        if waiting:
            return waiting
        return self._waiting(target, made_topology.NOT_MADE_YET)

    def _operators(
        self,
        target: Target,
        topology: Topology,
        levels: Sequence[Level],
        binding: Document | None,
        existing: Document | None,
    ) -> Published:
        """The operator's progress with the Topology that it creates from the binding."""
        if existing is None:
            return self._waiting(target, made_topology.NOT_MADE_YET)
        if not made_topology.is_made(existing, topology.name):
            return target.conflict()

        wanted = tuple(level.key for level in levels)
        is_of_binding = made_topology.is_made_from(existing, binding)
        if is_of_binding and level_keys(existing) == wanted:
            return target.in_sync(made_topology.MADE)
        if binding is not None and not is_ours(binding, topology):
            return target.not_in_sync("Conflict", made_topology.OF_ANOTHER_BINDING)
        return self._waiting(target, made_topology.NOT_IN_LINE)


class _KaiPublishing(SystemPublishing):
    """KAI's Topology."""

    def publisher(self, client: Caller, delay: float) -> KaiPublisher:
        return KaiPublisher(client, self.settings.runtime, delay)


PUBLISHING: Final = _KaiPublishing
