"""A cluster on which workloads are placed; computes what its questions share once."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from toposcope.integrations.documents import with_documents
from toposcope.integrations.dra.allocation import Claims
from toposcope.integrations.framework import placement as framework
from toposcope.integrations.framework.constraints import (
    Admission,
    Decision,
    GpuShare,
    Group,
    Workload,
    pods_in,
)
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.readings import resource_read_for
from toposcope.integrations.registry import placements
from toposcope.placement.cluster_facts import cluster_facts, with_held, with_pods
from toposcope.placement.devices import with_extended
from toposcope.placement.neighbours import Neighbours
from toposcope.placement.nodes import by_state, nodes_of
from toposcope.placement.room import RoomNode
from toposcope.placement.rule_state import Beside, has_rules
from toposcope.snapshot.model import PodView, Snapshot


@dataclass(frozen=True)
class Question(framework.PlacementQuestion):
    """Whether a workload fits onto the nodes of a cluster."""

    nodes: Sequence[RoomNode]
    can_lack_levels: bool
    """As in `Room`."""
    on: "Cluster"

    def beside(self, groups: Sequence[Group], *, emptied: bool) -> Beside | None:
        """The rules between the pods of these groups and running pods; None if there are none."""
        neighbours = self.on.neighbours
        if not has_rules(groups) and not neighbours.repelling:
            return None
        running = None if emptied else neighbours
        return Beside(groups, self.nodes, running, ignores_spread=self.ignores_spread)

    @property
    def ignores_spread(self) -> bool:
        """Whether the workload's scheduler ignores spread constraints."""
        return any(placement.ignores_spread(self.workload) for placement in placements())

    def about(self, workload: Workload) -> "Question":
        """The same question about another workload."""
        return self.on.question(workload, self.decisions)


class _Perspective(NamedTuple):
    """What decides how a workload's scheduler sees the nodes."""

    by_state: bool
    own: frozenset[tuple[str, str]] | None
    extended: frozenset[str]
    shares: frozenset[GpuShare]
    topology: str
    """The system whose objects list the nodes of each domain; empty: node labels do."""


class Cluster:
    """A snapshot, and the documents of this run."""

    def __init__(
        self,
        snapshot: Snapshot,
        documents: Sequence[Mapping[str, Any]],
        own: Sequence[PodView] = (),
    ) -> None:
        """`own` are pods to find a new place for, which the snapshot leaves out."""
        self.snapshot = snapshot
        self._documents = documents
        facts = with_pods(cluster_facts(snapshot), own)
        self.facts = with_held(with_documents(facts, documents), snapshot)
        self.bound = _requests_of(own)
        """What the own pods hold."""
        self._nodes: dict[_Perspective, list[RoomNode]] = {}

    @cached_property
    def claims(self) -> Claims:
        """The claims of the cluster and of the documents, and what decides their devices."""
        return Claims.of((*self.snapshot.objects, *self._documents))

    @cached_property
    def neighbours(self) -> Neighbours:
        """The running pods, as the rules of other pods see them."""
        nodes = {node.name: node for node in nodes_of(self.snapshot, None, {})}
        return Neighbours(self.snapshot.pods or (), nodes)

    @cached_property
    def pods_on(self) -> Mapping[str, Sequence[PodView]]:
        """The pods of each node; computed only if pods have to be drained, or share GPUs."""
        pods: dict[str, list[PodView]] = {}
        for pod in self.snapshot.pods or ():
            pods.setdefault(pod.node, []).append(pod)
        return pods

    def topology(self, workload: Workload) -> TopologyLevels | None:
        """The topology that the workload asks for, as its system reads it."""
        if workload.topology is None:
            return None
        resource = resource_read_for(workload)
        return self.facts.read[resource].by_name.get(workload.topology)

    def question(
        self, workload: Workload, decisions: MutableMapping[Admission, Decision] | None = None
    ) -> Question:
        """Whether the workload fits, on the levels of its topology, else on those that it names.

        Schedulers ignore a ClusterTopology's selector, and treat a placeholder like any other
        value.
        """
        topology = self.topology(workload)
        levels = topology.levels if topology else ()
        return Question(
            workload=workload,
            levels=levels or workload.levels,
            nodes=self._nodes_for(workload),
            cluster=self.facts,
            own=self.bound,
            decisions={} if decisions is None else decisions,
            can_lack_levels=not levels or (topology is not None and bool(topology.places)),
            on=self,
        )

    def _nodes_for(self, workload: Workload) -> list[RoomNode]:
        """The nodes as the workload's scheduler sees them."""
        topology = self.topology(workload)
        places: Mapping[str, Mapping[str, str]] = {}
        if topology is not None:
            places = topology.places

        perspective = self._perspective_of(workload, has_places=bool(places))
        nodes = self._nodes.get(perspective)
        if nodes is None:
            nodes = self._nodes_from(perspective)
            if places:
                nodes = list(_in_places(nodes, places))
            self._nodes[perspective] = nodes
        return nodes

    def _perspective_of(self, workload: Workload, *, has_places: bool) -> _Perspective:
        """How the workload's scheduler sees the nodes."""
        own = None
        if workload.admission:
            own = workload.admission.own
        extended = set()
        for pods in pods_in(workload.groups):
            for resource, _ in pods.requests:
                if resource in self.claims.extended:
                    extended.add(resource)
        return _Perspective(
            by_state=any(placement.asks_nodes(workload) for placement in placements()),
            own=own,
            extended=frozenset(extended),
            shares=_shares_of(workload),
            topology=f"{workload.system}/{workload.topology}" if has_places else "",
        )

    def _nodes_from(self, perspective: _Perspective) -> list[RoomNode]:
        held = {}
        if perspective.own is not None:
            for key, domains in self.facts.held.items():
                if key not in perspective.own:
                    held[key] = domains
        nodes = with_extended(
            list(nodes_of(self.snapshot, frozenset(), held)),
            self.snapshot.inventory,
            self.claims,
            perspective.extended,
        )
        for share in perspective.shares:
            nodes = [self._with_share(node, share) for node in nodes]
        return [by_state(node) for node in nodes] if perspective.by_state else nodes

    def _with_share(self, node: RoomNode, share: GpuShare) -> RoomNode:
        """The node with as many shares as the scheduler counts on its GPUs."""
        pods = self.pods_on.get(node.name, ())
        for placement in placements():
            offered = placement.shares(node, share, pods)
            if offered is not None:
                free = {**node.free, share.resource: offered.now}
                total = {**node.total, share.resource: offered.empty}
                return replace(node, free=free, total=total)
        return node


def _in_places(
    nodes: Iterable[RoomNode], places: Mapping[str, Mapping[str, str]]
) -> Iterator[RoomNode]:
    """The nodes, with the domains in which objects list them as labels."""
    for node in nodes:
        domains = places.get(node.name)
        yield replace(node, labels={**node.labels, **domains}) if domains else node


def _shares_of(workload: Workload) -> frozenset[GpuShare]:
    """The shares of GPUs that its pods ask for."""
    shares = [pods.share for pods in pods_in(workload.groups)]
    return frozenset(filter(None, shares))


def _requests_of(pods: Iterable[PodView]) -> Counter[str]:
    requests = Counter[str]()
    for pod in pods:
        if pod.node:
            requests.update(pod.requests)
    return requests
