from collections.abc import Iterable

import pytest

from tools.chaos.schedule import shrink


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
