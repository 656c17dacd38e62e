"""From raw answers to a `NodeTopology`: pure, so that every machine that was ever recorded can be a test.

The rules for the cells are those of `nvidia-smi topo -m`; for NVLink, NVIDIA's own words in nvml.h.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple
from zlib import crc32

from toposcope.agent.boards import board_of, trained_off, wired_links
from toposcope.agent.container_runtime import withheld
from toposcope.agent.fabric import attached, fabric_reasons, gpu_fabric, node_fabric, registration
from toposcope.agent.faults import Fault, FaultKind, unaccepted, without
from toposcope.agent.nvlinks import NvLinks
from toposcope.agent.nvml.gateway import LOST
from toposcope.agent.raw import RawDataDirect, RawFault, RawGpu, RawNic, RawNode, RawPci
from toposcope.hardware import topology as hw
from toposcope.hardware.compute_network import nearest, nic_paths, usable_nics
from toposcope.hardware.matrix import (
    SELF,
    LinkMatrix,
    nv_cell,
    nv_links,
    nvlink_domains,
    rail_aligned,
    shape,
)
from toposcope.hardware.pci import NODE, PHB, PIX, PXB, SYS, is_address, pci_level
from toposcope.hardware.ranges import kernel_list
from toposcope.text import plural

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

_FIRST_WITH_FABRIC: Final = 9
"""NVML_DEVICE_ARCH_HOPPER."""
_NVIDIA_DRIVER: Final = "nvidia"
_PASSTHROUGH: Final = frozenset({"pci-stub", "pciback", "xen-pciback"})
"""Drivers that hold a device for a VM, beside the VFIO ones."""


class Examination(NamedTuple):
    """One probe, understood: the topology, and what is wrong with it whatever the node has shown before."""

    topology: hw.NodeTopology
    """Without state and reasons: `conclude` adds them."""
    wired: tuple[int | None, ...]
    """NVLinks that each GPU should have up by its board or by the other end of a link; None: nobody knows."""
    trained_off: frozenset[str]
    """Addresses of the GPUs whose links are down on purpose."""
    absent: tuple[str, ...]
    """Addresses of the GPUs on the PCI bus that NVML does not list."""
    faults: tuple[Fault, ...]
    notes: tuple[str, ...]
    """What an admin should know and is no fault: sentences."""


def discover(raw: RawNode) -> hw.NodeTopology:
    """Understand one probe in which NVML answered, of a node without a past.

    A GPU that is `down` shows no links.
    """
    seen = examine(raw)
    expected = zip(seen.topology.gpus, seen.wired, strict=True)
    gpus = tuple([expecting(gpu, links or 0) for gpu, links in expected])
    faults = [*seen.faults, *weak_links(gpus)]
    return conclude(seen.topology._replace(gpus=gpus), faults, seen.notes)


def examine(raw: RawNode) -> Examination:
    """Understand one probe in which NVML answered."""
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
    asked = tuple([_without_fabric(gpu) for gpu in raw.gpus])
    rails = [_names(nearest(row, chosen), nics) for row, chosen in zip(paths, usable, strict=True)]
    gpus = tuple(
        _gpu(gpu, numa, nvlinks, near, links_known=_links_known(gpu, raw, nvlinks))
        for gpu, near in zip(asked, rails, strict=True)
    )
    domains = nvlink_domains(matrix)
    fabric, clique = node_fabric(asked)
    topology = hw.NodeTopology(
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
        shape=None
        if raw.hidden_nics
        else shape(matrix, [numa.reported(function) for function in functions]),
        rail_aligned=_rail_aligned(raw, usable, nics, data_direct),
        state=hw.State.OK,
        reasons=(),
        unknown=_unknown(asked, gpus, matrix, levels),
        hidden_nics=raw.hidden_nics,
        nvlinks_read=raw.nvlinks_read,
    )
    return Examination(
        topology=topology,
        wired=_wired(raw, nvlinks),
        trained_off=frozenset(gpu.pci for gpu in raw.gpus if trained_off(gpu)),
        absent=absent_gpus(raw),
        faults=(*missing_gpus(raw), *_fabric_faults(asked)),
        notes=(*_unlisted(raw), *_unseen(raw, data_direct)),
    )


def conclude(
    topology: hw.NodeTopology,
    faults: Sequence[Fault],
    notes: Sequence[str],
    accepted: frozenset[str] | None = None,
) -> hw.NodeTopology:
    """The topology with its state, and the sentences of the faults that nobody has accepted."""
    registering = topology.fabric is hw.Fabric.IN_PROGRESS
    if registering:
        accepted = without(accepted, FaultKind.FABRIC)  # to register is no state that stays
    left = unaccepted(faults, accepted)
    state = hw.State.DEGRADED if left else hw.State.OK
    if registering:
        state = hw.State.UNKNOWN
    reasons = dict.fromkeys([*(fault.sentence for fault in left), *notes, *_unsaid(topology)])
    return topology._replace(state=state, reasons=tuple(reasons))


def expecting(gpu: hw.Gpu, links: int) -> hw.Gpu:
    """The GPU with so many NVLinks expected to be up; nothing is wrong with more."""
    return gpu._replace(links_expected=max(gpu.links_active, links))


def weak_links(gpus: Sequence[hw.Gpu]) -> list[Fault]:
    """GPUs with fewer active links than they should have: a dead link, or a GPU thrown out of the fabric."""
    return [
        Fault(
            FaultKind.LINKS_DOWN,
            subject=gpu.uuid or gpu.pci,
            where=f"GPU {gpu.index}",
            detail=f"{gpu.links_active} of {gpu.links_expected}",
        )
        for gpu in gpus
        if gpu.links_known and gpu.links_active < gpu.links_expected
    ]


def _wired(raw: RawNode, nvlinks: NvLinks) -> tuple[int | None, ...]:
    """NVLinks that each GPU should have up: by its board, and by the links that others have to it."""
    by_board = wired_links(
        raw.gpus, nvlinks, switches=len(raw.switch_functions), absent=len(absent_gpus(raw))
    )
    wired: list[int | None] = []
    for gpu, links in zip(raw.gpus, by_board, strict=True):
        missing = 0 if trained_off(gpu) else nvlinks.missing_ends(gpu.pci)
        wired.append(max(links or 0, nvlinks.active(gpu.pci) + missing) if missing else links)
    return tuple(wired)


def _without_fabric(gpu: RawGpu) -> RawGpu:
    """The GPU, without the error of its fabric query if it can be in no multi-node fabric: those need NVLink 4."""
    too_old = gpu.architecture is not None and gpu.architecture < _FIRST_WITH_FABRIC
    no_links = (
        gpu.links_known and not gpu.links and board_of(gpu.name) is None and gpu.name is not None
    )
    return gpu._replace(fabric_error=None) if too_old or no_links else gpu


def _unknown(
    raw: Sequence[RawGpu], gpus: Sequence[hw.Gpu], matrix: LinkMatrix, levels: hw.PciLevels
) -> frozenset[hw.Fact]:
    """What labels cannot say because NVML refused an answer about some GPU."""
    joining = []
    for gpu in gpus:
        joining += [link for link in gpu.links if link.joins]
    refused = {
        hw.Fact.NVLINKS: not all(gpu.links_known for gpu in gpus),
        hw.Fact.NVLINK_SPEED: not all(link.mbps for link in joining),
        hw.Fact.NVLINK_VERSION: not all(link.version for link in joining),
        hw.Fact.PATHS: not all(
            path_known(matrix, levels, i, j) for i in range(len(gpus)) for j in range(i)
        ),
        hw.Fact.PRODUCT: _product_open([gpu.product for gpu in gpus]),
        hw.Fact.FABRIC: _fabric_open(raw),
    }
    return frozenset(fact for fact, unknown in refused.items() if unknown)


def _fabric_open(gpus: Sequence[RawGpu]) -> bool:
    """Whether a GPU does not answer about the fabric that others are in, or that its place in a rack promises."""
    racked = any(gpu.platform is not None and gpu.platform.chassis for gpu in gpus)
    members = any(attached(gpu.fabric) for gpu in gpus)
    if any(gpu.fabric_error for gpu in gpus):
        return racked or members
    return members and any(gpu.fabric is None for gpu in gpus)


def path_known(matrix: LinkMatrix, levels: hw.PciLevels, a: int, b: int) -> bool:
    """Whether anything was said about the path between two GPUs; else its cell is SYS for want of a better word."""
    by_nvlink = bool(nv_links(matrix.cells[a][b]))
    return by_nvlink or levels.sysfs[a][b] is not None or levels.nvml[a][b] is not None


def _product_open(products: Sequence[str | None]) -> bool:
    """Whether the products that NVML refused to name could make another one the most frequent."""
    refused = products.count(None)
    counts = sorted(Counter(product for product in products if product).values(), reverse=True)
    first, second, *_ = *counts, 0, 0
    return bool(refused) and first <= second + refused


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
        """The node of a function as the kernel reports it.

        Shapes go by this, so that they stay what they were.
        """
        if function is None:
            return None
        if function.numa is not None:
            return function.numa
        local = kernel_list(function.local_cpus)
        if not local or local >= self._all:
            return None  # all CPUs are local to a device whose place the firmware does not report
        return next((node for node, cpus in self._cpus.items() if local <= cpus), None)


def _gpu(
    raw: RawGpu, numa: _Numa, nvlinks: NvLinks, near: tuple[str, ...], *, links_known: bool
) -> hw.Gpu:
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
        links=nvlinks.facts(raw.pci),
        links_expected=0,
        c2c_links=raw.c2c_active,
        rails=near,
        fabric=gpu_fabric(raw),
        registration=registration(raw.fabric) if raw.fabric else None,
        links_known=links_known,
    )


def _links_known(gpu: RawGpu, raw: RawNode, nvlinks: NvLinks) -> bool:
    """Whether NVML said all about a GPU's links.

    One without any, on a board where others have some, was not read.
    """
    board = board_of(gpu.name)
    mates = [
        other for other in raw.gpus if gpu.name is None or (board and board_of(other.name) is board)
    ]
    others_have_some = any(mate.links for mate in mates)
    read = bool(gpu.links) or not others_have_some or trained_off(gpu)
    return raw.nvlinks_read and nvlinks.known(gpu.pci) and read


def _nic(raw: RawNic, numa: _Numa) -> hw.Nic:
    return hw.Nic(
        name=raw.name,
        pci=raw.pci.address,
        numa=numa.of(raw.pci),
        guid=raw.guid,
        path=raw.pci.path,
        # The kernel writes `4: ACTIVE`.
        ports=tuple(
            hw.Port(port.number, port.link_layer, port.state.rpartition(":")[2].strip())
            for port in raw.ports
        ),
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
    raw: RawNode,
    usable: Sequence[Sequence[int]],
    nics: Sequence[hw.Nic],
    data_direct: Sequence[hw.DataDirect],
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
        hw.Platform(p.chassis, p.slot, p.tray, p.host)
        for gpu in gpus
        if (p := gpu.platform) is not None and p.chassis
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


def _interconnect(
    gpus: int, domains: tuple[tuple[int, ...], ...], nvlinks: NvLinks
) -> hw.Interconnect:
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
    """Whether a driver that passes devices through to VMs holds it.

    `nouveau` does not: that is a fault.
    """
    return function.driver in _PASSTHROUGH or "vfio" in (function.driver or "")


def absent_gpus(raw: RawNode) -> tuple[str, ...]:
    """Addresses of the GPUs on the PCI bus that NVML should list and does not, those that are lost among them."""
    seen = {gpu.pci for gpu in raw.gpus}
    return tuple(address for address in expected_gpus(raw) if address not in seen)


def missing_gpus(raw: RawNode) -> tuple[Fault, ...]:
    """The GPUs that NVML should see and does not, each named once."""
    return tuple(_missing(raw))


def _missing(raw: RawNode) -> Iterator[Fault]:
    lost = {fault.pci: fault for fault in raw.faults if fault.index is not None and fault.pci}
    names = expected_gpus(raw)
    absent = [address for address in absent_gpus(raw) if address not in lost]
    loss = _loss_of_absent(raw, len(absent))
    for address in absent:
        yield Fault(
            FaultKind.GPU_ABSENT, subject=address, where=f"GPU {names[address]}", detail=loss
        )
    for address, fault in lost.items():
        yield _lost(fault, address)
    if absent and (why := withheld(raw)):
        yield Fault(FaultKind.GPUS_WITHHELD, detail=why)
    if not absent:
        # Without sysfs the index is all there is to name it by.
        for fault in raw.faults:
            if fault.index is not None and not fault.pci:
                yield Fault(
                    FaultKind.GPU_LOST, f"index {fault.index}", f"GPU {fault.index}", fault.text
                )


def _loss_of_absent(raw: RawNode, absent: int) -> str:
    """What NVML says of GPUs that are lost and that it cannot name, where these are the absent ones and no others."""
    nameless = [fault for fault in raw.faults if fault.index is not None and not fault.pci]
    losses = {fault.text for fault in nameless if fault.code in LOST}
    if (
        len(nameless) != absent
        or len(losses) != 1
        or not all(fault.code in LOST for fault in nameless)
    ):
        return ""
    return f": {losses.pop()}"


def _lost(fault: RawFault, address: str) -> Fault:
    return Fault(
        FaultKind.GPU_LOST,
        subject=address,
        where=f"GPU {fault.index} ({address})",
        detail=fault.text,
    )


def _fabric_faults(gpus: Sequence[RawGpu]) -> Iterator[Fault]:
    """What is wrong with the fabric.

    The key has the GPU by its UUID: its index changes at a reboot.
    """
    by_identity = [
        gpu._replace(index=crc32((gpu.uuid or gpu.pci).encode(errors="replace"))) for gpu in gpus
    ]
    for sentence, lasting in zip(fabric_reasons(gpus), fabric_reasons(by_identity), strict=True):
        yield Fault(
            FaultKind.FABRIC,
            subject=f"{crc32(lasting.encode(errors='replace')):08x}",
            detail=sentence,
        )


def _unsaid(topology: hw.NodeTopology) -> Iterator[str]:
    """The GPUs whose NVLinks NVML refuses to tell. No fault: nothing was read that is wrong."""
    indices = [str(gpu.index) for gpu in topology.gpus if not gpu.links_known]
    if indices and topology.nvlinks_read:
        which = f"{plural(len(indices), 'GPU')} {', '.join(indices)}"
        yield f"{which}: NVML does not say which NVLinks are up, so the NVLink labels keep their values"


def _unlisted(raw: RawNode) -> Iterator[str]:
    """The GPUs that NVML has and sysfs, which shows a PCI bus, does not.

    No fault: of the two, NVML asks the GPU.
    """
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
    return (
        f"{len(gpus)} of {len(raw.gpus)} GPUs (index {', '.join(str(gpu.index) for gpu in gpus)})"
    )


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
