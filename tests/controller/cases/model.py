"""What cases are made of: nodes, ClusterTopologies and workloads, and the status that must result."""

from dataclasses import dataclass, field
from typing import Any

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


@dataclass(frozen=True)
class Machine:
    """One node with 8 GPUs and an agent (`gpus` None: without either)."""

    name: str
    labels: dict[str, str]
    gpus: int | None = 8
    cordoned: bool = False
    taints: tuple[Spec, ...] = ()


@dataclass(frozen=True)
class Workload:
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
        metadata = {"name": self.name}
        if resource.startswith(_NAMESPACE):
            metadata["namespace"] = "default"
        spec = _podcliqueset(self.spec) if self.kind == "PodCliqueSet" else self.spec
        return {
            "apiVersion": version,
            "kind": self.kind,
            "metadata": metadata,
            "spec": spec,
        }


@dataclass(frozen=True)
class Status:
    """The status of one ClusterTopology and what is published from it; conditions not named are True."""

    path: str = ""
    domains: tuple[int, ...] = ()
    """Domains of each level, counted by their path from the top."""
    required_by: dict[str, int] = field(default_factory=dict)
    preferred_by: dict[str, int] = field(default_factory=dict)
    missed: tuple[str, ...] = ()
    """Preferred levels that are reported as unavailable."""
    conditions: dict[str, Verdict] = field(default_factory=dict)
    grove: tuple[tuple[str, str], ...] | None = None
    kai: tuple[str, ...] | None = None
    kueue: tuple[str, ...] | None = None
    """Levels of the published objects; None: there is none."""
    events: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """Type and note of the Events on each workload, by its name."""


def levels(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    """`spec.levels`."""
    entries = []
    for domain, key in pairs:
        entries.append({"domain": domain, "key": key})
    return entries


def gone(domain: str, *, kept: bool = False) -> Verdict:
    """The verdict on a required level that no node carries any more; `kept` in Grove's binding."""
    why = (
        " (kept in Grove's binding, because without it Grove drops the hard constraints of workloads; until a node "
        "carries it, KAI places no gang that asks this topology for any level)"
    )
    text = f"Topology level '{domain}' is no longer available in the cluster topology{why if kept else ''}"
    return "False", "TopologyLevelsUnavailable", text


def within(topology: str = "", **pack: str) -> Spec:
    """Grove's topology constraint: `within("cluster", required="zone", preferred="rack")`."""
    named = {"topologyName": topology} if topology else {}
    return {**named, "pack": pack}


def clique(name: str, constraint: Spec | None = None) -> Spec:
    """One clique of a PodCliqueSet."""
    return {"name": name, "topologyConstraint": constraint} if constraint else {"name": name}


def scaling_group(name: str, cliques: list[str], constraint: Spec | None = None) -> Spec:
    """One scaling group of a PodCliqueSet."""
    group = {"name": name, "cliqueNames": cliques}
    return {**group, "topologyConstraint": constraint} if constraint else group


def pod_clique_set(
    name: str,
    *cliques: Spec,
    constraint: Spec | None = None,
    groups: tuple[Spec, ...] = (),
    refused: str = "",
) -> Workload:
    """A PodCliqueSet as its users write it."""
    template: Spec = {"cliques": [*cliques]}
    if constraint is not None:
        template["topologyConstraint"] = constraint
    if groups:
        template["podCliqueScalingGroups"] = [*groups]
    return Workload("PodCliqueSet", name, {"template": template}, refused)


def _podcliqueset(spec: Spec) -> Spec:
    pod = {
        "containers": [
            {
                "name": "main",
                "image": "example.invalid/main",
            }
        ]
    }
    cliques = []
    for given in spec["template"]["cliques"]:
        defaults = {
            "roleName": given["name"],
            "replicas": 1,
            "podSpec": pod,
        }
        cliques.append({"spec": defaults, **given})
    template = {**spec["template"], "cliques": cliques}
    return {"replicas": 1, "template": template}
