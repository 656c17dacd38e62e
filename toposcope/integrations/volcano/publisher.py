"""Writes Volcano's HyperNodes (v1.12 and later) if spec.publish.volcano is Auto.

A ClusterTopology becomes a tree of many objects. Names come from the whole path of a domain, so
that no HyperNode ever has two parents, which would stop all jobs with a topology. New ones are
created from the narrowest up, old ones deleted from the broadest down. A domain without nodes keeps
its HyperNode, and its place in the tree, for the grace period; if its nodes are now in another
domain, the HyperNode is deleted at once.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.levels import Level
from toposcope.hierarchy.table import Table
from toposcope.hierarchy.timers import Timers
from toposcope.integrations.framework.published import (
    MANAGER,
    Published,
    Target,
    finalizers,
    is_ours,
)
from toposcope.integrations.framework.publishing import objects
from toposcope.integrations.framework.publishing.publisher import (
    LevelNames,
    PublishSettings,
    SystemPublishing,
)
from toposcope.integrations.volcano.api import TIER
from toposcope.integrations.volcano.hyper_nodes import (
    HYPER_NODES,
    HyperNode,
    draw,
    members_of,
    tiered,
    tiers_of,
)
from toposcope.kube.client import Caller, find
from toposcope.kube.errors import ApiError
from toposcope.kube.requests import apply
from toposcope.kube.runtime import REAL, Runtime
from toposcope.text import plural

_PATIENCE_SECONDS: Final = 2.0
"""How long one pass writes. The next pass continues."""
_TIER_NAME: Final = "tierName"
Document = Mapping[str, Any]


class HyperNodePlans:
    """The HyperNodes that should exist, and what is remembered of those that do.

    They are computed in each pass, while its nodes are in memory. Losing the memory only delays a
    deletion.
    """

    def __init__(self, *, at_once: bool = False) -> None:
        """With `at_once` everything is written in one pass, however long it takes."""
        self.patience = math.inf if at_once else _PATIENCE_SECONDS
        self._orders: dict[str, list[str]] = {}
        """The domains of each published topology by its uid, broadest first."""
        self.drawn: dict[str, dict[str, HyperNode]] = {}
        """By the uid of the topology, then by name."""
        self.unplanned: defaultdict[str, Timers[str]] = defaultdict(Timers)
        """HyperNodes without a domain by name, by the uid of the topology."""
        self.tier_names = True
        """Whether the cluster's Volcano has `tierName`, as far as is known."""

    def begin(self, topologies: Sequence[Topology], nodes: Table) -> LevelNames:
        """Set the tiers of all ClusterTopologies that are published."""
        self.drawn.clear()
        self._orders.clear()
        published: list[Topology] = []
        for topology in topologies:
            if topology.mode(HYPER_NODES.option) == "Never":
                continue
            published.append(topology)
            levels = tiered(topology.last_levels, nodes)
            self._set_order(topology, levels)

        tiers = tiers_of(self._orders.values())
        named = {}
        for topology in published:
            named[topology.name] = self._tiers(topology, tiers)
        return named

    def _set_order(self, topology: Topology, levels: Sequence[Level]) -> None:
        self._orders[topology.uid] = [level.domain for level in levels]

    def _tiers(self, topology: Topology, tiers: Mapping[str, int]) -> dict[str, str]:
        """The domain of each tier, by the name that requests use."""
        domains = self._orders[topology.uid]
        named = {}
        tier_by_position = len(domains)
        for domain in domains:
            tier = tiers.get(domain, tier_by_position)
            request = TIER.format(tier)
            named[request] = domain
            tier_by_position -= 1
        return named

    def draw(self, topology: Topology, levels: Sequence[Level] | None, nodes: Table) -> None:
        """Compute the HyperNodes of one topology, which publishes `levels`."""
        uid = topology.uid
        if not levels or uid not in self._orders:
            return
        with_hyper_nodes = tiered(levels, nodes)
        self._set_order(topology, with_hyper_nodes)
        tiers = tiers_of(self._orders.values())
        self.drawn[uid] = draw(
            topology.name,
            with_hyper_nodes,
            nodes,
            tiers,
        )


@dataclass(frozen=True, slots=True)
class _Kept:
    """HyperNodes without a domain that stay for now."""

    names: frozenset[str]
    seconds: float | None
    """Seconds until one of them may be deleted; None if unknown."""


