"""Pauses after failures."""

import random

from toposcope.kube.errors import ApiError, UnreachableError
from toposcope.kube.reflector import Backoff

AWAY = UnreachableError("away")


class Highest(random.Random):
    """Chance that cuts nothing."""

    def uniform(self, _a: float, b: float) -> float:
        return b


def test_pauses_double_up_to_the_longest_and_begin_anew_after_a_success() -> None:
    backoff = Backoff(1.0, 10.0, Highest())
    assert [backoff.failed(AWAY) for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    assert backoff.pause == 10
    backoff.reset()
    assert backoff.pause == 0
    assert backoff.failed(AWAY) == 1


def test_no_two_clients_come_back_together() -> None:
    pauses = {Backoff(1.0, 10.0, random.Random(seed)).failed(AWAY) for seed in range(20)}
    assert len(pauses) == 20
    assert min(pauses) >= 0.5
    assert max(pauses) <= 1.0


def test_the_server_may_ask_for_more_and_not_for_less() -> None:
    backoff = Backoff(1.0, 10.0, Highest())
    assert backoff.failed(ApiError(429, "TooManyRequests", "later", 30.0)) == 30
    assert backoff.failed(ApiError(429, "TooManyRequests", "later", 0.5)) == 2
