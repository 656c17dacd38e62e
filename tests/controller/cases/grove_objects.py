"""Grove's cluster and its workloads, as its end-to-end suite has them.

The cluster does not nest: racks of 7 nodes, blocks of 20, zones of 28. So the order of levels is the administrator's,
and rack-2 of 28 nodes is two racks to every scheduler.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.controller.cases.model import Case, Cluster, Machine, Status, Workload, levels
from toposcope.api.label_keys import HOSTNAME

ZONE, BLOCK, RACK = "kubernetes.io/zone", "kubernetes.io/block", "kubernetes.io/rack"
NVL_BLOCK, NVL_DOMAIN = "example.com/nvl-block", "example.com/nvlink-domain"
PODCLIQUESETS: Final = "/apis/grove.io/v1alpha1/namespaces/default/podcliquesets"

Levels = Sequence[tuple[str, str]]
FOUR: Final = (("zone", ZONE), ("block", BLOCK), ("rack", RACK), ("host", HOSTNAME))
THREE: Final = (("zone", ZONE), ("rack", RACK), ("host", HOSTNAME))
TWO: Final = (("zone", ZONE), ("host", HOSTNAME))
ONLY_GROVE: Final = {"kueue": "Never"}
_CROSSING: Final = (
    "False",
    "LevelsDoNotNest",
    (
        "rack 'rack-2' lies under block 'block-0' and 'block-1'; schedulers treat it as one rack domain in each; "
        "a reused name, a rack that spans several block domains, or a wrong cable"
    ),
)
PLACEMENT: Final = "which nodes the pods land on, and the PodGroups that Grove makes"


def cluster(count: int) -> tuple[Machine, ...]:
    return tuple(
        Machine(
            f"worker-{i:02}",
            {ZONE: f"zone-{i // 28}", BLOCK: f"block-{i // 20}", RACK: f"rack-{i // 7}", HOSTNAME: f"worker-{i:02}"},
        )
        for i in range(count)
    )


def label_racks(at: Cluster, rack: str | None) -> None:
    """Give the two nodes of `cluster(2)` a rack, or take it away."""
    for node in ("worker-00", "worker-01"):
        at.label(node, **{RACK: rack})


def constraint(text: str, topology: str | None) -> dict[str, Any]:
    """`rack` is required, `~rack` preferred, `block ~rack` both; the topology is named where one is given."""
    pack = {("preferred" if word[0] == "~" else "required"): word.lstrip("~") for word in text.split()}
    named = {"topologyName": topology} if topology else {}
    return {"topologyConstraint": {**named, "pack": pack}} if text else {}


def pcs(
    name: str,
    whole: str = "",
    groups: Mapping[str, tuple[str, Sequence[str]]] | None = None,
    cliques: Mapping[str, str] | None = None,
    topology: str = "grove-topology",
) -> Workload:
    """A PodCliqueSet: the constraint of the whole, of each scaling group (with its cliques) and of each clique.

    The topology is named once, at the top where a constraint stands there; the parts inherit it.
    """
    named = None if whole else topology
    template = {
        **constraint(whole, topology),
        "podCliqueScalingGroups": [
            {"name": group, "cliqueNames": list(members), **constraint(text, named)}
            for group, (text, members) in (groups or {}).items()
        ],
        "cliques": [
            {"name": clique, **constraint(text, named), "spec": _clique(clique)}
            for clique, text in (cliques or {"worker": ""}).items()
        ],
    }
    return _podcliqueset(name, template)


def shape(name: str, template: Mapping[str, Any], refused: str) -> Workload:
    """A PodCliqueSet whose constraints upstream's schema refuses."""
    cliques = [{"name": "worker", "spec": _clique("worker"), **template.get("clique", {})}]
    rest = {key: value for key, value in template.items() if key != "clique"}
    return _podcliqueset(name, {**rest, "cliques": cliques}, refused)


def _clique(role: str) -> dict[str, Any]:
    pod = {"containers": [{"name": "main", "image": "example.invalid/main"}]}
    return {"roleName": role, "replicas": 1, "podSpec": pod}


def _podcliqueset(name: str, template: Mapping[str, Any], refused: str = "") -> Workload:
    metadata = {"name": name, "namespace": "default"}
    spec = {"replicas": 1, "template": template}
    body = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": metadata, "spec": spec}
    return Workload(PODCLIQUESETS, body, refused)


def published(path: Levels, domains: Sequence[int], **status: Any) -> Status:
    """The status of a topology whose levels Grove and KAI have."""
    names = " > ".join(domain for domain, _ in path)
    return Status(names, domains, grove=path, kai=tuple(key for _, key in path), **status)


def standard(nodes: int = 28, **status: Any) -> Status:
    """The status of grove-topology over so many of Grove's nodes."""
    crossing = {"HierarchyConsistent": _CROSSING} if nodes > 20 else {}
    conditions = crossing | status.pop("conditions", {})
    return published(FOUR, (1, 2, 5, 28) if nodes > 20 else (1, 1, 2, nodes), conditions=conditions, **status)


def workload_case(
    name: str, workload: Workload | None, nodes: int = 28, beyond: str = PLACEMENT, **status: Any
) -> Case:
    """One PodCliqueSet on the standard cluster."""
    return Case(
        name,
        cluster(nodes),
        {"grove-topology": {"levels": levels(*FOUR), "publish": ONLY_GROVE}},
        {"grove-topology": standard(nodes, **status)},
        (workload,) if workload else (),
        beyond=beyond,
    )
