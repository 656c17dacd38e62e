import functools
import threading
from dataclasses import dataclass
from random import Random

import msgspec
import pytest

from tests.support.tables import each_case
from tools.bench.reachable import look, process_roots, sizes
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


class Struct(msgspec.Struct, gc=False):
    entries: list[int]


@dataclass(slots=True)
class Slotted:
    entries: dict[int, int]


class Plain:
    def __init__(self, item: object) -> None:
        self._item = item

    def method(self) -> None: ...


def remember(into: list[int]) -> object:
    return lambda: into


@functools.cache
def cached(number: int) -> int:
    return number


THREE = [1, 2, 3]


@pytest.mark.parametrize(
    ("root", "place"),
    [
        (Plain(Struct(THREE)), "Struct.entries"),
        (Plain(Slotted(dict.fromkeys(THREE, 0))), "Slotted.entries"),
        (Plain([Struct([1]), Struct([2, 3])]), "Struct.entries"),
        (Plain({"a": [{1, 2, 3}]}), "Plain._item[][]"),
        (remember(THREE), "remember.<locals>.<lambda> into"),
        (functools.partial(print, THREE), "partial inside[]"),
        (Plain(Plain(THREE).method), "Plain._item"),
        (iter(THREE), "list_iterator inside"),
    ],
)
def test_container_is_found_wherever_it_hangs(root: object, place: str) -> None:
    circle = [root, root]
    circle.append(circle)
    assert sizes([("root", circle)])[place] == 3


def test_leak_in_the_locals_of_another_thread_and_in_a_cache_is_found() -> None:
    go, gone = threading.Event(), threading.Event()

    def leaky() -> None:
        kept = []
        for number in range(6):
            kept.append(Slotted({1: cached(number)}))
            gone.set()
            go.wait()
            go.clear()

    thread = threading.Thread(target=leaky)
    thread.start()
    looks = []
    for _ in range(6):
        gone.wait()
        gone.clear()
        looks.append(sizes([*process_roots(frozenset({"tests"})), ("cache", cached)]))
        go.set()
    thread.join()
    found = {name.rpartition(".")[2] for name in growing(looks, Slack(3, 0))}
    assert {"leaky kept", "entries", "cached()"} <= found
    seen = look()
    assert seen["rss"] > 1 << 20
    assert seen["files"] > 2
    assert seen["threads"]
