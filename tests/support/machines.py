"""Machines: simulated ones, probed and discovered in this process, and the link matrices of real ones.

The latter are the project's own list, and the captures beside the repository where there are some.
"""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from tests.support.paths import FIXTURES, SHARED
from toposcope.agent.discover import discover
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.probe import probe
from toposcope.agent.raw import RawNode
from toposcope.agent.sysfs import Sysfs
from toposcope.hardware.topology import NodeTopology
from toposcope.simulator.faults import Faults
from toposcope.simulator.machine import Machine
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.sysfs import write_sysfs


def probed(
    machine: Machine, folder: Path, faults: Faults | None = None, kind: type[SimulatedNvml] = SimulatedNvml
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
    machine: Machine, folder: Path, faults: Faults | None = None, kind: type[SimulatedNvml] = SimulatedNvml
) -> NodeTopology:
    """What the production agent makes of it."""
    return discover(probed(machine, folder, faults, kind))


def changed(machine: Machine, **facts: Any) -> Machine:
    """The machine with other facts about its first GPU."""
    return replace(machine, gpus=(replace(machine.gpus[0], **facts), *machine.gpus[1:]))


def started(module: SimulatedNvml) -> tuple[Nvml, Any]:
    """A gateway to a simulated NVML that has been initialised, and the handle of the first GPU."""
    module.nvmlInit()
    return Nvml(module), module.nvmlDeviceGetHandleByIndex(0)


Cells = dict[tuple[str, str], str]

_COMPLETE = "# fidelity: matrix complete"


@dataclass(frozen=True)
class Recorded:
    """One machine: what nvidia-smi printed, its devices in that order (NICs by their own names), and all cells."""

    text: str
    devices: tuple[str, ...]
    cells: Cells
    numbered: bool
    """Whether its columns are NIC0, NIC1 ...: drivers that do so order NICs by name."""


@functools.cache
def recorded_machines() -> Mapping[str, Recorded]:
    """Those of tests/fixtures/machines.yaml, and every complete capture beside the repository where there is one."""
    own = yaml.load((FIXTURES / "machines.yaml").read_bytes(), yaml.CSafeLoader)
    machines = {name: _of_figures(figures) for name, figures in own.items()}
    for file in sorted((SHARED / "captures").glob("*.txt")):
        text = file.read_text(encoding="utf-8")
        if _COMPLETE in text:
            machines[file.stem] = _of_text(text)
    return machines


def _of_figures(figures: Mapping[str, Any]) -> Recorded:
    triangle = [_expanded(row) for row in figures["matrix"].splitlines()]
    nics = [name.strip() for name in figures.get("nics", "").split(",") if name.strip()]
    devices = [f"GPU{i}" for i in range(len(triangle) - len(nics))] + nics
    at = {device: i for i, device in enumerate(devices)}
    cells = {(a, b): triangle[max(at[a], at[b])][min(at[a], at[b])] for a in devices for b in devices}
    named = figures.get("named_columns", False)
    text = "\n".join(_printed(figures, devices, cells, named=named))
    return Recorded(text, tuple(devices), cells, not named)


def _expanded(row: str) -> list[str]:
    words = (word.partition("*") for word in row.split())
    return [value for value, _, times in words for _ in range(int(times or 1))]


def _printed(figures: Mapping[str, Any], devices: list[str], cells: Cells, *, named: bool) -> Iterator[str]:
    """The matrix as nvidia-smi prints it, then what other commands say."""
    gpus = [device for device in devices if device.startswith("GPU")]
    nics = devices[len(gpus) :]
    columns = devices if named else gpus + [f"NIC{i}" for i in range(len(nics))]
    tails = {"CPU Affinity": "cpus", "NUMA Affinity": "numa", "GPU NUMA ID": "memory"}
    given = {title: _expanded(str(figures[key])) for title, key in tails.items() if key in figures}
    yield "\t".join(["", *columns, *given])
    for i, device in enumerate(devices):
        row = [" X " if other == device else cells[device, other] for other in devices]
        tail = {title: values[i] for title, values in given.items()} if device in gpus else {}
        # The driver writes a second tab before the last column.
        tail |= {"GPU NUMA ID": "\t" + tail["GPU NUMA ID"]} if "GPU NUMA ID" in tail else {}
        yield "\t".join([columns[i], *row, *("" if cell == "-" else cell for cell in tail.values())])
    if nics and not named:
        yield from ("", "NIC Legend:", "", *(f"  NIC{i}: {nic}" for i, nic in enumerate(nics)))
    yield ""
    for i, product in enumerate(_expanded(figures.get("products", ""))):
        yield f"GPU {i}: {product.replace('_', ' ')}"
        for link, speed in enumerate(_expanded(figures.get("links", ""))):
            yield f"\t Link {link}: {int(speed) / 1000} GB/s"
    yield from (f"{i}, {address}" for i, address in enumerate(figures.get("addresses", ())))
    if "sockets" in figures:
        yield f"Socket(s): {figures['sockets']}"
    yield from (f"NUMA node{node} CPU(s): {cpus}" for node, cpus in figures.get("node_cpus", {}).items())
    yield ""


def _of_text(text: str) -> Recorded:
    """Read as plainly as can be: no cell of a complete matrix is empty or holds a blank."""
    matrix = text.partition("\n## ")[0]  # what follows are other facts of the same machine
    rows = [line.split() for line in matrix.splitlines() if line.strip() and not line.startswith("#")]
    header = next(row for row in rows if row[0] == "GPU0" and "X" not in row)
    columns = [word for word in header if word not in {"CPU", "NUMA", "Affinity", "GPU", "ID"}]
    legend = {row[0][:-1]: row[1] for row in rows if row[0].startswith("NIC") and row[0].endswith(":")}
    cells = {
        (legend.get(row[0], row[0]), legend.get(column, column)): cell
        for row in rows
        if row[0] in columns and row is not header
        for column, cell in zip(columns, row[1:], strict=False)
    }
    return Recorded(text, tuple(legend.get(column, column) for column in columns), cells, bool(legend))
