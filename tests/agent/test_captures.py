"""Every complete matrix that people recorded on real machines, discovered cell for cell."""

from pathlib import Path

import pytest

from tests.support.machines import discovered
from toposcope.simulator.capture import machine_from_capture

CAPTURES = Path(__file__).parents[3] / "shared" / "captures"
COMPLETE = sorted(
    file.name for file in CAPTURES.glob("*.txt") if "# fidelity: matrix complete" in file.read_text(encoding="utf-8")
)


def recorded(text: str) -> tuple[list[str], dict[str, list[str]]]:
    """Device names and rows, read as plainly as can be: no cell of a complete matrix is empty or holds a blank."""
    matrix = text.partition("\n## ")[0]  # what follows are other facts of the same machine
    lines = [line for line in matrix.splitlines() if line.strip() and not line.startswith("#")]
    header = next(line for line in lines if "GPU0" in line)
    devices = header.partition("CPU Affinity")[0].split()
    rows = {
        words[0]: words[1 : len(devices) + 1]
        for line in lines
        if (words := line.split())[0] in devices and line != header
    }
    legend = {
        words[0][:-1]: words[1]
        for line in lines
        if (words := line.split())[0].startswith("NIC") and words[0].endswith(":")
    }
    return [legend.get(name, name) for name in devices], {legend.get(name, name): row for name, row in rows.items()}


@pytest.mark.skipif(not COMPLETE, reason="the recorded matrices are not part of the project (../shared/captures)")
def test_there_are_as_many_complete_matrices_as_there_were() -> None:
    assert len(COMPLETE) >= 23


@pytest.mark.parametrize("name", COMPLETE)
def test_the_discovered_matrix_is_the_recorded_one(name: str, tmp_path: Path) -> None:
    text = (CAPTURES / name).read_text(encoding="utf-8")
    devices, rows = recorded(text)
    topology = discovered(machine_from_capture(text, name), tmp_path)
    # NICs are compared by name: their numbers follow PCI addresses here and whatever the driver chose there.
    names = [f"GPU{gpu.index}" for gpu in topology.gpus] + [nic.name for nic in topology.nics]
    assert sorted(names) == sorted(devices)
    found = {(a, b): topology.matrix.cells[i][j] for i, a in enumerate(names) for j, b in enumerate(names)}
    assert found == {(a, b): cell for a, row in rows.items() for b, cell in zip(devices, row, strict=True)}
