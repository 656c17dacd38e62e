from random import Random

import pytest

from tests.support.tables import each_case
from tools.growth import Slack, grows

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
