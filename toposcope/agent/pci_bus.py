"""The functions on the PCI bus as /sys shows them, and what of them cannot change.

Every object of the kernel has an inode number in sysfs that is not given away twice, so a function
that went and came back is another one.
"""

import os
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from toposcope.agent.raw import RawPci
from toposcope.agent.sysfs_files import Entry, Files
from toposcope.agent.vpd import Vpd

_VPD_ATTEMPTS: Final = 3
_ROOT: Final = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}", re.ASCII)


class PciKind(NamedTuple):
    """What a PCI function is, as its configuration space says.

    Hexadecimal text with `0x` in front.
    """

    vendor: str
    pci_class: str


Functions = dict[Entry, PciKind]
"""The functions on the bus by entry; the name is the address."""


class PciBus:
    """The functions on the PCI bus, and what of them cannot change."""

    def __init__(self, root: str, files: Files) -> None:
        self._folder = f"{root}/bus/pci/devices"
        self._files = files
        self._kinds: dict[Entry, PciKind] = {}
        self._device_ids: dict[Entry, str] = {}
        self._fixed: dict[Entry, RawPci] = {}
        self._parents: dict[Entry, str] = {}
        self._vpd: dict[Entry, Vpd] = {}
        self._vpd_failures: dict[Entry, int] = {}

    def functions(self) -> Functions:
        """All functions with their vendors and classes.

        A server has some hundred functions, and this is read once.
        """
        functions: Functions = {}
        complete: Functions = {}
        for entry in self._files.entries(self._folder):
            kind = self._kinds.get(entry)
            if kind is None:
                kind = self._read_kind(self.folder(entry))
            functions[entry] = kind
            if kind.vendor and kind.pci_class:
                complete[entry] = kind
        self._kinds = complete
        self._forget_others(functions)
        return functions

    def _read_kind(self, folder: str) -> PciKind:
        vendor = self._files.text(f"{folder}/vendor")
        pci_class = self._files.text(f"{folder}/class")
        return PciKind(vendor, pci_class)

    def _forget_others(self, functions: Functions) -> None:
        """Forget the functions that have gone."""
        memories: tuple[dict[Entry, Any], ...] = (
            self._device_ids,
            self._fixed,
            self._parents,
            self._vpd,
            self._vpd_failures,
        )
        for memory in memories:
            for gone in memory.keys() - functions.keys():
                del memory[gone]

    def folder(self, entry: Entry) -> str:
        """A function's folder on the bus."""
        return f"{self._folder}/{entry[0]}"

    def device_id(self, entry: Entry) -> str:
        """Which of its vendor's devices a function is; empty if it does not say."""
        if entry not in self._device_ids:
            self._device_ids[entry] = self._files.text(f"{self.folder(entry)}/device")
        return self._device_ids[entry]

    def parent(self, entry: Entry) -> str:
        """The address of a virtual function's physical one; empty for a physical function."""
        if entry not in self._parents:
            link = f"{self.folder(entry)}/physfn"
            parent = ""
            if self._files.lexists(link):
                parent = os.path.basename(self._files.real(link))
            self._parents[entry] = parent
        return self._parents[entry]

    def vpd(self, entry: Entry) -> Vpd | None:
        """A function's vital product data; None if it cannot be read.

        A device that fails to answer is left alone.
        """
        if entry in self._vpd:
            return self._vpd[entry]
        if self._vpd_failures.get(entry, 0) >= _VPD_ATTEMPTS:
            return None
        vpd = self._files.vpd(f"{self.folder(entry)}/vpd")
        if vpd is None:
            self._vpd_failures[entry] = self._vpd_failures.get(entry, 0) + 1
        else:
            self._vpd[entry] = vpd
        return vpd

    def function(self, entry: Entry) -> RawPci:
        """A function with the driver that holds it now."""
        return self.fixed(entry)._replace(driver=self.driver(entry))

    def fixed(self, entry: Entry) -> RawPci:
        """A function without its driver: where it is."""
        function = self._fixed.get(entry)
        if function is None:
            function = self._fixed[entry] = self.place(self.folder(entry))
        return function

    def driver(self, entry: Entry) -> str | None:
        """The driver that holds a function; None: none does."""
        link = f"{self.folder(entry)}/driver"
        if not self._files.lexists(link):
            return None
        return os.path.basename(self._files.real(link))

    def place(self, folder: str) -> RawPci:
        """The function that a folder, or a link to it, belongs to; without its driver."""
        real = self._files.real(folder)
        parts = real.split("/")
        numa = self._files.text(f"{real}/numa_node")
        return RawPci(
            address=parts[-1],
            path=_path_from_root(parts),
            numa=int(numa) if numa.isdigit() else None,  # the kernel writes -1 for "not known"
            local_cpus=self._files.text(f"{real}/local_cpulist"),
            driver=None,
        )


def _path_from_root(parts: Sequence[str]) -> tuple[str, ...]:
    """The part of a path from the root complex on.

    The root complex is found by its pattern: virtual machines put other components before it.
    """
    for position, part in enumerate(parts):
        if _ROOT.fullmatch(part):
            return tuple(parts[position:])
    return (parts[-1],)
