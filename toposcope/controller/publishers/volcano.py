"""Volcano's HyperNodes (topology.volcano.sh/v1alpha1, Volcano v1.12 and later), where spec.publish.volcano is Auto.

One ClusterTopology becomes a tree of many objects. Names come from the whole path of a domain, so that no HyperNode
ever has two parents: for that the scheduler stops all jobs with a topology. New ones are written from the narrowest
up, old ones deleted from the broadest down. A domain without nodes keeps its HyperNode, and its place in the tree, for
the grace period; one whose nodes are in another now goes at once.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.levels import Level
from toposcope.controller.publishers import objects
from toposcope.hierarchy.table import Table
from toposcope.hierarchy.timers import Timers
from toposcope.integrations.framework.published import (
    MANAGER,
    Published,
    Target,
    finalizers,
    is_ours,
)
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
from toposcope.text import plural

_PATIENCE: Final = 2.0
"""Seconds of writing in one pass; the next goes on."""
_TIER_NAME: Final = "tierName"
Document = Mapping[str, Any]


class HyperNodePlans:
    """What HyperNodes there should be, drawn in each pass while its nodes are at hand, and what is remembered of them.

    Losing the memory only delays a deletion.
    """

    def __init__(self, *, at_once: bool = False) -> None:
        """`at_once`: everything is written in one pass, however long it takes."""
        self.patience = math.inf if at_once else _PATIENCE
        self._orders: dict[str, list[str]] = {}
        self.drawn: dict[str, dict[str, HyperNode]] = {}
        """By the uid of the topology, then by name."""
        self.unplaced: defaultdict[str, Timers[str]] = defaultdict(Timers)
        """HyperNodes without a domain, by the uid of the topology."""
        self.tier_names = True
        """Whether the cluster's Volcano knows `tierName`, as far as is known."""

    def begin(self, topologies: Sequence[Topology], nodes: Table) -> dict[str, dict[str, int]]:
        """Look at all ClusterTopologies; the tier of each domain of those that are published, by their names."""
        self.drawn.clear()
        published = [
            topology for topology in topologies if topology.mode(HYPER_NODES.option) != "Never"
        ]
        orders = {
            owner.uid: [level.domain for level in tiered(owner.last_levels, nodes)]
            for owner in published
        }
        self._orders, tiers = orders, tiers_of(orders.values())
        return {
            owner.name: {
                domain: tiers.get(domain, len(order) - above) for above, domain in enumerate(order)
            }
            for owner in published
            for order in (orders[owner.uid],)
        }

    def draw(self, topology: Topology, levels: Sequence[Level] | None, nodes: Table) -> None:
        """Work out the HyperNodes of one topology, whose `levels` are to be published."""
        if topology.uid not in self._orders or not levels:
            return
        levels = tiered(levels, nodes)
        self._orders[topology.uid] = [level.domain for level in levels]
        self.drawn[topology.uid] = draw(
            topology.name, levels, nodes, tiers_of(self._orders.values())
        )


