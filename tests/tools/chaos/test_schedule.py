import random
from collections.abc import Iterable

import pytest

from tools.chaos.faults import FAULTS, Scope
from tools.chaos.schedule import ScheduleError, Step, draw, each_alone, read, shrink, written

ACTORS = ("agent-machine-0", "agent-machine-1", "controller-0", "controller-1")


def test_a_seed_gives_the_same_schedules_again_and_another_seed_others() -> None:
    def run(seed: int) -> list[str]:
        rng = random.Random(seed)
        return [written(draw(rng, list(FAULTS.values()), ACTORS)) for _ in range(20)]

    assert run(7) == run(7)
    assert run(7) != run(8)


def test_faults_overlap_and_are_aimed_at_those_who_can_have_them() -> None:
    rng = random.Random(1)
    several = 0
    for _ in range(300):
        schedule = draw(rng, list(FAULTS.values()), ACTORS)
        several += len(schedule) > 1
        assert len({step.fault for step in schedule}) == len(schedule)
        for step in schedule:
            fault = FAULTS[step.fault]
            assert fault.seconds[0] <= step.seconds <= fault.seconds[1]
            if fault.scope is Scope.CLUSTER:
                assert step.target == ""
            else:
                assert step.target in ACTORS
            if fault.scope in (Scope.AGENT, Scope.CONTROLLER):
                assert step.target.startswith(fault.scope.value)
        assert read(written(schedule), ACTORS) == schedule
    assert several > 200


def test_each_alone_leaves_no_fault_out() -> None:
    alone = each_alone(random.Random(1), list(FAULTS.values()), ACTORS)
    assert sorted(step.fault for (step,) in alone) == sorted(FAULTS)


def test_a_step_is_read_as_it_is_written() -> None:
    text = "stalled@1.5+12:controller-1,etcd-restored@6+2"
    assert read(text, ACTORS) == (Step("stalled", 1.5, 12, "controller-1"), Step("etcd-restored", 6, 2))
    assert written(read(f" {text.replace(',', ' , ')},", ACTORS)) == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "names no fault"),
        ("api-killed", "write FAULT@START+SECONDS"),
        ("api-eaten@1+2", "there is no fault api-eaten"),
        ("api-killed@1+2:controller-0", "cannot be aimed at 'controller-0', only at"),
        ("stalled@1+2", "only at agent-machine-0, agent-machine-1, controller-0, controller-1"),
        ("gpu-lost@1+2:controller-0", "only at agent-machine-0, agent-machine-1"),
        ("stalled@1+2:agent-machine-9", "cannot be aimed at 'agent-machine-9'"),
    ],
)
def test_a_wrong_schedule_is_refused_with_what_to_write(text: str, says: str) -> None:
    with pytest.raises(ScheduleError) as error:
        read(text, ACTORS)
    assert says in str(error.value)


class Failing:
    """Fails when all culprits are there; counts how often it was asked."""

    def __init__(self, *culprits: int) -> None:
        self._culprits = set(culprits)
        self.tried: list[tuple[int, ...]] = []

    def __call__(self, items: Iterable[int]) -> bool:
        self.tried.append(tuple(items))
        return self._culprits <= set(self.tried[-1])


@pytest.mark.parametrize(
    ("count", "culprits"),
    [(1, {0}), (2, {1}), (3, {0, 2}), (8, {3}), (8, {0, 7}), (9, {2, 4, 8}), (5, {0, 1, 2, 3, 4})],
)
def test_what_is_left_is_what_it_takes(count: int, culprits: set[int]) -> None:
    assert set(shrink(range(count), Failing(*culprits))) == culprits


def test_the_order_stays_and_nothing_is_tried_twice_in_a_row() -> None:
    fails = Failing(1, 6)
    assert shrink(range(8), fails) == (1, 6)
    assert all(one != other for one, other in zip(fails.tried, fails.tried[1:], strict=False))


def test_a_failure_that_does_not_come_again_leaves_the_whole() -> None:
    assert shrink("abc", lambda _: False) == ("a", "b", "c")


def test_a_single_item_is_not_tried() -> None:
    fails = Failing(0)
    assert shrink([0], fails) == (0,)
    assert fails.tried == []
