"""NCCL's topology XML of one node, as `NCCL_TOPO_FILE` takes it.

It is built from the annotation that the node's agent publishes. The form is that of NCCL's own dump
(`NCCL_TOPO_DUMP_FILE`; src/graph/xml.cc and topo.cc of NCCL). NCCL fills in what a file leaves out
from the machine it runs on, so nothing is guessed here: unknown facts are left out and listed.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree as ET

from toposcope.hardware.matrix import LinkMatrix, nv_links
from toposcope.hardware.matrix_annotation import MatrixDevice, NodeMatrix
from toposcope.hardware.pci import PIX, PXB
from toposcope.hardware.ranges import parse_list
from toposcope.hardware.topology import Interconnect
from toposcope.integrations.framework.levels import ExportError

_DATA_DIRECT: Final = "dd"
"""The kind of a device that is a NIC's Data Direct function."""
_GPU_CLASS: Final = "0x030200"
_NIC_CLASS: Final = "0x020000"
_BRIDGE_CLASS: Final = "0x060400"
_SWITCH_CLASS: Final = "0x068000"
_HIDDEN_SWITCH: Final = "fffffff:ff:ff.0"
"""What NCCL writes for an NVSwitch whose address the GPU does not report."""
_ARCHITECTURES: Final = {"amd64": "x86_64", "arm64": "arm64", "ppc64le": "ppc64"}
"""Kubernetes' names of CPU architectures, with NCCL's."""
SPEEDS: Final = {3: "8.0 GT/s PCIe", 4: "16.0 GT/s PCIe", 5: "32.0 GT/s PCIe", 6: "64.0 GT/s PCIe"}
"""The link speed of each PCIe generation, as Linux and NCCL write it."""
_WORD_BITS: Final = 32
_WORD_MASK: Final = 0xFFFFFFFF
_MAX_ATTRIBUTE_CHARACTERS: Final = 254
"""Characters in an attribute (MAX_STR_LEN of NCCL): masks of some 900 CPUs.

NCCL reads a missing one from sysfs.
"""

_ALWAYS_UNKNOWN: Final = (
    (
        "CPU vendor, family and model, compute capability (sm), rank and gdr of GPUs, "
        "C2C links (NCCL asks the machine)"
    ),
    "speed, port and GUID of NICs, PCI vendor and device numbers (NCCL asks the machine)",
    (
        "addresses of PCI switches: those at ffff:ff:* are placeholders for the switches that "
        "the matrix implies"
    ),
    "whether two GPUs connected by NVLink also share a PCI switch, unless a NIC near both shows it",
    "PHB as distinct from NODE: NCCL has one CPU for both",
)


@dataclass(frozen=True, slots=True)
class NcclTopology:
    """The file, and what is unknown about the node."""

    text: str
    unknown: tuple[str, ...]
    """One phrase each; the file lists them too."""


def write(
    node: str, matrix: NodeMatrix, interconnect: str | None, arch: str | None, pcie: int | None
) -> NcclTopology:
    """The topology of a node. Raises ExportError when its matrix is unknown.

    `interconnect` is the label that says whether NVLinks end in switches, `arch` Kubernetes' name
    of the CPU architecture, `pcie` the PCIe generation of all links, which the annotation does not
    tell.
    """
    if matrix.links is None:
        raise ExportError(
            f"node {node}: its topology matrix was too large for the annotation, so there is no "
            "topology to write"
        )
    _check_addresses(node, matrix.devices)

    unknown = _unknown(interconnect, arch, pcie)
    if any(device.kind == _DATA_DIRECT for device in matrix.devices):
        unknown += ("Data Direct functions of NICs: left out (NCCL asks the driver for them)",)

    root = ET.Element("system", version="1")
    root.append(ET.Comment(_comment(node, unknown)))
    writer = _Writer(root, matrix.devices, matrix.links, interconnect, pcie)
    writer.write(_ARCHITECTURES.get(arch or ""))
    ET.indent(root)
    # As in NCCL's dumps: its own parser would take the blank for the beginning of an attribute.
    text = ET.tostring(root, encoding="unicode").replace(" />", "/>")
    return NcclTopology(text + "\n", unknown)


def _check_addresses(node: str, devices: Sequence[MatrixDevice]) -> None:
    """Raises ExportError when a device has no PCI address."""
    nameless = []
    for device in devices:
        if not device.pci:
            nameless.append(device.label)
    if nameless:
        labels = ", ".join(nameless)
        raise ExportError(f"node {node}: the annotation gives no PCI address for {labels}")


def _unknown(interconnect: str | None, arch: str | None, pcie: int | None) -> tuple[str, ...]:
    unknown = list(_ALWAYS_UNKNOWN)
    if pcie is None:
        unknown.append(
            "PCIe speed: NCCL takes 12 GB/s for the switches (flag pcie-gen says better) and "
            "asks the machine for GPUs "
            "and NICs; it does so only for NICs without a net element, and adds that itself"
        )
    if arch not in _ARCHITECTURES:
        unknown.append(
            "CPU architecture: the node has no label kubernetes.io/arch that NCCL has a name for"
        )
    if interconnect is None:
        unknown.append(
            "whether NVLinks end in NVSwitches (no label gpu.topology/interconnect): NVLinks are "
            "left out"
        )
    return tuple(unknown)


def _comment(node: str, unknown: Sequence[str]) -> str:
    lines = [f" {node}, from the annotation gpu.topology/matrix. Unknown:"]
    for fact in unknown:
        lines.append(f"- {fact}")
    text = "\n  ".join(lines)

    # Two hyphens would end the comment.
    return text.replace("--", "- -") + " "


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """Devices below one port of a CPU, by their position in the matrix."""

    numa: int
    """-1, as NCCL writes it, if unknown."""
    switches: tuple[tuple[int, ...], ...]
    """The devices that share a switch; several such switches hang from one above them."""


