"""Packing pods of several sizes onto nodes, and how many combinations that takes."""

from toposcope.placement.pack import Bin, Counts, Packing, Size, pack


def node(number: int, *free: int, allowed: tuple[bool, ...] = (True,)) -> Bin:
    """A node with these free amounts; `allowed`: which kinds of pods it may take."""
    return Bin(number, free, allowed)


ANY_OF_TWO = (True, True)
ANY_OF_THREE = (True, True, True)


def check_packing(
    nodes: list[Bin], sizes: list[Size], counts: Counts, *, placed: dict[int, Counts] | None, steps: int
) -> None:
    """Pack with so many steps, with any number, and with one too few."""
    expected = Packing(placed, is_exact=True, steps=steps)
    assert pack(nodes, sizes, counts) == expected
    assert pack(nodes, sizes, counts, steps) == expected
    assert pack(nodes, sizes, counts, steps - 1) == Packing(None, is_exact=False, steps=steps - 1)


def test_pods_of_one_size_fill_the_last_node_first() -> None:
    nodes = [node(0, 4), node(1, 4)]
    check_packing(nodes, [(2,)], (3,), placed={0: (2,), 1: (1,)}, steps=2)


def test_pods_of_two_sizes_are_kept_apart_where_only_that_fits() -> None:
    nodes = [node(0, 6, 2, allowed=ANY_OF_TWO), node(1, 5, 9, allowed=ANY_OF_TWO), node(7, 1, 1, allowed=ANY_OF_TWO)]
    check_packing(nodes, [(3, 1), (2, 1)], (2, 2), placed={0: (2, 0), 1: (0, 2)}, steps=10)


def test_pods_stay_off_a_node_that_they_may_not_use() -> None:
    nodes = [node(0, 6, allowed=(False, True)), node(1, 6, allowed=ANY_OF_TWO)]
    check_packing(nodes, [(3,), (3,)], (2, 2), placed={0: (0, 2), 1: (2, 0)}, steps=5)


def test_pods_that_request_nothing_go_anywhere() -> None:
    nodes = [node(0, 1, allowed=ANY_OF_TWO), node(1, 9, allowed=ANY_OF_TWO)]
    check_packing(nodes, [(0,), (3,)], (5, 3), placed={0: (5, 0), 1: (0, 3)}, steps=9)


def test_pods_that_fit_nowhere_are_proven_not_to_fit() -> None:
    nodes = [node(0, 6, allowed=ANY_OF_TWO), node(1, 5, allowed=ANY_OF_TWO)]
    check_packing(nodes, [(4,), (3,)], (1, 3), placed=None, steps=7)
    assert pack(nodes, [(4,), (3,)], (1, 3)).is_impossible


def test_pods_of_three_sizes_fill_three_nodes() -> None:
    nodes = [
        node(0, 10, allowed=ANY_OF_THREE),
        node(1, 10, allowed=ANY_OF_THREE),
        node(2, 10, allowed=ANY_OF_THREE),
    ]
    placed: dict[int, Counts] = {
        0: (1, 1, 1),
        1: (0, 3, 0),
        2: (2, 0, 0),
    }
    check_packing(nodes, [(5,), (3,), (2,)], (3, 4, 1), placed=placed, steps=65)


def test_node_that_takes_no_pod_is_left_empty() -> None:
    nodes = [node(0, 1), node(1, 4)]
    check_packing(nodes, [(2,)], (2,), placed={1: (2,)}, steps=2)
