"""Looks at the cluster, and assesses each ClusterTopology in the light of what it remembers."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from toposcope.api.cluster_topology import Topology
from toposcope.api.levels import Level
from toposcope.controller.agent_pods import AgentPods
from toposcope.controller.agent_watch import AgentWatch
from toposcope.controller.assess.agents import NO_PODS_SEEN, AgentPodsSeen
from toposcope.controller.assess.assessment import Evidence, assess
from toposcope.controller.assess.rebuilds import FabricHistory, Rebuild
from toposcope.controller.assess.selection import overlaps
from toposcope.controller.findings import Findings
from toposcope.controller.held_labels import HeldLabels
from toposcope.controller.look import MOST_TOPOLOGIES, Pass, Workloads
from toposcope.controller.memory import Memory
from toposcope.controller.node_plan import planned, unwritten_annotations, unwritten_values
from toposcope.controller.requirements import resolve
from toposcope.controller.status import demand_of
from toposcope.controller.wiring import Wiring
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.hierarchy.table import Table


class Assessor:
    """Remembers, for one term of leadership, what the nodes showed before."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._runtime = wiring.runtime
        self._memories: dict[str, Memory] = {}
        """By the uid of the topology."""
        self._held_labels = HeldLabels()
        self._fabric_history = FabricHistory()
        self._agent_pods = AgentPods(wiring.client, wiring.runtime)
        self.agents: AgentWatch | None = None
        self.catalogue = BUILT_IN

    def look(self, topologies: Sequence[Topology], nodes: Table, workloads: Workloads) -> Pass:
        """What a pass over these topologies, the oldest first, goes by."""
        supported = topologies[:MOST_TOPOLOGIES]
        self._held_labels.observe(nodes, self._runtime.monotonic())
        rebuilds = self._fabric_history.observe(nodes)
        levels = {topology.name: topology.last_levels for topology in supported}
        names = self._wiring.publishing.look(supported, nodes)
        return Pass(
            topologies=topologies,
            supported=supported,
            nodes=nodes,
            catalogue=self.catalogue,
            demands=resolve(levels, workloads.level_requests(), self.catalogue, names),
            has_listed_workloads=workloads.is_synced,
            bound=self._bound(levels, workloads),
            by_value=workloads.by_value(),
            rebuilds=rebuilds,
            overlaps=overlaps(supported, nodes),
            agent_pods=self._look_at_agents() if supported else NO_PODS_SEEN,
        )

    def assess(self, look: Pass, topology: Topology) -> Findings:
        """What is known of one topology before anything is written."""
        demanded = look.demands[topology.name]
        demand = demand_of(demanded, topology.status, is_listed=look.has_listed_workloads)
        evidence = Evidence(
            nodes=look.nodes,
            now=self._runtime.monotonic(),
            required=demand.required.keys(),
            preferred=demand.preferred.keys(),
            bound=None if look.bound is None else look.bound[topology.name],
            by_value=look.by_value,
            held=self._held_labels.table(look.nodes, topology.grace_seconds),
            rebuilds=look.rebuilds,
            catalogue=look.catalogue,
            agent_pods=look.agent_pods,
        )
        memory = self._memory(topology)
        assessment = assess(topology, evidence, memory)
        self._wiring.publishing.draw(topology, assessment.publishable, assessment.selected)
        findings = Findings(topology, demanded, demand, assessment, memory)
        return _with_plan(look, findings)

    def _look_at_agents(self) -> AgentPodsSeen:
        """What the pods of the agents show now."""
        unready = self.agents.unready() if self.agents else ()
        return AgentPodsSeen(missing=self._agent_pods.look(), unready=unready)

    def note_reported(self, rebuilds: Iterable[Rebuild]) -> None:
        """Note that an Event has told of these rebuilds."""
        self._fabric_history.report(rebuilds)

    def keep_only(self, uids: frozenset[str]) -> None:
        """Forget the topologies that are gone."""
        for uid in self._memories.keys() - uids:
            del self._memories[uid]

    def next_deadline(self, topologies: Sequence[Topology]) -> float | None:
        """Seconds until a verdict changes though nothing else does; None when none will."""
        now = self._runtime.monotonic()
        graces = [topology.grace_seconds for topology in topologies]
        overdue = self.next_overdue(topologies)
        held = self._held_labels.next_deadline(graces, now)
        if overdue is None or held is None:
            return held if overdue is None else overdue
        return min(overdue, held)

    def next_overdue(self, topologies: Iterable[Topology]) -> float | None:
        """Seconds until something has been so for the grace period of its topology.

        None when nothing will.
        """
        now = self._runtime.monotonic()
        waits = []
        for topology in topologies:
            memory = self._memories.get(topology.uid)
            wait = memory.next_deadline(topology.grace_seconds, now) if memory else None
            if wait is not None:
                waits.append(wait)
        return min(waits, default=None)

    def _bound(
        self, levels: Mapping[str, Sequence[Level]], workloads: Workloads
    ) -> Mapping[str, Collection[str]] | None:
        """The domains that workloads require through a binding; None: unknown."""
        requests = workloads.bound_requests()
        if requests is None:
            return None
        resolved = resolve(levels, requests, self.catalogue)
        return {name: demanded.required for name, demanded in resolved.items()}

    def _memory(self, topology: Topology) -> Memory:
        memory = self._memories.get(topology.uid)
        if memory is None:
            memory = Memory(is_single_look=self._wiring.is_single_look)
            self._memories[topology.uid] = memory
        return memory


def _with_plan(look: Pass, findings: Findings) -> Findings:
    """The findings with what belongs on the topology's nodes."""
    topology, nodes = findings.topology, findings.assessment.selected
    entry = planned(topology, findings.assessment)
    findings = replace(findings, planned=entry)
    if topology.unique:
        values = unwritten_values(topology, entry, nodes, look.supported)
        findings = replace(findings, values=values)
    if topology.slinky:
        annotations = unwritten_annotations(topology, entry, nodes, look.supported)
        findings = replace(findings, annotations=annotations)
    return findings
