"""Those of Grove's cases with two kinds of hardware, with levels and bindings that come and go."""

from dataclasses import replace
from functools import partial
from typing import Any, Final

from tests.controller.cases.grove_objects import (
    FOUR,
    NVL_BLOCK,
    NVL_DOMAIN,
    ONLY_GROVE,
    PLACEMENT,
    RACK,
    THREE,
    TWO,
    Levels,
    cluster,
    label_racks,
    pcs,
    published,
)
from tests.controller.cases.model import NO_NODES, Case, Machine, Status, Step, gone, levels
from tests.support.api import NODES
from tests.support.publishing import BINDINGS
from toposcope.api.cluster_topology import PATH
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


def _three(name: str, path: Levels = THREE, **status: Any) -> dict[str, Status]:
    """The status of a topology of three levels over two nodes, of which those in `path` are published."""
    return {name: replace(published(path, (1, 1, 2)), path="zone > rack > host", **status)}


_lose_racks: Final = partial(label_racks, rack=None)
_restore_racks: Final = partial(label_racks, rack="rack-0")
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
    "events": {"tas-preferred-pack": (_WARNING,)},
}
_drift: Final = partial(_three, "drift-detect-topo")
_tas20: Final = partial(_three, "tas20-topology", required_by={"rack": 1})
_tas23: Final = partial(_three, "grove-topology", required_by={"zone": 1}, preferred_by={"rack": 1})
_TAS20_GONE: Final = _tas20(
    domains=(1, 0, 2),
    conditions={"LevelsCovered": _NO_RACKS, "TopologyLevelsAvailable": gone("rack", kept=True)},
    events={"tas-topology-condition": (_WARNING,)},
)
_NAMED: Final = {"schedulerName": "kai-scheduler", "topologyReference": "non-existent-kai-topo"}

CASES: Final = (
    Case(
        "TAS17 two kinds of hardware, two topologies",
        _segments(),
        {
            "h100-topology": {"levels": levels(*_H100), "nodeSelector": _having(RACK), "publish": ONLY_GROVE},
            "gb200-topology": {"levels": levels(*_GB200), "nodeSelector": _having(NVL_BLOCK), "publish": ONLY_GROVE},
        },
        {
            "h100-topology": published(_H100, (2, 14), required_by={"block": 1}),
            "gb200-topology": published(_GB200, (2, 14, 14), required_by={"block": 1}),
        },
        _TAS17_ASKERS,
        beyond=PLACEMENT,
    ),
    Case(
        "TAS17 two kinds of hardware, one topology: half of the nodes would leave it",
        _segments(),
        {"grove-topology": {"levels": levels(*FOUR), "publish": ONLY_GROVE}},
        {"grove-topology": published(FOUR, (1, 2, 2, 28), conditions={"LevelsCovered": _MIXED})},
    ),
    Case(
        "TAS18 a binding that names a KAI Topology which is not there",
        cluster(2),
        {"drift-detect-topo": {"levels": levels(*THREE), "publish": ONLY_GROVE}},
        _drift(),
        steps=(
            Step(
                "an administrator names another KAI Topology: the entry stays, and Toposcope writes ours from then on",
                lambda at: at.patch(f"{BINDINGS}/drift-detect-topo", {"spec": {"schedulerTopologyBindings": [_NAMED]}}),
                _drift(conditions={"Published": _TAKEN}),
            ),
        ),
        beyond="SchedulerTopologyDrift, which Grove writes about what administrators name",
    ),
    Case(
        "TAS19 levels are added to a binding",
        cluster(2),
        {"lifecycle-topo": {"levels": levels(*TWO), "publish": ONLY_GROVE}},
        {"lifecycle-topo": published(TWO, (1, 2))},
        steps=(
            Step(
                "rack is added: Grove makes the KAI Topology anew",
                lambda at: at.patch(f"{PATH}/lifecycle-topo", {"spec": {"levels": levels(*THREE)}}),
                _three("lifecycle-topo"),
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
                "which ends: an Event, and the binding keeps the level for the workload",
                lambda at: at.pass_time(601),
                _TAS20_GONE,
            ),
            Step("another pass repeats nothing", lambda at: at.pass_time(601), _TAS20_GONE),
            Step("it comes back", _restore_racks, _tas20(events={"tas-topology-condition": (_NORMAL, _WARNING)})),
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
            Step("another pass repeats nothing", lambda at: at.pass_time(601), _tas23(TWO, **_MISSED)),
            Step(
                "without nodes nothing changes",
                lambda at: at.delete(NODES),
                _tas23(TWO, **{**_MISSED, "domains": (0, 0, 0), "conditions": NO_NODES}),
            ),
            Step(
                "it comes back",
                lambda at: at.add_nodes(cluster(2)),
                _tas23(events={"tas-preferred-pack": (_NORMAL, _WARNING)}),
            ),
        ),
    ),
)
