from pathlib import Path

import pytest

from tools.bench.fleet import Fleet, after_outage, at_rest, at_roll_out, echo_of_outage, of_controllers, turns_to_resync
from tools.bench.machine import make

AGENTS = 60


def test_resync_is_rounded_up_to_whole_turns() -> None:
    assert turns_to_resync(60.0) == pytest.approx({11: 0.5, 12: 0.5})
    assert turns_to_resync(50.0) == pytest.approx({13: 5 / 12, 14: 5 / 12, 15: 2 / 12})
    assert turns_to_resync(1000.0) == pytest.approx({1: 1.0})


def test_rates_follow_from_the_constants() -> None:
    assert at_rest(100_000, 60.0).reads == pytest.approx(100_000 / 690)
    assert at_roll_out(100_000, 60.0, 30.0).writes == pytest.approx(100_000 / 60)
    assert at_roll_out(100_000, 10.0, 30.0).writes == pytest.approx(100_000 / 30)
    assert after_outage(100_000, 60.0).reads == pytest.approx(100_000 / 45)
    assert echo_of_outage(100_000, 60.0).reads == pytest.approx(100_000 / 90)
    assert of_controllers(1).writes == pytest.approx(0.5)
    assert of_controllers(3).reads > of_controllers(2).reads > of_controllers(1).reads


def test_sample_lives_as_computed(tmp_path: Path) -> None:
    fleet = Fleet(make("t4-1", tmp_path).raw, AGENTS, starting=10.0)
    fleet.until(100.0)
    server = fleet.server
    assert sum(server.reads.values()) == sum(server.writes.values()) == AGENTS
    assert max(server.reads) < 10
    assert max(server.writes) <= 10 + fleet.spread
    server.forget()
    server.away = True
    fleet.until(1800.0)
    assert not server.reads
    tries = sum(count for second, count in server.tried.items() if second >= 900)
    assert tries / 900 == pytest.approx(after_outage(AGENTS, fleet.interval).reads, rel=0.1)
    server.away = False
    server.forget()
    fleet.until(1800.0 + 600.0)
    assert sum(server.reads.values()) == AGENTS
    assert max(server.reads) <= 1800 + fleet.interval
    assert not server.writes
