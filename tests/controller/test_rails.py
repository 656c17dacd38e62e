"""Rails that end in the wrong switch: found among simulated nodes, and nothing else."""

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from tests.support.cluster import History, gpu_node, topology
from tests.support.tables import says
from toposcope.api.label_keys import LEAF_GROUP
from toposcope.controller.assess.rails import Rails, expected_switches
from toposcope.controller.events import rail_events
from toposcope.hardware.leaves import leaf_labels
from toposcope.hardware.rails import LeafSwitch, Miscabled, Rail
from toposcope.hierarchy.node import NodeFacts

GRACE = 601.0
"""Seconds that a finding lasts before it is told."""
MEETS_PEERS = ("True", "RailsMeetPeers")
MISCABLED = ("False", "RailsMiscabled")


class Fabric:
    """Nodes n0, n1, ... of which `nodes_per_unit` in a row share leaves, and their cables.

    Rail 2 of the first unit ends in the leaf `u0r2`; where a rack has one leaf, all its rails end in `u0`.
    """

    def __init__(
        self,
        nodes: int = 64,
        rails: int = 8,
        nodes_per_unit: int = 32,
        *,
        leaf_per_rack: bool = False,
    ) -> None:
        self.not_ready: set[int] = set()
        self.names: dict[str, str] = {}
        """Names of switches where they are not the leaf's."""
        self._leaves: list[list[str | None]] = []
        for number in range(nodes):
            unit = f"u{number // nodes_per_unit}"
            leaves: list[str | None] = []
            for rail in range(rails):
                leaves.append(unit if leaf_per_rack else f"{unit}r{rail}")
            self._leaves.append(leaves)

    def cable(self, nodes: int | Iterable[int], rail: int, leaf: str | None) -> None:
        """Have a rail of nodes end in a leaf; None: in one that is not known."""
        numbers = [nodes] if isinstance(nodes, int) else nodes
        for number in numbers:
            self._leaves[number][rail] = leaf

    def nodes(self) -> list[NodeFacts]:
        nodes = []
        for number, leaves in enumerate(self._leaves):
            nodes.append(self._node(number, leaves))
        return nodes

    def _node(self, number: int, leaves: list[str | None]) -> NodeFacts:
        node = gpu_node(f"n{number}", is_ready=number not in self.not_ready)
        switches: list[LeafSwitch | None] = []
        ports: list[tuple[str, str] | None] = []
        for rail, leaf in enumerate(leaves):
            if leaf is None:
                switches.append(None)
                ports.append(None)
            else:
                name = self.names.get(leaf, leaf)
                switches.append(LeafSwitch(name, f"id:{leaf}"))
                ports.append((f"mlx5_{rail}", f"Ethernet1/{number}"))
        traits = node.traits._replace(switches=tuple(switches))
        return replace(node, traits=traits, ports=tuple(ports))


Wrong = tuple[int, int, str, str]
"""Node, rail, the switch found, the switch expected."""


def wrong_cables(rails: Rails) -> list[Wrong]:
    wrong = []
    for cable in rails.miscabled:
        number = int(cable.node.removeprefix("n"))
        rail = int(cable.nic.removeprefix("mlx5_"))
        wrong.append((number, rail, cable.switch, cable.expected))
    return sorted(wrong)


def verdict(history: History) -> tuple[str, str]:
    """Status and reason of RailsConsistent."""
    return history.verdict("RailsConsistent")


def message_of(history: History) -> str:
    """The message of RailsConsistent."""
    return history.message("RailsConsistent")


def lasting(history: History, fabric: Fabric) -> Rails:
    """What is found of a fabric that stays as it is, and told in the condition."""
    nodes = fabric.nodes()
    assert history.look(nodes).rails.miscabled == ()
    rails = history.look(nodes, after=GRACE).rails
    message = message_of(history)
    for cable in rails.miscabled[:10]:
        number = cable.node.removeprefix("n")
        found = f"{cable.nic} of {cable.node} goes to {cable.switch} port Ethernet1/{number}"
        assert f"{found}, expected {cable.expected}" in message
        assert cable.uid == f"uid-{cable.node}"
    assert "Rails" not in history.message("Ready")
    return rails


def check_restart_changes_nothing(history: History, fabric: Fabric) -> None:
    """Where the status has room for all findings: it has no memory of more than ten."""
    before = history.status
    history.restart()
    history.look(fabric.nodes())
    assert history.status == before


