import functools
import threading
from collections import deque
from dataclasses import dataclass, field
from random import Random

import msgspec
import pytest

from tools.bench.reachable import look, process_roots, sizes
from tools.bench.soak import Slack, growing, grows, trend

SLACK = Slack(16, 0.02)
HOURS = 24
LOOKS = 6


def noise(level: float, spread: float, seed: int = 1) -> list[float]:
    rng = Random(seed)
    return [level + rng.uniform(-spread, spread) for _ in range(HOURS)]


@pytest.mark.parametrize("step", [1, 10, 1000])
def test_what_grows_by_the_hour_is_found(step: int) -> None:
    assert grows([2000 + step * hour for hour in range(HOURS)], SLACK) is (step * (HOURS - 1) > 2040 * 0.02)


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_no_growth_and_a_leak_is_seen_through_it(seed: int) -> None:
    series = noise(2000, 50, seed)
    assert not grows(series, SLACK)
    assert grows([value + 20 * hour for hour, value in enumerate(series)], SLACK)


@pytest.mark.parametrize(
    "series",
    [
        [100.0] * HOURS,
        [float(100 + 400 * (hour % 6)) for hour in range(HOURS)],
        [min(100.0 + 300 * hour, 1000) for hour in range(HOURS)],
        [1000.0 - 10 * hour for hour in range(HOURS)],
        [0.0] * (HOURS - 1) + [5000.0],
        [0.0] * HOURS,
    ],
    ids=["flat", "saw", "fills up", "shrinks", "one peak at the end", "nothing"],
)
def test_what_comes_back_or_stays_is_no_growth(series: list[float]) -> None:
    assert not grows(series, SLACK)


def test_line_through_a_line() -> None:
    line = trend([1, 3, 5, 7])
    assert (line.slope, line.error, line.rise) == pytest.approx((2, 0, 6))


def test_few_looks_tell_nothing() -> None:
    with pytest.raises(ValueError, match="3 looks are too few"):
        trend([1, 2, 3])


def test_name_that_appears_later_counts_from_nothing() -> None:
    looks = [{"old": 10.0} | ({"new": 40.0 * i} if i > 1 else {}) for i in range(HOURS)]
    assert list(growing(looks, SLACK)) == ["new"]


class Struct(msgspec.Struct, gc=False):
    entries: list[int]


@dataclass(slots=True)
class Slotted:
    entries: dict[int, int]
    left: deque[int] = field(default_factory=deque)


class Plain:
    shared: list[int] = []  # noqa: RUF012 - a class's own container is what is looked for

    def __init__(self, item: object) -> None:
        self._item = item

    def method(self) -> None: ...


def remember(into: list[int]) -> object:
    def note() -> None:
        into.append(1)

    return note


@functools.cache
def cached(number: int) -> int:
    return number


THREE = [1, 2, 3]


@pytest.mark.parametrize(
    ("root", "place"),
    [
        (Plain(Struct(THREE)), "Struct.entries"),
        (Plain(Slotted(dict.fromkeys(THREE, 0))), "Slotted.entries"),
        (Plain({"a": [{1, 2, 3}]}), "Plain._item[][]"),
        (remember(THREE), "remember.<locals>.note into"),
        (functools.partial(print, THREE), "partial inside[]"),
        (Plain(Plain(THREE).method), "Plain._item"),
        (Plain((THREE,)), "Plain._item[]"),
        (iter(THREE), "list_iterator inside"),
    ],
)
def test_container_is_found_wherever_it_hangs(root: object, place: str) -> None:
    assert sizes([("root", root)])[place] == 3


@functools.lru_cache(maxsize=8)
def bounded(number: int) -> int:
    return number


def test_cache_without_a_size_is_counted() -> None:
    cached.cache_clear()
    for number in range(5):
        cached(bounded(number))
    assert {"root": 2, "cached()": 5}.items() <= sizes([("root", [cached, bounded])]).items()
    assert "bounded()" not in sizes([("root", [cached, bounded])])


def test_shared_containers_count_once_and_circles_end() -> None:
    circle: list[object] = [THREE, THREE]
    circle.append(circle)
    assert sizes([("root", circle)]) == {"root": 3, "root[]": 3}


def test_containers_of_one_place_are_summed() -> None:
    assert sizes([("root", [Struct([1]), Struct([2, 3])])])["Struct.entries"] == 3


def test_leak_in_the_locals_of_another_thread_is_found() -> None:
    go, gone = threading.Event(), threading.Event()

    def leaky() -> None:
        kept = []
        for _ in range(LOOKS):
            kept.append(Slotted({1: 1}))
            gone.set()
            go.wait()
            go.clear()

    thread = threading.Thread(target=leaky)
    thread.start()
    looks = []
    for _ in range(LOOKS):
        gone.wait()
        gone.clear()
        looks.append(sizes(process_roots(frozenset({"tests"}))))
        go.set()
    thread.join()
    grown = growing(looks, Slack(3, 0))
    assert {name for name in grown if "leaky" in name} == {
        "test_leak_in_the_locals_of_another_thread_is_found.<locals>.leaky kept"
    }
    assert "Slotted.entries" in grown


def test_process_tells_of_itself() -> None:
    seen = look()
    assert seen["rss"] > 1 << 20
    assert seen["files"] > 2
    assert seen["threads"] >= 1
    assert seen["sizes"]
