"""Machines: simulated ones, probed and discovered in this process, and the link matrices of real ones.

The latter are in tests/documents/matrices/, and in the captures beside the repository where there are some.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.paths import DOCUMENTS, SHARED
from toposcope.agent.discover import discover
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.probe import probe
from toposcope.agent.raw import RawNode
from toposcope.agent.sysfs import Sysfs
from toposcope.hardware.topology import NodeTopology
from toposcope.simulator.faults import MachineFaults
from toposcope.simulator.machine import Machine
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import profile_names
from toposcope.simulator.sysfs import write_sysfs

_OF_EACH_KIND = ("dgx-h200", "dgx1-v100", "gb200-nvl72-tray", "l40s-4", "t4-1")
"""With NVSwitch, with a mesh of links, a tray of a rack, cards without links, and a single one."""


def probed(
    machine: Machine, folder: Path, faults: MachineFaults | None = None, kind: type[SimulatedNvml] = SimulatedNvml
) -> RawNode:
    """What the production probe gets to know of a machine, through simulated NVML calls and sysfs files.

    `kind` is a driver that answers in some way of its own.
    """
    root = folder / "sys"
    if not root.exists():
        write_sysfs(machine, root)
    module = kind(machine)
    if faults:
        module.faults = faults
    nvml = Nvml(module)
    return probe(nvml, Sysfs(root), nvml.start())


def discovered(
    machine: Machine, folder: Path, faults: MachineFaults | None = None, kind: type[SimulatedNvml] = SimulatedNvml
) -> NodeTopology:
    """What the production agent makes of it."""
    return discover(probed(machine, folder, faults, kind))


def every_profile() -> list[Any]:
    """All profiles, as parameters of a test; those that are much like one of a few are slow."""
    parameters = []
    for name in profile_names():
        marks = () if name in _OF_EACH_KIND else (pytest.mark.slow,)
        parameters.append(pytest.param(name, marks=marks))
    return parameters


def changed(machine: Machine, **facts: Any) -> Machine:
    """The machine with other facts about its first GPU."""
    first, *others = machine.gpus
    return replace(machine, gpus=(replace(first, **facts), *others))


def started(module: SimulatedNvml) -> tuple[Nvml, Any]:
    """A gateway to a simulated NVML that has been initialised, and the handle of the first GPU."""
    module.nvmlInit()
    return Nvml(module), module.nvmlDeviceGetHandleByIndex(0)


Cells = dict[tuple[str, str], str]

_COMPLETE = "# fidelity: matrix complete"
_OTHER_FACTS = "\n## "
"""What begins the answers of other commands in a capture."""
_TITLES = {"CPU", "NUMA", "Affinity", "GPU", "ID"}
"""Words of a matrix's last columns."""


@dataclass(frozen=True)
class Recorded:
    """One machine: what nvidia-smi printed, its devices in that order (NICs by their own names), and all cells."""

    text: str
    devices: tuple[str, ...]
    cells: Cells
    is_numbered: bool
    """Whether its columns are NIC0, NIC1 ...: drivers that do so order NICs by name."""


@functools.cache
def recorded_machines() -> Mapping[str, Recorded]:
    """Those of tests/documents/matrices/, and every complete capture beside the repository where there is one."""
    matrices = DOCUMENTS / "matrices"
    captures = SHARED / "captures"
    machines = {}
    for file in sorted(matrices.glob("*.txt")):
        text = file.read_text(encoding="utf-8")
        machines[file.stem] = _read(text)
    for file in sorted(captures.glob("*.txt")):
        text = file.read_text(encoding="utf-8")
        if _COMPLETE in text:
            machines[file.stem] = _read(text)
    return machines


def _read(text: str) -> Recorded:
    """Read as plainly as can be: no cell of a complete matrix is empty or holds a blank."""
    rows = _rows(text)
    header = _header(rows)
    columns = []
    for word in header:
        if word not in _TITLES:
            columns.append(word)
    legend = _legend(rows)
    devices = tuple(legend.get(column, column) for column in columns)

    cells = {}
    for row in rows:
        if row is header or row[0] not in columns:
            continue
        device = legend.get(row[0], row[0])
        for peer, cell in zip(devices, row[1:], strict=False):
            cells[device, peer] = cell
    has_nics = any(not device.startswith("GPU") for device in devices)
    is_numbered = bool(legend) or not has_nics
    return Recorded(text, devices, cells, is_numbered)


def _rows(text: str) -> list[list[str]]:
    """The words of each line of the matrix and its legend."""
    matrix, _, _other_facts = text.partition(_OTHER_FACTS)
    rows = []
    for line in matrix.splitlines():
        words = line.split()
        if words and not line.startswith("#"):
            rows.append(words)
    return rows


def _header(rows: list[list[str]]) -> list[str]:
    for row in rows:
        if row[0] == "GPU0" and "X" not in row:
            return row
    raise AssertionError("the capture has no matrix")


def _legend(rows: list[list[str]]) -> dict[str, str]:
    """Names of NICs by the titles of their columns."""
    legend = {}
    for first, *rest in rows:
        if first.startswith("NIC") and first.endswith(":"):
            title = first.removesuffix(":")
            legend[title] = rest[0]
    return legend