def shared_names(history: History) -> dict[str, int]:
    """Names of several switches in the status, with how many have them."""
    rails = history.status.get("rails", {})
    shared = {}
    for entry in rails.get("sharedNames", ()):
        shared[entry["name"]] = entry["switches"]
    return shared


def check_sound(history: History, fabric: Fabric) -> None:
    """No cable is accused."""
    rails = lasting(history, fabric)
    assert wrong_cables(rails) == []
    assert verdict(history) == MEETS_PEERS
    assert shared_names(history) == {}
    check_restart_changes_nothing(history, fabric)


def check_miscabled(history: History, fabric: Fabric, *wrong: Wrong) -> None:
    """These cables are accused, and no others."""
    rails = lasting(history, fabric)
    assert wrong_cables(rails) == sorted(wrong)
    assert verdict(history) == MISCABLED
    assert shared_names(history) == {}
    check_restart_changes_nothing(history, fabric)


@pytest.mark.parametrize(
    "fabric",
    [
        pytest.param(Fabric(), id="rail-optimised"),
        pytest.param(Fabric(nodes_per_unit=8, leaf_per_rack=True), id="leaf-per-rack"),
    ],
)
def test_sound_fabric_meets_its_peers(history: History, fabric: Fabric) -> None:
    check_sound(history, fabric)
    expected = "Every rail with a known switch is cabled to the same switch as its peers"
    assert message_of(history) == expected


def test_rails_in_wrong_leaves_are_found(history: History) -> None:
    """In another rail's leaf, in another unit's, in a leaf of their own, and swapped."""
    fabric = Fabric()
    fabric.cable(3, 2, "u0r5")
    fabric.cable(40, 7, "u0r7")
    fabric.cable(41, 0, "x")
    fabric.cable(9, 0, "u0r1")
    fabric.cable(9, 1, "u0r0")
    check_miscabled(
        history,
        fabric,
        (3, 2, "u0r5", "u0r2"),
        (40, 7, "u0r7", "u1r7"),
        (41, 0, "x", "u1r0"),
        (9, 0, "u0r1", "u0r0"),
        (9, 1, "u0r0", "u0r1"),
    )


def test_nics_in_the_leaf_of_the_next_rack_are_found(history: History) -> None:
    fabric = Fabric(nodes_per_unit=8, leaf_per_rack=True)
    fabric.cable(3, 2, "u1")
    for rail in range(3):
        fabric.cable(63, rail, "u6")
    check_miscabled(
        history,
        fabric,
        (3, 2, "u1", "u0"),
        (63, 0, "u6", "u7"),
        (63, 1, "u6", "u7"),
        (63, 2, "u6", "u7"),
    )


@pytest.mark.parametrize("count", [3, 5])
def test_few_nodes_of_a_unit_in_one_wrong_leaf_are_found(history: History, count: int) -> None:
    fabric = Fabric()
    fabric.cable(range(count), 2, "x")
    wrong: list[Wrong] = []
    for number in range(count):
        wrong.append((number, 2, "x", "u0r2"))
    check_miscabled(history, fabric, *wrong)


def test_of_two_nics_either_may_be_the_wrong_one(history: History) -> None:
    fabric = Fabric(rails=2)
    fabric.cable(3, 0, "u1r0")
    check_miscabled(
        history,
        fabric,
        (3, 0, "u1r0", "u0r0"),
        (3, 1, "u0r1", "u1r1"),
    )


def test_three_nics_of_which_two_are_elsewhere_accuse_none(history: History) -> None:
    """Only half of the others agree."""
    fabric = Fabric(rails=3)
    fabric.cable(3, 1, "x")
    fabric.cable(3, 2, "y")
    check_sound(history, fabric)


def test_unknown_neighbours_accuse_nobody_and_hide_nothing(history: History) -> None:
    fabric = Fabric()
    fabric.cable(range(32), 0, None)
    fabric.cable(range(1, 64), 3, None)
    fabric.cable(range(5, 10), 4, None)
    fabric.cable(range(10, 30), 2, None)
    fabric.cable(3, 2, "u0r5")
    check_miscabled(history, fabric, (3, 2, "u0r5", "u0r2"))


def test_node_of_which_most_rails_are_unknown_has_no_peers(history: History) -> None:
    fabric = Fabric()
    for rail in (0, 1, 3, 4):
        fabric.cable(3, rail, None)
    fabric.cable(3, 2, "x")
    check_sound(history, fabric)