class VolcanoPublisher:
    """Keeps the HyperNodes of each ClusterTopology equal to its plan."""

    name = HYPER_NODES.option
    group = HYPER_NODES.group
    keeps_retained_levels = False

    def __init__(self, client: Caller, plans: HyperNodePlans, runtime: Runtime = REAL) -> None:
        self._client = client
        self._plans = plans
        self._runtime = runtime

    def served(self) -> bool:
        """Whether the API server serves the kind now. Raises KubeError."""
        version = HYPER_NODES.api_version()
        resources = objects.served_resources(self._client, version)
        return HYPER_NODES.plural in resources

    def publish(self, topology: Topology, levels: Sequence[Level]) -> Published:
        """Make the HyperNodes of `topology` those of its plan.

        Raises KubeError when the server does not answer.
        """
        target = HYPER_NODES.target(topology.name)
        if topology.is_divided and topology.status.get("segments"):
            waiting = self._retract(topology, "because the HyperNodes of its segments replace them")
            if waiting:
                return waiting
            return target.in_sync("the ClusterTopologies of its segments have HyperNodes")

        plan = self._plans.drawn.get(topology.uid, {})
        try:
            return self._publish(target, topology, plan)
        except ApiError as error:
            if self._plans.tier_names and _TIER_NAME in error.message:  # Volcano before v1.14
                self._plans.tier_names = False
                return self.publish(topology, levels)
            return target.failed(error)

    def retract(self, topology: Topology) -> Published | None:
        """Delete the HyperNodes that Toposcope manages.

        Returns None when none is left. Raises KubeError.
        """
        why = f"because spec.publish.{self.name} is Never"
        return self._retract(topology, why)

    def _retract(self, topology: Topology, why: str) -> Published | None:
        try:
            existing = self._existing()
            ours = self._ours(existing, topology)
            return self._delete(topology, ours, why)
        except ApiError as error:
            target = HYPER_NODES.target(topology.name)
            return target.failed(error)

    def _existing(self) -> dict[str, Document]:
        """All HyperNodes, by name."""
        every = HYPER_NODES.target("")
        answer = find(self._client, every.collection) or {}
        existing: dict[str, Document] = {}
        for document in answer.get("items") or ():
            name = document["metadata"]["name"]
            existing[name] = document
        return existing

    def _ours(self, existing: Mapping[str, Document], topology: Topology) -> dict[str, Document]:
        ours = {}
        for name, document in existing.items():
            if is_ours(document, topology):
                ours[name] = document
        return ours

    def _publish(
        self, target: Target, topology: Topology, plan: Mapping[str, HyperNode]
    ) -> Published:
        existing = self._existing()
        for name in plan:
            if name not in existing or is_ours(existing[name], topology):
                continue
            conflict = HYPER_NODES.target(name).conflict()
            return replace(conflict, name=topology.name)

        ours = self._ours(existing, topology)
        unplanned = dict(ours)
        for name in plan:
            unplanned.pop(name, None)
        kept = self._kept(unplanned, plan, topology)
        waiting = self._write_plan(target, topology, plan, ours, kept.names)
        if waiting:
            return waiting

        for name in kept.names:
            del unplanned[name]
        waiting = self._delete(topology, unplanned, "because no node is left in its domain")
        if waiting:
            return waiting
        summary = _summary(plan, len(kept.names))
        in_sync = target.in_sync(summary)
        return replace(in_sync, again_in=kept.seconds)

    def _kept(
        self, unplanned: Mapping[str, Document], plan: Mapping[str, HyperNode], topology: Topology
    ) -> _Kept:
        """The managed HyperNodes without a domain that stay for now."""
        timers = self._plans.unplanned[topology.uid]
        now = self._runtime.monotonic()
        timers.keep_only(unplanned)
        planned_nodes = _planned_nodes(plan)
        kept: set[str] = set()
        for name, document in sorted(unplanned.items(), key=_tier):
            of, members = members_of(document)
            if of == "HyperNode":
                has_moved = kept.isdisjoint(members)
            else:
                has_moved = not planned_nodes.isdisjoint(members)
            is_overdue = timers.is_overdue(name, now, topology.grace_seconds)
            if has_moved:
                continue
            if topology.is_retaining or not is_overdue:
                kept.add(name)

        if not kept:
            return _Kept(frozenset(), None)
        seconds = timers.next_deadline(topology.grace_seconds, now)
        return _Kept(frozenset(kept), seconds)

    def _write_plan(
        self,
        target: Target,
        topology: Topology,
        plan: Mapping[str, HyperNode],
        ours: Mapping[str, Document],
        kept: frozenset[str],
    ) -> Published | None:
        """Write what differs from the plan, for some seconds. Returns None when all is written."""
        began = self._runtime.monotonic()
        for written, (name, planned) in enumerate(plan.items()):
            existing = ours.get(name)
            spec = self._spec(planned, existing, kept)
            if existing is not None and existing.get("spec") == spec:
                continue
            if self._out_of_time(began):
                text = f"{written} of {len(plan)} HyperNodes are written"
                return target.not_in_sync("Waiting", text, 0.0)
            hyper_node = HYPER_NODES.target(name)
            self._write(hyper_node, topology, spec, existing)
        return None

    def _spec(
        self, planned: HyperNode, existing: Document | None, kept: frozenset[str]
    ) -> dict[str, Any]:
        """The spec of a HyperNode. It keeps the members without a domain that stay for now."""
        kept_members: frozenset[str] = frozenset()
        if existing is not None:
            _, members = members_of(existing)
            kept_members = kept.intersection(members)
        return planned.spec(
            has_tier_name=self._plans.tier_names,
            kept=kept_members,
        )

    def _out_of_time(self, began: float) -> bool:
        elapsed = self._runtime.monotonic() - began
        return elapsed > self._plans.patience

    def _write(
        self,
        target: Target,
        topology: Topology,
        spec: Mapping[str, Any],
        existing: Document | None,
    ) -> None:
        body = target.body(topology, spec)
        metadata = body["metadata"]
        metadata["name"] = target.name
        if existing is None:
            objects.create_by_apply(self._client, target, body)
            return
        # The uid ties the force to the object that was read.
        metadata["uid"] = existing["metadata"]["uid"]
        request = apply(target.path, body, MANAGER, force=True)
        self._client.call(request)

    def _delete(
        self, topology: Topology, unwanted: Mapping[str, Document], why: str
    ) -> Published | None:
        """Delete from the broadest down; None once all are gone. Raises KubeError."""
        target = HYPER_NODES.target(topology.name)
        began = self._runtime.monotonic()
        broadest_first = sorted(unwanted.items(), key=_tier, reverse=True)
        for deleted, (name, document) in enumerate(broadest_first):
            if self._out_of_time(began):
                text = f"{deleted} of {len(unwanted)} HyperNodes are deleted {why}"
                return target.not_in_sync("Waiting", text, 0.0)

            waiting = objects.remove(
                self._client,
                HYPER_NODES.target(name),
                document,
                why,
                finalizers(document),
            )
            if waiting:
                text = f"{waiting.handle} {waiting.message}"
                return target.not_in_sync("Waiting", text, waiting.again_in)
        return None


