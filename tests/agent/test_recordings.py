"""Every recorded machine, replayed: the matrix and the labels are those that are written beside it."""

from pathlib import Path

import pytest
from tests.support.paths import ROOT
from toposcope.agent.describe import describe
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.probe import probe
from toposcope.agent.sysfs import Sysfs
from toposcope.hardware.matrix import table
from toposcope.simulator.recording import ReplayedNvml, load_recording, write_recorded_sysfs

HERE = ROOT / "tests" / "recordings"
RECORDINGS = sorted(file.stem for file in HERE.glob("*.json"))


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recorded_machine_is_understood_as_written_down(name: str, tmp_path: Path) -> None:
    recording = load_recording(HERE / f"{name}.json")
    write_recorded_sysfs(recording, tmp_path / "sys")
    nvml = Nvml(ReplayedNvml(recording))
    found = describe(probe(nvml, Sysfs(tmp_path / "sys"), nvml.start()), "node")
    assert found.topology
    labels = [f"{key}={value}" for key, value in sorted(found.labels.known.items())]
    assert [*table(found.topology.matrix).splitlines(), "", *labels] == (HERE / f"{name}.txt").read_text().splitlines()


def test_every_recording_is_in_the_table_and_says_whether_it_was_simulated() -> None:
    rows = [line for line in (HERE / "README.md").read_text().splitlines() if line.startswith("| `")]
    simulated = {row.split("`")[1]: "no: " in row for row in rows}
    assert simulated == {name: load_recording(HERE / f"{name}.json").simulated for name in RECORDINGS}