def test_node_of_which_half_the_rails_are_known_has_peers(history: History) -> None:
    fabric = Fabric()
    for rail in (0, 1, 3):
        fabric.cable(3, rail, None)
    fabric.cable(3, 2, "x")
    check_miscabled(history, fabric, (3, 2, "x", "u0r2"))
    assert says(
        message_of(history),
        "1 rail is cabled to another switch than its peers: *; "
        "move these cables, or all cables of a node that belongs elsewhere",
    )


def test_peers_that_each_lack_another_rail_are_counted_together(history: History) -> None:
    fabric = Fabric(nodes=5)
    fabric.cable(0, 0, None)
    fabric.cable(1, 1, None)
    fabric.cable(2, 3, None)
    fabric.cable(3, 4, None)
    fabric.cable(4, 2, "x")
    check_miscabled(history, fabric, (4, 2, "x", "u0r2"))


def test_unit_of_which_no_leaf_has_most_nodes_is_left_alone(history: History) -> None:
    fabric = Fabric()
    fabric.cable(range(10), 2, "x")
    fabric.cable(range(10, 20), 2, "y")
    check_sound(history, fabric)


@pytest.mark.parametrize("count", [pytest.param(32, id="replaced-leaf"), pytest.param(16, id="half-of-a-unit")])
def test_other_leaf_of_many_nodes_may_be_intended(history: History, count: int) -> None:
    fabric = Fabric()
    fabric.cable(range(count), 2, "x")
    check_sound(history, fabric)


def test_node_with_all_cables_in_another_unit_belongs_there(history: History) -> None:
    fabric = Fabric()
    for rail in range(8):
        fabric.cable(3, rail, f"u1r{rail}")
    check_sound(history, fabric)


def test_small_unit_that_shares_half_its_leaves_with_a_large_one_is_sound(history: History) -> None:
    fabric = Fabric()
    for rail in range(3):
        fabric.cable(range(4), rail, f"c{rail}")
        fabric.cable(range(32, 64), rail, f"c{rail}")
    fabric.cable(range(4, 32), 7, None)
    check_sound(history, fabric)


def test_two_peers_are_too_few(history: History) -> None:
    fabric = Fabric(nodes=3, nodes_per_unit=3)
    fabric.cable(0, 2, "x")
    check_sound(history, fabric)


def test_three_peers_are_enough(history: History) -> None:
    fabric = Fabric(nodes=4, nodes_per_unit=4)
    fabric.cable(0, 2, "x")
    check_miscabled(history, fabric, (0, 2, "x", "u0r2"))


def test_nodes_with_one_nic_are_told_by_no_other_rail(history: History) -> None:
    fabric = Fabric(rails=1)
    fabric.cable(3, 0, "x")
    check_sound(history, fabric)


def test_nodes_that_are_not_ready_neither_accuse_nor_are_accused(history: History) -> None:
    fabric = Fabric(nodes=5, nodes_per_unit=5)
    fabric.not_ready = {0, 4}
    fabric.cable(0, 2, "x")
    fabric.cable(1, 2, "y")
    check_sound(history, fabric)


def test_names_of_several_switches_are_told_with_their_ids(history: History) -> None:
    """Also where one of them is expected."""
    fabric = Fabric()
    fabric.names = {"u0r2": "sonic", "u1r2": "sonic", "u1r3": ""}
    fabric.cable(3, 2, "x")
    fabric.cable(40, 3, "u0r3")
    assert wrong_cables(
        lasting(
            history,
            fabric,
        )
    ) == [
        (
            3,
            2,
            "x",
            "sonic (id:u0r2)",
        ),
        (40, 3, "u0r3", "id:u1r3"),
    ]
    assert verdict(history) == MISCABLED
    assert shared_names(history) == {"sonic": 2}
    assert says(
        message_of(history),
        "2 rails are cabled to other switches than their peers: *; "
        "switches share a name: 2 are called sonic (id:u0r2, id:u1r2); "
        "give each a hostname of its own",
    )
    check_restart_changes_nothing(history, fabric)


def test_names_of_several_switches_are_told_where_cables_are_right(history: History) -> None:
    fabric = Fabric()
    fabric.names = {"u0r2": "sonic", "u1r2": "sonic"}
    rails = lasting(history, fabric)
    assert wrong_cables(rails) == []
    assert verdict(history) == ("False", "SwitchNamesNotUnique")
    assert shared_names(history) == {"sonic": 2}
    check_restart_changes_nothing(history, fabric)


