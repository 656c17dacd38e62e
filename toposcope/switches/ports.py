"""The ports of this machine's NICs: which network interface belongs to each, and which InfiniBand ports are up."""

import re
from pathlib import Path
from typing import Final, NamedTuple

from toposcope.agent.sysfs import Sysfs
from toposcope.agent.sysfs_files import Files
from toposcope.topology.hardware import Port

_REPRESENTOR: Final = re.compile(r"(c\d+)?pf\d+(vf|sf)\d+", re.ASCII)
"""`phys_port_name` of an interface that stands for a virtual function; no cable ends there."""
_INFINIBAND: Final = "InfiniBand"
_BOND: Final = "_bond_"
"""In what mlx5 calls the device of aggregated ports."""


class NicPorts(NamedTuple):
    """One NIC of the link matrix."""

    nic: str
    netdev: str
    """Its network interface, that of its own PCI function also where it is part of a bond; empty: none."""
    carrier: bool
    """Whether the interface has a link."""
    umads: tuple[tuple[str, int], ...]
    """Device under /dev/infiniband and port number of each InfiniBand port that has a link."""
    others: tuple[str, ...] = ()
    """The other network interfaces whose ports it aggregates (`mlx5_bond_0`)."""
    aggregated: bool = False
    """Whether it aggregates ports, be they known or not."""

    @property
    def netdevs(self) -> tuple[str, ...]:
        """The interfaces whose cables are this NIC's."""
        own = (self.netdev,) if self.netdev else ()
        return (*own, *self.others)


def read_ports(root: Path, files: Files | None = None) -> list[NicPorts]:
    """The NICs in the order of the matrix; `root` stands for /sys, seen from the host's network namespace."""
    files = files or Files()
    folder = f"{root}/class/infiniband_mad"
    umads = {
        (files.text(f"{folder}/{name}/ibdev"), files.text(f"{folder}/{name}/port")): name
        for name in files.names(folder)
        if name.startswith("umad")
    }
    found = []
    for nic in Sysfs(root, files).nics():
        ports = [Port(port.number, port.link_layer, port.state.rpartition(":")[2].strip()) for port in nic.ports]
        linked = [port.number for port in ports if port.link_layer == _INFINIBAND and port.state != "DOWN"]
        ethernet = next((port.number for port in ports if port.link_layer != _INFINIBAND), None)
        netdev = "" if ethernet is None else _netdev(files, f"{root}/class/infiniband/{nic.name}/device/net", ethernet)
        carrier = bool(netdev) and files.text(f"{root}/class/net/{netdev}/carrier") == "1"
        devices = tuple((umads[nic.name, str(port)], port) for port in linked if (nic.name, str(port)) in umads)
        others = _aggregated_with(files, f"{root}/class/net", netdev) if netdev else ()
        aggregated = bool(others) or _BOND in nic.name
        found.append(NicPorts(nic.name, netdev, carrier, devices, others, aggregated))
    return found


def _aggregated_with(files: Files, folder: str, netdev: str) -> tuple[str, ...]:
    """The other members of an interface's bond whose ports its RDMA device aggregates: they have none of their own."""
    members = files.text(f"{folder}/{netdev}/master/bonding/slaves").split()
    members = [member for member in members if not files.names(f"{folder}/{member}/device/infiniband")]
    return tuple(sorted(set(members) - {netdev}))


def _netdev(files: Files, folder: str, port: int) -> str:
    """The interface of a port, of those of its PCI function; old cards have several ports on one function."""
    names = sorted(
        name for name in files.names(folder) if not _REPRESENTOR.match(files.text(f"{folder}/{name}/phys_port_name"))
    )
    numbered = [name for name in names if files.text(f"{folder}/{name}/dev_port") == str(port - 1)]
    return (numbered or names or [""])[0]
