import random

import pytest

from toposcope.topology.ranges import format_list, parse_list


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", set()),
        ("\n", set()),
        ("0", {0}),
        ("0-3", {0, 1, 2, 3}),
        ("0-19,40-59", {*range(20), *range(40, 60)}),
        ("6,14,22,30", {6, 14, 22, 30}),
        ("0-10:2/4", {0, 1, 4, 5, 8, 9}),
        ("0-10:5", {0, 5, 10}),
        (" 0-1 , 4 \n", {0, 1, 4}),
    ],
)
def test_every_form_of_the_kernels_lists(text: str, numbers: set[int]) -> None:
    assert parse_list(text) == numbers


@pytest.mark.parametrize("text", ["a", "3-1", "1-", "-1", "0-3:0/4", "0-3:5/4", "0-99999999999"])
def test_what_is_no_list_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="not a kernel list"):
        parse_list(text)


def test_formatting_is_the_inverse_of_parsing() -> None:
    rng = random.Random(7)
    for _ in range(200):
        numbers = set(rng.sample(range(64), rng.randrange(40)))
        assert parse_list(format_list(numbers)) == numbers
    assert format_list({8, 0, 1, 2}) == "0-2,8"
