import random
from collections.abc import Sequence

import pytest
from tools.chaos.faults import FAULTS, Scope
from tools.chaos.schedule import ScheduleError, draw, each_alone, read, shrink, written

ACTORS = ("agent-machine-0", "agent-machine-1", "controller-0", "controller-1")
EVERY = list(FAULTS.values())


def test_drawn_schedules_overlap_and_are_read_as_they_are_written() -> None:
    rng = random.Random(1)
    drawn = [draw(rng, EVERY, ACTORS) for _ in range(300)]
    again = draw(random.Random(1), EVERY, ACTORS)
    assert drawn[0] == again
    with_another_seed = draw(random.Random(2), EVERY, ACTORS)
    assert drawn[0] != with_another_seed
    overlapping = 0
    for schedule in drawn:
        if len(schedule) > 1:
            overlapping += 1
        faults = {step.fault for step in schedule}
        assert len(faults) == len(schedule)
        text = written(schedule)
        spaced = text.replace(",", " , ")
        assert read(f" {spaced},", ACTORS) == schedule
    assert overlapping > 200


def test_drawn_steps_last_as_long_and_aim_where_their_fault_may() -> None:
    rng = random.Random(1)
    for _ in range(300):
        for step in draw(rng, EVERY, ACTORS):
            fault = FAULTS[step.fault]
            shortest, longest = fault.seconds
            assert shortest <= step.seconds <= longest
            if fault.scope is Scope.CLUSTER:
                assert step.target == ""
            elif fault.scope is Scope.PROGRAM:
                assert step.target in ACTORS
            else:
                assert step.target.startswith(fault.scope.value)


def test_each_fault_is_drawn_alone_once() -> None:
    names = []
    for schedule in each_alone(random.Random(1), EVERY, ACTORS):
        (step,) = schedule
        names.append(step.fault)
    assert sorted(names) == sorted(FAULTS)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("", "names no fault", id="empty"),
        pytest.param("api-killed", "write FAULT@START+SECONDS", id="without-time"),
        pytest.param("api-eaten@1+2", "there is no fault api-eaten", id="unknown-fault"),
        pytest.param(
            "api-killed@1+2:controller-0", "cannot be aimed at 'controller-0', only at", id="target-of-the-cluster"
        ),
        pytest.param(
            "stalled@1+2", "only at agent-machine-0, agent-machine-1, controller-0, controller-1", id="without-program"
        ),
        pytest.param(
            "gpu-lost@1+2:controller-0", "only at agent-machine-0, agent-machine-1", id="controller-has-no-gpu"
        ),
    ],
)
def test_wrong_schedule_is_refused_with_what_to_write(text: str, says: str) -> None:
    with pytest.raises(ScheduleError) as error:
        read(text, ACTORS)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("count", "culprits"),
    [
        pytest.param(1, (0,), id="only"),
        pytest.param(2, (1,), id="last"),
        pytest.param(3, (0, 2), id="around"),
        pytest.param(8, (0, 7), id="ends"),
        pytest.param(9, (2, 4, 8), id="scattered"),
        pytest.param(4, (0, 1, 2, 3), id="all"),
    ],
)
def test_shrinking_leaves_the_culprits_in_their_order(count: int, culprits: tuple[int, ...]) -> None:
    def fails(items: Sequence[int]) -> bool:
        return set(culprits) <= set(items)

    assert shrink(range(count), fails) == culprits


def test_failure_that_does_not_come_again_is_not_shrunk() -> None:
    left = shrink("abc", lambda _: False)
    assert left == ("a", "b", "c")
