"""Reads /sys: GPUs and NVSwitches on the PCI bus, NICs, NUMA nodes.

`root` stands for /sys, so that a folder of files is a machine. Nothing here asks NVML: its CPU
lists are cut to the caller's cpuset, and a GPU that fell off NVML is still on the bus. What cannot
change is read once.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from toposcope.agent.pci_bus import Functions, PciBus
from toposcope.agent.raw import RawDataDirect, RawNic, RawNuma, RawPci
from toposcope.agent.rdma import RdmaDevices
from toposcope.agent.sysfs_files import Entry, Files

if TYPE_CHECKING:
    from pathlib import Path

_NVIDIA: Final = "0x10de"
_GPU_CLASSES: Final = ("0x0300", "0x0302")
"""VGA and 3D controllers; a data-centre GPU is the second, one with a display output the first."""
_SWITCH_CLASS: Final = "0x0680"


class PciDevices(NamedTuple):
    """What there is on the PCI bus that matters."""

    gpus: tuple[RawPci, ...]
    """By address."""
    switches: tuple[str, ...]
    """Addresses of the NVSwitches."""
    nics: tuple[RawNic, ...]
    """In the order of `nvidia-smi topo -m`."""
    data_direct: tuple[RawDataDirect, ...]
    """By address."""
    hidden_nics: tuple[str, ...]
    """Addresses of NICs whose RDMA device cannot be seen."""


class Sysfs:
    """A tree laid out as the kernel's /sys; a file that is missing or unreadable reads as nothing.

    `has_vf_rails` takes virtual functions with an RDMA device for NICs too.
    """

    def __init__(
        self, root: "Path | str", files: Files | None = None, *, has_vf_rails: bool = False
    ) -> None:
        self._root = str(root)
        self._files = files or Files()
        self._bus = PciBus(self._root, self._files)
        self._rdma = RdmaDevices(self._root, self._files, self._bus, has_vf_rails=has_vf_rails)
        self._numa: dict[Entry, RawNuma] = {}
        self._online = ""

    def devices(self) -> PciDevices:
        """Everything on the bus that matters, read at once."""
        functions = self._bus.functions()
        gpus, switches = self._nvidia_functions(functions)
        network = self._rdma.read(functions)
        return PciDevices(
            gpus=gpus,
            switches=switches,
            nics=network.nics,
            data_direct=network.data_direct,
            hidden_nics=network.hidden,
        )

    def nvidia_functions(self) -> tuple[tuple[RawPci, ...], tuple[str, ...]]:
        """The GPUs and the addresses of the NVSwitches on the PCI bus, by address.

        Virtual functions are left out: a GPU that is shared among VMs has dozens, and
        NVML has no handle for them. Inside a VM they are functions like any other.
        """
        return self._nvidia_functions(self._bus.functions())

    def nics(self) -> tuple[RawNic, ...]:
        """The NICs alone."""
        return self._rdma.read(self._bus.functions()).nics

    def _nvidia_functions(self, functions: Functions) -> tuple[tuple[RawPci, ...], tuple[str, ...]]:
        gpus, switches = [], []
        for entry, kind in sorted(functions.items()):
            if kind.vendor != _NVIDIA:
                continue
            is_gpu = kind.pci_class.startswith(_GPU_CLASSES)
            if is_gpu and not self._bus.parent(entry):
                gpu = self._bus.function(entry)
                gpus.append(gpu)
            elif kind.pci_class.startswith(_SWITCH_CLASS):
                switches.append(entry[0])
        return tuple(gpus), tuple(switches)

    def is_bus_visible(self) -> bool:
        """Whether the PCI bus can be seen at all."""
        return self._files.exists(f"{self._root}/bus/pci/devices")

    def is_module_loaded(self) -> bool:
        """Whether the kernel has loaded the NVIDIA module."""
        return self._files.exists(f"{self._root}/module/nvidia")

    def has_integrated_gpu(self) -> bool:
        """Whether the kernel has loaded the driver of a Jetson's GPU."""
        return self._files.exists(f"{self._root}/module/nvgpu")

    def numa(self) -> tuple[RawNuma, ...]:
        """The kernel's NUMA nodes in order; numbers can have gaps, and a node may have no CPUs.

        They are read again when CPUs came or went; where the kernel does not say which are online,
        every time.
        """
        online = self._files.text(f"{self._root}/devices/system/cpu/online")
        if not online or online != self._online:
            self._numa = {}
        self._online = online
        folder = f"{self._root}/devices/system/node"
        nodes = {}
        for entry in self._files.entries(folder):
            name, _ = entry
            number = name.removeprefix("node")
            if name == number or not number.isdecimal():
                continue
            node = self._numa.get(entry)
            if node is None:
                node = self._numa_node(f"{folder}/{name}", int(number))
            nodes[entry] = node
        self._numa = nodes
        return tuple(sorted(nodes.values()))

    def _numa_node(self, folder: str, number: int) -> RawNuma:
        distances = self._files.text(f"{folder}/distance").split()
        return RawNuma(
            id=number,
            cpus=self._files.text(f"{folder}/cpulist"),
            distances=tuple(int(distance) for distance in distances if distance.isdecimal()),
        )
