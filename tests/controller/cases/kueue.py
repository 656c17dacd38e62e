"""Kueue's cases of topology-aware scheduling, from its integration suite, where they concern levels."""

from typing import Final

from tests.controller.cases.kueue_objects import (
    BLOCK,
    HOSTS,
    OURS,
    QUOTA,
    RACK,
    RACKS,
    REUSED,
    SPEC,
    flavor,
    hosts,
    machine,
    one,
    pod_sets,
    racks,
    workload,
)
from tests.controller.cases.model import Case, Invalid, Machine, Says, Step
from toposcope.api.label_keys import HOSTNAME

_HELD: Final = (
    "False",
    "Waiting",
    (
        "topology.kueue.x-k8s.io/default: waits to be deleted because spec.publish.kueue is Never; "
        "still held by ResourceFlavor tas-flavor"
    ),
)
_NO_NODES: Final = ("Unknown", "NoNodes", "No node is selected; an empty cluster says nothing about its levels")
_NOTHING: Final = {
    "TopologyLevelsAvailable": _NO_NODES,
    "LevelsCovered": _NO_NODES,
    "HierarchyConsistent": _NO_NODES,
    "Published": ("Unknown", "NoLevels", "There is no level to publish yet"),
}
_WAITING: Final = {
    "TopologyLevelsAvailable": ("Unknown", "NoNodes", "Waiting for a Ready, schedulable node with level 'rack'")
}
_TAINT: Final = {"key": "maintenance", "value": "true", "effect": "NoSchedule"}

