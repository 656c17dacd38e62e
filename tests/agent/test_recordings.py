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
def test_recorded_machine_is_understood_as_the_readme_says(name: str, tmp_path: Path) -> None:
    sysfs = tmp_path / "sys"
    recording = load_recording(HERE / f"{name}.json")
    write_recorded_sysfs(recording, sysfs)
    nvml = Nvml(ReplayedNvml(recording))
    raw = probe(nvml, Sysfs(sysfs), nvml.start())
    description = describe(raw, "node")
    assert description.topology

    lines = table(description.topology.matrix).splitlines()
    lines.append("")
    labels = description.labels.by_key
    for key, value in sorted(labels.items()):
        lines.append(f"{key}={value}")
    expected = (HERE / f"{name}.txt").read_text()
    assert lines == expected.splitlines()


def test_every_recording_is_in_the_table() -> None:
    """With whether it was simulated."""
    is_simulated = {}
    readme = (HERE / "README.md").read_text()
    table, _, _ = readme.partition("## ")
    for line in table.splitlines():
        if line.startswith("| `"):
            _before, name, row = line.split("`", 2)
            is_simulated[name] = "no: " in row
    assert sorted(is_simulated) == RECORDINGS
    for name in RECORDINGS:
        recording = load_recording(HERE / f"{name}.json")
        assert recording.simulated == is_simulated[name], name
