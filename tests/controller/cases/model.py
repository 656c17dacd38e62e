"""Rows of tests/fixtures/cases/: nodes, ClusterTopologies and workloads, and the status that must result."""

from typing import Any

import msgspec

Spec = dict[str, Any]
Verdict = tuple[str, str, str]
"""Status, reason and message of a condition."""

LEVELS_AVAILABLE = "All required topology levels are available in the cluster topology"
_NAMESPACE = "namespaces/default/"
_KINDS = {
    "PodCliqueSet": ("grove.io/v1alpha1", f"{_NAMESPACE}podcliquesets"),
    "PodGroup": ("scheduling.run.ai/v2alpha2", f"{_NAMESPACE}podgroups"),
    "ResourceFlavor": ("kueue.x-k8s.io/v1beta2", "resourceflavors"),
    "Workload": ("kueue.x-k8s.io/v1beta2", f"{_NAMESPACE}workloads"),
}


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Fails on a field that it does not have."""


class Machine(Row, frozen=True):
    """One node with 8 GPUs and an agent (`gpus` None: without either)."""

    name: str
    labels: dict[str, str]
    gpus: int | None = 8
    cordoned: bool = False
    taints: tuple[Spec, ...] = ()


class Workload(Row, frozen=True):
    """One object as its users write it, without what each has to have; `refused`: the error of upstream's rules."""

    kind: str
    name: str
    spec: Spec
    refused: str = ""

    @property
    def path(self) -> str:
        version, resource = _KINDS[self.kind]
        return f"/apis/{version}/{resource}"

    @property
    def body(self) -> Spec:
        version, resource = _KINDS[self.kind]
        metadata = {"name": self.name} | ({"namespace": "default"} if resource.startswith(_NAMESPACE) else {})
        spec = _podcliqueset(self.spec) if self.kind == "PodCliqueSet" else self.spec
        return {"apiVersion": version, "kind": self.kind, "metadata": metadata, "spec": spec}


class Status(Row, frozen=True):
    """The status of one ClusterTopology and what is published from it; conditions not named are True."""

    path: str = ""
    domains: tuple[int, ...] = ()
    """Domains of each level, counted by their path from the top."""
    required_by: dict[str, int] = {}
    preferred_by: dict[str, int] = {}
    missed: tuple[str, ...] = ()
    """Preferred levels that are reported as unavailable."""
    conditions: dict[str, Verdict] = {}
    grove: tuple[tuple[str, str], ...] | None = None
    kai: tuple[str, ...] | None = None
    kueue: tuple[str, ...] | None = None
    """Levels of the published objects; None: there is none."""
    events: dict[str, tuple[tuple[str, str], ...]] = {}
    """Type and note of the Events on each workload, by its name."""


class Step(Row, frozen=True):
    """A change, after which the controller reconciles again: patches by path, an object or collection that is deleted,
    nodes that join, seconds that pass.
    """

    what: str
    expected: dict[str, Status]
    patch: dict[str, Spec] = {}
    delete: str = ""
    nodes: tuple[Machine, ...] = ()
    seconds: float = 0


class Case(Row, frozen=True):
    """One upstream case, reduced to what concerns levels; `beyond`: what of it only a scheduler decides."""

    case: str
    nodes: tuple[Machine, ...]
    topologies: dict[str, Spec]
    expected: dict[str, Status]
    workloads: tuple[Workload, ...] = ()
    steps: tuple[Step, ...] = ()
    beyond: str = ""


class Invalid(Row, frozen=True):
    """Levels that upstream refuses: a server with our CRD's rules refuses them too, and nothing is ever published."""

    case: str
    levels: list[dict[str, str]]
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


def _podcliqueset(spec: Spec) -> Spec:
    pod = {"containers": [{"name": "main", "image": "example.invalid/main"}]}
    given = spec["template"]["cliques"]
    cliques = [{"spec": {"roleName": clique["name"], "replicas": 1, "podSpec": pod}, **clique} for clique in given]
    return {"replicas": 1, "template": {**spec["template"], "cliques": cliques}}
