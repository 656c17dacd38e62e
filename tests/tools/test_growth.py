from random import Random

import pytest

from tests.support.tables import each_case
from tools.growth import Slack, growing, grows

SLACK = Slack(16, 0.02)
HOURS = 24


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_no_growth_and_a_leak_is_seen_through_it(seed: int) -> None:
    rng = Random(seed)
    series = [2000 + rng.uniform(-50, 50) for _ in range(HOURS)]
    assert not grows(series, SLACK)
    assert grows([value + 20 * hour for hour, value in enumerate(series)], SLACK)


@each_case("tables/tools.yaml")
def test_what_comes_back_or_stays_is_no_growth(series: list[float]) -> None:
    assert not grows(series, SLACK)


def test_name_that_appears_later_counts_from_nothing() -> None:
    looks = [{"old": 10.0} | ({"new": 40.0 * i} if i > 1 else {}) for i in range(HOURS)]
    assert list(growing(looks, SLACK)) == ["new"]
