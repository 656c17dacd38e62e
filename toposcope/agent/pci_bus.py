"""The functions on the PCI bus as /sys shows them, and what of them cannot change.

Every object of the kernel has an inode number in sysfs that is not given away twice, so a function
that went and came back is another one.
"""

import os
import re
from typing import Any, Final, NamedTuple

from toposcope.agent.raw import RawPci
from toposcope.agent.sysfs_files import Entry, Files
from toposcope.agent.vpd import Vpd

_VPD_ATTEMPTS: Final = 3
_ROOT: Final = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}", re.ASCII)


class Kind(NamedTuple):
    """What a PCI function is, as its configuration space says.

    Hexadecimal text with `0x` in front.
    """

    vendor: str
    pci_class: str


Functions = dict[Entry, Kind]
"""The functions on the bus by entry; the name is the address."""


class PciBus:
    """The functions on the PCI bus, and what of them cannot change."""

    def __init__(self, root: str, files: Files) -> None:
        self._folder = f"{root}/bus/pci/devices"
        self._files = files
        self._kinds: dict[Entry, Kind] = {}
        self._device_ids: dict[Entry, str] = {}
        self._fixed: dict[Entry, RawPci] = {}
        self._parents: dict[Entry, str] = {}
        self._vpd: dict[Entry, Vpd] = {}
        self._vpd_failures: dict[Entry, int] = {}

    def functions(self) -> Functions:
        """Each function with its vendor and class.

        A server has some hundred functions, and this is read once.
        """
        found = {}
        for entry in self._files.entries(self._folder):
            folder = self.folder(entry)
            known = self._kinds.get(entry)
            found[entry] = known or Kind(
                self._files.text(f"{folder}/vendor"), self._files.text(f"{folder}/class")
            )
        self._kinds = {entry: kind for entry, kind in found.items() if all(kind)}
        for memory in (self._device_ids, self._fixed, self._parents, self._vpd, self._vpd_failures):
            _forget_others(memory, found)
        return found

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
            self._parents[entry] = (
                os.path.basename(self._files.real(link)) if self._files.lexists(link) else ""
            )
        return self._parents[entry]

    def vpd(self, entry: Entry) -> Vpd | None:
        """A function's vital product data; None if it cannot be read.

        A device that fails to answer is left alone.
        """
        if entry in self._vpd:
            return self._vpd[entry]
        if self._vpd_failures.get(entry, 0) >= _VPD_ATTEMPTS:
            return None
        found = self._files.vpd(f"{self.folder(entry)}/vpd")
        if found is None:
            self._vpd_failures[entry] = self._vpd_failures.get(entry, 0) + 1
        else:
            self._vpd[entry] = found
        return found

    def function(self, entry: Entry) -> RawPci:
        """A function with the driver that holds it now."""
        return self.fixed(entry)._replace(driver=self.driver(entry))

    def fixed(self, entry: Entry) -> RawPci:
        """A function without its driver: where it is."""
        known = self._fixed.get(entry)
        if known is None:
            known = self._fixed[entry] = self.place(self.folder(entry))
        return known

    def driver(self, entry: Entry) -> str | None:
        """The driver that holds a function; None: none does."""
        link = f"{self.folder(entry)}/driver"
        return os.path.basename(self._files.real(link)) if self._files.lexists(link) else None

    def place(self, folder: str) -> RawPci:
        """The function that a folder, or a link to it, belongs to; without its driver."""
        real = self._files.real(folder)
        parts = real.split("/")
        # The root complex is found by its pattern: virtual machines put other components before it.
        start = next((i for i, part in enumerate(parts) if _ROOT.fullmatch(part)), len(parts) - 1)
        numa = self._files.text(f"{real}/numa_node")
        return RawPci(
            address=parts[-1],
            path=tuple(parts[start:]),
            numa=int(numa) if numa.isdigit() else None,  # the kernel writes -1 for "not known"
            local_cpus=self._files.text(f"{real}/local_cpulist"),
            driver=None,
        )


def _forget_others(memory: dict[Entry, Any], functions: Functions) -> None:
    """Forget the functions that have gone."""
    for gone in memory.keys() - functions.keys():
        del memory[gone]
