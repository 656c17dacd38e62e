"""A room with the rules between pods: its domains, what it has beside others, why pods are stuck, who is a mate."""

from dataclasses import replace

import pytest
from tests.placement.judged_groups import LEVELS, RACK, WHOLE, group, node, pods
from toposcope.integrations.framework.pod_rules import HostPort, PodLabels, PodRules
from toposcope.placement.board import RuledRoom, Spot
from toposcope.placement.neighbours import Neighbours
from toposcope.placement.room import Room
from toposcope.placement.rule_state import Beside, RuleState

ZONE = "example.com/zone"
WORKERS = pods(4, name="worker", gpus=4, pods=1)
LAUNCHERS = pods(1, name="launcher", cpu=1000, pods=1)


@pytest.fixture
def board() -> RuledRoom:
    """Two nodes of a rack and one of none, for four workers and a launcher."""
    nodes = [node("a1", "b/r", WHOLE), node("a2", "b/r", WHOLE), node("bare", "b", WHOLE)]
    room = Room(LEVELS, nodes, (group("all", WORKERS, LAUNCHERS),), can_lack_levels=True)
    return RuledRoom(room, RuleState([WORKERS, LAUNCHERS], nodes, None))


def test_node_without_a_label_is_in_no_domain_of_it(board: RuledRoom) -> None:
    (domain,) = board.domains([RACK.key], board.nodes)
    assert [board.name(number) for number in domain] == ["a1", "a2"]


def test_no_node_is_in_a_domain_of_a_label_that_all_lack(board: RuledRoom) -> None:
    assert board.domains([RACK.key, ZONE], board.nodes) == []


def test_room_beside_others_is_what_the_most_of_them_leave(board: RuledRoom) -> None:
    workers = 0
    launchers = 1
    assert board.slots(workers, 0) == 2
    assert board.slots_beside(launchers, 0, [workers]) == 64
    assert board.slots_beside(workers, 0, [launchers]) == 2


def test_pods_that_find_no_room_are_stuck_without_a_rule() -> None:
    nodes = [node("a1", "b/r", WHOLE)]
    many = pods(3, name="many", gpus=4, pods=1)
    board = RuledRoom(Room(LEVELS, nodes, (group("all", many),), can_lack_levels=True), RuleState([many], nodes, None))
    for _ in range(2):
        board.put(Spot(0, 0))
    assert not board.can_take(0, 0)
    stuck = board.stuck()
    assert stuck.placed == (2,)
    assert stuck.rule is None


def test_groups_of_the_same_pods_share_their_rules() -> None:
    with_port = replace(WORKERS, rules=PodRules(ports=(HostPort(80),)))
    fewer = replace(with_port, count=2)
    nodes = [node("a1", "b/r", WHOLE), node("a2", "b/r", WHOLE)]
    rules = Beside([group("first", with_port), group("second", fewer)], nodes, None, ignores_spread=False)
    assert rules.allows(fewer, 0)
    rules.put(with_port, 0, 1)
    assert not rules.allows(fewer, 0)
    assert rules.allows(fewer, 1)


def test_nobody_is_a_mate_of_pods_that_ask_for_none() -> None:
    nobody = Neighbours((), {})
    assert not nobody.is_mate(PodRules(), PodLabels())