def groups_of(devices: Sequence[MatrixDevice], links: LinkMatrix) -> list[DeviceGroup]:
    """The devices by the switches that they share (PIX) and by the switches above those (PXB)."""
    groups = []
    everything = range(len(devices))
    for members in _joined(everything, links, {PIX, PXB}):
        behind = [devices[position] for position in members]
        switches = []
        for positions in _joined(members, links, {PIX}):
            switches.append(tuple(positions))
        group = DeviceGroup(_numa_of(behind), tuple(switches))
        groups.append(group)
    return groups


def _numa_of(devices: Iterable[MatrixDevice]) -> int:
    """The NUMA node of devices behind the same switch, -1 if no device reports it.

    Firmware may not report it for each card.
    """
    for device in devices:
        if device.numa is not None:
            return device.numa
    return -1


def _joined(positions: Sequence[int], links: LinkMatrix, near: Collection[str]) -> list[list[int]]:
    """The positions in groups: each reaches the others of its group over cells in `near`."""
    ungrouped = dict.fromkeys(positions)
    groups = []
    while ungrouped:
        first = next(iter(ungrouped))
        del ungrouped[first]
        joined = [first]
        frontier = [first]
        while frontier:
            row = links.cells[frontier.pop()]
            for position in list(ungrouped):
                if row[position] in near:
                    del ungrouped[position]
                    joined.append(position)
                    frontier.append(position)
        groups.append(sorted(joined))
    return groups


class _Writer:
    def __init__(
        self,
        root: ET.Element,
        devices: Sequence[MatrixDevice],
        links: LinkMatrix,
        interconnect: str | None,
        pcie: int | None,
    ) -> None:
        self._root = root
        self._devices = devices
        self._links = links
        self._interconnect = interconnect
        self._speed = {"link_speed": SPEEDS[pcie], "link_width": "16"} if pcie else {}
        self._bridges = 0

    def write(self, arch: str | None) -> None:
        groups = groups_of(self._devices, self._links)
        for numa in sorted({group.numa for group in groups}):
            cpu = ET.SubElement(self._root, "cpu", numaid=str(numa))
            cpus = self._cpus(numa)
            mask = cpu_mask(cpus) if cpus else None
            if mask and len(mask) <= _MAX_ATTRIBUTE_CHARACTERS:
                cpu.set("affinity", mask)
            if arch:
                cpu.set("arch", arch)

            for group in groups:
                if group.numa == numa:
                    self._group(cpu, group)

    def _cpus(self, numa: int) -> str:
        """The kernel's list of the CPUs of a NUMA node; empty if no device reports it."""
        for device in self._devices:
            if device.numa == numa and device.cpus:
                return device.cpus
        return ""

    def _group(self, cpu: ET.Element, group: DeviceGroup) -> None:
        """Hang a single device from the CPU, devices behind a switch from that switch.

        Several switches hang from one above them.
        """
        has_several_switches = len(group.switches) > 1
        parent = cpu
        if has_several_switches:
            parent = self._bridge(cpu)

        for switch in group.switches:
            under = parent
            if has_several_switches or len(switch) > 1:
                under = self._bridge(parent)
            for position in switch:
                self._device(under, position)

    def _bridge(self, parent: ET.Element) -> ET.Element:
        number = self._bridges
        self._bridges += 1
        address = f"ffff:ff:{number // 8:02x}.{number % 8}"
        return self._pci(parent, address, _BRIDGE_CLASS)

    def _pci(self, parent: ET.Element, address: str, device_class: str) -> ET.Element:
        attributes = {"busid": address, "class": device_class, **self._speed}
        return ET.SubElement(parent, "pci", attributes)

    def _device(self, parent: ET.Element, position: int) -> None:
        device = self._devices[position]
        if device.kind == _DATA_DIRECT:
            return  # NCCL asks the driver for a NIC's Data Direct function itself

        if position < self._links.gpus:
            pci = self._pci(parent, device.pci, _GPU_CLASS)
            gpu = ET.SubElement(pci, "gpu", dev=device.label.removeprefix("GPU"))
            self._nvlinks(gpu, position)
            return

        pci = self._pci(parent, device.pci, _NIC_CLASS)
        if self._speed:
            nic = ET.SubElement(pci, "nic")
            ET.SubElement(nic, "net", name=device.name)

    def _nvlinks(self, gpu: ET.Element, position: int) -> None:
        """The NVLinks GPU by GPU, or all of them at once where they end in switches."""
        if self._interconnect is None:
            return

        cells = self._links.cells[position][: self._links.gpus]
        counts = [nv_links(cell) for cell in cells]
        if self._interconnect == Interconnect.NVSWITCH:
            if any(counts):
                _nvlink(gpu, _HIDDEN_SWITCH, max(counts), _SWITCH_CLASS)
            return

        for peer, count in enumerate(counts):
            if count:
                _nvlink(gpu, self._devices[peer].pci, count, _GPU_CLASS)


def _nvlink(gpu: ET.Element, target: str, count: int, target_class: str) -> None:
    ET.SubElement(gpu, "nvlink", target=target, count=str(count), tclass=target_class)


def cpu_mask(cpus: str) -> str | None:
    """The kernel's list of CPUs as a mask, `0-3,32` as `00000001,0000000f`; None if malformed."""
    mask = 0
    try:
        for cpu in parse_list(cpus):
            mask |= 1 << cpu
    except ValueError:
        return None

    words: list[str] = []
    while mask or not words:
        words.append(f"{mask & _WORD_MASK:08x}")
        mask >>= _WORD_BITS
    words.reverse()
    return ",".join(words)
