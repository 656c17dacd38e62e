"""Pauses between attempts: how they grow, what jitter and the server make of them."""

import random

import pytest
from toposcope.kube.backoff import Backoff, Schedule
from toposcope.kube.errors import ApiError, UnreachableError

LOST = UnreachableError("connection reset")
SCHEDULE = Schedule(first_seconds=1.0, longest_seconds=10.0)


class Highest(random.Random):
    """Chance that cuts nothing."""

    def uniform(self, _a: float, b: float) -> float:
        return b


class Lowest(random.Random):
    """Chance that cuts as much as it may."""

    def uniform(self, a: float, _b: float) -> float:
        return a


def test_pauses_double_up_to_the_longest_and_begin_anew_after_a_success() -> None:
    backoff = Backoff(SCHEDULE, Highest())
    pauses = [backoff.failed(LOST) for _ in range(6)]
    assert pauses == [1, 2, 4, 8, 10, 10]
    assert backoff.pause == 10
    assert backoff.failures == 6
    backoff.reset()
    assert backoff.pause == 0
    assert backoff.failed(LOST) == 1


def test_no_two_clients_come_back_together() -> None:
    pauses = set()
    for seed in range(20):
        backoff = Backoff(SCHEDULE, random.Random(seed))
        pauses.add(backoff.failed(LOST))
    assert len(pauses) == 20
    assert min(pauses) >= 0.5
    assert max(pauses) <= 1.0


def later(seconds: float) -> ApiError:
    """The server asks for a pause."""
    return ApiError(429, "TooManyRequests", "later", seconds)


def test_the_server_may_ask_for_more_and_not_for_less() -> None:
    backoff = Backoff(SCHEDULE, Highest())
    assert backoff.failed(later(30.0)) == 30
    assert backoff.failed(later(0.5)) == 2


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_for_lack_of_rights_has_a_longest_pause_of_its_own(status: int) -> None:
    schedule = SCHEDULE._replace(longest_denied_seconds=60.0)
    chance = Highest()
    denied = ApiError(status, "Forbidden", "no")
    conflict = ApiError(409, "Conflict", "no")
    assert schedule.pause(9, chance, denied) == 60
    assert schedule.pause(9, chance, conflict) == 10
    assert schedule.pause(9, chance, LOST) == 10
    assert SCHEDULE.pause(9, chance, denied) == 10


def test_jitter_may_lengthen_and_has_a_least_pause() -> None:
    stretched = SCHEDULE._replace(jitter=(1.0, 1.5))
    longest = [stretched.pause(failures, Highest()) for failures in range(3)]
    assert longest == [1.5, 3, 6]
    shortest = [stretched.pause(failures, Lowest()) for failures in range(3)]
    assert shortest == [1, 2, 4]
    floored = SCHEDULE._replace(jitter=(0.0, 1.0), shortest_seconds=0.5)
    assert floored.pause(3, Lowest()) == 0.5


def test_a_failure_of_days_is_no_overflow() -> None:
    assert SCHEDULE.pause(10_000, Highest()) == 10
