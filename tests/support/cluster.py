"""Nodes, topologies, time and leadership without an API server, for tests of what the controller concludes."""

import uuid
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tests.support import recorded_looks
from toposcope.api.cluster_topology import Topology, read
from toposcope.api.label_keys import GPUS, HOSTNAME, NVLINK_DOMAIN
from toposcope.api.label_values import count_of
from toposcope.controller.assess.assessment import Assessment, Evidence, assess
from toposcope.controller.assess.rebuilds import FabricHistory
from toposcope.controller.events import LevelEvent, condition_events, rebuild_events
from toposcope.controller.held_labels import HeldLabels
from toposcope.controller.memory import Memory
from toposcope.controller.segments import SegmentTopology
from toposcope.controller.status import conditions_of, fresh_rebuilds, status_of
from toposcope.hierarchy.catalogue import BUILT_IN, Catalogue
from toposcope.hierarchy.controller_config import read_config
from toposcope.hierarchy.node import Hardware, NodeFacts, Traits, node_facts, spans_nodes
from toposcope.hierarchy.table import table_of

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ZONE = "topology.kubernetes.io/zone"
BLOCK = "cloud.google.com/gce-topology-block"
RACK = "cloud.google.com/gce-topology-subblock"
_SHORT = {"zone": ZONE, "block": BLOCK, "rack": RACK}


_SHARED: dict[Traits, Traits] = {}


def gpu_node(
    name: str,
    labels: Mapping[str, str | None] | None = None,
    *,
    is_ready: bool = True,
    is_schedulable: bool = True,
    chassis: str = "",
    state: str = "ok",
) -> NodeFacts:
    """A node of 8 GPUs with an agent; `zone`, `block` and `rack` are short for their keys, None leaves one out."""
    all_labels: dict[str, str | None] = {
        GPUS: "8",
        NVLINK_DOMAIN: name,
        HOSTNAME: name,
        "zone": "z",
        "block": "b",
        "rack": "r",
    }
    all_labels |= labels or {}
    kept = {_SHORT.get(key, key): value for key, value in all_labels.items() if value is not None}
    domain = kept.get(NVLINK_DOMAIN)
    counted = count_of(kept.get(GPUS))
    hardware = Hardware(
        domain if domain and spans_nodes(domain) else None, chassis, state, 8 if counted is None else counted
    )
    node = node_facts(
        name,
        f"uid-{name}",
        tuple(kept),
        tuple(kept.values()),
        is_ready=is_ready,
        is_schedulable=is_schedulable,
        gpus=8,
        hardware=hardware,
    )
    # Nodes that are alike share their traits, as those from the decoder do.
    return replace(node, traits=_SHARED.setdefault(node.traits, node.traits))


def gpu_nodes(
    prefix: str,
    count: int,
    labels: Mapping[str, str | None] | None = None,
    *,
    first: int = 0,
    chassis: str = "",
    state: str = "ok",
) -> list[NodeFacts]:
    """So many nodes that differ in the number behind the prefix only, counted from `first`."""
    nodes = []
    for number in range(first, first + count):
        nodes.append(gpu_node(f"{prefix}{number}", labels, chassis=chassis, state=state))
    return nodes


def configured_catalogue(catalogue: str) -> Catalogue:
    """The catalogue of a configuration file with this YAML below `catalogue`."""
    config = f"apiVersion: config.gpu.topology/v1alpha1\nkind: ControllerConfig\ncatalogue: {catalogue}"
    return read_config(config.encode(), "c").catalogue


def fabric(number: int, clique: int = 1) -> str:
    """An NVLink domain that spans nodes: the fabric of that number, and a clique in it."""
    return f"{uuid.UUID(int=number)}.{clique}"


def topology(status: dict[str, Any] | None = None, **spec: Any) -> Topology:
    """A ClusterTopology called `cluster` with this spec and status."""
    metadata = {"name": "cluster", "uid": "uid-cluster", "generation": 3}
    return read({"metadata": metadata, "spec": spec, "status": status or {}})


