"""A simulated machine, probed and discovered in this process."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from toposcope.agent.discover import discover
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.probe import probe
from toposcope.agent.raw import RawNode
from toposcope.agent.sysfs import Sysfs
from toposcope.simulator.faults import Faults
from toposcope.simulator.machine import Machine
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.sysfs import write_sysfs
from toposcope.topology.hardware import NodeTopology


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
