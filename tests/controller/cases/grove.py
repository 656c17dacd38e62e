"""Grove's topology cases TAS1 to TAS23, the expectations of its end-to-end suite that concern levels.

Its cluster does not nest: racks of 7 nodes, blocks of 20, zones of 28. So the order of levels is the administrator's,
and rack-2 of 28 nodes is two racks to every scheduler.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.controller.cases.model import Case, Invalid, Machine, Says, Step, Workload, gone, levels
from topology.keys import HOSTNAME

ZONE, BLOCK, RACK = "kubernetes.io/zone", "kubernetes.io/block", "kubernetes.io/rack"
NVL_BLOCK, NVL_DOMAIN = "example.com/nvl-block", "example.com/nvlink-domain"
PODCLIQUESETS: Final = "/apis/grove.io/v1alpha1/namespaces/default/podcliquesets"
BINDINGS: Final = "/apis/grove.io/v1alpha1/clustertopologybindings"
TOPOLOGIES: Final = "/apis/gpu.topology/v1alpha1/clustertopologies"

FOUR: Final = (("zone", ZONE), ("block", BLOCK), ("rack", RACK), ("host", HOSTNAME))
THREE: Final = (("zone", ZONE), ("rack", RACK), ("host", HOSTNAME))
TWO: Final = (("zone", ZONE), ("host", HOSTNAME))
_ONLY_GROVE: Final = {"kueue": "Never"}
_CROSSING: Final = (
    "False",
    "LevelsDoNotNest",
    "rack 'rack-2' lies under block 'block-0' and 'block-1'; schedulers treat it as two rack domains",
)
_PLACEMENT: Final = "which nodes the pods land on, and the PodGroups that Grove makes"


def cluster(count: int) -> tuple[Machine, ...]:
    return tuple(
        Machine(
            f"worker-{i:02}",
            {
                ZONE: f"zone-{i // 28}",
                BLOCK: f"block-{i // 20}",
                RACK: f"rack-{i // 7}",
                HOSTNAME: f"worker-{i:02}",
            },
        )
        for i in range(count)
    )


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
    body = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": metadata,
        "spec": {"replicas": 1, "template": template},
    }
    return Workload(PODCLIQUESETS, body, refused)


def standard(nodes: int = 28, **says: Any) -> Says:
    """What is said of grove-topology over so many of Grove's nodes."""
    crossing = {"HierarchyConsistent": _CROSSING} if nodes > 20 else {}
    domains = (1, 2, 5, 28) if nodes > 20 else (1, 1, 2, nodes)
    conditions = crossing | says.pop("conditions", {})
    keys = tuple(key for _, key in FOUR)
    return Says("zone > block > rack > host", domains, conditions=conditions, grove=FOUR, kai=keys, **says)


def workload_case(name: str, workload: Workload | None, nodes: int = 28, beyond: str = _PLACEMENT, **says: Any) -> Case:
    """One PodCliqueSet on the standard cluster."""
    return Case(
        name,
        cluster(nodes),
        {"grove-topology": {"levels": levels(*FOUR), "publish": _ONLY_GROVE}},
        {"grove-topology": standard(nodes, **says)},
        (workload,) if workload else (),
        beyond=beyond,
    )


def _segments() -> tuple[Machine, ...]:
    """TAS17: of 28 nodes the last 14 lose their rack and get NVLink labels."""
    changed = []
    for i, machine in enumerate(cluster(28)):
        labels = dict(machine.labels)
        if i >= 14:
            del labels[RACK]
            labels |= {NVL_BLOCK: f"block-{(i - 14) // 7}", NVL_DOMAIN: f"nvl-domain-{i - 14}"}
        changed.append(Machine(machine.name, labels))
    return tuple(changed)


def _having(key: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "Exists"}]}


