"""The comparison of two runs of mutmut."""

import pytest
from tools.mutants.__main__ import lost_mutants
from tools.mutants.byte_ids import pytest_make_parametrize_id


@pytest.mark.parametrize(
    ("before", "after", "is_lost"),
    [
        pytest.param("killed", "survived", True, id="killed-survives"),
        pytest.param("timeout", "survived", True, id="timeout-survives"),
        pytest.param("killed", "no tests", True, id="tests-go"),
        pytest.param("killed", "timeout", False, id="killed-by-timeout"),
        pytest.param("survived", "survived", False, id="survived-before"),
        pytest.param("no tests", "survived", False, id="had-no-tests"),
        pytest.param("no such mutant", "survived", False, id="new-mutant"),
        pytest.param("killed", "no such mutant", False, id="mutant-gone"),
    ],
)
def test_mutant_is_lost_that_only_earlier_tests_noticed(before: str, after: str, is_lost: bool) -> None:
    lost = lost_mutants({"m": before}, {"m": after})
    assert lost == (["m"] if is_lost else [])


def test_parameter_of_bytes_has_a_printable_id() -> None:
    assert pytest_make_parametrize_id(b"\xff") == r"b'\xff'"
    assert pytest_make_parametrize_id("text") is None