class History:
    """`spec`, `catalogue`, `preferred`, `bound` and `by_value` may be changed between two looks."""

    def __init__(self, **spec: Any) -> None:
        self.spec = spec
        self.catalogue: Catalogue = BUILT_IN
        self.preferred: Sequence[str] = ()
        self.bound: Container[str] | None = ()
        self.by_value: dict[str, str] = {}
        self.now = 0.0
        self.status: dict[str, Any] = {}
        self.events: list[LevelEvent] = []
        """All so far, but for those about levels."""
        self.restart()

    def look(
        self, nodes: Sequence[NodeFacts], after: float = 0.0, children: Sequence[SegmentTopology] = ()
    ) -> Assessment:
        """Assess `after` seconds later."""
        recorded_looks.record(self, nodes, after, children)
        self.now += after
        current = topology(self.status, **self.spec)
        table = table_of(nodes, self.catalogue.placeholders)
        self.held_labels.observe(table, self.now)
        rebuilds = self.fabric_history.observe(table)
        evidence = Evidence(
            nodes=table,
            now=self.now,
            preferred=self.preferred,
            bound=self.bound,
            by_value=self.by_value,
            held=self.held_labels.table(table, current.grace_seconds),
            rebuilds=rebuilds,
            catalogue=self.catalogue,
        )
        assessment = assess(current, evidence, self.memory)
        conditions = conditions_of(current, assessment, [], is_any_served=True, children=children)
        fresh = fresh_rebuilds(current, assessment, self.reported_rebuilds)
        self.status = status_of(
            current, assessment, [], START, conditions, children=children, told=self.reported_rebuilds
        )
        self.events += condition_events(current, self.status) + rebuild_events(current, fresh)
        self.reported_rebuilds.intersection_update(rebuild.pair for rebuild in rebuilds)
        self.reported_rebuilds.update(rebuild.pair for rebuild in fresh)
        self.fabric_history.report(fresh)
        return assessment

    def restart(self, *, is_single_look: bool = False) -> None:
        """Forget what is not in the status; `is_single_look`: nobody looks again, as with `controller --once`."""
        self.memory = Memory(is_single_look=is_single_look)
        self.held_labels = HeldLabels()
        self.fabric_history = FabricHistory()
        self.reported_rebuilds: set[tuple[str, str]] = set()

    def condition(self, kind: str) -> dict[str, Any]:
        """A condition of the status; empty when it is not there."""
        for condition in self.status["conditions"]:
            if condition["type"] == kind:
                return dict(condition)
        return {}

    def verdict(self, kind: str) -> tuple[str, str]:
        """Status and reason of a condition that must be there."""
        condition = self.condition(kind)
        return condition["status"], condition["reason"]

    def message(self, kind: str) -> str:
        """The message of a condition that must be there."""
        message: str = self.condition(kind)["message"]
        return message

    @property
    def hints(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Hints of the status by reason and key."""
        hints = {}
        for hint in self.status.get("hints", ()):
            reason, key = hint["reason"], hint["key"]
            hints[reason, key] = hint
        return hints

    def level(self, domain: str) -> dict[str, Any]:
        """A level of the status that must be there."""
        (level,) = [level for level in self.status["levels"] if level["domain"] == domain]
        return level

    @property
    def segments(self) -> dict[str, int]:
        """Nodes of each segment by name."""
        return {entry["name"]: entry["nodes"] for entry in self.status.get("segments", ())}


class Turns:
    """Begins and ends when a test says so."""

    def __init__(self, *, is_leading: bool = False) -> None:
        self.term = int(is_leading)
        self._is_leading = is_leading

    def can_write(self) -> bool:
        return self._is_leading

    def begin(self) -> None:
        self.term += 1
        self._is_leading = True

    def end(self) -> None:
        self._is_leading = False
