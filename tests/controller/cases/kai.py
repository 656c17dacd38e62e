"""KAI's cases of one job under several topologies, and of dotted values.

Its racks and zones cross: each zone has a node in each rack. Crossing labels are no hierarchy, so each has a topology.
"""

from collections.abc import Sequence
from typing import Any, Final

from tests.controller.cases.model import Case, Machine, Status, Workload, levels

RACK, ZONE = "topology.test/rack-domain", "topology.test/zone-domain"
BLOCK, SLOT = "topology.test/block", "topology.test/slot"
_PODGROUPS: Final = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups"
_ONLY_KAI: Final = {"grove": "Never", "kueue": "Never"}
_NODES: Final = tuple(
    Machine(f"node{i}", {RACK: f"rack-{'abc'[i // 2]}", ZONE: f"zone-{'xy'[i % 2]}"}) for i in range(6)
)
_MANY: Final = tuple(
    Machine(f"node{i:02}", {RACK: f"rack-{'abc'[i % 6 // 2]}", ZONE: f"zone-{'xy'[i // 6]}"}) for i in range(12)
)
_TWO: Final = {
    "rack-topology": {"levels": levels(("rack", RACK)), "publish": _ONLY_KAI},
    "zone-topology": {"levels": levels(("zone", ZONE)), "publish": _ONLY_KAI},
}
_PLACEMENT: Final = "which nodes each sub-group lands on"


def asks(topology: str, **wanted: str) -> dict[str, Any]:
    """The constraint of a PodGroup or of a sub-group of it."""
    return {"topologyConstraint": {"topology": topology, **{f"{how}TopologyLevel": of for how, of in wanted.items()}}}


def pod_group(name: str, *groups: dict[str, Any], **spec: Any) -> Workload:
    body = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**spec, "subGroups": list(groups)},
    }
    return Workload(_PODGROUPS, body)


_EACH: Final = {
    "rack-topology": Status("rack", (3,), {"rack": 1}, kai=(RACK,)),
    "zone-topology": Status("zone", (2,), {"zone": 1}, kai=(ZONE,)),
}


def dotted(*places: Sequence[str]) -> tuple[Machine, ...]:
    return tuple(Machine(f"node{i}", {BLOCK: block, SLOT: slot}) for i, (block, slot) in enumerate(places))


CASES: Final = (
    Case(
        "KAI two sub-groups, each in a topology of its own",
        _NODES,
        _TWO,
        _EACH,
        (
            pod_group(
                "pending-job0",
                {"name": "rack-workers", "minMember": 3, **asks("rack-topology", required=RACK)},
                {"name": "zone-workers", "minMember": 3, **asks("zone-topology", required=ZONE)},
            ),
        ),
        beyond=_PLACEMENT,
    ),
    Case(
        "KAI a parent in one zone, its children in one rack each",
        _MANY,
        _TWO,
        _EACH,
        (
            pod_group(
                "pending-job1",
                {"name": "parent", **asks("zone-topology", required=ZONE)},
                {"name": "child-a", "parent": "parent", "minMember": 3, **asks("rack-topology", required=RACK)},
                {"name": "child-b", "parent": "parent", "minMember": 3, **asks("rack-topology", required=RACK)},
            ),
        ),
        beyond=_PLACEMENT,
    ),
    Case(
        "KAI both in one topology: reported as crossing, and published as the administrator wrote it",
        _NODES,
        {"both": {"levels": levels(("zone", ZONE), ("rack", RACK)), "publish": _ONLY_KAI}},
        {
            "both": Status(
                "zone > rack",
                (2, 6),
                {"rack": 1},
                {"zone": 1},
                conditions={
                    "HierarchyConsistent": (
                        "False",
                        "LevelsDoNotNest",
                        (
                            "rack 'rack-a' lies under zone 'zone-x' and 'zone-y' (3 of 3 values do so); "
                            "schedulers treat it as one rack domain in each; right where each zone uses the same "
                            "names; where the two levels cut across each other, give each a ClusterTopology of its own"
                        ),
                    )
                },
                kai=(ZONE, RACK),
            )
        },
        (pod_group("job", minMember=2, **asks("both", required=RACK, preferred=ZONE)),),
    ),
    # KAI joins the values of a path with dots and takes these two for one.
    Case(
        "KAI dotted values are no path: a.b under c is not a under b.c",
        dotted(("a.b", "c"), ("a", "b.c"), ("a", "b.c")),
        {"dotted": {"levels": levels(("block", BLOCK), ("slot", SLOT)), "publish": _ONLY_KAI}},
        {
            "dotted": Status(
                "block > slot",
                (2, 2),
                conditions={
                    "HierarchyConsistent": (
                        "False",
                        "ValuesReadAlike",
                        (
                            "block 'a' > slot 'b.c' and block 'a.b' > slot 'c' are one slot domain to KAI, which joins "
                            f"values by dots: 'a.b.c'; write one of {BLOCK} and {SLOT} without dots, or leave one of "
                            "these levels out of spec.levels"
                        ),
                    )
                },
                kai=(BLOCK, SLOT),
            )
        },
    ),
)
