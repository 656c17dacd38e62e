"""One case: nodes, ClusterTopologies and workloads, and the status, Events and topologies that must result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Spec = Mapping[str, Any]
Verdict = tuple[str, str, str]
"""Status, reason and message of a condition."""

LEVELS_AVAILABLE = "All required topology levels are available in the cluster topology"
NO_NODES = dict.fromkeys(
    ("TopologyLevelsAvailable", "LevelsCovered", "HierarchyConsistent"),
    ("Unknown", "NoNodes", "No node is selected; an empty cluster says nothing about its levels"),
)
"""The conditions of a ClusterTopology that selects no node."""


class Cluster(Protocol):
    """What a case may do to the cluster between two passes."""

    def label(self, node: str, **changes: Any) -> None: ...
    def patch(self, path: str, change: Spec) -> None: ...
    def delete(self, path: str) -> None: ...
    def add_nodes(self, nodes: Sequence["Machine"]) -> None: ...
    def pass_time(self, seconds: float) -> None: ...


@dataclass(frozen=True)
class Machine:
    """One node with 8 GPUs and an agent (`gpus` None: without either)."""

    name: str
    labels: Mapping[str, str]
    gpus: int | None = 8
    cordoned: bool = False
    taints: Sequence[Spec] = ()


@dataclass(frozen=True)
class Workload:
    """One object as its users write it; `refused`: the error of a server with upstream's rules."""

    path: str
    body: Spec
    refused: str = ""

    @property
    def name(self) -> str:
        return self.body["metadata"]["name"]


@dataclass(frozen=True)
class Status:
    """The status of one ClusterTopology and what is published from it; conditions not named are True."""

    path: str = ""
    domains: Sequence[int] = ()
    """Domains of each level, counted by their path from the top."""
    required_by: Mapping[str, int] = field(default_factory=dict)
    preferred_by: Mapping[str, int] = field(default_factory=dict)
    missed: Sequence[str] = ()
    """Preferred levels that are reported as unavailable."""
    conditions: Mapping[str, Verdict] = field(default_factory=dict)
    grove: Sequence[tuple[str, str]] | None = None
    kai: Sequence[str] | None = None
    kueue: Sequence[str] | None = None
    """Levels of the published objects; None: there is none."""
    events: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    """Type and note of the Events on each workload, by its name."""


@dataclass(frozen=True)
class Step:
    """A change, after which the controller reconciles again."""

    what: str
    do: Any
    """Called with the `Cluster`."""
    expected: Mapping[str, Status]


@dataclass(frozen=True)
class Case:
    """One upstream case, reduced to what concerns levels; `beyond`: what of it only a scheduler decides."""

    name: str
    nodes: Sequence[Machine]
    topologies: Mapping[str, Spec]
    expected: Mapping[str, Status]
    workloads: Sequence[Workload] = ()
    steps: Sequence[Step] = ()
    beyond: str = ""


@dataclass(frozen=True)
class Invalid:
    """Levels that upstream refuses: a server with our CRD's rules refuses them too, and nothing is ever published."""

    name: str
    levels: Sequence[tuple[str, str]]
    refused: str
    problem: str


def levels(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    """`spec.levels`."""
    return [{"domain": domain, "key": key} for domain, key in pairs]


def gone(domain: str, *, kept: bool = False) -> Verdict:
    """The verdict on a required level that no node carries any more; `kept` in Grove's binding."""
    why = (
        " (kept in Grove's binding, because without it Grove drops the hard constraints of workloads; until a node "
        "carries it, KAI places no gang that asks this topology for any level)"
    )
    text = f"Topology level '{domain}' is no longer available in the cluster topology{why if kept else ''}"
    return "False", "TopologyLevelsUnavailable", text
