"""NVLink fabrics whose cluster UUID changes under their nodes: nothing flaps, and one Event says what happened."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.support.api import ApiUnderTest, Clients, wait_until
from tests.support.cluster import START, History, fabric, gpu_node, topology
from tests.support.controller import controller_of, make_node, make_topology, relabel, running, share_crd, status_of
from tests.support.publishing import Time
from toposcope.api.label_keys import CHASSIS, GPUS, NVLINK_DOMAIN, STATE
from toposcope.controller.assess.assessment import Evidence, assess
from toposcope.controller.assess.rebuilds import MOST_REBUILDS, FabricHistory
from toposcope.controller.findings import Findings
from toposcope.controller.loop import Controller
from toposcope.controller.memory import Memory
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.requirements import Resolved
from toposcope.controller.status import Demand
from toposcope.controller.status import status_of as assessed_status
from toposcope.controller.wiring import Wiring
from toposcope.hierarchy.node import NodeFacts
from toposcope.hierarchy.table import Table, table_of

TRAYS = 6
"""Of a rack: as many as the waves need."""
GRACE = 600.0
AFTER_GRACE = GRACE + 1


@dataclass
class Rack:
    """The trays of one chassis: each is in the fabric and clique of a number, or in none."""

    name: str
    fabrics: list[int | None]
    clique: int = 0
    chassis: str | None = None
    """Another serial number than `chassis-NAME`; empty where NVML does not know it."""
    states: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, number: int, **more: Any) -> "Rack":
        """A rack whose trays are all in one fabric."""
        return cls(name, [number] * TRAYS, **more)

    def move(self, number: int | None, *trays: int) -> None:
        """Let these trays, or all of them, register with another fabric; None: the registration fails."""
        for tray in trays or range(TRAYS):
            self.fabrics[tray] = number
            self.states[tray] = "ok" if number is not None else "degraded"

    def nodes(self) -> list[NodeFacts]:
        """Its nodes."""
        chassis = f"chassis-{self.name}" if self.chassis is None else self.chassis
        nodes = []
        for tray, number in enumerate(self.fabrics):
            name = f"{self.name}-t{tray}"
            labels = {
                "rack": self.name,
                GPUS: "4",
                NVLINK_DOMAIN: name if number is None else fabric(number, self.clique),
            }
            state = self.states.get(tray, "ok")
            nodes.append(gpu_node(name, labels, chassis=chassis, state=state))
        return nodes


class Cluster:
    """Racks, and what a controller with the default grace period says of them over time."""

    def __init__(self, *racks: Rack) -> None:
        self.racks = racks
        self.history = History()
        self.paths: set[str] = set()
        """The levels of each look."""
        self.healthy: list[str] = []
        """The status of `FabricHealthy` in each look."""
        self.look()

    def nodes(self) -> list[NodeFacts]:
        """Those of all racks."""
        nodes = []
        for rack in self.racks:
            nodes += rack.nodes()
        return nodes

    def look(self, after: float = 1.0) -> None:
        """Let the controller look `after` seconds later."""
        self.history.look(self.nodes(), after)
        self.paths.add(self.history.status["levelPath"])
        status = self.history.condition("FabricHealthy")["status"]
        self.healthy.append(status)

    @property
    def events(self) -> list[str]:
        """The notes of all Events so far."""
        return [event.note for event in self.history.events]

    @property
    def rebuild_events(self) -> list[str]:
        """Those about rebuilt fabrics."""
        notes = []
        for note in self.events:
            if "was rebuilt" in note:
                notes.append(note)
        return notes

    @property
    def message(self) -> str:
        """The message of FabricHealthy."""
        return self.history.message("FabricHealthy")

    @property
    def fabric(self) -> dict[str, Any]:
        """What the status says of fabrics."""
        found: dict[str, Any] = self.history.status["fabric"]
        return found

    @property
    def rebuilds(self) -> list[tuple[str, str, int]]:
        """The rebuilds in the status."""
        rebuilds = []
        for entry in self.fabric.get("rebuilds", ()):
            rebuilds.append((entry["from"], entry["to"], entry["nodes"]))
        return rebuilds

    def is_calm(self) -> bool:
        """Whether no level came or went, and no fabric was ever reported as broken."""
        return len(self.paths) == 1 and set(self.healthy) == {"True"}


def uuid(number: int) -> str:
    """The cluster UUID of a fabric's number."""
    return fabric(number).partition(".")[0]