class VolcanoPublisher:
    """Keeps the HyperNodes of each ClusterTopology equal to its plan."""

    name = HYPER_NODES.option
    group = HYPER_NODES.group

    def __init__(self, client: Caller, plans: HyperNodePlans, monotonic: objects.Clock) -> None:
        self._client = client
        self._plans = plans
        self._monotonic = monotonic

    def served(self) -> bool:
        """Whether the API server serves the kind now. Raises KubeError."""
        return HYPER_NODES.plural in objects.served_resources(
            self._client, HYPER_NODES.api_version()
        )

    def publish(self, topology: Topology, levels: Sequence[Level]) -> Published:
        """Make the HyperNodes of `topology` those of its plan.

        Raises KubeError when the server does not answer.
        """
        target = HYPER_NODES.target(topology.name)
        if topology.divided and topology.status.get("segments"):
            left = self._retract(topology, "because those of its segments take its place")
            return left or target.in_sync("the ClusterTopologies of its segments have HyperNodes")
        try:
            return self._publish(target, topology, self._plans.drawn.get(topology.uid, {}))
        except ApiError as error:
            if self._plans.tier_names and _TIER_NAME in error.message:  # Volcano before v1.14
                self._plans.tier_names = False
                return self.publish(topology, levels)
            return target.failed(error)

    def retract(self, topology: Topology) -> Published | None:
        """Delete the HyperNodes that are ours; None when none is left. Raises KubeError."""
        return self._retract(topology, f"because spec.publish.{self.name} is Never")

    def _retract(self, topology: Topology, why: str) -> Published | None:
        try:
            mine = {
                name: document
                for name, document in self._existing().items()
                if is_ours(document, topology)
            }
            return self._delete(topology, mine, why)
        except ApiError as error:
            return HYPER_NODES.target(topology.name).failed(error)

    def _existing(self) -> dict[str, Document]:
        there = find(self._client, HYPER_NODES.target("").collection) or {}
        return {item["metadata"]["name"]: item for item in there.get("items") or ()}

    def _publish(
        self, target: Target, topology: Topology, plan: Mapping[str, HyperNode]
    ) -> Published:
        existing = self._existing()
        foreign = [
            name for name in plan if name in existing and not is_ours(existing[name], topology)
        ]
        if foreign:
            return replace(HYPER_NODES.target(foreign[0]).conflict(), name=topology.name)
        mine = {
            name: document for name, document in existing.items() if is_ours(document, topology)
        }
        kept, wait = self._kept(
            {name: document for name, document in mine.items() if name not in plan}, plan, topology
        )
        began = self._monotonic()
        for done, (name, wanted) in enumerate(plan.items()):
            there = mine.get(name)
            beside = kept.intersection(members_of(there)[1]) if there else ()
            spec = wanted.spec(named=self._plans.tier_names, kept=beside)
            if there is not None and there.get("spec") == spec:
                continue
            if self._monotonic() - began > self._plans.patience:
                return target.not_in_sync(
                    "Waiting", f"{done} of {len(plan)} HyperNodes are written", 0.0
                )
            self._write(HYPER_NODES.target(name), topology, spec, there)
        over = {
            name: document
            for name, document in mine.items()
            if name not in plan and name not in kept
        }
        waiting = self._delete(topology, over, "because its domain has no nodes")
        if waiting:
            return waiting
        tiers = sorted({(planned.tier, planned.domain) for planned in plan.values()})
        named = (f"tier {number} {domain}" for number, domain in tiers)
        text = ", ".join((f"{len(plan)} {plural(len(plan), 'HyperNode')}", *named))
        text += f"; {len(kept)} more, without nodes, stay for now" if kept else ""
        return replace(target.in_sync(text), again_in=wait)

    def _kept(
        self, left: Mapping[str, Document], plan: Mapping[str, HyperNode], topology: Topology
    ) -> tuple[set[str], float | None]:
        """Which of ours without a domain stay for now, and the seconds until one of them may go."""
        unplaced, now = self._plans.unplaced[topology.uid], self._monotonic()
        unplaced.keep_only(left)
        placed = {
            name for planned in plan.values() if planned.of == "Node" for name in planned.members
        }
        kept: set[str] = set()
        for name, document in sorted(left.items(), key=_tier):
            of, members = members_of(document)
            moved = (
                kept.isdisjoint(members) if of == "HyperNode" else not placed.isdisjoint(members)
            )
            over = unplaced.overdue(name, now, topology.grace)
            if not moved and (topology.retain or not over):
                kept.add(name)
        return kept, unplaced.next_deadline(topology.grace, now) if kept else None

    def _write(
        self, target: Target, topology: Topology, spec: Mapping[str, Any], there: Document | None
    ) -> None:
        body = target.body(topology, spec)
        body["metadata"]["name"] = target.name
        if there is None:
            objects.create_by_apply(self._client, target, body)
        else:  # the uid ties the force to the object that was read
            body["metadata"]["uid"] = there["metadata"]["uid"]
            self._client.call(apply(target.path, body, MANAGER, force=True))

    def _delete(
        self, topology: Topology, over: Mapping[str, Document], why: str
    ) -> Published | None:
        """Delete from the broadest down; None once all are gone. Raises KubeError."""
        target, began = HYPER_NODES.target(topology.name), self._monotonic()
        for done, (name, document) in enumerate(sorted(over.items(), key=_tier, reverse=True)):
            if self._monotonic() - began > self._plans.patience:
                return target.not_in_sync(
                    "Waiting", f"{done} of {len(over)} HyperNodes are deleted {why}", 0.0
                )
            waiting = objects.remove(
                self._client, HYPER_NODES.target(name), document, why, finalizers(document)
            )
            if waiting:
                return target.not_in_sync(
                    "Waiting", f"{waiting.handle} {waiting.message}", waiting.again_in
                )
        return None


def _tier(there: tuple[str, Document]) -> int:
    return (there[1].get("spec") or {}).get("tier") or 0
