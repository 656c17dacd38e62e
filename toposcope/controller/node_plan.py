"""The plan that agents follow on their own Nodes: what belongs in it, its ConfigMap, and who has not written yet.

The controller writes no Node. Where two topologies want different values on one node, the older one's count. A level
that is not in effect says nothing, and its labels stay.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from toposcope.api.cluster_topology import MANAGED_BY, PATH, TOPOSCOPE, Topology
from toposcope.api.conditions import SLINKY_ANNOTATED, UNIQUE_VALUES_WRITTEN, Condition
from toposcope.api.label_keys import SLINKY, SLINKY_KEPT, own_input, unique_key
from toposcope.controller.assess.assessment import Assessment
from toposcope.controller.publishing.dry_run import DRY_RUN
from toposcope.hierarchy.node import OWN_VALUES, NodeFacts
from toposcope.hierarchy.table import Table
from toposcope.integrations.framework.published import MANAGER
from toposcope.integrations.node_plan import (
    CONFIG_MAP,
    FIELD,
    LARGEST,
    NodePlan,
    PlannedKeys,
    PlannedTopology,
    decode,
    encode,
    fitting,
)
from toposcope.integrations.slurm.topology import slurm_names
from toposcope.kube import listing
from toposcope.kube.client import ApiClient, Caller, find
from toposcope.kube.errors import ApiError
from toposcope.kube.requests import apply
from toposcope.text import plural

log = logging.getLogger(__name__)

REMOVAL_DELAY_SECONDS: Final = 60.0
"""How long a deleted ClusterTopology stays in the plan: it may be made anew."""
_LOOK_SECONDS: Final = 60.0
"""How often the ConfigMap is read to repair what others changed."""
_TOO_MANY_REQUESTS: Final = 429
_SERVER_ERROR: Final = 500


def planned(topology: Topology, assessment: Assessment) -> PlannedTopology | None:
    """What the plan says of a topology, also where Slinky's annotation is only a dry run; None: it asks for nothing."""
    if not topology.unique and not topology.slinky:
        return None
    levels = assessment.publishable
    named = slurm_names(levels, assessment.selected) if topology.slinky and levels else None
    return PlannedTopology(
        name=topology.name,
        selector=topology.selector,
        levels=tuple(level for level in assessment.effective.levels if not own_input(level.key)),
        unique=topology.unique,
        annotates=topology.slinky,
        slurm=named,
    )


def plan_of(
    topologies: Sequence[Topology],
    asked: Mapping[str, PlannedTopology],
    placeholders: frozenset[str],
    *,
    complete: bool,
) -> NodePlan:
    """The plan of all topologies (the oldest first), given what each asks for by name.

    Dry runs are not in it.
    """
    entries = []
    for topology in topologies:
        entry = asked.get(topology.name)
        if entry and topology.mode("slinky") == DRY_RUN:
            entry = replace(entry, annotates=False, slurm=None)
        if entry and (entry.unique or entry.annotates):
            entries.append(entry)
    return NodePlan(tuple(entries), placeholders, complete)


@dataclass(frozen=True, slots=True)
class Unwritten:
    """Nodes that are not yet as the plan wants them."""

    nodes: int = 0
    first: str = ""
    wanted: str = ""
    """What the first of them should carry; empty: nothing."""
    found: str = ""
    """What it carries; empty: nothing."""

    @property
    def example(self) -> str:
        """How many nodes, and the first with what it carries, in words."""
        carries = f", which carries {self.found!r}" if self.found else ""
        return f"{self.nodes} {plural(self.nodes, 'node')}, first {self.first}{carries}"


ALL_WRITTEN: Final = Unwritten()


def unwritten_values(
    topology: Topology, entry: PlannedTopology, nodes: Table, topologies: Sequence[Topology]
) -> Unwritten:
    """Selected nodes whose labels of unique values differ from the plan.

    `topologies`: all, the oldest first.
    """
    older = _older(topology, topologies)
    found = ALL_WRITTEN
    for node, wanted in _each(entry, nodes):
        for domain in entry.unique:
            key = unique_key(domain)
            value, present = wanted.labels.get(key), node.label(key)
            if wanted.keeps(key) or value == present:
                continue
            if any(domain in other.unique and other.selects(node) for other in older):
                continue
            first = found if found.nodes else Unwritten(0, node.name, value or "", present or "")
            found = replace(first, nodes=found.nodes + 1)
            break
    return found


