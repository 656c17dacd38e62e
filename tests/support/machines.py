"""A simulated machine, probed and discovered in this process."""

from pathlib import Path

from agent.discover import discover
from agent.nvml import Nvml
from agent.probe import probe
from agent.raw import RawNode
from agent.sysfs import Sysfs
from simulator.faults import Faults
from simulator.machine import Machine
from simulator.nvml import SimulatedNvml
from simulator.sysfs import write_sysfs
from topology.hardware import NodeTopology


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
