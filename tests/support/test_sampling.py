"""Cases after the first ones are slow."""

import pytest
from tests.support.sampling import slow_after


def test_only_the_first_cases_are_fast() -> None:
    parameters = slow_after(2, "abcd")
    assert [each.values for each in parameters] == [("a",), ("b",), ("c",), ("d",)]
    assert [each.marks for each in parameters] == [(), (), (pytest.mark.slow,), (pytest.mark.slow,)]