def test_many_findings_are_ten_and_a_number(history: History) -> None:
    fabric = Fabric(nodes=128, rails=12)
    for unit in range(4):
        for rail in range(12):
            fabric.names[f"u{unit}r{rail}"] = f"s{rail}"
    fabric.cable(range(40, 51), 2, "x")
    fabric.cable(3, 0, "x")
    wrong: list[Wrong] = []
    for number in range(40, 51):
        wrong.append((number, 2, "x", "s2 (id:u1r2)"))
    assert wrong_cables(lasting(history, fabric)) == [
        (3, 0, "x", "s0 (id:u0r0)"),
        *wrong,
    ]
    assert verdict(history) == MISCABLED
    first_ten = ["s0", "s1", "s10", "s11", "s2", "s3", "s4", "s5", "s6", "s7"]
    assert shared_names(history) == dict.fromkeys(first_ten, 4)
    assert says(
        message_of(history),
        "12 rails *, mlx5_2 of n48 * and 2 more; move*: 4 are called s0 (id:u0r0, id:u1r0, id:u2r0 and 1 more), *, "
        "4 are called s7 (*) and 2 more; give *",
    )


def test_missing_switch_names_are_not_shared(history: History) -> None:
    fabric = Fabric()
    fabric.names = {"u0r2": "", "u1r2": ""}
    check_sound(history, fabric)


def test_rails_are_unknown_where_nobody_knows_a_switch(history: History) -> None:
    fabric = Fabric(nodes=2, nodes_per_unit=2, rails=1)
    fabric.cable(range(2), 0, None)
    rails = lasting(history, fabric)
    assert wrong_cables(rails) == []
    assert verdict(history) == ("Unknown", "NoRails")
    assert message_of(history) == (
        "No Ready node knows which switches its rails are cabled to; docs/switches.md says how to find out"
    )


def test_rails_are_unknown_where_nobody_looked(history: History) -> None:
    fabric = Fabric(rails=0)
    rails = lasting(history, fabric)
    assert wrong_cables(rails) == []
    assert verdict(history) == ("Unknown", "NoRails")


@pytest.mark.parametrize("seed", range(20))
def test_planted_miscablings_are_found_and_nothing_else(seed: int) -> None:
    rng = random.Random(seed)
    fabric = Fabric(nodes=128)
    wrong_leaves: dict[tuple[int, int], str] = {}
    for number in rng.sample(range(128), 12):
        for rail in rng.sample(range(8), rng.randint(1, 3)):
            wrong_rail = (rail + rng.randrange(1, 8)) % 8
            wrong_unit = rng.randrange(4)
            wrong_leaves[number, rail] = f"u{wrong_unit}r{wrong_rail}"
    for number in rng.sample(range(128), 20):
        fabric.cable(number, rng.randrange(8), None)

    expected: list[Wrong] = []
    for (number, rail), leaf in wrong_leaves.items():
        fabric.cable(number, rail, leaf)
        right_unit = number // 32
        expected.append((number, rail, leaf, f"u{right_unit}r{rail}"))
    nodes = fabric.nodes()
    rng.shuffle(nodes)
    history = History()
    history.look(nodes)
    rails = history.look(nodes, after=GRACE).rails
    assert wrong_cables(rails) == sorted(expected)
    assert len(history.status["rails"]["miscabled"]) == 10


WRONG_RAIL_2 = (3, 2, "x", "u0r2")


def fabric_with(rail_2_of_node_3: str | None) -> Fabric:
    """A sound fabric, but for a rail of one node."""
    fabric = Fabric()
    fabric.cable(3, 2, rail_2_of_node_3)
    return fabric


def test_finding_needs_the_grace_period_without_a_break() -> None:
    wrong = fabric_with("x").nodes()
    unknown = fabric_with(None).nodes()
    history = History(gracePeriod="10m")
    for nodes in (wrong, wrong, unknown, wrong, wrong):
        rails = history.look(nodes, after=300.0).rails
        assert rails.miscabled == ()
        assert history.condition("RailsConsistent")["status"] == "True"
    rails = history.look(wrong, after=301.0).rails
    assert wrong_cables(rails) == [WRONG_RAIL_2]


