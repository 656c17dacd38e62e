"""A machine as the kernel shows it: the part of /sys that tells where PCI devices, CPUs and memory are.

`root` plays the role of /sys. Layout and formats: Documentation/ABI/testing/sysfs-bus-pci, sysfs-devices-system-cpu,
stable/sysfs-devices-node and stable/sysfs-class-infiniband of the kernel.
"""

import os
from pathlib import Path
from typing import Final

from toposcope.hardware.ranges import format_list
from toposcope.simulator.machine import Machine, Nic, PciFunction, identity
from toposcope.simulator.vpd import vpd_data

_BRIDGE_CLASS: Final = 0x060400
_BRIDGE_ID: Final = (0x1000, 0xC030)


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
    _write_pci(machine, top)
    for nic in machine.nics:
        _write_infiniband(nic, top)
    _write_vpd(machine, top)
    _write_nodes(machine, f"{top}/devices/system/node")
    _write_cpus(machine, f"{top}/devices/system/cpu")


def _folder(function: PciFunction) -> str:
    """The device's folder below `root`."""
    slot = function.slot
    return "/".join(("devices", slot.root, *slot.bridges, slot.address))


def _write_pci(machine: Machine, top: str) -> None:
    written: set[str] = set()
    cpulists = {-1: format_list(machine.cpus)} | {
        node.id: node.cpulist for node in machine.numa_nodes
    }

    def write(folder: str, vendor: int, device: int, pci_class: int, numa_node: int) -> None:
        if folder in written:
            return
        written.add(folder)
        os.makedirs(f"{top}/{folder}", exist_ok=True)  # noqa: PTH103 - pathlib is several times slower here
        _put(f"{top}/{folder}/class", f"{pci_class:#08x}")
        _put(f"{top}/{folder}/vendor", f"{vendor:#06x}")
        _put(f"{top}/{folder}/device", f"{device:#06x}")
        _put(f"{top}/{folder}/numa_node", str(numa_node))
        _put(f"{top}/{folder}/local_cpulist", cpulists[numa_node])
        _link(f"../../../{folder}", f"{top}/bus/pci/devices/{folder.rpartition('/')[2]}")

    for function in machine.functions:
        slot = function.slot
        for depth in range(1, len(slot.bridges) + 1):
            bridge = "/".join(("devices", slot.root, *slot.bridges[:depth]))
            write(bridge, *_BRIDGE_ID, _BRIDGE_CLASS, slot.numa_node)
        write(
            _folder(function), function.vendor, function.device, function.pci_class, slot.numa_node
        )


def _write_infiniband(nic: Nic, top: str) -> None:
    device = _folder(nic.function)
    folder = f"{device}/infiniband/{nic.name}"
    port = f"{top}/{folder}/ports/1"
    os.makedirs(port)  # noqa: PTH103 - pathlib is several times slower here
    _put(f"{port}/link_layer", nic.link_layer)
    _put(f"{port}/state", "4: ACTIVE" if nic.active else "1: DOWN")
    guid = f"{nic.node_guid:016x}"
    _put(f"{top}/{folder}/node_guid", ":".join(guid[i : i + 4] for i in range(0, 16, 4)))
    _link(f"../../../{nic.slot.address}", f"{top}/{folder}/device")
    _link(f"../../{folder}", f"{top}/class/infiniband/{nic.name}")
    if nic.physfn is not None:
        # Functions of one card are neighbours in the tree.
        _link(f"../{nic.physfn}", f"{top}/{device}/physfn")


def _write_vpd(machine: Machine, top: str) -> None:
    """Vital product data of those whose data says something: bridges to NVSwitches, and the cards with Data Direct."""
    cards = {nic.name: identity(machine.name, "card", nic.slot.card).hex for nic in machine.nics}
    readable = {nic.name for nic in machine.nics if nic.vpd}
    for nic in machine.nics:
        if nic.vpd and nic.physfn is None and (nic.management or machine.data_direct):
            submodel = "SW_MNG" if nic.management else ""
            _put_bytes(
                f"{top}/{_folder(nic.function)}/vpd",
                vpd_data(card=cards[nic.name], submodel=submodel),
            )
    for direct in machine.data_direct:
        if direct.nic in readable:
            _put_bytes(f"{top}/{_folder(direct.function)}/vpd", vpd_data(card=cards[direct.nic]))


def _write_nodes(machine: Machine, folder: str) -> None:
    everything = format_list(node.id for node in machine.numa_nodes)
    _put(f"{folder}/online", everything)
    _put(f"{folder}/possible", everything)
    _put(f"{folder}/has_cpu", format_list(node.id for node in machine.numa_nodes if node.cpus))
    _put(f"{folder}/has_memory", everything)
    for node in machine.numa_nodes:
        os.mkdir(f"{folder}/node{node.id}")  # noqa: PTH102 - pathlib is several times slower here
        _put(f"{folder}/node{node.id}/cpulist", node.cpulist)
        _put(f"{folder}/node{node.id}/distance", " ".join(map(str, node.distances)))


def _write_cpus(machine: Machine, folder: str) -> None:
    everything = format_list(machine.cpus)
    _put(f"{folder}/online", everything)
    _put(f"{folder}/possible", everything)
    packages: dict[int, int] = {}
    for node in machine.numa_nodes:
        for cpu in sorted(node.cpus):
            # The CPUs of a package differ in nothing that is shown here: one folder under many
            # names, and a tree that is written in a fraction of the time.
            first = packages.setdefault(node.package, cpu)
            if cpu == first:
                os.makedirs(f"{folder}/cpu{cpu}/topology")  # noqa: PTH103 - pathlib is several times slower here
                _put(f"{folder}/cpu{cpu}/topology/physical_package_id", str(node.package))
            else:
                _link(f"cpu{first}", f"{folder}/cpu{cpu}")


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
