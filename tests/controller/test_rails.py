"""Rails that end in the wrong switch: found among simulated nodes, and nothing else."""

import random
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.support.cluster import History, gpu_node, topology
from tests.support.tables import each_row, says
from toposcope.api.label_keys import LEAF_GROUP
from toposcope.controller.assess.rails import Rails, expected_switches
from toposcope.controller.events import rail_events
from toposcope.controller.memory import Memory
from toposcope.hardware.leaves import leaf_labels
from toposcope.hardware.rails import Miscabled, Rail, Switch
from toposcope.hierarchy.node import NodeFacts

GRACE = 601.0


class Fabric(msgspec.Struct, forbid_unknown_fields=True):
    """Nodes, their cables, and what is said of them."""

    case: str = ""
    nodes: int = 64
    rails: int = 8
    unit: int = 32
    racks: bool = False
    cables: list[str] = []
    down: list[int] = []
    names: dict[str, str] = {}
    wrong: list[str] = []
    shared: dict[str, int] = {}
    known: bool = True
    message: str = "*"

    def facts(self) -> list[NodeFacts]:
        cabled: list[list[str | None]] = [
            [f"u{i // self.unit}" + ("" if self.racks else f"r{rail}") for rail in range(self.rails)]
            for i in range(self.nodes)
        ]
        for cable in self.cables:
            nodes, rail, leaf = cable.split()
            first, _, last = nodes.partition("-")
            for i in range(int(first), int(last or first) + 1):
                cabled[i][int(rail)] = None if leaf == "-" else leaf
        return [self._node(i, leaves) for i, leaves in enumerate(cabled)]

    def _node(self, i: int, leaves: list[str | None]) -> NodeFacts:
        node = gpu_node(f"n{i}", ready=i not in self.down)
        switches = tuple(
            [
                None if leaf is None else Switch(self.names.get(leaf, self.names.get(leaf[2:], leaf)), f"id:{leaf}")
                for leaf in leaves
            ]
        )
        ports = tuple([(f"mlx5_{rail}", f"Ethernet1/{i}") if leaf else None for rail, leaf in enumerate(leaves)])
        return replace(node, traits=node.traits._replace(switches=switches), ports=ports)


def told(found: Rails) -> list[str]:
    """As in the table."""
    return [f"{cable.node[1:]} {cable.nic[-1]} {cable.switch} {cable.expected}" for cable in found.miscabled]


@each_row("rails.yaml", Fabric, ids=lambda row: row.case)
def test_what_is_said_of_a_fabric_that_lasts(row: Fabric) -> None:
    history = History()
    nodes = row.facts()
    assert history.look(nodes).rails.miscabled == ()
    found = history.look(nodes, after=GRACE).rails
    assert sorted(told(found)) == sorted(row.wrong)
    said = history.condition("RailsConsistent")
    reason = "RailsMiscabled" if row.wrong else "SwitchNamesNotUnique" if row.shared else "RailsMeetPeers"
    expected = (str(reason == "RailsMeetPeers"), reason) if row.known else ("Unknown", "NoRails")
    assert (said["status"], said["reason"]) == expected
    assert says(said["message"], row.message), said["message"]
    shared = {name["name"]: name["switches"] for name in history.status.get("rails", {}).get("sharedNames", ())}
    assert shared == dict([*row.shared.items()][:10])
    for cable in found.miscabled[:10]:
        port = f"Ethernet1/{cable.node[1:]}"
        assert (
            f"{cable.nic} of {cable.node} goes to {cable.switch} port {port}, expected {cable.expected}"
            in said["message"]
        )
        assert cable.uid == f"uid-{cable.node}"
    ready = history.condition("Ready")
    assert "Rails" not in ready["message"]
    history.restart()
    before = history.status
    history.look(nodes)
    assert len(row.wrong) > 10 or history.status == before  # a status has no memory of more


@pytest.mark.parametrize("seed", range(20))
def test_planted_miscablings_are_found_and_nothing_else(seed: int) -> None:
    rng = random.Random(seed)
    planted = {
        (node, rail): f"u{rng.randrange(4)}r{(rail + rng.randrange(1, 8)) % 8}"
        for node in rng.sample(range(128), 12)
        for rail in rng.sample(range(8), rng.randint(1, 3))
    }
    unknown = [f"{node} {rng.randrange(8)} -" for node in rng.sample(range(128), 20)]
    fabric = Fabric(nodes=128, cables=[*unknown, *(f"{node} {rail} {leaf}" for (node, rail), leaf in planted.items())])
    nodes = fabric.facts()
    rng.shuffle(nodes)
    history = History()
    history.look(nodes)
    expected = [f"{node} {rail} {leaf} u{node // 32}r{rail}" for (node, rail), leaf in planted.items()]
    assert sorted(told(history.look(nodes, after=GRACE).rails)) == sorted(expected)
    assert len(history.status["rails"]["miscabled"]) == 10


