"""The verdict of a soak."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from tools.bench.report import Figure
from tools.bench.soak import verdict

HOURS = 24


def looks(grow: Callable[[dict[str, Any], dict[str, float], int], None]) -> list[Figure]:
    """The verdict on a day with some noise, and with what `grow` makes of each hour."""
    rng = random.Random(5)
    seen, asked = [], []
    for hour in range(HOURS):
        look: dict[str, Any] = {"rss": (40 << 20) + rng.randrange(1 << 18), "files": 14, "threads": 11}
        look |= {"sizes": {"Index._items": 2000 + rng.randrange(3), "Wake._seen": 5}}
        requests = {"GET nodes": 60.0 + rng.randrange(3), "PATCH nodes": 400.0 + rng.randrange(30)}
        grow(look, requests, hour)
        seen.append(look)
        asked.append(requests)
    return list(verdict("controller", seen, asked))


def found(figures: list[Figure]) -> list[str]:
    return [figure.name.split(",")[0].strip() for figure in figures if figure.name.startswith("    ")]


def test_day_without_a_leak_is_clean() -> None:
    figures = looks(lambda _look, _asked, _hour: None)
    judged = [figure for figure in figures if figure.target]
    assert len(judged) == 4
    assert all(figure.target and figure.target.met(figure.sample.value) for figure in judged)


@pytest.mark.parametrize(
    ("grow", "name"),
    [
        (lambda look, _asked, hour: look.update(rss=look["rss"] + hour * (200 << 10)), "rss"),
        (lambda look, _asked, hour: look.update(files=14 + hour // 2), "files"),
        (lambda look, _asked, hour: look.update(threads=11 + hour), "threads"),
        (lambda look, _asked, hour: look["sizes"].update({"Wake._seen": 5 + hour}), "Wake._seen"),
        (lambda _look, asked, hour: asked.update({"GET nodes": asked["GET nodes"] + hour}), "GET nodes"),
        (lambda _look, asked, hour: asked.update({"GET secrets": 2.0 * hour}), "GET secrets"),
    ],
)
def test_planted_leak_is_found_by_its_name(
    grow: Callable[[dict[str, Any], dict[str, float], int], None], name: str
) -> None:
    assert found(looks(grow)) == [name]
