"""The agent over hours of simulated time: what it writes, asks, and says."""

from pathlib import Path

import pytest

from tests.support.living_agent import Node
from toposcope.api import label_keys
from toposcope.kube.errors import ApiError, UnreachableError
from toposcope.simulator.faults import Faults
from toposcope.simulator.profile import load_profile


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(load_profile("rtx3090-2-nvlink"), tmp_path)


def test_an_hour_at_rest_is_one_write_and_a_read_every_ten_minutes(node: Node) -> None:
    node.live(3600)
    assert len(node.cluster.writes) == 1
    assert node.cluster.reads <= 6
    assert node.probes <= 3600 / 60 + 3
    assert node.cluster.events == []


def test_the_first_write_is_spread(tmp_path: Path) -> None:
    node = Node(load_profile("t4-1"), tmp_path)
    node.agent.sync()
    assert node.cluster.writes == []
    assert node.agent.ready() != ""
    node.live(30)
    assert len(node.cluster.writes) == 1
    assert node.agent.ready() == ""


def test_once_waits_for_nothing(tmp_path: Path) -> None:
    node = Node(load_profile("t4-1"), tmp_path, once=True)
    assert node.agent.sync()
    assert len(node.cluster.writes) == 1


def test_a_link_that_flaps_every_five_seconds_is_at_most_a_write_a_minute(node: Node) -> None:
    node.live(120)
    before = len(node.cluster.writes)
    for step in range(240):  # twenty minutes, an event each time
        node.faults = Faults(links_down={0: frozenset({step % 4})}) if step % 2 else Faults()
        node.agent.sync()
        node.seconds += 5
    assert len(node.cluster.writes) - before <= 20


def test_degraded_and_healthy_again_are_one_event_each(node: Node) -> None:
    node.live(120)
    node.faults = Faults(links_down={1: frozenset({2})})
    node.live(300)
    node.faults = Faults()
    node.live(300)
    assert [(event.kind, event.reason) for event in node.cluster.events] == [
        ("Warning", "NodeDegraded"),
        ("Normal", "NodeHealthy"),
    ]
    assert "GPU 1: 3 of 4 NVLinks active" in node.cluster.events[0].note


def test_a_changed_clique_follows_within_a_probe_and_tells_old_and_new(tmp_path: Path) -> None:
    node = Node(load_profile("gb200-nvl72-tray"), tmp_path)
    node.live(120)
    node.faults = Faults(fabric={i: {"clique": 5} for i in range(4)})
    node.live(61)
    assert [event.reason for event in node.cluster.events] == ["NVLinkDomainChanged"]
    assert node.cluster.events[0].note.endswith(".5")
    assert ".32766 to " in node.cluster.events[0].note
    assert node.cluster.writes[-1].labels.known[label_keys.NVLINK_DOMAIN].endswith(".5")


def test_an_api_server_that_is_away_for_an_hour_is_not_hammered(node: Node) -> None:
    node.live(120)
    node.cluster.fails = UnreachableError("refused")
    node.faults = Faults(links_down={1: frozenset({2})})
    asked = node.probes
    node.live(3600)
    assert node.probes - asked <= 3600 / 30
    node.cluster.fails = None
    node.live(120)
    assert node.cluster.writes[-1].labels.known[label_keys.STATE] == "degraded"


def test_retry_after_is_honoured(node: Node) -> None:
    node.cluster.fails = ApiError(429, "TooManyRequests", "slow down", retry_after=45)
    node.agent.sync()
    began = node.seconds
    node.cluster.fails = None
    while not node.cluster.writes:
        node.seconds += max(node.agent.seconds_until_sync(), 1)
        node.agent.sync()
    assert node.seconds - began >= 45


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_that_passes_is_forgotten_soon_and_one_that_stays_is_hardly_asked_again(
    node: Node, status: int
) -> None:
    node.live(120)
    node.cluster.fails = ApiError(status, "Refused", "no")
    node.faults = Faults(links_down={1: frozenset({2})})
    node.agent.sync()
    node.cluster.fails = None  # the token was renewed, or the server has read its roles
    writes = len(node.cluster.writes)
    node.live(70)
    assert len(node.cluster.writes) == writes + 1
    node.cluster.fails = ApiError(status, "Refused", "no")
    node.faults = Faults()
    before = node.metric("publishes_total", outcome="forbidden") or 0
    node.live(24 * 3600)
    asked = (node.metric("publishes_total", outcome="forbidden") or 0) - before
    assert 24 * 6 <= asked <= 24 * 12 + 8, "every five to ten minutes, after the first few"


def test_accepting_makes_today_the_reference(node: Node, tmp_path: Path) -> None:
    node.live(120)
    node.faults = Faults(links_down={0: None})
    node.live(120)
    assert node.cluster.writes[-1].labels.known[label_keys.STATE] == "degraded"
    accepting = Node(node.machine, tmp_path, once=True, accept_degraded=True)
    accepting.cluster.baseline = node.cluster.baseline
    accepting.faults = node.faults
    assert accepting.agent.sync()
    assert accepting.cluster.writes[-1].labels.known[label_keys.STATE] == "ok"
    node.cluster.baseline = accepting.cluster.baseline
    node.live(120)
    assert node.cluster.writes[-1].labels.known[label_keys.STATE] == "ok"


def test_without_its_annotation_a_degraded_node_begins_anew(node: Node) -> None:
    node.live(120)
    node.faults = Faults(links_down={0: None})
    node.live(120)
    assert node.cluster.writes[-1].labels.known[label_keys.STATE] == "degraded"
    node.cluster.baseline = None  # as the next read of the Node finds it once somebody deleted it
    node.live(120)
    assert node.cluster.writes[-1].labels.known[label_keys.STATE] == "ok"
    for faults, state in ((Faults(), "ok"), (Faults(links_down={0: None}), "degraded")):  # and learns again
        node.faults = faults
        node.live(120)
        assert node.cluster.writes[-1].labels.known[label_keys.STATE] == state


def test_only_a_loop_that_hangs_is_unhealthy(node: Node) -> None:
    node.live(120)
    node.cluster.fails = UnreachableError("refused")
    node.failure = "no driver"
    node.live(1200)
    assert node.agent.healthy() == ""
    node.seconds += 3600
    assert "no probe has come to an end for" in node.agent.healthy()