def test_a_finding_needs_the_grace_period_without_a_break_and_survives_a_restart() -> None:
    sound, wrong, gone = (Fabric(cables=cables).facts() for cables in ([], ["3 2 x"], ["3 2 -"]))
    history = History(gracePeriod="10m")
    for nodes in (wrong, wrong, gone, wrong, wrong):
        assert history.look(nodes, after=300.0).rails.miscabled == ()
        assert history.condition("RailsConsistent")["status"] == "True"
    assert told(history.look(wrong, after=301.0).rails) == ["3 2 x u0r2"]
    history.restart()
    assert told(history.look(wrong).rails) == ["3 2 x u0r2"]
    assert history.status["rails"] == {
        "nodes": 64,
        "miscabledRails": 1,
        "miscabled": [{"node": "n3", "nic": "mlx5_2", "switch": "x", "port": "Ethernet1/3", "expected": "u0r2"}],
    }
    assert history.look(sound).rails.miscabled == ()
    assert history.condition("RailsConsistent")["reason"] == "RailsMeetPeers"
    history.look([])
    assert history.condition("RailsConsistent")["reason"] == "NoRails"


def test_a_node_with_a_wrong_cable_is_a_group_by_itself_and_renames_no_other() -> None:
    groups = []
    for cables in ([], ["3 2 u1r2"]):
        nodes = []
        for fact in Fabric(cables=cables).facts():
            rails = [switch and Rail(f"mlx5_{i}", *switch) for i, switch in enumerate(fact.traits.switches)]
            nodes.append(gpu_node(fact.name, {"block": None, "rack": None, **leaf_labels(rails)}))
        found = History().look(nodes)
        assert found.effective.path == "zone > leaf-group > nvlink-domain > host"
        groups.append({node.name: node.label(LEAF_GROUP) for node in nodes})
    sound, wrong = groups
    assert [len({*group.values()}) for group in groups] == [2, 3]
    assert {name for name in sound if sound[name] != wrong[name]} == {"n3"}


def test_an_event_on_the_node_is_due_once() -> None:
    found = Rails(1, (Miscabled("n3", "uid-n3", "mlx5_2", "x", "", "u0r2"),))
    (due,) = rail_events(topology(), found)
    assert due.regarding == {"apiVersion": "v1", "kind": "Node", "name": "n3", "uid": "uid-n3"}
    assert (due.warning, due.reason, due.note) == (True, "RailsMiscabled", "mlx5_2 of n3 goes to x, expected u0r2")
    known: dict[str, Any] = {"node": "n3", "nic": "mlx5_2", "switch": "x", "port": "p", "expected": "u0r2"}
    status = {"rails": {"nodes": 1, "miscabledRails": 1, "miscabled": [known]}}
    assert rail_events(topology(status), found) == []


def test_a_single_look_does_not_wait() -> None:
    history = History()
    history.memory = Memory(single_look=True)
    assert told(history.look(Fabric(cables=["3 2 x"]).facts()).rails) == ["3 2 x u0r2"]


def test_of_many_sets_that_differ_those_of_most_nodes_are_compared_and_of_few_nodes_always_the_same() -> None:
    kinds: dict[tuple[str | None, ...], int] = {("leaf", f"x{i}", "z"): 1 for i in range(500)}
    kinds |= {("leaf", "x0"): 1, ("leaf", "y"): 2}  # which have fewer rails
    usual = ("leaf", "y", "z")
    assert expected_switches(kinds | {usual: 1000}) == {kind: {1: "y"} for kind in kinds if len(kind) > 2}
    odd = ("l0", "l1", "w", "q")
    kinds = {("l0", "l1", "ab"[i % 2], f"q{i}"): 1 for i in range(200)}
    kinds[odd] = 1
    assert expected_switches(kinds)[odd] == expected_switches(dict(reversed(kinds.items())))[odd] == {2: "a"}
    # Nor is a rail wrong that is not known.
    assert expected_switches({("a", "b", "c"): 10, (None, "b", "c"): 1}) == {}