def test_finding_survives_a_restart_and_goes_with_its_cause(history: History) -> None:
    wrong = fabric_with("x").nodes()
    history.look(wrong)
    history.look(wrong, after=GRACE)
    history.restart()
    rails = history.look(wrong).rails
    assert wrong_cables(rails) == [WRONG_RAIL_2]
    miscabled = {
        "node": "n3",
        "nic": "mlx5_2",
        "switch": "x",
        "port": "Ethernet1/3",
        "expected": "u0r2",
    }
    assert history.status["rails"] == {
        "nodes": 64,
        "miscabledRails": 1,
        "miscabled": [miscabled],
    }
    sound = Fabric().nodes()
    rails = history.look(sound).rails
    assert rails.miscabled == ()
    assert verdict(history) == MEETS_PEERS
    history.look([])
    assert history.condition("RailsConsistent")["reason"] == "NoRails"


def leaf_groups(fabric: Fabric) -> dict[str, str | None]:
    """The group of leaves that each node's agent labels it with."""
    nodes = []
    for node in fabric.nodes():
        rails: list[Rail | None] = []
        for rail, switch in enumerate(node.traits.switches):
            rails.append(Rail(f"mlx5_{rail}", *switch) if switch else None)
        labels: dict[str, str | None] = {
            "block": None,
            "rack": None,
            **leaf_labels(rails),
        }
        nodes.append(gpu_node(node.name, labels))
    found = History().look(nodes)
    assert found.effective.path == "zone > leaf-group > nvlink-domain > host"
    return {node.name: node.label(LEAF_GROUP) for node in nodes}


def test_node_with_a_wrong_cable_is_a_group_by_itself() -> None:
    """And renames no other group."""
    sound = leaf_groups(Fabric())
    wrong = leaf_groups(fabric_with("u1r2"))
    assert len(set(sound.values())) == 2
    assert len(set(wrong.values())) == 3
    renamed = []
    for name, group in sound.items():
        if wrong[name] != group:
            renamed.append(name)
    assert renamed == ["n3"]


def test_event_on_the_node_is_due_once() -> None:
    found = Rails(
        1,
        (Miscabled("n3", "uid-n3", "mlx5_2", "x", "", "u0r2"),),
    )
    (due,) = rail_events(topology(), found)
    assert due.regarding == {
        "apiVersion": "v1",
        "kind": "Node",
        "name": "n3",
        "uid": "uid-n3",
    }
    assert due.is_warning
    assert due.reason == "RailsMiscabled"
    assert due.note == "mlx5_2 of n3 goes to x, expected u0r2"
    known: dict[str, Any] = {
        "node": "n3",
        "nic": "mlx5_2",
        "switch": "x",
        "port": "p",
        "expected": "u0r2",
    }
    rails = {
        "nodes": 1,
        "miscabledRails": 1,
        "miscabled": [known],
    }
    status = {"rails": rails}
    assert rail_events(topology(status), found) == []


def test_single_look_at_rails_does_not_wait(history: History) -> None:
    history.restart(is_single_look=True)
    nodes = fabric_with("x").nodes()
    rails = history.look(nodes).rails
    assert wrong_cables(rails) == [WRONG_RAIL_2]


def test_sets_of_most_nodes_are_compared_with_many_that_differ() -> None:
    kinds: dict[tuple[str | None, ...], int] = {}
    for number in range(500):
        kinds["leaf", f"x{number}", "z"] = 1
    expected = {kind: {1: "y"} for kind in kinds}
    with_fewer_rails = {("leaf", "x0"): 1, ("leaf", "y"): 2}
    usual = {("leaf", "y", "z"): 1000}
    assert expected_switches(kinds | with_fewer_rails | usual) == expected


def test_sets_of_few_nodes_are_compared_with_the_same_in_any_order() -> None:
    odd = ("l0", "l1", "w", "q")
    kinds: dict[tuple[str | None, ...], int] = {}
    for number in range(200):
        kinds["l0", "l1", "ab"[number % 2], f"q{number}"] = 1
    kinds[odd] = 1
    reverse = dict(reversed(kinds.items()))
    assert expected_switches(kinds)[odd] == {2: "a"}
    assert expected_switches(reverse)[odd] == {2: "a"}


def test_rail_that_is_not_known_is_not_wrong() -> None:
    of_most = ("a", "b", "c")
    of_one = (None, "b", "c")
    assert expected_switches({of_most: 10, of_one: 1}) == {}