_H100: Final = (("block", RACK), ("host", HOSTNAME))
_GB200: Final = (("block", NVL_BLOCK), ("rack", NVL_DOMAIN), ("host", HOSTNAME))
_TAS17_ASKERS: Final = (
    pcs("tas-h100-workload", "block", topology="h100-topology"),
    pcs("tas-gb200-workload", "block", topology="gb200-topology"),
)
_MIXED: Final = (
    "False",
    "NodesMissingLevels",
    (
        f"14 of 28 nodes lack level 'rack' ({RACK}): worker-14, worker-15, worker-16, worker-17, worker-18, worker-19, "
        "worker-20, worker-21, worker-22, worker-23 and 4 more; schedulers leave these nodes out of the topology"
    ),
)
_TAS20: Final = pcs("tas-topology-condition", "rack", topology="tas20-topology")
_WARNING: Final = ("Warning", "Topology level 'rack' is no longer available in the cluster topology")
_NORMAL: Final = ("Normal", "Topology level 'rack' is available again in the cluster topology")


def _tas20(path: Sequence[tuple[str, str]] = THREE, **says: Any) -> Mapping[str, Says]:
    """What is said of tas20-topology, whose nodes are two."""
    published = {"grove": path, "kai": tuple(key for _, key in path)}
    settled: dict[str, Any] = {"path": "zone > rack > host", "domains": (1, 1, 2), "required_by": {"rack": 1}}
    return {"tas20-topology": Says(**{**settled, **published, **says})}


def _lose_racks(at: Any) -> None:
    for node in ("worker-00", "worker-01"):
        at.label(node, **{RACK: None})


def _find_racks(at: Any) -> None:
    for node in ("worker-00", "worker-01"):
        at.label(node, **{RACK: "rack-0"})


_NO_RACKS: Final = (
    "False",
    "NodesMissingLevels",
    f"2 of 2 nodes lack level 'rack' ({RACK}): worker-00, worker-01; schedulers leave these nodes out of the topology",
)
_TAKEN: Final = (
    "False",
    "Conflict",
    (
        "topology.kai.scheduler/drift-detect-topo: a Topology named drift-detect-topo exists and was not made by "
        "Toposcope; delete it, or give the ClusterTopology another name, or set spec.publish.kai to Never"
    ),
)
_TAS23: Final = pcs("tas-preferred-pack", "zone ~rack")
_MISSED: Final[dict[str, Any]] = {
    "domains": (1, 0, 2),
    "missed": ("rack",),
    "conditions": {"LevelsCovered": _NO_RACKS},
    "told": {"tas-preferred-pack": (_WARNING,)},
}
_NOTHING: Final = ("Unknown", "NoNodes", "No node is selected; an empty cluster says nothing about its levels")
_NO_NODES: Final = dict.fromkeys(("TopologyLevelsAvailable", "LevelsCovered", "HierarchyConsistent"), _NOTHING)


def _tas23(path: Sequence[tuple[str, str]] = THREE, **says: Any) -> Mapping[str, Says]:
    """What is said of grove-topology, whose nodes are two, when a workload requires a zone and prefers a rack."""
    published = {"grove": path, "kai": tuple(key for _, key in path)}
    asked = {"required_by": {"zone": 1}, "preferred_by": {"rack": 1}}
    settled: dict[str, Any] = {"path": "zone > rack > host", "domains": (1, 1, 2), **asked}
    return {"grove-topology": Says(**{**settled, **published, **says})}


_ROUTER: Final = {"worker": "", "router": ""}
_DISAGGREGATED: Final = {"decoder": ("rack", ("dworker", "dleader")), "prefill": ("rack", ("pworker", "pleader"))}
_CLIQUES: Final = {"dworker": "", "dleader": "", "pworker": "", "pleader": "", "router": ""}
_HOST: Final = {"topologyName": "grove-topology", "packDomain": "host"}
_OLD: Final = "packDomain is deprecated and cannot be used on new workloads; use pack.required"
_NEEDS_RACK: Final = {"topologyName": "grove-topology", "pack": {"required": "rack"}}

