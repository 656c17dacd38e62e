import random

import pytest
from tests.support.tables import each_case
from toposcope.hardware.ranges import format_list, parse_list


@each_case("topology.yaml")
def test_every_form_of_the_kernels_lists(text: str, numbers: list[int]) -> None:
    assert parse_list(text) == set(numbers)


@pytest.mark.parametrize("text", ["a", "3-1", "1-", "-1", "0-3:0/4", "0-3:5/4", "1048576", "0-99999999999"])
def test_what_is_no_list_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="not a kernel list"):
        parse_list(text)


def test_of_a_long_list_as_much_as_a_line_holds_is_named() -> None:
    with pytest.raises(ValueError, match=f"^not a kernel list: '{'1' * 80}', at '{'1' * 40}'$"):
        parse_list("1" * 100)


def test_formatting_is_the_inverse_of_parsing() -> None:
    rng = random.Random(7)
    for _ in range(200):
        numbers = set(rng.sample(range(64), rng.randrange(40)))
        assert parse_list(format_list(numbers)) == numbers
    assert format_list({8, 0, 1, 2}) == "0-2,8"
