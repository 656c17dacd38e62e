"""The ports of this machine's NICs: their network interfaces, and InfiniBand ports that are up."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from toposcope.agent.raw import RawNic
from toposcope.agent.sysfs import Sysfs
from toposcope.agent.sysfs_files import Files

_REPRESENTOR: Final = re.compile(r"(c\d+)?pf\d+(vf|sf)\d+", re.ASCII)
"""`phys_port_name` of an interface that stands for a virtual function; no cable ends there."""
_INFINIBAND: Final = "InfiniBand"
_BOND: Final = "_bond_"
"""In what mlx5 calls the device of aggregated ports."""


class NicPorts(NamedTuple):
    """One NIC of the link matrix."""

    nic: str
    netdev: str
    """Its network interface, that of its own PCI function also where it is part of a bond; empty:
    none."""
    has_carrier: bool
    """Whether the interface has a link."""
    umads: tuple[tuple[str, int], ...]
    """Device under /dev/infiniband and port number of each InfiniBand port that has a link."""
    others: tuple[str, ...] = ()
    """The other network interfaces whose ports it aggregates (`mlx5_bond_0`)."""
    is_aggregated: bool = False
    """Whether it aggregates ports, be they known or not."""

    @property
    def netdevs(self) -> tuple[str, ...]:
        """The interfaces whose cables are this NIC's."""
        if not self.netdev:
            return self.others
        return (self.netdev, *self.others)


Umads = Mapping[tuple[str, int], str]
"""Devices under /dev/infiniband by NIC and port."""


def read_ports(root: Path, files: Files | None = None) -> list[NicPorts]:
    """The NICs in the order of the matrix.

    `root` stands for /sys, seen from the host's network namespace.
    """
    files = files or Files()
    umads = _read_umads(f"{root}/class/infiniband_mad", files)
    ports = []
    for nic in Sysfs(root, files).nics():
        nic_ports = _nic_ports(root, files, nic, umads)
        ports.append(nic_ports)
    return ports


def _read_umads(folder: str, files: Files) -> Umads:
    umads = {}
    for name in files.names(folder):
        if not name.startswith("umad"):
            continue
        device = f"{folder}/{name}"
        nic = files.text(f"{device}/ibdev")
        port = files.text(f"{device}/port")
        if port.isdecimal():
            number = int(port)
            umads[nic, number] = name
    return umads


def _nic_ports(root: Path, files: Files, nic: RawNic, umads: Umads) -> NicPorts:
    netdevs = f"{root}/class/net"
    ethernet = [port.number for port in nic.ports if port.link_layer != _INFINIBAND]
    netdev = ""
    if ethernet:
        netdev = _netdev(files, f"{root}/class/infiniband/{nic.name}/device/net", ethernet[0])
    has_carrier = False
    others: tuple[str, ...] = ()
    if netdev:
        has_carrier = files.text(f"{netdevs}/{netdev}/carrier") == "1"
        others = _aggregated_with(files, netdevs, netdev)
    return NicPorts(
        nic=nic.name,
        netdev=netdev,
        has_carrier=has_carrier,
        umads=_linked_umads(nic, umads),
        others=others,
        is_aggregated=bool(others) or _BOND in nic.name,
    )


def _linked_umads(nic: RawNic, umads: Umads) -> tuple[tuple[str, int], ...]:
    """Those of the InfiniBand ports that have a link."""
    linked = []
    for port in nic.ports:
        device = umads.get((nic.name, port.number))
        if not device or port.link_layer != _INFINIBAND:
            continue
        _, _, state = port.state.rpartition(":")  # the kernel writes `4: ACTIVE`
        if state.strip() != "DOWN":
            linked.append((device, port.number))
    return tuple(linked)


def _aggregated_with(files: Files, folder: str, netdev: str) -> tuple[str, ...]:
    """The other members of an interface's bond whose ports its RDMA device aggregates.

    Such members have no RDMA device of their own.
    """
    bond = f"{folder}/{netdev}/master/bonding"
    slaves = files.text(f"{bond}/slaves")
    members = set()
    for member in slaves.split():
        rdma_devices = files.names(f"{folder}/{member}/device/infiniband")
        if member != netdev and not rdma_devices:
            members.add(member)
    return tuple(sorted(members))


def _netdev(files: Files, folder: str, port: int) -> str:
    """The interface of a port among those of its PCI function, of which old cards have several."""
    names = []
    for name in sorted(files.names(folder)):
        port_name = files.text(f"{folder}/{name}/phys_port_name")
        if not _REPRESENTOR.match(port_name):
            names.append(name)
    if not names:
        return ""

    number_on_device = str(port - 1)
    for name in names:
        dev_port = files.text(f"{folder}/{name}/dev_port")
        if dev_port == number_on_device:
            return name
    return names[0]
