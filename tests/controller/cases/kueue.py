"""Kueue's cases of topology-aware scheduling, from its integration suite, where they concern levels.

Its nodes are two blocks whose racks have the same names: a rack is known by its path.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.controller.cases.model import NO_NODES, Case, Invalid, Machine, Status, Step, Workload, levels
from tests.support.api import NODES
from toposcope.api.cluster_topology import PATH
from toposcope.api.label_keys import HOSTNAME

BLOCK, RACK = "cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"
_GROUP: Final = "/apis/kueue.x-k8s.io/v1beta2"
_WORKLOADS: Final = f"{_GROUP}/namespaces/default/workloads"
OURS: Final = f"{_GROUP}/topologies/default"
SPEC: Final = {"publish": {"grove": "Never", "kai": "Never"}}
REUSED: Final = {
    "HierarchyConsistent": (
        "False",
        "LevelsDoNotNest",
        (
            "rack 'r1' lies under block 'b1' and 'b2' (2 of 2 values do so); "
            "schedulers treat it as one rack domain in each; right where each block uses the same names; where the "
            "two levels cut across each other, give each a ClusterTopology of its own"
        ),
    )
}
QUOTA: Final = "what Kueue admits, which is room and quota"


def machine(name: str, block: str, rack: str, *, host: bool = False, **more: Any) -> Machine:
    return Machine(name, {BLOCK: block, RACK: rack} | ({HOSTNAME: name} if host else {}), **more)


RACKS: Final = tuple(machine(f"{block}-{rack}", block, rack) for block in ("b1", "b2") for rack in ("r1", "r2"))
HOSTS: Final = tuple(
    machine(f"x{i}", block, rack, host=True)
    for i, (block, rack) in enumerate((("b1", "r1"), ("b1", "r2"), ("b2", "r1"), ("b2", "r2")), 1)
)


def workload(name: str, **request: Any) -> Workload:
    """A Workload with one pod set; `request` is its topologyRequest."""
    return pod_sets(name, {"worker": request})


def pod_sets(name: str, sets: Mapping[str, Mapping[str, Any]]) -> Workload:
    body = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "podSets": [
                {"name": name, "count": 2, **({"topologyRequest": dict(request)} if request else {})}
                for name, request in sets.items()
            ]
        },
    }
    return Workload(_WORKLOADS, body)


def flavor(name: str) -> Workload:
    """A ResourceFlavor that uses the topology."""
    spec = {"nodeLabels": {"node-group": "tas"}, "topologyName": "default"}
    body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}
    return Workload(f"{_GROUP}/resourceflavors", body)


def racks(**status: Any) -> dict[str, Status]:
    return {
        "default": Status(
            **{"path": "block > rack", "domains": (2, 4), "conditions": REUSED, "kueue": (BLOCK, RACK), **status}
        )
    }


def hosts(**status: Any) -> dict[str, Status]:
    keys = (BLOCK, RACK, HOSTNAME)
    return {"default": Status("block > rack > host", (2, 4, 4), conditions=REUSED, kueue=keys, **status)}


def one(**status: Any) -> dict[str, Status]:
    """The status over one node with block, rack and host."""
    settled = {"path": "block > rack > host", "domains": (1, 1, 1), "kueue": (BLOCK, RACK, HOSTNAME)}
    return {"default": Status(**{**settled, **status})}


_HELD: Final = (
    "False",
    "Waiting",
    (
        "topology.kueue.x-k8s.io/default: waits to be deleted because spec.publish.kueue is Never; "
        "still held by ResourceFlavor tas-flavor"
    ),
)
_NOTHING: Final = {**NO_NODES, "Published": ("Unknown", "NoLevels", "There is no level to publish yet")}
_WAITING: Final = {
    "TopologyLevelsAvailable": ("Unknown", "NoNodes", "Waiting for a Ready, schedulable node with level 'rack'")
}
_TAINT: Final = {"key": "maintenance", "value": "true", "effect": "NoSchedule"}
_TOPOLOGY: Final = f"{PATH}/default"
_NODE: Final = f"{NODES}/x1"


def _case(
    name: str, nodes: Sequence[Machine], expected: Mapping[str, Status], *workloads: Workload, **more: Any
) -> Case:
    """A case of one inferred topology; `more`: its steps, and what lies beyond it."""
    return Case(f"Kueue {name}", nodes, {"default": SPEC}, expected, workloads, **more)


def _patch(what: str, path: str, change: Mapping[str, Any], expected: Mapping[str, Status]) -> Step:
    return Step(what, lambda at: at.patch(path, change), expected)


def _never(expected: Mapping[str, Status]) -> Step:
    return _patch("publishing is turned off", _TOPOLOGY, {"spec": {"publish": {"kueue": "Never"}}}, expected)


_ONE_USED: Final = one(required_by={"rack": 1})
CASES: Final = (
    _case("a Topology that no flavor uses may go", RACKS, racks(), steps=[_never(racks(kueue=None))]),
    _case(
        "a Topology that a flavor uses may not",
        RACKS,
        racks(),
        flavor("tas-flavor"),
        steps=[_never(racks(conditions={**REUSED, "Published": _HELD}))],
    ),
    _case(
        "rack the lowest level, required",
        RACKS,
        racks(required_by={"block": 1, "rack": 2}),
        *(workload("wl1", required=BLOCK), workload("wl2", required=RACK), workload("wl3", required=RACK)),
        beyond=QUOTA,
    ),
    # It fits into no rack. The level is there.
    _case(
        "a workload that does not fit a required level",
        RACKS,
        racks(required_by={"rack": 1}),
        workload("wl1-inadmissible", required=RACK),
        beyond=QUOTA,
    ),
    _case(
        "a Topology that is deleted under a workload",
        RACKS,
        racks(required_by={"block": 1}),
        workload("wl", required=BLOCK),
        steps=[Step("it is created again", lambda at: at.delete(OURS), racks(required_by={"block": 1}))],
    ),
    _case(
        "hostname the lowest level, preferred",
        HOSTS,
        hosts(preferred_by={"block": 1, "rack": 1}),
        *(workload("wl1", preferred=BLOCK), workload("wl2", preferred=RACK)),
        beyond=QUOTA,
    ),
    _case(
        "a workload without a request uses no level of ours",
        HOSTS,
        hosts(),
        *(workload("wl1"), workload("wl2", unconstrained=True)),
        beyond=QUOTA,
    ),
    _case(
        "slices ask for levels of their own",
        HOSTS,
        hosts(required_by={"block": 1, "host": 2, "rack": 2}, preferred_by={"block": 1}),
        workload("wl1", preferred=BLOCK, podSetSliceRequiredTopology=RACK, podSetSliceSize=2),
        workload("wl2", required=HOSTNAME),
        workload(
            "wl3",
            required=BLOCK,
            podsetSliceRequiredTopologyConstraints=[{"topology": RACK, "size": 4}, {"topology": HOSTNAME, "size": 2}],
        ),
        beyond=QUOTA,
    ),
    _case(
        "nodes become available",
        (),
        {"default": Status(conditions=_NOTHING, required_by={"rack": 1})},
        workload("wl1", required=RACK),
        steps=[Step("the first node comes", lambda at: at.add_nodes(HOSTS[:1]), _ONE_USED)],
        beyond=QUOTA,
    ),
    # Whether a taint matters depends on who tolerates it: the level is there for those who do.
    _case(
        "a tainted node carries its levels",
        (machine("x1", "b1", "r1", host=True, taints=(_TAINT,)),),
        _ONE_USED,
        workload("wl1", required=RACK),
        steps=[_patch("the taint goes", _NODE, {"spec": {"taints": None}}, _ONE_USED)],
        beyond=QUOTA,
    ),
    _case(
        "only schedulable nodes count for a level that never was seen on one",
        (machine("x1", "b1", "r1", host=True, cordoned=True),),
        one(required_by={"rack": 1}, conditions=_WAITING),
        workload("wl1", required=RACK),
        steps=[
            _patch("it is uncordoned", _NODE, {"spec": {"unschedulable": None}}, _ONE_USED),
            _patch("it is cordoned again: the level stays", _NODE, {"spec": {"unschedulable": True}}, _ONE_USED),
        ],
    ),
    _case(
        "several flavors: nodes without GPUs are not of the topology",
        (Machine("cpu-node", {RACK: "cpu-rack"}, gpus=None), Machine("gpu-node", {RACK: "gpu-rack"})),
        {"default": Status("rack", (1,), {"rack": 1}, kueue=(RACK,))},
        pod_sets("wl1", {"manager": {"required": RACK}, "worker": {"required": RACK}}),
        beyond="which pod set gets which flavor",
    ),
    _case(
        "what others write on a Topology stays",
        RACKS,
        racks(),
        steps=[_patch("a label is added", OURS, {"metadata": {"labels": {"alpha": "beta"}}}, racks())],
    ),
    Case(
        "Kueue levels that change: a new Topology",
        HOSTS,
        {"default": {**SPEC, "levels": levels(("rack", RACK), ("host", HOSTNAME))}},
        {"default": Status("rack > host", (2, 4), kueue=(RACK, HOSTNAME))},
        steps=[
            _patch(
                "the administrator adds one",
                _TOPOLOGY,
                {"spec": {"levels": levels(("block", BLOCK), ("rack", RACK), ("host", HOSTNAME))}},
                hosts(),
            )
        ],
    ),
)

_NO_LABEL_KEY: Final = "is not a label key with a lower-case DNS prefix"
_LAST: Final = f"{HOSTNAME} must be the last level; nothing is narrower than a host"
INVALID: Final = (
    Invalid(
        "Kueue a level that is no label",
        (("rack", "@invalid"),),
        "not a label key",
        f"spec.levels[0].key: '@invalid' {_NO_LABEL_KEY}",
    ),
    Invalid(
        "Kueue a level twice",
        (("block", BLOCK), ("rack", BLOCK)),
        "a key appears twice",
        f"spec.levels[1].key: '{BLOCK}' is listed twice; each level needs a label of its own",
    ),
    Invalid(
        "Kueue hostname first",
        (("host", HOSTNAME), ("block", BLOCK), ("rack", RACK)),
        "make it the last one",
        f"spec.levels[0].key: {_LAST}",
    ),
    Invalid(
        "Kueue hostname in the middle",
        (("block", BLOCK), ("host", HOSTNAME), ("rack", RACK)),
        "make it the last one",
        f"spec.levels[1].key: {_LAST}",
    ),
)

PLACEMENT_ONLY: Final = {
    "Kueue preemption within a ClusterQueue": "priorities decide who is evicted; no level changes",
    "Kueue borrowing and reclaiming within a cohort": "quota decides; no level changes",
    "Kueue a ResourceFlavor that goes and comes back": "queues report FlavorNotFound; the Topology stays as it is",
    "Kueue TopologyName in the status of LocalQueues": "Kueue copies the levels that stand in the Topology",
    "Kueue TAS with MultiKueue or ProvisioningRequest": "admission checks of queues",
    "Kueue ResourceFlavors with a bad name, without node labels, or changed": "a kind that Toposcope never writes",
    "Kueue ranks of pods, replaced and failed nodes": "which node a pod gets within a domain",
    "Kueue node avoidance and spreading over domains": "which domain of a level a pod gets",
    "Kueue second passes, skipped flavors, slices that are refilled, groups of no pods": "the order of its own work",
    "Kueue cold start and metrics": "what Kueue remembers and counts of itself",
}
"""Upstream's cases that change no status and no topology."""
