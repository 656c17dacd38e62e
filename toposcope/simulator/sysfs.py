"""A machine as the kernel shows it: where PCI devices, CPUs and memory are, in /sys.

`root` plays the role of /sys. Layout and formats: Documentation/ABI/testing/sysfs-bus-pci,
sysfs-devices-system-cpu, stable/sysfs-devices-node and stable/sysfs-class-infiniband of the kernel.
"""

import os
from pathlib import Path
from typing import Final

from toposcope.hardware.ranges import format_list
from toposcope.simulator.machine import Machine, PciFunction, PciId, SimulatedNic, identity
from toposcope.simulator.vpd import vpd_data

_BRIDGE_ID: Final = PciId(vendor=0x1000, device=0xC030, pci_class=0x060400)


def write_sysfs(machine: Machine, root: Path) -> None:
    """Write the tree of `machine` into `root`, which must not hold one yet.

    Raises FileExistsError, OSError.
    """
    for folder in (
        "bus/pci/devices",
        "class/infiniband",
        "devices/system/node",
        "devices/system/cpu",
    ):
        (root / folder).mkdir(parents=True)
    top = str(root)
    pci_tree = _PciTree(machine, top)
    for function in machine.functions:
        pci_tree.write(function)
    for nic in machine.nics:
        _write_infiniband(nic, top)
    _write_vpd(machine, top)
    _write_nodes(machine, f"{top}/devices/system/node")
    _write_cpus(machine, f"{top}/devices/system/cpu")


def _folder(function: PciFunction) -> str:
    """The device's folder below `root`."""
    slot = function.slot
    return "/".join(("devices", slot.root, *slot.bridges, slot.address))


class _PciTree:
    """The folders of PCI devices; each is written once."""

    def __init__(self, machine: Machine, top: str) -> None:
        self._top = top
        self._written: set[str] = set()
        self._cpulists = {-1: format_list(machine.cpus)}
        for node in machine.numa_nodes:
            self._cpulists[node.id] = node.cpulist

    def write(self, function: PciFunction) -> None:
        """Write a function and the bridges above it."""
        slot = function.slot
        folder = f"devices/{slot.root}"
        for bridge in slot.bridges:
            folder += f"/{bridge}"
            self._write_device(folder, _BRIDGE_ID, slot.numa_node)
        own_id = PciId(function.vendor, function.device, function.pci_class)
        self._write_device(_folder(function), own_id, slot.numa_node)

    def _write_device(self, folder: str, pci_id: PciId, numa_node: int) -> None:
        if folder in self._written:
            return
        self._written.add(folder)
        path = f"{self._top}/{folder}"
        os.makedirs(path, exist_ok=True)  # noqa: PTH103 - pathlib is several times slower here

        files = {
            "class": f"{pci_id.pci_class:#08x}",
            "vendor": f"{pci_id.vendor:#06x}",
            "device": f"{pci_id.device:#06x}",
            "numa_node": str(numa_node),
            "local_cpulist": self._cpulists[numa_node],
        }
        for name, text in files.items():
            _put(f"{path}/{name}", text)

        _, _, address = folder.rpartition("/")
        by_address = f"{self._top}/bus/pci/devices/{address}"
        _link(f"../../../{folder}", by_address)


def _write_infiniband(nic: SimulatedNic, top: str) -> None:
    device = _folder(nic.function)
    folder = f"{device}/infiniband/{nic.name}"
    path = f"{top}/{folder}"
    port = f"{path}/ports/1"
    state = "4: ACTIVE" if nic.is_active else "1: DOWN"
    guid = _guid(nic.node_guid)
    address = nic.slot.address
    os.makedirs(port)  # noqa: PTH103 - pathlib is several times slower here

    _put(f"{port}/link_layer", nic.link_layer)
    _put(f"{port}/state", state)
    _put(f"{path}/node_guid", guid)
    _link(f"../../../{address}", f"{path}/device")
    by_class = f"{top}/class/infiniband/{nic.name}"
    _link(f"../../{folder}", by_class)
    if nic.physfn is not None:
        # Functions of one card are neighbours in the tree.
        _link(f"../{nic.physfn}", f"{top}/{device}/physfn")


def _guid(number: int) -> str:
    """Four groups of four hexadecimal digits."""
    digits = f"{number:016x}"
    groups = []
    for start in range(0, len(digits), 4):
        end = start + 4
        groups.append(digits[start:end])
    return ":".join(groups)


def _write_vpd(machine: Machine, top: str) -> None:
    """Vital product data of bridges to NVSwitches and of cards with Data Direct."""
    cards: dict[str, str] = {}
    for nic in machine.nics:
        if not nic.has_vpd:
            continue
        card = identity(machine.name, "card", nic.slot.card).hex
        cards[nic.name] = card
        is_told = nic.is_management or machine.data_direct
        if nic.physfn is None and is_told:
            submodel = "SW_MNG" if nic.is_management else ""
            data = vpd_data(card=card, submodel=submodel)
            folder = _folder(nic.function)
            _put_bytes(f"{top}/{folder}/vpd", data)

    for direct in machine.data_direct:
        if direct.nic not in cards:
            continue
        data = vpd_data(card=cards[direct.nic])
        folder = _folder(direct.function)
        _put_bytes(f"{top}/{folder}/vpd", data)


def _write_nodes(machine: Machine, folder: str) -> None:
    every_node = []
    with_cpus = []
    for node in machine.numa_nodes:
        every_node.append(node.id)
        if node.cpus:
            with_cpus.append(node.id)

    every_text = format_list(every_node)
    for name in ("online", "possible", "has_memory"):
        _put(f"{folder}/{name}", every_text)
    cpu_text = format_list(with_cpus)
    _put(f"{folder}/has_cpu", cpu_text)

    for node in machine.numa_nodes:
        path = f"{folder}/node{node.id}"
        distances = " ".join(map(str, node.distances))
        os.mkdir(path)  # noqa: PTH102 - pathlib is several times slower here
        _put(f"{path}/cpulist", node.cpulist)
        _put(f"{path}/distance", distances)


def _write_cpus(machine: Machine, folder: str) -> None:
    everything = format_list(machine.cpus)
    _put(f"{folder}/online", everything)
    _put(f"{folder}/possible", everything)

    packages: dict[int, int] = {}
    for node in machine.numa_nodes:
        for cpu in sorted(node.cpus):
            path = f"{folder}/cpu{cpu}"
            # The CPUs of a package differ in nothing that is shown here: one folder under many
            # names, and a tree that is written in a fraction of the time.
            first = packages.setdefault(node.package, cpu)
            if cpu != first:
                _link(f"cpu{first}", path)
                continue
            os.makedirs(f"{path}/topology")  # noqa: PTH103 - pathlib is several times slower here
            _put(f"{path}/topology/physical_package_id", str(node.package))


def _put(path: str, text: str) -> None:
    _put_bytes(path, text.encode() + b"\n")


def _put_bytes(path: str, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
    try:
        os.write(descriptor, content)
    finally:
        os.close(descriptor)


def _link(target: str, path: str) -> None:
    os.symlink(target, path)  # noqa: PTH211 - pathlib is several times slower here
