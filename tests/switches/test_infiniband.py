"""What the switch at the other end of an InfiniBand cable is called."""

import pytest
from tests.support.tables import each_case
from toposcope.switches.infiniband import switch_name


@pytest.mark.regression
@each_case("infiniband.yaml")
def test_the_name_of_a_switch(described: str, name: str) -> None:
    assert switch_name(described.encode().ljust(64, b"\0")) == name
