"""What the switch at the other end of an InfiniBand cable is called."""

import pytest
from toposcope.switches.infiniband import switch_name

DESCRIPTION_BYTES = 64


@pytest.mark.regression
@pytest.mark.parametrize(
    ("described", "name"),
    [
        pytest.param("MF0;leaf-01:MQM9700/U1", "leaf-01", id="one-chip"),
        pytest.param("MF0;leaf-01:MQM9700/U2", "leaf-01/U2", id="second-chip-of-a-box"),
        pytest.param("MF0;core:CS8500/L07/U1", "core/L07", id="chip-of-a-director"),
        pytest.param("MF0;core:CS8500/L07/U2", "core/L07/U2", id="second-chip-of-a-line-card"),
        pytest.param("Quantum Mellanox Technologies", "Quantum Mellanox Technologies", id="unmanaged"),
    ],
)
def test_switch_is_named_by_its_description(described: str, name: str) -> None:
    text = described.encode()
    description = text.ljust(DESCRIPTION_BYTES, b"\0")
    assert switch_name(description) == name