CASES: Final = (
    Case(
        "Kueue a Topology that no flavor uses may go",
        RACKS,
        {"default": SPEC},
        racks(),
        steps=(
            Step(
                "publishing is turned off",
                lambda at: at.patch(
                    "/apis/gpu.topology/v1alpha1/clustertopologies/default", {"spec": {"publish": {"kueue": "Never"}}}
                ),
                racks(kueue=None),
            ),
        ),
    ),
    Case(
        "Kueue a Topology that a flavor uses may not",
        RACKS,
        {"default": SPEC},
        racks(),
        (flavor("tas-flavor"),),
        (
            Step(
                "publishing is turned off",
                lambda at: at.patch(
                    "/apis/gpu.topology/v1alpha1/clustertopologies/default", {"spec": {"publish": {"kueue": "Never"}}}
                ),
                racks(conditions={**REUSED, "Published": _HELD}),
            ),
        ),
    ),
    Case(
        "Kueue rack the lowest level, required",
        RACKS,
        {"default": SPEC},
        racks(required_by={"block": 1, "rack": 2}),
        (workload("wl1", required=BLOCK), workload("wl2", required=RACK), workload("wl3", required=RACK)),
        beyond=QUOTA,
    ),
    # It fits into no rack. The level is there.
    Case(
        "Kueue a workload that does not fit a required level",
        RACKS,
        {"default": SPEC},
        racks(required_by={"rack": 1}),
        (workload("wl1-inadmissible", required=RACK),),
        beyond=QUOTA,
    ),
    Case(
        "Kueue a Topology that is deleted under a workload",
        RACKS,
        {"default": SPEC},
        racks(required_by={"block": 1}),
        (workload("wl", required=BLOCK),),
        (Step("somebody deletes it: it is made again", lambda at: at.delete(OURS), racks(required_by={"block": 1})),),
    ),
    Case(
        "Kueue hostname the lowest level, preferred",
        HOSTS,
        {"default": SPEC},
        hosts(preferred_by={"block": 1, "rack": 1}),
        (workload("wl1", preferred=BLOCK), workload("wl2", preferred=RACK)),
        beyond=QUOTA,
    ),
    Case(
        "Kueue a workload without a request uses no level of ours",
        HOSTS,
        {"default": SPEC},
        hosts(),
        (workload("wl1"), workload("wl2", unconstrained=True)),
        beyond=QUOTA,
    ),
    Case(
        "Kueue slices ask for levels of their own",
        HOSTS,
        {"default": SPEC},
        hosts(required_by={"block": 1, "host": 2, "rack": 2}, preferred_by={"block": 1}),
        (
            workload("wl1", preferred=BLOCK, podSetSliceRequiredTopology=RACK, podSetSliceSize=2),
            workload("wl2", required=HOSTNAME),
            workload(
                "wl3",
                required=BLOCK,
                podsetSliceRequiredTopologyConstraints=[
                    {"topology": RACK, "size": 4},
                    {"topology": HOSTNAME, "size": 2},
                ],
            ),
        ),
        beyond=QUOTA,
    ),
    Case(
        "Kueue nodes become available",
        (),
        {"default": SPEC},
        {"default": Says(conditions=_NOTHING, required_by={"rack": 1})},
        (workload("wl1", required=RACK),),
        (Step("the first node comes", lambda at: at.add_nodes((HOSTS[0],)), one(required_by={"rack": 1})),),
        beyond=QUOTA,
    ),
    # Whether a taint matters depends on who tolerates it: the level is there for those who do.
    Case(
        "Kueue a tainted node carries its levels",
        (machine("x1", "b1", "r1", host=True, taints=(_TAINT,)),),
        {"default": SPEC},
        one(required_by={"rack": 1}),
        (workload("wl1", required=RACK),),
        (
            Step(
                "the taint goes",
                lambda at: at.patch("/api/v1/nodes/x1", {"spec": {"taints": None}}),
                one(required_by={"rack": 1}),
            ),
        ),
        beyond=QUOTA,
    ),
    Case(
        "Kueue only schedulable nodes count for a level that never was seen on one",
        (machine("x1", "b1", "r1", host=True, cordoned=True),),
        {"default": SPEC},
        one(required_by={"rack": 1}, conditions=_WAITING),
        (workload("wl1", required=RACK),),
        (
            Step(
                "it is uncordoned",
                lambda at: at.patch("/api/v1/nodes/x1", {"spec": {"unschedulable": None}}),
                one(required_by={"rack": 1}),
            ),
            Step(
                "and cordoned again: what was there stays",
                lambda at: at.patch("/api/v1/nodes/x1", {"spec": {"unschedulable": True}}),
                one(required_by={"rack": 1}),
            ),
        ),
    ),
    Case(
        "Kueue several flavors: nodes without GPUs are not of the topology",
        (Machine("cpu-node", {RACK: "cpu-rack"}, gpus=None), Machine("gpu-node", {RACK: "gpu-rack"})),
        {"default": SPEC},
        {"default": Says("rack", (1,), {"rack": 1}, kueue=(RACK,))},
        (pod_sets("wl1", {"manager": {"required": RACK}, "worker": {"required": RACK}}),),
        beyond="which pod set gets which flavor",
    ),
    Case(
        "Kueue what others write on a Topology stays",
        RACKS,
        {"default": SPEC},
        racks(),
        steps=(
            Step("a label is added", lambda at: at.patch(OURS, {"metadata": {"labels": {"alpha": "beta"}}}), racks()),
        ),
    ),
    Case(
        "Kueue levels that change: a new Topology",
        HOSTS,
        {"default": {**SPEC, "levels": [{"domain": "rack", "key": RACK}, {"domain": "host", "key": HOSTNAME}]}},
        {"default": Says("rack > host", (2, 4), kueue=(RACK, HOSTNAME))},
        steps=(
            Step(
                "the administrator adds one",
                lambda at: at.patch(
                    "/apis/gpu.topology/v1alpha1/clustertopologies/default",
                    {
                        "spec": {
                            "levels": [
                                {"domain": "block", "key": BLOCK},
                                {"domain": "rack", "key": RACK},
                                {"domain": "host", "key": HOSTNAME},
                            ]
                        }
                    },
                ),
                hosts(),
            ),
        ),
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
    "Kueue a ResourceFlavor that goes and comes back": "FlavorNotFound is said of queues; the Topology stays as it is",
    "Kueue TopologyName in the status of LocalQueues": "Kueue copies the levels that stand in the Topology",
    "Kueue TAS with MultiKueue or ProvisioningRequest": "admission checks of queues",
    "Kueue ResourceFlavors with a bad name, without node labels, or changed": "a kind that Toposcope never writes",
    "Kueue ranks of pods, replaced and failed nodes": "which node a pod gets within a domain",
    "Kueue node avoidance and spreading over domains": "which domain of a level a pod gets",
    "Kueue second passes, skipped flavors, slices that are refilled, groups of no pods": "the order of its own work",
    "Kueue cold start and metrics": "what Kueue remembers and counts of itself",
}
"""Upstream's cases in which nothing is said or written that Toposcope says or writes."""