def _planned_nodes(plan: Mapping[str, HyperNode]) -> set[str]:
    """The nodes that some HyperNode should have."""
    nodes: set[str] = set()
    for planned in plan.values():
        if planned.of == "Node":
            nodes.update(planned.members)
    return nodes


def _tier(named: tuple[str, Document]) -> int:
    _, document = named
    spec = document.get("spec")
    if not spec:
        return 0
    return spec.get("tier") or 0


def _summary(plan: Mapping[str, HyperNode], kept: int) -> str:
    """The number of HyperNodes, and the domain of each tier."""
    tiers: set[tuple[int, str]] = set()
    for planned in plan.values():
        tier = planned.tier, planned.domain
        tiers.add(tier)
    count = len(plan)
    hyper_nodes = plural(count, "HyperNode")
    text = f"{count} {hyper_nodes}"
    for number, domain in sorted(tiers):
        text += f", tier {number} {domain}"
    if kept:
        text += f"; {kept} more, without nodes, stay for now"
    return text


class _VolcanoPublishing(SystemPublishing):
    """Volcano's HyperNodes."""

    def __init__(self, settings: PublishSettings) -> None:
        super().__init__(settings)
        self._plans = HyperNodePlans(at_once=settings.at_once)

    def look(self, topologies: Sequence[Topology], nodes: Table) -> LevelNames:
        return self._plans.begin(topologies, nodes)

    def draw(self, topology: Topology, levels: Sequence[Level] | None, nodes: Table) -> None:
        self._plans.draw(topology, levels, nodes)

    def publisher(self, client: Caller, delay: float) -> VolcanoPublisher:
        del delay  # HyperNodes are changed in place
        return VolcanoPublisher(client, self._plans, self.settings.runtime)


PUBLISHING: Final = _VolcanoPublishing
