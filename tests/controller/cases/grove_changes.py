"""Those of Grove's cases with two kinds of hardware, with levels and bindings that come and go."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.controller.cases.grove_objects import (
    BINDINGS,
    FOUR,
    NVL_BLOCK,
    NVL_DOMAIN,
    ONLY_GROVE,
    PLACEMENT,
    RACK,
    THREE,
    TOPOLOGIES,
    TWO,
    cluster,
    pcs,
)
from tests.controller.cases.model import Case, Machine, Says, Step, gone, levels
from toposcope.api.label_keys import HOSTNAME


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


CASES: Final = (
    Case(
        "TAS17 two kinds of hardware, two topologies",
        _segments(),
        {
            "h100-topology": {"levels": levels(*_H100), "nodeSelector": _having(RACK), "publish": ONLY_GROVE},
            "gb200-topology": {"levels": levels(*_GB200), "nodeSelector": _having(NVL_BLOCK), "publish": ONLY_GROVE},
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
        beyond=PLACEMENT,
    ),
    Case(
        "TAS17 two kinds of hardware, one topology: half of the nodes would leave it",
        _segments(),
        {"grove-topology": {"levels": levels(*FOUR), "publish": ONLY_GROVE}},
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
        {"drift-detect-topo": {"levels": levels(*THREE), "publish": ONLY_GROVE}},
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
        {"lifecycle-topo": {"levels": levels(*TWO), "publish": ONLY_GROVE}},
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
        {"tas20-topology": {"levels": levels(*THREE), "publish": ONLY_GROVE}},
        _tas20(),
        (_TAS20,),
        (Step("somebody deletes it: it is made again", lambda at: at.delete(f"{BINDINGS}/tas20-topology"), _tas20()),),
        beyond="the PodCliqueSet's own condition, which Grove writes",
    ),
    Case(
        "TAS20 a level that goes while a workload uses it",
        cluster(2),
        {"tas20-topology": {"levels": levels(*THREE), "gracePeriod": "10m", "publish": ONLY_GROVE}},
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
            Step("and it comes back", _find_racks, _tas20(told={"tas-topology-condition": (_NORMAL, _WARNING)})),
        ),
    ),
    Case(
        "TAS23 a preferred level that goes: no condition, but the workload hears of it",
        cluster(2),
        {"grove-topology": {"levels": levels(*THREE), "gracePeriod": "10m", "publish": ONLY_GROVE}},
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
