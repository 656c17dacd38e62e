"""Changes to the /sys of a simulated machine, as a test or an administrator makes them."""

import shutil
from pathlib import Path

from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.probe import probe
from toposcope.agent.raw import RawNode
from toposcope.agent.sysfs import Sysfs
from toposcope.simulator.machine import Machine
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile
from toposcope.simulator.sysfs import write_sysfs


class LivingMachine:
    """A machine that is probed again and again by one process, while its /sys changes."""

    def __init__(self, machine: Machine, folder: Path, *, has_vf_rails: bool = False) -> None:
        self.machine = machine
        self.root = folder / "sys"
        self.vf_rails = has_vf_rails
        if not self.root.exists():
            write_sysfs(machine, self.root)
        self.restart()

    def restart(self) -> None:
        """Have another process probe it, which remembers nothing."""
        self._nvml = Nvml(SimulatedNvml(self.machine))
        self._sysfs = Sysfs(self.root, has_vf_rails=self.vf_rails)

    def probe(self) -> RawNode:
        return probe(self._nvml, self._sysfs, self._nvml.start())

    def function(self, name: str) -> Path:
        """The folder of the PCI function of an RDMA device, also of one that is hidden."""
        nic = next(nic for nic in self.machine.nics if nic.name == name)
        devices = self.root / "bus" / "pci" / "devices"
        link = devices / nic.function.address
        return link.resolve()

    def hide(self, name: str) -> None:
        """A pod takes the RDMA device along into its network namespace."""
        self._class_link(name).unlink()
        home = self.function(name) / "infiniband" / name
        hidden = self._hidden(name)
        shutil.move(home, hidden)

    def show(self, name: str) -> None:
        """The pod has ended."""
        home = self.function(name) / "infiniband" / name
        hidden = self._hidden(name)
        shutil.move(hidden, home)
        link = self._class_link(name)
        link.symlink_to(home)

    def _class_link(self, name: str) -> Path:
        return self.root / "class" / "infiniband" / name

    def _hidden(self, name: str) -> Path:
        """Where the folder of a hidden RDMA device is."""
        return self.root.parent / f"hidden-{name}"

    def bind(self, name: str, driver: str) -> None:
        """Have a driver hold the PCI function of an RDMA device."""
        drivers = self.root / "bus" / "pci" / "drivers"
        home = drivers / driver
        home.mkdir(parents=True, exist_ok=True)
        link = self.function(name) / "driver"
        link.unlink(missing_ok=True)
        link.symlink_to(home)


def machine_of(text: str, folder: Path) -> Machine:
    """A machine from a profile that is written down in a test."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "machine.yaml"
    file.write_text(text)
    return load_profile(file)
