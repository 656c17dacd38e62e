"""Whether the scheduler in the cluster has the levels of Grove's workloads."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from toposcope.integrations.framework.constraints import Workload, levels_asked_for
from toposcope.integrations.framework.document import Finding
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.placement import (
    ClusterView,
    Placement,
    ViewedResource,
)
from toposcope.integrations.framework.system import (
    ClusterFacts,
    ReadTopologies,
    SchedulerProfiles,
)
from toposcope.integrations.grove import backend
from toposcope.integrations.grove.api import BINDINGS, OLDER_TOPOLOGIES
from toposcope.integrations.grove.plugin import PLUGIN
from toposcope.integrations.grove.schedulers import profiles_of
from toposcope.integrations.grove.waiting import topology_named_by
from toposcope.text import listing

_BINDINGS: Final = frozenset({BINDINGS.kind, OLDER_TOPOLOGIES.kind})


class _Placement(Placement):
    def profiles(self, configuration: Mapping[str, Any]) -> SchedulerProfiles | None:
        return profiles_of(configuration)

    def findings(
        self, workload: Workload, cluster: ClusterFacts, view: ClusterView
    ) -> Iterator[Finding]:
        """The finding that the scheduler's Topology is missing, or lacks a requested level."""
        if cluster.reads != PLUGIN.name or not workload.topology or not workload.is_placeable:
            return
        read = cluster.read[backend.TOPOLOGIES.option]
        binding = _binding(view, workload.topology)
        if read.stand_in or binding is None:
            return
        named = topology_named_by(binding.document)
        if not named and _must_name(cluster):
            yield _unnamed(binding)
            return
        yield from _of_topology(workload, read, binding, named or binding.name)


def _unnamed(binding: ViewedResource) -> Finding:
    message = (
        f"{binding.handle} names no Topology of {backend.TITLE}, and Grove creates none because "
        "of its topologyBindingPolicy, so it rejects the set"
    )
    fix = (
        f"name one in spec.schedulerTopologyBindings for {backend.SCHEDULER}; if Toposcope "
        "publishes the binding, list it in spec.bindingSchedulers"
    )
    return Finding("grove/scheduler-binding", "error", "", message, fix)


def _of_topology(
    workload: Workload, read: ReadTopologies, binding: ViewedResource, name: str
) -> Iterator[Finding]:
    """The problem with the binding's Topology."""
    if name not in read.by_name:
        yield _finding(
            f"{backend.TITLE} has no Topology {name}",
            f"Grove's operator creates it from the binding with {backend.TITLE} v0.12 or later; "
            f"otherwise let Toposcope create it (spec.publish.{backend.TOPOLOGIES.option})",
        )
        return
    lacking = _lacking(workload, read.by_name[name])
    if lacking:
        yield _finding(
            f"{backend.TITLE}'s Topology {name} lacks {listing(lacking, len(lacking))}",
            f"give it the levels of {binding.handle}",
        )


def _must_name(cluster: ClusterFacts) -> bool:
    """Whether bindings must name the scheduler's Topology."""
    profiles = cluster.profiles
    return profiles is not None and backend.SCHEDULER in profiles.named_topologies


def _binding(view: ClusterView, topology: str) -> ViewedResource | None:
    for resource in view.published:
        if resource.name == topology and resource.kind in _BINDINGS:
            return resource
    return None


def _lacking(workload: Workload, topology: TopologyLevels) -> list[str]:
    """The label keys that the workload requests and the topology lacks."""
    lacking: dict[str, None] = {}
    for level in levels_asked_for(workload.groups):
        if not topology.by_key(level.key):
            lacking[level.key] = None
    return list(lacking)


def _finding(what: str, fix: str) -> Finding:
    message = f"{what}, so it cannot keep Grove's pods together"
    return Finding(backend.TOPOLOGY_RULE, "error", "", message, fix)


PLACEMENT: Final = _Placement()