def unwritten_annotations(
    topology: Topology, entry: PlannedTopology, nodes: Table, topologies: Sequence[Topology]
) -> Unwritten:
    """Selected nodes whose Slinky annotation differs from the plan.

    `topologies` as in `unwritten_values`.
    """
    older = [other for other in _older(topology, topologies) if other.slinky]
    found = ALL_WRITTEN
    if entry.slurm is None:
        return found
    for node, wanted in _each(entry, nodes):
        present = node.label(SLINKY_KEPT)
        if present == wanted.annotation or any(other.selects(node) for other in older):
            continue
        first = (
            found
            if found.nodes
            else Unwritten(0, node.name, wanted.annotation or "", present or "")
        )
        found = replace(first, nodes=found.nodes + 1)
    return found


def _older(topology: Topology, topologies: Sequence[Topology]) -> list[Topology]:
    older = []
    for other in topologies:
        if other.uid == topology.uid:
            break
        older.append(other)
    return older


def _each(entry: PlannedTopology, nodes: Table) -> Iterator[tuple[NodeFacts, PlannedKeys]]:
    """What this topology alone wants on each of its nodes; worked out once for nodes that are alike."""
    plan = NodePlan((entry,), nodes.placeholders)
    keys = sorted(entry.input_keys())
    known: dict[tuple[str | None, ...], PlannedKeys] = {}
    for node in nodes:
        alike = tuple(map(node.traits.label, keys))
        wanted = known.get(alike) or plan.wanted(node.name, node)
        if OWN_VALUES.isdisjoint(alike):
            known[alike] = wanted
        yield node, wanted


class NodePlanWriter:
    """Keeps the ConfigMap equal to the plan.

    `client` is fenced to the leader's term, as for every other write.
    """

    def __init__(
        self, client: ApiClient, writer: Caller, namespace: str, monotonic: Callable[[], float]
    ) -> None:
        """`client` reads, `writer` writes."""
        self._client = client
        self._writer = writer
        self._path = f"/api/v1/namespaces/{namespace}/configmaps/{CONFIG_MAP}"
        self._namespace = namespace
        self._monotonic = monotonic
        self._there: str | None = None
        """The text of the plan as last read or written; None: there is no plan."""
        self._look_at = monotonic()
        self._gone: dict[str, float] = {}
        """Deleted topologies that are still in the plan, and when they go, in monotonic seconds."""
        self._no_room: frozenset[str] = frozenset()
        self._refused: ApiError | None = None

    def write(self, plan: NodePlan, topologies: Sequence[Topology]) -> None:
        """Write the plan if it differs from what is there.

        `topologies` are all there are. Raises KubeError.

        What the API server refuses is kept for `refusal`.
        """
        try:
            self._look()
            whole = self._with_deleted(plan, topologies)
            fits = fitting(whole)
            self._no_room = frozenset(
                entry.name for entry in whole.topologies[len(fits.topologies) :]
            )
            self._put(fits)
            self._refused = None
        except ApiError as error:
            if error.status >= _SERVER_ERROR or error.status == _TOO_MANY_REQUESTS:
                raise
            if self._refused is None or self._refused.message != error.message:
                log.warning("the agents' plan is not written: %s", error)
            self._refused = error

    def refusal(self, name: str) -> str:
        """Why agents cannot know what the topology of this name asks for; empty if they can."""
        if self._refused:
            fix = (
                "; apply the manifests of this version (controller-rbac.yaml)"
                if self._refused.forbidden
                else ""
            )
            return f"ConfigMap {self._namespace}/{CONFIG_MAP} is not written: {self._refused.message}{fix}"
        if name in self._no_room:
            return (
                f"ConfigMap {self._namespace}/{CONFIG_MAP} has no room for it: {LARGEST >> 10} KiB hold what older "
                "ClusterTopologies ask for; use fewer, or shorter node selectors"
            )
        return ""

    @property
    def due(self) -> float | None:
        """When another pass is needed, in monotonic seconds; None: it is not."""
        now = self._monotonic()
        return min((when for when in self._gone.values() if when > now), default=None)

    def _look(self) -> None:
        now = self._monotonic()
        if now < self._look_at:
            return
        there = find(self._client, self._path)
        self._there = _text_of(there) if there else None
        self._look_at = now + _LOOK_SECONDS

    def _put(self, plan: NodePlan) -> None:
        text = encode(plan)
        if text == self._there or (self._there is None and not plan.topologies):
            return
        metadata = {
            "name": CONFIG_MAP,
            "namespace": self._namespace,
            "labels": {MANAGED_BY: TOPOSCOPE},
        }
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {FIELD: text},
        }
        self._writer.call(apply(self._path, body, MANAGER, force=True))
        self._there = text
        count = len(plan.topologies)
        who = f"{count} {plural(count, 'ClusterTopology asks', 'ClusterTopologies ask')}"
        log.info("the agents' plan is written: %s for keys on nodes", who)

    def _with_deleted(self, plan: NodePlan, topologies: Sequence[Topology]) -> NodePlan:
        """The plan with the entries of topologies that were deleted a moment ago.

        Raises KubeError.
        """
        there = {topology.name for topology in topologies}
        before = [entry for entry in _entries(self._there) if entry.name not in there]
        now = self._monotonic()
        self._gone = {
            entry.name: self._gone.get(entry.name, now + REMOVAL_DELAY_SECONDS) for entry in before
        }
        over = [name for name, when in self._gone.items() if when <= now]
        if over and self._are_all(topologies):
            before = [entry for entry in before if entry.name not in over]
        return replace(plan, topologies=(*plan.topologies, *before))

    def _are_all(self, topologies: Sequence[Topology]) -> bool:
        """Whether a list shows no other topologies: a watch may lag. Raises KubeError."""
        listed = [
            item["metadata"] for item in listing.everything(self._client, PATH, metadata_only=True)
        ]
        known = {(topology.uid, topology.generation) for topology in topologies}
        return known == {(metadata["uid"], metadata.get("generation", 0)) for metadata in listed}


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
        log.warning("ConfigMap %s is written anew: %s", CONFIG_MAP, error)
        return ()


