"""The reader of host lists that other tests trust."""

import pytest
from tests.integrations.slurm.reading import expanded, switches_of


def test_expanded_ranges_keep_their_padding() -> None:
    assert expanded("n[08-10,12],login") == ["n08", "n09", "n10", "n12", "login"]


def test_expanded_range_that_goes_down_fails() -> None:
    with pytest.raises(AssertionError, match="range 3-2: the end is not above the start"):
        expanded("n[3-2]")


def test_switch_that_occurs_twice_fails() -> None:
    with pytest.raises(AssertionError, match="r0 occurs twice"):
        switches_of(["SwitchName=r0 Nodes=n1", "SwitchName=r0 Nodes=n2"])