def rebuilt(before: int, after: int, nodes: int = TRAYS, chassis: str = "chassis-r1") -> str:
    """The note of the Event."""
    from_uuid = uuid(before)
    to_uuid = uuid(after)
    said = f"The NVLink fabric of chassis {chassis} was rebuilt: cluster UUID {from_uuid} became {to_uuid}"
    return f"{said} on {nodes} nodes"


def rebuilt_in_part(nodes: int, left: str) -> str:
    """The note of an Event of which some nodes stayed in fabric 1."""
    return f"{rebuilt(1, 9, nodes)}; {left} not in the new one"


def rebuilt_without_chassis(before: int, after: int, nodes: int) -> str:
    """The note of an Event where NVML knows no serial number."""
    from_uuid = uuid(before)
    to_uuid = uuid(after)
    return f"An NVLink fabric was rebuilt: cluster UUID {from_uuid} became {to_uuid} on {nodes} nodes"


NOTE_1_TO_9 = rebuilt(1, 9)
FROM_1_TO_9 = (uuid(1), uuid(9), TRAYS)


def test_a_rack_that_moves_at_once_is_rebuilt() -> None:
    rack = Rack.of("r1", 1)
    neighbour = Rack.of("r2", 2)
    cluster = Cluster(rack, neighbour)
    rack.move(9)
    cluster.look()
    cluster.look(AFTER_GRACE)
    assert cluster.events == [NOTE_1_TO_9]
    (rebuild,) = cluster.fabric["rebuilds"]
    assert rebuild["chassis"] == ["chassis-r1"]
    assert cluster.is_calm()


@pytest.mark.regression
def test_a_rack_that_moves_node_by_node_is_rebuilt_once_the_last_has_moved() -> None:
    rack = Rack.of("r1", 1)
    neighbour = Rack.of("r2", 2)
    cluster = Cluster(rack, neighbour)
    for tray in range(TRAYS - 1):
        rack.move(9, tray)
        cluster.look(30)
        assert cluster.events == []
        said = cluster.message
        assert f"being rebuilt, no fault: the NVLink fabric of chassis chassis-r1: {tray + 1} node" in said
    rack.move(9, TRAYS - 1)
    cluster.look(30)
    cluster.look(AFTER_GRACE)
    assert cluster.events == [NOTE_1_TO_9]
    assert cluster.is_calm()


def test_waves_longer_apart_than_the_grace_period_are_one_event() -> None:
    rack = Rack.of("r1", 1)
    neighbour = Rack.of("r2", 2)
    cluster = Cluster(rack, neighbour)
    for wave in ((0, 1), (2, 3), (4, 5)):
        rack.move(9, *wave)
        cluster.look()
        cluster.look(AFTER_GRACE)
    note = rebuilt_in_part(2, "4 nodes are")
    assert cluster.events == [note]
    assert cluster.rebuilds == [FROM_1_TO_9]
    assert cluster.is_calm()


def test_half_a_rack_that_moves_for_good_is_rebuilt_in_part() -> None:
    rack = Rack.of("r1", 1)
    cluster = Cluster(rack)
    rack.move(9, 0, 1, 2)
    cluster.look()
    cluster.look(GRACE - 1)
    assert cluster.events == []
    deadline = cluster.history.memory.next_deadline(GRACE, cluster.history.now)
    assert deadline == 1.0
    cluster.look(2)
    note = rebuilt_in_part(3, "3 nodes are")
    assert cluster.events == [note]
    (rebuild,) = cluster.fabric["rebuilds"]
    assert rebuild["left"] == 3
    assert cluster.is_calm()
    assert "partitions, not faults: chassis chassis-r1" in cluster.message


