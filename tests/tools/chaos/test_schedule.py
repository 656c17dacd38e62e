import random

import pytest
from tests.support.tables import each_case
from tools.chaos.faults import FAULTS, Scope
from tools.chaos.schedule import ScheduleError, draw, each_alone, read, shrink, written

ACTORS = ("agent-machine-0", "agent-machine-1", "controller-0", "controller-1")
EVERY = list(FAULTS.values())


def test_drawn_schedules_overlap_repeat_by_seed_and_are_read_as_they_are_written() -> None:
    drawn = [draw(rng, EVERY, ACTORS) for rng in [random.Random(1)] for _ in range(300)]
    assert drawn[0] == draw(random.Random(1), EVERY, ACTORS)
    assert drawn[0] != draw(random.Random(2), EVERY, ACTORS)
    assert sum(len(schedule) > 1 for schedule in drawn) > 200
    for schedule in drawn:
        assert len({step.fault for step in schedule}) == len(schedule)
        assert read(f" {written(schedule).replace(',', ' , ')},", ACTORS) == schedule
        for step in schedule:
            fault = FAULTS[step.fault]
            assert fault.seconds[0] <= step.seconds <= fault.seconds[1]
            aimed = {Scope.CLUSTER: ("",), Scope.PROGRAM: ACTORS}.get(fault.scope)
            assert step.target in aimed if aimed else step.target.startswith(fault.scope.value)
    assert sorted(step.fault for (step,) in each_alone(random.Random(1), EVERY, ACTORS)) == sorted(FAULTS)


@each_case("tables/tools.yaml")
def test_a_wrong_schedule_is_refused_with_what_to_write(text: str, says: str) -> None:
    with pytest.raises(ScheduleError) as error:
        read(text, ACTORS)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("count", "culprits"), [(1, (0,)), (2, (1,)), (3, (0, 2)), (8, (0, 7)), (9, (2, 4, 8)), (4, (0, 1, 2, 3))]
)
def test_shrinking_leaves_what_it_takes_in_its_order(count: int, culprits: tuple[int, ...]) -> None:
    assert shrink(range(count), lambda items: set(culprits) <= set(items)) == culprits


def test_a_failure_that_does_not_come_again_leaves_the_whole() -> None:
    assert shrink("abc", lambda _: False) == ("a", "b", "c")
