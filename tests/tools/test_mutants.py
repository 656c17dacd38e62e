"""The comparison of two runs of mutmut."""

import pytest
from tools.mutants.__main__ import lost_mutants
from tools.mutants.byte_ids import pytest_make_parametrize_id


@pytest.mark.parametrize(
    ("before", "after", "is_lost"),
    [
        ("killed", "survived", True),
        ("timeout", "survived", True),
        ("killed", "no tests", True),
        ("killed", "timeout", False),
        ("survived", "survived", False),
        ("no tests", "survived", False),
        ("no such mutant", "survived", False),
        ("killed", "no such mutant", False),
    ],
)
def test_mutant_is_lost_that_only_earlier_tests_noticed(before: str, after: str, is_lost: bool) -> None:
    lost = lost_mutants({"m": before}, {"m": after})
    assert lost == (["m"] if is_lost else [])


def test_parameter_of_bytes_has_a_printable_id() -> None:
    assert pytest_make_parametrize_id(b"\xff") == r"b'\xff'"
    assert pytest_make_parametrize_id("text") is None