def test_nodes_that_go_back_before_the_others_moved_are_no_rebuild() -> None:
    rack = Rack.of("r1", 1)
    neighbour = Rack.of("r2", 2)
    cluster = Cluster(rack, neighbour)
    rack.move(9, 0, 1)
    cluster.look(30)
    rack.move(1, 0)
    cluster.look(30)
    rack.move(1, 1)
    cluster.look(30)
    cluster.look(AFTER_GRACE)
    assert cluster.events == []
    assert cluster.rebuilds == []
    assert cluster.is_calm()


def test_nodes_that_go_back_after_their_move_are_another_rebuild() -> None:
    rack = Rack.of("r1", 1)
    cluster = Cluster(rack)
    rack.move(9, 0, 1, 2)
    cluster.look()
    cluster.look(AFTER_GRACE)
    rack.move(1)
    cluster.look()
    cluster.look(AFTER_GRACE)
    there = rebuilt_in_part(3, "3 nodes are")
    back = rebuilt(9, 1)
    assert cluster.events == [there, back]
    assert cluster.is_calm()


def test_rack_that_moves_there_and_back_and_there_is_rebuilt_thrice() -> None:
    rack = Rack.of("r1", 1)
    neighbour = Rack.of("r2", 2)
    cluster = Cluster(rack, neighbour)
    for number in (9, 1, 9):
        rack.move(number)
        cluster.look(30)
    assert cluster.events == [rebuilt(1, 9), rebuilt(9, 1), rebuilt(1, 9)]
    assert cluster.rebuilds == [FROM_1_TO_9]
    assert cluster.is_calm()


def test_a_second_rebuild_in_the_middle_of_one_is_one_from_first_to_last() -> None:
    rack = Rack.of("r1", 1)
    cluster = Cluster(rack)
    rack.move(8, 0, 1)
    cluster.look(30)
    rack.move(9)
    cluster.look(30)
    assert cluster.events == [NOTE_1_TO_9]
    assert cluster.is_calm()


@pytest.mark.regression
def test_trays_without_a_fabric_on_their_way_make_no_split() -> None:
    rack = Rack.of("r1", 1)
    neighbour = Rack.of("r2", 2)
    cluster = Cluster(rack, neighbour)
    rack.move(9, 0, 1)
    cluster.look(30)
    rack.move(None, 2, 3)
    cluster.look(30)
    condition = cluster.history.condition("FabricHealthy")
    assert condition["status"] == "False"
    assert condition["reason"] == "NodesDegraded"
    assert cluster.fabric["splitDomains"] == 0
    assert cluster.fabric["smallDomains"] == 0
    rack.move(9)
    cluster.look(30)
    assert len(cluster.paths) == 1
    assert cluster.events[-1] == NOTE_1_TO_9
    assert cluster.rebuild_events == [NOTE_1_TO_9]


def test_rack_without_a_fabric_is_rebuilt_when_it_has_another() -> None:
    rack = Rack.of("r1", 1)
    neighbour = Rack.of("r2", 2)
    cluster = Cluster(rack, neighbour)
    rack.move(None)
    cluster.look(30)
    rack.move(9, 0, 1, 2)
    cluster.look(30)
    assert cluster.fabric["splitDomains"] == 0
    rack.move(9)
    cluster.look(30)
    assert cluster.rebuild_events == [NOTE_1_TO_9]
    assert len(cluster.paths) == 1


def test_tray_left_without_a_fabric_is_a_split_after_the_grace_period() -> None:
    rack = Rack.of("r1", 1)
    neighbour = Rack.of("r2", 2)
    cluster = Cluster(rack, neighbour)
    rack.move(9, 0, 1, 2, 3, 4)
    rack.move(None, 5)
    cluster.look()
    assert cluster.fabric["splitDomains"] == 0
    cluster.look(AFTER_GRACE)
    assert cluster.fabric["splitDomains"] == 1
    assert rebuilt_in_part(5, "1 node is") in cluster.events


