"""From raw answers to a `NodeTopology`: pure, so that every machine that was ever recorded can be a test.

The rules for the cells are those of `nvidia-smi topo -m`; for NVLink, NVIDIA's own words in nvml.h.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from toposcope.agent.container_runtime import withheld
from toposcope.agent.fabric import fabric_reasons, gpu_fabric, node_fabric, registration
from toposcope.agent.nvlinks import NvLinks, expected_links, weak_links
from toposcope.agent.raw import RawDataDirect, RawGpu, RawNic, RawNode, RawPci
from toposcope.topology import hardware as hw
from toposcope.topology.compute_network import nearest, nic_paths, usable_nics
from toposcope.topology.matrix import SELF, LinkMatrix, nv_cell, nvlink_domains, rail_aligned, shape
from toposcope.topology.pci import NODE, PHB, PIX, PXB, SYS, is_address, pci_level
from toposcope.topology.ranges import kernel_list

_ANCESTOR: Final = {0: PIX, 10: PIX, 20: PXB, 30: PHB, 40: NODE, 50: SYS}
"""nvmlGpuTopologyLevel_t; two dies of one board (0) print as PIX."""

_ARCHITECTURE: Final[dict[int | None, str]] = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    7: "ampere",
    8: "ada",
    9: "hopper",
    10: "blackwell",
    13: "rubin",
}
"""NVML_DEVICE_ARCH_*."""

_NVIDIA_DRIVER: Final = "nvidia"
_PASSTHROUGH: Final = frozenset({"pci-stub", "pciback", "xen-pciback"})
"""Drivers that hold a device for a VM, beside the VFIO ones."""


def discover(raw: RawNode) -> hw.NodeTopology:
    """Understand one probe in which NVML answered: one that is `down` shows no links."""
    numa = _Numa(raw)
    nvlinks = NvLinks(raw)
    nics = tuple(_nic(nic, numa) for nic in raw.nics)
    direct = _in_row_order(raw)
    data_direct = tuple(_data_direct(function, raw.nics, numa) for function in direct)
    functions = [numa.functions.get(gpu.pci) for gpu in raw.gpus]
    functions += [nic.pci for nic in raw.nics]
    functions += [function.pci for function in direct]
    matrix, levels, disputes = _matrix(raw, functions, nvlinks, numa)
    paths = nic_paths(matrix, nics, data_direct)
    usable = usable_nics(paths, nics)
    expected = expected_links([(gpu.name, nvlinks.active(gpu.pci)) for gpu in raw.gpus])
    rails = [_names(nearest(row, chosen), nics) for row, chosen in zip(paths, usable, strict=True)]
    gpus = tuple(
        _gpu(gpu, numa, nvlinks.facts(gpu.pci), links, near)
        for gpu, links, near in zip(raw.gpus, expected, rails, strict=True)
    )
    domains = nvlink_domains(matrix)
    fabric, clique = node_fabric(raw.gpus)
    faults = tuple(dict.fromkeys((*_missing(raw), *weak_links(gpus), *fabric_reasons(raw.gpus))))
    return hw.NodeTopology(
        gpus=gpus,
        nics=nics,
        data_direct=data_direct,
        numa=tuple(hw.NumaNode(node.id, node.cpus, node.distances) for node in raw.numa),
        matrix=matrix,
        pci_levels=levels,
        nvlink_domains=domains,
        interconnect=_interconnect(len(gpus), domains, nvlinks),
        nvswitches=nvlinks.switches(raw.switch_functions),
        fabric=fabric,
        clique=clique,
        platform=_platform(raw.gpus),
        disputes=disputes,
        shape=None if raw.hidden_nics else shape(matrix, [numa.reported(function) for function in functions]),
        rail_aligned=_rail_aligned(raw, usable, nics, data_direct),
        state=hw.State.UNKNOWN if fabric is hw.Fabric.IN_PROGRESS else hw.State.DEGRADED if faults else hw.State.OK,
        reasons=(*faults, *_unlisted(raw), *_unseen(raw, data_direct)),
        hidden_nics=raw.hidden_nics,
    )


class _Numa:
    """NUMA nodes of devices: as the kernel reports them, else the node whose CPUs are local to the device.

    A machine with a single node has everything on it, whatever the firmware says of its devices.
    """

    def __init__(self, raw: RawNode) -> None:
        self._cpus = {node.id: kernel_list(node.cpus) for node in raw.numa}
        self._all = frozenset().union(*self._cpus.values())
        self._only = raw.numa[0].id if len(raw.numa) == 1 else None
        self.functions = {function.address: function for function in raw.gpu_functions}

    def of(self, function: RawPci | None) -> int | None:
        """The node of a function; of anything, where there is one node only."""
        return self.reported(function) if self._only is None else self._only

    def reported(self, function: RawPci | None) -> int | None:
        """The node of a function as the kernel reports it. Shapes go by this, so that they stay what they were."""
        if function is None:
            return None
        if function.numa is not None:
            return function.numa
        local = kernel_list(function.local_cpus)
        if not local or local >= self._all:
            return None  # all CPUs are local to a device whose place the firmware does not report
        return next((node for node, cpus in self._cpus.items() if local <= cpus), None)


def _gpu(raw: RawGpu, numa: _Numa, links: tuple[hw.NvLink, ...], expected: int, near: tuple[str, ...]) -> hw.Gpu:
    function = numa.functions.get(raw.pci)
    return hw.Gpu(
        index=raw.index,
        pci=raw.pci,
        uuid=raw.uuid,
        product=raw.name,
        architecture=_ARCHITECTURE.get(raw.architecture),
        numa=numa.of(function),
        memory_numa=raw.memory_numa,
        module=raw.platform.module if raw.module is None and raw.platform else raw.module,
        mig=raw.mig,
        mig_devices=raw.mig_devices,
        path=function.path if function else (),
        links=links,
        links_expected=expected,
        c2c_links=raw.c2c_active,
        rails=near,
        fabric=gpu_fabric(raw),
        registration=registration(raw.fabric) if raw.fabric else None,
    )


def _nic(raw: RawNic, numa: _Numa) -> hw.Nic:
    return hw.Nic(
        name=raw.name,
        pci=raw.pci.address,
        numa=numa.of(raw.pci),
        guid=raw.guid,
        path=raw.pci.path,
        # The kernel writes `4: ACTIVE`.
        ports=tuple(hw.Port(port.number, port.link_layer, port.state.rpartition(":")[2].strip()) for port in raw.ports),
        parent=raw.parent,
        held=raw.held,
    )


def _names(positions: Sequence[int], nics: Sequence[hw.Nic]) -> tuple[str, ...]:
    return tuple(nics[at].name for at in positions)


def _owners(function: RawDataDirect, nics: Sequence[RawNic]) -> list[int]:
    """Positions of the NICs whose card a Data Direct function belongs to; none while the card is not known."""
    if not function.card:
        return []
    return [at for at, nic in enumerate(nics) if nic.card == function.card]


def _in_row_order(raw: RawNode) -> list[RawDataDirect]:
    """The Data Direct functions in the order of their NICs, as nvidia-smi numbers them; those of unknown NICs last."""
    after_all = [len(raw.nics)]
    return sorted(raw.data_direct, key=lambda function: _owners(function, raw.nics) or after_all)


def _data_direct(function: RawDataDirect, nics: Sequence[RawNic], numa: _Numa) -> hw.DataDirect:
    return hw.DataDirect(
        pci=function.pci.address,
        numa=numa.of(function.pci),
        path=function.pci.path,
        nics=tuple(nics[at].name for at in _owners(function, nics)),
    )


def _rail_aligned(
    raw: RawNode, usable: Sequence[Sequence[int]], nics: Sequence[hw.Nic], data_direct: Sequence[hw.DataDirect]
) -> bool | None:
    """Whether every GPU has a card of its own; None where a NIC, or the NIC of a Data Direct function, is not known."""
    if raw.hidden_nics or not all(function.nics for function in data_direct):
        return None
    numbers: dict[str, int] = {}
    for nic in nics:
        numbers.setdefault(nic.card, len(numbers))
    near = []
    for chosen in usable:
        cards = {numbers[nics[at].card] for at in chosen}
        near.append(sorted(cards))
    return bool(near) and rail_aligned(near)


def _platform(gpus: Sequence[RawGpu]) -> hw.Platform | None:
    """Where the node sits: what its GPUs agree on (they share the tray), None when they disagree or do not know."""
    places = {
        hw.Platform(p.chassis, p.slot, p.tray, p.host) for gpu in gpus if (p := gpu.platform) is not None and p.chassis
    }
    return places.pop() if len(places) == 1 else None


def _matrix(
    raw: RawNode, functions: Sequence[RawPci | None], nvlinks: NvLinks, numa: _Numa
) -> tuple[LinkMatrix, hw.PciLevels, tuple[hw.PathDispute, ...]]:
    """The link matrix, what it is made of, and the pairs of GPUs whose PCI level NVML and sysfs name differently."""
    ancestors: Mapping[tuple[int, int], int] = {(a.a, a.b): a.level for a in raw.ancestors}
    names = [f"GPU{gpu.index}" for gpu in raw.gpus]
    names += [f"NIC{number}" for number in range(len(raw.nics))]
    names += [f"DD{number}" for number in range(len(raw.data_direct))]
    cells = [[SELF] * len(names) for _ in names]
    by_path: list[list[str | None]] = [[SELF] * len(names) for _ in names]
    by_nvml: list[list[str | None]] = [[SELF] * len(raw.gpus) for _ in raw.gpus]
    disputes = []
    for i in range(len(names)):
        for j in range(i):
            first, second = functions[j], functions[i]
            sysfs, nvml, links = None, None, 0
            if first and second:
                sysfs = pci_level(first.path, second.path, numa.of(first), numa.of(second))
            if i < len(raw.gpus):
                a, b = raw.gpus[j], raw.gpus[i]
                nvml = _ANCESTOR.get(ancestors.get((a.index, b.index), -1))
                links = nvlinks.links(a.pci, b.pci)
                by_nvml[i][j] = by_nvml[j][i] = nvml
            if sysfs and nvml and sysfs != nvml:
                disputes.append(hw.PathDispute(names[j], names[i], nvml, sysfs))
            by_path[i][j] = by_path[j][i] = sysfs
            cells[i][j] = cells[j][i] = nv_cell(links) if links else nvml or sysfs or SYS
    levels = hw.PciLevels(sysfs=tuple(map(tuple, by_path)), nvml=tuple(map(tuple, by_nvml)))
    return LinkMatrix(tuple(names), tuple(map(tuple, cells))), levels, tuple(disputes)


def _interconnect(gpus: int, domains: tuple[tuple[int, ...], ...], nvlinks: NvLinks) -> hw.Interconnect:
    if gpus < 2:  # noqa: PLR2004 - a path needs two
        return hw.Interconnect.NONE
    if len(domains[0]) == 1:
        return hw.Interconnect.PCIE
    return hw.Interconnect.NVSWITCH if nvlinks.switched() else hw.Interconnect.NVLINK


def expected_gpus(raw: RawNode) -> dict[str, str]:
    """The GPUs on the bus that are not passed through to a VM: address to name, with any foreign driver."""
    return {
        function.address: function.address
        if function.driver in (None, _NVIDIA_DRIVER)
        else f"{function.address} (held by the driver {function.driver})"
        for function in raw.gpu_functions
        if not _passed_through(function)
    }


def _passed_through(function: RawPci) -> bool:
    """Whether a driver that passes devices through to VMs holds it. `nouveau` does not: that is a fault."""
    return function.driver in _PASSTHROUGH or "vfio" in (function.driver or "")


def _missing(raw: RawNode) -> list[str]:
    """GPUs that NVML should see and does not, by name."""
    seen = {gpu.pci for gpu in raw.gpus}
    lost = [
        f"GPU {named} is on the PCI bus but not in NVML" for gpu, named in expected_gpus(raw).items() if gpu not in seen
    ]
    if lost and (why := withheld(raw)):
        lost.append(why)
    # Without sysfs the index is all there is to name it by.
    return lost or [f"GPU {fault.index}: {fault.text}" for fault in raw.faults if fault.index is not None]


def _unlisted(raw: RawNode) -> Iterator[str]:
    """The GPUs that NVML has and sysfs, which shows a PCI bus, does not. No fault: of the two, NVML asks the GPU."""
    listed = {function.address for function in raw.gpu_functions}
    unlisted = [gpu for gpu in raw.gpus if is_address(gpu.pci) and gpu.pci not in listed]
    if raw.bus_visible and unlisted:
        which = _which(unlisted, raw)
        yield f"{which}: in NVML but not on the PCI bus, so NUMA node and PCI path are not known"
    nowhere = [gpu for gpu in raw.gpus if not is_address(gpu.pci)]
    if nowhere:
        yield f"{_which(nowhere, raw)}: NVML gives no PCI address, so the PCI path is not known"


def _which(gpus: Sequence[RawGpu], raw: RawNode) -> str:
    """Some of the node's GPUs, in words that accuse none: `GPU 7` names one with a fault."""
    return f"{len(gpus)} of {len(raw.gpus)} GPUs (index {', '.join(str(gpu.index) for gpu in gpus)})"


def _unseen(raw: RawNode, data_direct: Sequence[hw.DataDirect]) -> Iterator[str]:
    """What of the networks cannot be seen. No fault: labels that depend on it stay as they are."""
    if raw.hidden_nics:
        which = ", ".join(raw.hidden_nics)
        yield (
            f"the RDMA device of {which} is in another network namespace, so rails and shape are not known: "
            "a pod holds it, or the agent needs the component host-sysfs"
        )
    nameless = [f"DD{number}" for number, function in enumerate(data_direct) if not function.nics]
    if nameless:
        yield (
            f"the NIC of {', '.join(nameless)} (Data Direct) is not known, and so are the rails: "
            "only root can read the vital product data that says it"
        )
