"""The ConfigMap with the plan that agents follow on their own Nodes."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from toposcope.api.cluster_topology import PATH, Topology
from toposcope.controller.look import Pass
from toposcope.controller.node_plan import plan_of
from toposcope.controller.writers.config_map import apply_config_map, config_map_path
from toposcope.controller.writers.writer import WriteOutcome, is_outage
from toposcope.integrations.node_plan import (
    CONFIG_MAP,
    FIELD,
    LARGEST,
    NodePlan,
    PlannedTopology,
    decode,
    encode,
    fitting,
)
from toposcope.kube import listing
from toposcope.kube.client import ApiClient, Caller, find
from toposcope.kube.errors import ApiError
from toposcope.kube.runtime import Runtime
from toposcope.text import plural

log = logging.getLogger(__name__)

REMOVAL_DELAY_SECONDS: Final = 60.0
"""How long a deleted ClusterTopology stays in the plan: it may be created again."""
_LOOK_SECONDS: Final = 60.0
"""How often the ConfigMap is read to repair what others changed."""
_REFUSED_SECONDS: Final = 60.0
"""From a refused write to the next attempt with the same plan."""


class NodePlanWriter:
    """Keeps the ConfigMap equal to the plan."""

    def __init__(self, client: ApiClient, writer: Caller, namespace: str, runtime: Runtime) -> None:
        """`client` reads, `writer` writes.

        Fenced to the leader's term, as for every other write.
        """
        self._client = client
        self._writer = writer
        self._path = config_map_path(namespace, CONFIG_MAP)
        self._namespace = namespace
        self._runtime = runtime
        self._stored: str | None = None
        """The text of the plan as last read or written; None: there is no plan."""
        self._look_at = runtime.monotonic()
        self._deleted: dict[str, float] = {}
        """Deleted topologies that are still in the plan, and when they go, in monotonic seconds."""
        self._no_room: frozenset[str] = frozenset()
        self._refused: ApiError | None = None
        self._refused_plan: NodePlan | None = None
        self._retry_at = runtime.monotonic()
        """When a refused plan is sent again, in monotonic seconds; another plan is sent at once."""
        self.plan: NodePlan | None = None
        """The plan as it is or should be in the ConfigMap; None before the first pass."""

    def write(self, look: Pass, planned: Mapping[str, PlannedTopology]) -> WriteOutcome:
        """Write the plan of all topologies, given the entry of each by name. Raises KubeError."""
        complete = not look.excess
        plan = plan_of(look.supported, planned, look.nodes.placeholders, complete=complete)
        return self.keep(plan, look.topologies)

    def keep(self, plan: NodePlan, topologies: Sequence[Topology]) -> WriteOutcome:
        """Write the plan if it differs from what is there.

        `topologies` are all there are. Raises KubeError.

        What the API server refuses is kept for `refusal`, and sent again a minute later: no pass
        should wait for the same answer.
        """
        now = self._runtime.monotonic()
        if self._refused and plan == self._refused_plan and now < self._retry_at:
            return WriteOutcome(due=self._due(), refusal=self._refused)
        try:
            self._look()
            complete_plan = self._with_deleted(plan, topologies)
            fits = fitting(complete_plan)
            self._no_room = _names(complete_plan) - _names(fits)
            self.plan = fits
            self._put(fits)
            self._refused = None
        except ApiError as error:
            if is_outage(error):
                raise
            if self._refused is None or self._refused.message != error.message:
                log.warning("the agents' plan is not written: %s", error)
            self._refused = error
            self._refused_plan = plan
            self._retry_at = now + _REFUSED_SECONDS
        return WriteOutcome(due=self._due(), refusal=self._refused)

    def refusal(self, name: str) -> str:
        """Why agents cannot know what the topology of this name asks for; empty if they can."""
        config_map = f"ConfigMap {self._namespace}/{CONFIG_MAP}"
        if self._refused:
            text = f"{config_map} is not written: {self._refused.message}"
            if self._refused.is_forbidden:
                text += "; apply the manifests of this version (controller-rbac.yaml)"
            return text
        if name in self._no_room:
            return (
                f"{config_map} is full: "
                f"its {LARGEST >> 10} KiB hold what older ClusterTopologies ask for; "
                "use fewer, or shorter node selectors"
            )
        return ""

    def _due(self) -> float | None:
        """When the next deleted topology leaves the plan; None if none will."""
        now = self._runtime.monotonic()
        due = None
        for removal in self._deleted.values():
            if removal > now:
                due = removal if due is None else min(due, removal)
        return due

    def _look(self) -> None:
        now = self._runtime.monotonic()
        if now < self._look_at:
            return
        config_map = find(self._client, self._path)
        self._stored = _text_of(config_map) if config_map else None
        self._look_at = now + _LOOK_SECONDS

    def _put(self, plan: NodePlan) -> None:
        text = encode(plan)
        if text == self._stored or (self._stored is None and not plan.topologies):
            return
        self._writer.call(apply_config_map(self._namespace, CONFIG_MAP, {FIELD: text}))
        self._stored = text
        count = len(plan.topologies)
        asking = sum(entry.asks_for_keys for entry in plan.topologies)
        topologies = f"{count} {plural(count, 'ClusterTopology', 'ClusterTopologies')}"
        log.info("the agents' plan is written: %s, %d ask for keys on nodes", topologies, asking)

    def _with_deleted(self, plan: NodePlan, topologies: Sequence[Topology]) -> NodePlan:
        """The plan with the entries of topologies that were deleted a moment ago.

        Raises KubeError.
        """
        names = {topology.name for topology in topologies}
        now = self._runtime.monotonic()
        deleted, lasting = [], []
        removals = {}
        for entry in _entries(self._stored):
            if entry.name in names:
                continue
            deleted.append(entry)
            removal = self._deleted.get(entry.name, now + REMOVAL_DELAY_SECONDS)
            removals[entry.name] = removal
            if removal > now:
                lasting.append(entry)
        self._deleted = removals
        if len(lasting) < len(deleted) and self._has_all(topologies):
            deleted = lasting
        return replace(plan, topologies=(*plan.topologies, *deleted))

    def _has_all(self, topologies: Sequence[Topology]) -> bool:
        """Whether a list shows no other topologies: a watch may lag. Raises KubeError."""
        expected = {(topology.uid, topology.generation) for topology in topologies}
        listed = set()
        for item in listing.everything(self._client, PATH, is_metadata_only=True):
            metadata = item["metadata"]
            uid, generation = metadata["uid"], metadata.get("generation", 0)
            listed.add((uid, generation))
        return listed == expected


def _names(plan: NodePlan) -> frozenset[str]:
    return frozenset([entry.name for entry in plan.topologies])


def _text_of(config_map: Mapping[str, Any]) -> str:
    text = (config_map.get("data") or {}).get(FIELD)
    return text if isinstance(text, str) else ""


def _entries(text: str | None) -> tuple[PlannedTopology, ...]:
    """What a plan says; nothing where it cannot be read: then it is written anew."""
    if not text:
        return ()
    try:
        return decode(text).topologies
    except ValueError as error:
        log.warning("ConfigMap %s cannot be read and is rewritten: %s", CONFIG_MAP, error)
        return ()