@pytest.mark.regression
def test_a_domain_that_spans_racks_is_one_event() -> None:
    first, second = Rack.of("r1", 1), Rack.of("r2", 1)
    cluster = Cluster(first, second)
    for rack in (first, second):
        for tray in range(TRAYS):
            rack.move(9, tray)
            cluster.look(10)
    assert cluster.events == [rebuilt(1, 9, nodes=2 * TRAYS, chassis="chassis-r1, chassis-r2")]
    assert cluster.is_calm()
    assert cluster.paths == {"zone > block > nvlink-domain > rack > host"}


def test_racks_that_become_domains_of_their_own_are_an_event_each() -> None:
    first = Rack.of("r1", 1)
    second = Rack.of("r2", 1)
    cluster = Cluster(first, second)
    first.move(8)
    second.move(9)
    cluster.look()
    assert cluster.events == [
        rebuilt(1, 8),
        rebuilt(1, 9, chassis="chassis-r2"),
    ]
    assert cluster.is_calm()


def test_racks_that_become_one_domain_are_an_event_each() -> None:
    first = Rack.of("r1", 1)
    second = Rack.of("r2", 2)
    cluster = Cluster(first, second)
    first.move(9)
    second.move(9)
    cluster.look()
    assert cluster.events == [
        rebuilt(1, 9),
        rebuilt(2, 9, chassis="chassis-r2"),
    ]
    assert cluster.is_calm()


def test_of_two_fabrics_in_one_chassis_each_goes_its_own_way() -> None:
    rack = Rack("r1", [1, 1, 1, 2, 2, 2])
    cluster = Cluster(rack)
    assert cluster.events == []
    rack.move(8, 0, 1, 2)
    rack.move(9, 3, 4, 5)
    cluster.look()
    assert cluster.events == [
        rebuilt(1, 8, nodes=3),
        rebuilt(2, 9, nodes=3),
    ]
    assert cluster.is_calm()


def test_one_of_two_fabrics_in_a_chassis_is_rebuilt() -> None:
    rack = Rack("r1", [1, 1, 1, 2, 2, 2])
    cluster = Cluster(rack)
    for tray in range(3):
        rack.move(8, tray)
        cluster.look(10)
    assert cluster.events == [rebuilt(1, 8, nodes=3)]
    assert cluster.is_calm()


def test_another_clique_of_the_same_fabric_is_a_partition_and_no_rebuild() -> None:
    rack = Rack.of("r1", 1)
    cluster = Cluster(rack)
    rack.clique = 4
    cluster.look()
    cluster.look(AFTER_GRACE)
    assert cluster.events == []
    assert cluster.is_calm()


def test_a_machine_that_moves_to_another_rack_rebuilds_neither() -> None:
    """dra-driver-nvidia-gpu#1453: the node keeps its name."""
    cluster = Cluster(Rack.of("r1", 1), Rack.of("r2", 2))
    labels = {
        "rack": "r2",
        GPUS: "4",
        NVLINK_DOMAIN: fabric(2, 0),
    }
    nodes = [gpu_node("r1-t0", labels, chassis="chassis-r2")]
    for node in cluster.nodes():
        if node.name != "r1-t0":
            nodes.append(node)
    cluster.history.look(nodes, 1)
    cluster.history.look(nodes, AFTER_GRACE)
    assert cluster.rebuilds == []
    assert cluster.rebuild_events == []


def test_new_fabric_without_a_chassis_is_a_rebuild_and_a_known_one_is_not() -> None:
    first = Rack.of("r1", 1, chassis="")
    second = Rack.of("r2", 2, chassis="")
    cluster = Cluster(first, second)
    first.move(2, 0)
    cluster.look(30)
    cluster.look(AFTER_GRACE)
    assert cluster.rebuild_events == []
    second.move(9)
    first.move(9, 0)
    cluster.look(30)
    assert cluster.events[-1] == rebuilt_without_chassis(2, 9, TRAYS + 1)


