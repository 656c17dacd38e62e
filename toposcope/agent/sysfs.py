"""Reads /sys: GPUs and NVSwitches on the PCI bus, InfiniBand and RoCE devices, NUMA nodes.

`root` stands for /sys, so that a folder of files is a machine. Nothing here asks NVML: its CPU lists are cut to the
caller's cpuset, and a GPU that fell off NVML is still on the bus.
"""

import os
import re
from typing import TYPE_CHECKING, Final

from toposcope.agent.raw import RawNic, RawNuma, RawPci, RawPort
from toposcope.topology.text import natural

if TYPE_CHECKING:
    from pathlib import Path

_NVIDIA: Final = "0x10de"
_GPU_CLASSES: Final = ("0x0300", "0x0302")
"""VGA and 3D controllers; a data-centre GPU is the second, one with a display output the first."""
_SWITCH_CLASS: Final = "0x0680"
_LARGEST: Final = 1 << 16
_DELETED: Final = " (deleted)"
"""What the kernel adds to the name of something that has gone."""
_ROOT: Final = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}", re.ASCII)


class Files:
    """How a probe reads the tree; `discover --record` passes one that remembers what was read."""

    def entries(self, folder: str) -> list[tuple[str, int]]:
        """The entries of a folder, unordered: names and inode numbers; none when it cannot be read."""
        try:
            with os.scandir(folder) as entries:
                return [(entry.name, entry.inode()) for entry in entries]
        except OSError:
            return []

    def names(self, folder: str) -> list[str]:
        """The names in a folder."""
        return [name for name, _ in self.entries(folder)]

    def text(self, path: str) -> str:
        """A file without the white space around it; empty when it cannot be read."""
        try:
            # Without Python's file objects: they are more than half of what 200 small reads cost.
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return ""
        try:
            return os.read(descriptor, _LARGEST).decode("ascii", "replace").strip()
        except OSError:
            return ""
        finally:
            os.close(descriptor)

    def real(self, path: str) -> str:
        """The path with all links followed."""
        try:
            # The kernel follows them in one call; os.path.realpath asks it about every folder on the way.
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return os.path.realpath(path)
        try:
            target = os.readlink(f"/proc/self/fd/{descriptor}")
        except OSError:  # no /proc
            return os.path.realpath(path)
        finally:
            os.close(descriptor)
        return os.path.realpath(path) if target.endswith(_DELETED) else target

    def exists(self, path: str) -> bool:
        """Whether the path exists, links followed."""
        return os.path.exists(path)

    def lexists(self, path: str) -> bool:
        """Whether the path exists, be it a dangling link."""
        return os.path.lexists(path)


class Sysfs:
    """A tree laid out as the kernel's /sys; a file that is missing or unreadable reads as nothing."""

    def __init__(self, root: "Path | str", files: Files | None = None) -> None:
        self._root = str(root)
        self._files = files or Files()
        self._kinds: dict[tuple[str, int], tuple[str, str]] = {}

    def nvidia_functions(self) -> tuple[tuple[RawPci, ...], tuple[str, ...]]:
        """The GPUs and the addresses of the NVSwitches on the PCI bus, by address.

        Virtual functions are left out: a GPU that is shared among VMs has dozens, and
        NVML has no handle for them. Inside a VM they are functions like any other.
        """
        gpus, switches = [], []
        bus = f"{self._root}/bus/pci/devices"
        for address, (vendor, kind) in sorted(self._functions_on(bus).items()):
            if vendor != _NVIDIA:
                continue
            folder = f"{bus}/{address}"
            if kind.startswith(_GPU_CLASSES) and not self._files.lexists(f"{folder}/physfn"):
                gpus.append(self._function(folder))
            elif kind.startswith(_SWITCH_CLASS):
                switches.append(address)
        return tuple(gpus), tuple(switches)

    def _functions_on(self, bus: str) -> dict[str, tuple[str, str]]:
        """Vendor and class of each PCI function by address.

        A server has some hundred functions, and what a function is cannot change: these two are read once. A function
        that went and came back has a new inode number, which the kernel does not give away twice.
        """
        kinds = {}
        for entry in self._files.entries(bus):
            folder = f"{bus}/{entry[0]}"
            known = self._kinds.get(entry)
            kinds[entry] = known or (self._files.text(f"{folder}/vendor"), self._files.text(f"{folder}/class"))
        self._kinds = {entry: kind for entry, kind in kinds.items() if all(kind)}
        return {address: kind for (address, _), kind in kinds.items()}

    def bus_visible(self) -> bool:
        """Whether the PCI bus can be seen at all."""
        return self._files.exists(f"{self._root}/bus/pci/devices")

    def module_loaded(self) -> bool:
        """Whether the kernel has loaded the NVIDIA module."""
        return self._files.exists(f"{self._root}/module/nvidia")

    def nics(self) -> tuple[RawNic, ...]:
        """InfiniBand and RoCE devices as `nvidia-smi topo -m` numbers them, without virtual functions."""
        nics = []
        for name in self._files.names(f"{self._root}/class/infiniband"):
            folder = f"{self._root}/class/infiniband/{name}"
            device = f"{folder}/device"
            if not self._files.exists(f"{device}/vendor") or self._files.lexists(f"{device}/physfn"):
                continue
            guid = self._files.text(f"{folder}/node_guid")
            nics.append(RawNic(name, self._function(device), guid, self._ports(f"{folder}/ports")))
        return tuple(sorted(nics, key=lambda nic: natural(nic.name)))

    def _ports(self, folder: str) -> tuple[RawPort, ...]:
        return tuple(
            RawPort(
                number, self._files.text(f"{folder}/{number}/link_layer"), self._files.text(f"{folder}/{number}/state")
            )
            for number in sorted(int(name) for name in self._files.names(folder) if name.isdecimal())
        )

    def numa(self) -> tuple[RawNuma, ...]:
        """The kernel's NUMA nodes in order; numbers can have gaps, and a node may have no CPUs."""
        folder = f"{self._root}/devices/system/node"
        nodes = (int(name[4:]) for name in self._files.names(folder) if name.startswith("node") and name[4:].isdigit())
        return tuple(
            RawNuma(
                node,
                self._files.text(f"{folder}/node{node}/cpulist"),
                tuple(int(d) for d in self._files.text(f"{folder}/node{node}/distance").split() if d.isdigit()),
            )
            for node in sorted(nodes)
        )

    def _function(self, folder: str) -> RawPci:
        real = self._files.real(folder)
        parts = real.split("/")
        # The root complex is found by its pattern: virtual machines put other components before it.
        start = next((i for i, part in enumerate(parts) if _ROOT.fullmatch(part)), len(parts) - 1)
        numa = self._files.text(f"{real}/numa_node")
        driver = self._files.real(f"{real}/driver") if self._files.lexists(f"{real}/driver") else None
        return RawPci(
            address=parts[-1],
            path=tuple(parts[start:]),
            numa=int(numa) if numa.isdigit() else None,  # the kernel writes -1 for "not known"
            local_cpus=self._files.text(f"{real}/local_cpulist"),
            driver=driver and os.path.basename(driver),
        )
