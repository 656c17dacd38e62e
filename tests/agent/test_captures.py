"""Every complete matrix that people recorded on real machines, discovered cell for cell."""

from pathlib import Path

import pytest

from tests.support.machines import discovered
from tests.support.recorded import recorded_machines
from toposcope.simulator.capture import machine_from_capture

RECORDED = recorded_machines()


@pytest.mark.parametrize("name", RECORDED)
def test_the_discovered_matrix_is_the_recorded_one(name: str, tmp_path: Path) -> None:
    recorded = RECORDED[name]
    topology = discovered(machine_from_capture(recorded.text, name), tmp_path)
    names = (*(f"GPU{gpu.index}" for gpu in topology.gpus), *(nic.name for nic in topology.nics))
    # Drivers that name columns after the NICs list them in the order of their discovery.
    assert names == recorded.devices if recorded.numbered else set(names) == set(recorded.devices)
    found = {(a, b): topology.matrix.cells[i][j] for i, a in enumerate(names) for j, b in enumerate(names)}
    assert found == recorded.cells