def test_without_a_chassis_nodes_that_move_one_by_one_are_one_event_too() -> None:
    rack = Rack.of("r1", 1, chassis="")
    neighbour = Rack.of("r2", 2, chassis="")
    cluster = Cluster(rack, neighbour)
    for tray in range(TRAYS):
        rack.move(9, tray)
        cluster.look(30)
    note = rebuilt_without_chassis(1, 9, TRAYS)
    assert cluster.events == [note]
    assert cluster.is_calm()


def test_a_controller_that_starts_in_the_middle_reports_the_whole() -> None:
    rack = Rack.of("r1", 1)
    cluster = Cluster(rack)
    rack.move(9, 0, 1, 2)
    cluster.look(30)
    cluster.history.restart()
    cluster.look(30)
    rack.move(9)
    cluster.look(30)
    assert cluster.events == [NOTE_1_TO_9]
    assert cluster.is_calm()


def test_a_controller_that_starts_after_the_event_does_not_repeat_it() -> None:
    rack = Rack.of("r1", 1)
    cluster = Cluster(rack)
    rack.move(9, 0, 1, 2)
    cluster.look()
    cluster.look(AFTER_GRACE)
    assert len(cluster.events) == 1
    cluster.history.restart()
    cluster.look(30)
    rack.move(9)
    cluster.look(30)
    cluster.look(AFTER_GRACE)
    assert len(cluster.events) == 1
    assert cluster.rebuilds == [FROM_1_TO_9]


def test_findings_that_wait_for_their_turn_keep_a_stored_rebuild() -> None:
    rack = Rack.of("r1", 1)
    cluster = Cluster(rack)
    rack.move(9)
    cluster.look()
    stored = cluster.history.status
    cluster.history.restart()
    evidence = Evidence(table_of(rack.nodes()))
    for status in (stored, {}):
        seen = topology(status)
        assessment = assess(seen, evidence, Memory())
        findings = Findings(seen, Resolved(), Demand(), assessment, Memory())
        waiting = findings.without_nodes().assessment
        kept = assessed_status(seen, assessment, [], START, [])
        kept_waiting = assessed_status(seen, waiting, [], START, [])
        assert kept_waiting == kept
        has_rebuilds = bool(kept["fabric"].get("rebuilds"))
        assert has_rebuilds == bool(status)


def test_a_status_lists_five_of_many_rebuilds_and_each_has_its_event_once() -> None:
    racks = [Rack.of(f"r{number:02}", number) for number in range(1, 13)]
    cluster = Cluster(*racks)
    for number, rack in enumerate(racks):
        rack.move(100 + number)
    cluster.look()
    before = cluster.history.status
    cluster.look(AFTER_GRACE)
    assert cluster.history.status == before
    assert len(cluster.events) == len(racks) == len(set(cluster.events))
    assert len(cluster.rebuilds) == MOST_REBUILDS
    assert cluster.is_calm()


def test_a_rebuild_leaves_the_status_with_the_fabric() -> None:
    rack = Rack.of("r1", 1)
    neighbour = Rack.of("r2", 2)
    cluster = Cluster(rack, neighbour)
    rack.move(8)
    cluster.look()
    rack.move(9)
    cluster.look()
    from_8_to_9 = (uuid(8), uuid(9), TRAYS)
    assert cluster.rebuilds == [from_8_to_9]
    assert cluster.events == [
        rebuilt(1, 8),
        rebuilt(8, 9),
    ]


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({"rebuilds": 7}, id="number-of-rebuilds"),
        pytest.param({"rebuilds": [{"from": 1}]}, id="number-as-uuid"),
        pytest.param({"rebuilds": [{}]}, id="empty-rebuild"),
        pytest.param(7, id="number"),
    ],
)
def test_a_status_that_somebody_garbled_is_written_anew(broken: Any) -> None:
    rack = Rack.of("r1", 1)
    cluster = Cluster(rack)
    cluster.history.status = {
        **cluster.history.status,
        "fabric": broken,
    }
    rack.move(9)
    cluster.look()
    assert cluster.rebuilds == [FROM_1_TO_9]


