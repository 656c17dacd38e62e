"""The kernel's lists of CPUs and nodes."""

import random

import pytest
from toposcope.hardware.ranges import format_list, parse_list


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        pytest.param("", set(), id="empty"),
        pytest.param("\n", set(), id="line-end"),
        pytest.param("0", {0}, id="number"),
        pytest.param("0-3", {0, 1, 2, 3}, id="range"),
        pytest.param("0-19,40-59", {*range(20), *range(40, 60)}, id="two-ranges"),
        pytest.param("6,14,22,30", {6, 14, 22, 30}, id="numbers"),
        pytest.param("0-10:2/4", {0, 1, 4, 5, 8, 9}, id="groups"),
        pytest.param("5-12:2/4", {5, 6, 9, 10}, id="groups-from-five"),
        pytest.param("4-7:1/4", {4}, id="one-group"),
        pytest.param("1-3:4/4", {1, 2, 3}, id="whole-group"),
        pytest.param("0-10:5", {0, 5, 10}, id="stride"),
        pytest.param(" 0-1 , 4 \n", {0, 1, 4}, id="blanks"),
    ],
)
def test_every_form_of_the_kernels_lists_is_read(text: str, numbers: set[int]) -> None:
    assert parse_list(text) == numbers


@pytest.mark.parametrize("text", ["a", "3-1", "1-", "-1", "0-3:0/4", "0-3:5/4", "1048576", "0-99999999999"])
def test_text_that_is_no_list_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="not a kernel list"):
        parse_list(text)


def test_long_text_is_named_as_far_as_a_line_goes() -> None:
    named = "1" * 80
    at = "1" * 40
    with pytest.raises(ValueError, match=f"^not a kernel list: '{named}', at '{at}'$"):
        parse_list("1" * 100)


def test_formatting_is_the_inverse_of_parsing() -> None:
    rng = random.Random(7)
    for _ in range(200):
        count = rng.randrange(40)
        numbers = set(rng.sample(range(64), count))
        text = format_list(numbers)
        assert parse_list(text) == numbers


def test_numbers_in_a_row_are_formatted_as_a_range() -> None:
    assert format_list({8, 0, 1, 2}) == "0-2,8"