CASES: Final = (
    workload_case("TAS1 infrastructure: binding and KAI Topology", None, beyond=""),
    workload_case(
        "TAS2 cliques with constraints of their own",
        pcs("tas-indep-clq", cliques={"worker-rack": "rack", "worker-block": "block"}),
        required_by={"block": 1, "rack": 1},
    ),
    workload_case(
        "TAS3 constraint of the set only",
        pcs("tas-sl-pcs-only", "rack", {"workers": ("", ("worker",))}, _ROUTER),
        required_by={"rack": 1},
    ),
    workload_case(
        "TAS4 constraint of the scaling group only",
        pcs("tas-sl-pcsg-only", "", {"workers": ("rack", ("worker",))}, _ROUTER),
        required_by={"rack": 1},
    ),
    workload_case(
        "TAS5 constraint of the clique only: host",
        pcs("tas-host-level", cliques={"worker": "host"}),
        required_by={"host": 1},
    ),
    workload_case(
        "TAS6 a clique alone under a set in one zone", pcs("tas-standalone-pclq", "zone"), required_by={"zone": 1}
    ),
    workload_case("TAS7 no constraint", pcs("tas-no-constraint", "", {"workers": ("", ("worker",))})),
    workload_case(
        "TAS8 the full hierarchy",
        pcs(
            "tas-hierarchy",
            "block",
            {"inference-group": ("rack", ("prefill", "decode"))},
            {"prefill": "host", "decode": "host"},
        ),
        nodes=8,
        required_by={"block": 1, "host": 1, "rack": 1},
    ),
    workload_case(
        "TAS9 set and clique",
        pcs("tas-pcs-pclq", "block", cliques={"worker": "host"}),
        required_by={"block": 1, "host": 1},
    ),
    workload_case(
        "TAS10 scaling group that scales",
        pcs("tas-pcsg-scale", "block", {"inference-group": ("rack", ("worker",))}),
        required_by={"block": 1, "rack": 1},
    ),
    workload_case(
        "TAS11 scaling group and clique without a set",
        pcs("tas-pcsg-pclq", "", {"workers": ("rack", ("worker",))}, {"worker": "host"}),
        required_by={"host": 1, "rack": 1},
    ),
    workload_case(
        "TAS12 ten replicas",
        pcs("tas-large-scale", "block", {"workers": ("", ("worker",))}, {"worker": "host"}),
        required_by={"block": 1, "host": 1},
    ),
    # Ten pods fit into no rack. A level that is there is available all the same.
    workload_case("TAS13 presence is not capacity", pcs("tas-insuffic", "rack"), required_by={"rack": 1}),
    workload_case("TAS14 two replicas of a set", pcs("tas-multirep", "rack"), required_by={"rack": 1}),
    workload_case(
        "TAS15 disaggregated inference",
        pcs("tas-pcs-multi-pcsg", "block", _DISAGGREGATED, _CLIQUES),
        required_by={"block": 1, "rack": 1},
    ),
    workload_case(
        "TAS16 disaggregated inference, twice, three levels",
        pcs("tas-pcs-multi-pcsg", "block", _DISAGGREGATED, {**_CLIQUES, "pworker": "host"}),
        required_by={"block": 1, "host": 1, "rack": 1},
    ),
    Case(
        "TAS17 two kinds of hardware, two topologies",
        _segments(),
        {
            "h100-topology": {"levels": levels(*_H100), "nodeSelector": _having(RACK), "publish": _ONLY_GROVE},
            "gb200-topology": {"levels": levels(*_GB200), "nodeSelector": _having(NVL_BLOCK), "publish": _ONLY_GROVE},
        },
        {
            "h100-topology": Says(
                "block > host", (2, 14), {"block": 1}, grove=_H100, kai=tuple(key for _, key in _H100)
            ),
            "gb200-topology": Says(
                "block > rack > host", (2, 14, 14), {"block": 1}, grove=_GB200, kai=tuple(key for _, key in _GB200)
            ),
        },
        _TAS17_ASKERS,
        beyond=_PLACEMENT,
    ),
    Case(
        "TAS17 two kinds of hardware, one topology: half of the nodes would leave it",
        _segments(),
        {"grove-topology": {"levels": levels(*FOUR), "publish": _ONLY_GROVE}},
        {
            "grove-topology": Says(
                "zone > block > rack > host",
                (1, 2, 2, 28),
                conditions={"LevelsCovered": _MIXED},
                grove=FOUR,
                kai=tuple(key for _, key in FOUR),
            )
        },
    ),
    Case(
        "TAS18 a binding that names a KAI Topology which is not there",
        cluster(2),
        {"drift-detect-topo": {"levels": levels(*THREE), "publish": _ONLY_GROVE}},
        {"drift-detect-topo": Says("zone > rack > host", (1, 1, 2), grove=THREE, kai=tuple(k for _, k in THREE))},
        steps=(
            Step(
                "an administrator names another KAI Topology: his entry stays, ours is written by us from then on",
                lambda at: at.patch(
                    f"{BINDINGS}/drift-detect-topo",
                    {
                        "spec": {
                            "schedulerTopologyBindings": [
                                {"schedulerName": "kai-scheduler", "topologyReference": "non-existent-kai-topo"}
                            ]
                        }
                    },
                ),
                {
                    "drift-detect-topo": Says(
                        "zone > rack > host",
                        (1, 1, 2),
                        conditions={"Published": _TAKEN},
                        grove=THREE,
                        kai=tuple(key for _, key in THREE),
                    )
                },
            ),
        ),
        beyond="SchedulerTopologyDrift, which Grove writes about what administrators name",
    ),
    Case(
        "TAS19 levels are added to a binding",
        cluster(2),
        {"lifecycle-topo": {"levels": levels(*TWO), "publish": _ONLY_GROVE}},
        {"lifecycle-topo": Says("zone > host", (1, 2), grove=TWO, kai=tuple(key for _, key in TWO))},
        steps=(
            Step(
                "rack is added: Grove makes the KAI Topology anew",
                lambda at: at.patch(f"{TOPOLOGIES}/lifecycle-topo", {"spec": {"levels": levels(*THREE)}}),
                {"lifecycle-topo": Says("zone > rack > host", (1, 1, 2), grove=THREE, kai=tuple(k for _, k in THREE))},
            ),
        ),
    ),
    Case(
        "TAS20 a binding that goes while a workload uses it",
        cluster(2),
        {"tas20-topology": {"levels": levels(*THREE), "publish": _ONLY_GROVE}},
        _tas20(),
        (_TAS20,),
        (Step("somebody deletes it: it is made again", lambda at: at.delete(f"{BINDINGS}/tas20-topology"), _tas20()),),
        beyond="the PodCliqueSet's own condition, which Grove writes",
    ),
    Case(
        "TAS20 a level that goes while a workload uses it",
        cluster(2),
        {"tas20-topology": {"levels": levels(*THREE), "gracePeriod": "10m", "publish": _ONLY_GROVE}},
        _tas20(),
        (_TAS20,),
        (
            Step(
                "its label goes: nothing happens for the grace period",
                _lose_racks,
                _tas20(domains=(1, 0, 2), conditions={"LevelsCovered": _NO_RACKS}),
            ),
            Step(
                "which ends: the level leaves the binding and the workload hears of it",
                lambda at: at.pass_time(601),
                _tas20(
                    TWO,
                    domains=(1, 0, 2),
                    conditions={"LevelsCovered": _NO_RACKS, "TopologyLevelsAvailable": gone("rack")},
                    told={"tas-topology-condition": (_WARNING,)},
                ),
            ),
            Step(
                "another look says nothing twice",
                lambda at: at.pass_time(601),
                _tas20(
                    TWO,
                    domains=(1, 0, 2),
                    conditions={"LevelsCovered": _NO_RACKS, "TopologyLevelsAvailable": gone("rack")},
                    told={"tas-topology-condition": (_WARNING,)},
                ),
            ),
            Step(
                "and it comes back",
                _find_racks,
                _tas20(told={"tas-topology-condition": (_NORMAL, _WARNING)}),
            ),
        ),
    ),
    workload_case(
        "TAS21 parts inherit the topology of the set",
        pcs("tas21-pcs-optional-topology-name", "zone", cliques={"worker": "host"}),
        required_by={"host": 1, "zone": 1},
        beyond="the entries of schedulerTopologyBindings that Grove's webhook refuses: Toposcope writes none",
    ),
    Case(
        "TAS22 shapes that Grove's schema refuses ask for nothing",
        cluster(8),
        {"grove-topology": {"levels": levels(*FOUR), "publish": _ONLY_GROVE}},
        {"grove-topology": standard(8, preferred_by={"host": 1})},
        (
            shape("tas22-legacy-pcs", {"topologyConstraint": _HOST}, _OLD),
            shape(
                "tas22-missing-pack",
                {"topologyConstraint": {"topologyName": "grove-topology"}},
                "topologyConstraint must specify pack or deprecated packDomain",
            ),
            shape(
                "tas22-empty-pack",
                {"topologyConstraint": {"topologyName": "grove-topology", "pack": {}}},
                "pack must specify at least one of required or preferred",
            ),
            shape(
                "tas22-ambiguous-pack",
                {"topologyConstraint": {**_HOST, "pack": {"required": "host"}}},
                "must not set both pack.required and deprecated packDomain",
            ),
            shape(
                "tas22-legacy-pclq",
                {"topologyConstraint": _NEEDS_RACK, "clique": {"topologyConstraint": {"packDomain": "host"}}},
                _OLD,
            ),
            shape(
                "tas22-legacy-pcsg",
                {
                    "topologyConstraint": _NEEDS_RACK,
                    "podCliqueScalingGroups": [
                        {
                            "name": "workers",
                            "cliqueNames": ["worker"],
                            "topologyConstraint": {"packDomain": "host"},
                        }
                    ],
                },
                _OLD,
            ),
            pcs("tas22-valid-preferred-only", "~host"),
        ),
    ),
    workload_case(
        "TAS23 preferred levels",
        pcs(
            "tas-preferred-pack", "block ~rack", {"workers": ("~host", ("worker",))}, {"worker": "", "router": "~host"}
        ),
        required_by={"block": 1},
        preferred_by={"host": 1, "rack": 1},
    ),
    Case(
        "TAS23 a preferred level that goes: no condition, but the workload hears of it",
        cluster(2),
        {"grove-topology": {"levels": levels(*THREE), "gracePeriod": "10m", "publish": _ONLY_GROVE}},
        _tas23(),
        (_TAS23,),
        (
            Step(
                "its label goes: nothing happens for the grace period",
                _lose_racks,
                _tas23(domains=(1, 0, 2), conditions={"LevelsCovered": _NO_RACKS}),
            ),
            Step("which ends", lambda at: at.pass_time(601), _tas23(TWO, **_MISSED)),
            Step("another look says nothing twice", lambda at: at.pass_time(601), _tas23(TWO, **_MISSED)),
            Step(
                "no nodes are no news",
                lambda at: at.delete("/api/v1/nodes"),
                _tas23(TWO, **{**_MISSED, "domains": (0, 0, 0), "conditions": _NO_NODES}),
            ),
            Step(
                "and it comes back",
                lambda at: at.add_nodes(cluster(2)),
                _tas23(told={"tas-preferred-pack": (_NORMAL, _WARNING)}),
            ),
        ),
    ),
)

INVALID: Final = (
    Invalid(
        "TAS21 a domain twice",
        (("zone", ZONE), ("zone", RACK)),
        "a domain appears twice",
        "spec.levels[1].domain: 'zone' stands there twice; each domain names one level",
    ),
)