def test_while_nothing_moves_no_node_is_looked_at() -> None:
    history = FabricHistory()
    nodes = Rack.of("r1", 1).nodes()
    assert history.observe(Table(nodes)) == ()

    class Unread(dict[str, NodeFacts]):
        def values(self) -> Any:  # a table reads its nodes by this
            raise AssertionError("the nodes were read")

    again = Table(nodes)
    _ = again.machines
    again._nodes = Unread(again._nodes)
    assert history.observe(again) == ()


def test_rebuilds_are_those_of_the_selected_nodes() -> None:
    first = Rack.of("r1", 1)
    second = Rack.of("r2", 2)
    cluster = Cluster(first, second)
    match_labels = {"cloud.google.com/gce-topology-subblock": "r2"}
    cluster.history.spec = {"nodeSelector": {"matchLabels": match_labels}}
    cluster.look()
    first.move(8)
    cluster.look()
    assert cluster.events == []
    second.move(9)
    cluster.look()
    note = rebuilt(2, 9, chassis="chassis-r2")
    assert cluster.events == [note]


def numbers(status: Mapping[str, Any]) -> dict[str, int]:
    """How many domains each level of a status has, in their order."""
    domains = {}
    for level in status["levels"]:
        domains[level["domain"]] = level["domains"]
    return domains


def test_the_levels_of_a_rack_in_two_fabrics_are_those_of_before() -> None:
    rack = Rack.of("r1", 1)
    neighbour = Rack.of("r2", 2)
    cluster = Cluster(rack, neighbour)
    before = numbers(cluster.history.status)
    rack.move(9, 0, 1, 2)
    cluster.look()
    middle = numbers(cluster.history.status)
    rack.move(9)
    cluster.look()
    after = numbers(cluster.history.status)
    assert list(after.items()) == list(before.items())
    assert list(middle) == list(before)
    assert cluster.history.condition("HierarchyConsistent")["status"] == "True"


@pytest.fixture
def controller(api: ApiUnderTest, clients: Clients, time: Time) -> Iterator[Controller]:
    """A controller that has written the status of a rack in fabric 1."""
    share_crd(api)
    client = clients()
    for node in Rack.of("r1", 1).nodes():
        make_node(
            api,
            node.name,
            {
                GPUS: "4",
                NVLINK_DOMAIN: fabric(1),
                CHASSIS: "chassis-r1",
                STATE: "ok",
            },
        )
    make_topology(api)
    reconciler = Reconciler(Wiring(client, runtime=time))
    with running(controller_of(client, reconciler)) as started:
        wait_until(lambda: status_of(api).get("nodes") == TRAYS, "a status")
        yield started


def test_the_api_server_takes_the_status_and_has_one_event(api: ApiUnderTest, controller: Controller) -> None:
    for tray in range(TRAYS):
        relabel(api, f"r1-t{tray}", {NVLINK_DOMAIN: fabric(9)})
    wait_until(lambda: "rebuilds" in status_of(api)["fabric"], "the rebuild is in the status")
    (rebuild,) = status_of(api)["fabric"]["rebuilds"]
    assert rebuild["from"] == uuid(1)
    assert rebuild["to"] == uuid(9)
    assert rebuild["nodes"] == TRAYS
    wait_until(lambda: notes(api) != [], "the Event is there")
    relabel(api, "r1-t0", {"example.com/any": "change"})
    controller.wake()
    wait_until(lambda: controller.ready() == "", "another pass")
    assert notes(api) == [NOTE_1_TO_9]


def notes(api: ApiUnderTest) -> list[str]:
    """The notes of the Events about rebuilt fabrics."""
    events = api.get("/apis/events.k8s.io/v1/events")["items"]
    about_rebuilds = []
    for event in events:
        if event["reason"] == "FabricRebuilt":
            about_rebuilds.append(event["note"])
    return about_rebuilds