def values_condition(
    topology: Topology, entry: PlannedTopology | None, unwritten: Unwritten, refusal: str
) -> Condition | None:
    """The `UniqueValuesWritten` condition; None where the spec asks for none."""
    if entry is None or not topology.unique:
        return None
    if refusal:
        return Condition(UNIQUE_VALUES_WRITTEN, "False", "Rejected", refusal)
    known = {level.domain for level in entry.levels}
    missing = [domain for domain in topology.unique if domain not in known]
    if missing:
        text = f"spec.uniqueValues: no level {', '.join(missing)} is in effect; its labels stay as they are"
        return Condition(UNIQUE_VALUES_WRITTEN, "False", "LevelMissing", text)
    keys = ", ".join(map(unique_key, topology.unique))
    if unwritten.nodes:
        text = f"{keys} not up to date yet on {unwritten.example}; agents write it with the component unique-values"
        return Condition(UNIQUE_VALUES_WRITTEN, "Unknown", "Writing", text)
    return Condition(
        UNIQUE_VALUES_WRITTEN,
        "True",
        "InSync",
        f"Every selected node with these levels carries {keys}",
    )


def slinky_condition(
    topology: Topology, entry: PlannedTopology | None, unwritten: Unwritten, refusal: str
) -> Condition | None:
    """The `SlinkyAnnotated` condition; None where the spec asks for none."""
    if entry is None or not topology.slinky:
        return None
    if entry.slurm is None:
        text = "There is no level to name domains by yet; annotations stay as they are"
        return Condition(SLINKY_ANNOTATED, "Unknown", "NoLevels", text)
    if topology.mode("slinky") == DRY_RUN:
        first = (
            f", first {unwritten.first}: {unwritten.wanted or 'none'}" if unwritten.nodes else ""
        )
        count = f"{unwritten.nodes} {plural(unwritten.nodes, 'node')}"
        text = f"Dry run, nothing is written: {SLINKY} of {count}{first}"
        return Condition(SLINKY_ANNOTATED, "True", DRY_RUN, text)
    if refusal:
        return Condition(SLINKY_ANNOTATED, "False", "Rejected", refusal)
    if unwritten.nodes:
        text = (
            f"{SLINKY} not up to date yet on {unwritten.example}; agents write it with the component slinky, and leave "
            "another owner's"
        )
        return Condition(SLINKY_ANNOTATED, "Unknown", "Writing", text)
    return Condition(
        SLINKY_ANNOTATED,
        "True",
        "InSync",
        f"Every selected node with these levels carries {SLINKY}",
    )
