"""From raw answers to a `NodeTopology`.

Pure, so that every machine that was ever recorded can be a test. The rules for the cells are those
of `nvidia-smi topo -m`; for NVLink, NVIDIA's own words in nvml.h.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple
from zlib import crc32

from toposcope.agent.boards import board_of, is_trained_off, wired_links
from toposcope.agent.container_runtime import withheld
from toposcope.agent.fabric import (
    fabric_problems,
    gpu_fabric,
    is_in_fabric,
    node_fabric,
    registration,
)
from toposcope.agent.faults import Fault, FaultKind, unaccepted, without
from toposcope.agent.nvlinks import NvLinks
from toposcope.agent.nvml.gateway import LOST
from toposcope.agent.raw import RawDataDirect, RawFault, RawGpu, RawNic, RawNode, RawPci
from toposcope.hardware import topology as hw
from toposcope.hardware.compute_network import nearest, nic_paths, usable_nics
from toposcope.hardware.matrix import (
    SELF,
    LinkMatrix,
    is_rail_aligned,
    nv_cell,
    nv_links,
    nvlink_domains,
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

_FIRST_ARCHITECTURE_WITH_FABRIC: Final = 9
"""NVML_DEVICE_ARCH_HOPPER."""
_NVIDIA_DRIVER: Final = "nvidia"
_PASSTHROUGH: Final = frozenset({"pci-stub", "pciback", "xen-pciback"})
"""Drivers that hold a device for a VM, beside the VFIO ones."""


class Examination(NamedTuple):
    """What one probe means: the topology, and what is wrong with it whatever the node has shown."""

    topology: hw.NodeTopology
    """Without state and reasons: `conclude` adds them."""
    wired: tuple[int | None, ...]
    """NVLinks that each GPU should have up by its board or by the other end of a link.

    None: not known.
    """
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
    examination = examine(raw)
    topology = examination.topology
    gpus = []
    for gpu, links in zip(topology.gpus, examination.wired, strict=True):
        gpus.append(expecting(gpu, links or 0))
    topology = topology._replace(gpus=tuple(gpus))
    faults = [*examination.faults, *weak_links(gpus)]
    return conclude(topology, faults, examination.notes)


def examine(raw: RawNode) -> Examination:
    """Understand one probe in which NVML answered."""
    numa = _Numa(raw)
    nvlinks = NvLinks(raw)
    data_direct_functions = _in_row_order(raw)
    functions = _functions_by_row(raw, numa, data_direct_functions)
    paths = _paths(raw, functions, nvlinks, numa)

    nics = tuple([_nic(nic, numa) for nic in raw.nics])
    data_direct = _data_directs(data_direct_functions, raw.nics, numa)
    to_nics = nic_paths(paths.matrix, nics, data_direct)
    usable = usable_nics(to_nics, nics)

    answers = [_without_fabric(gpu) for gpu in raw.gpus]
    gpus = []
    for answer, row, chosen in zip(answers, to_nics, usable, strict=True):
        near = _names(nearest(row, chosen), nics)
        has_known_links = _has_known_links(answer, raw, nvlinks)
        gpus.append(_gpu(answer, numa, nvlinks, near, has_known_links=has_known_links))

    domains = nvlink_domains(paths.matrix)
    fabric, clique = node_fabric(answers)
    topology = hw.NodeTopology(
        gpus=tuple(gpus),
        nics=nics,
        data_direct=data_direct,
        numa=tuple([hw.NumaNode(node.id, node.cpus, node.distances) for node in raw.numa]),
        matrix=paths.matrix,
        pci_levels=paths.levels,
        nvlink_domains=domains,
        interconnect=_interconnect(len(gpus), domains, nvlinks),
        nvswitches=nvlinks.switches(raw.switch_functions),
        fabric=fabric,
        clique=clique,
        platform=_platform(raw.gpus),
        disputes=paths.disputes,
        shape=_shape(raw, paths.matrix, [numa.reported(function) for function in functions]),
        rail_aligned=_is_rail_aligned(raw, usable, nics, data_direct),
        state=hw.State.OK,
        reasons=(),
        unknown=_unknown(answers, gpus, paths),
        hidden_nics=raw.hidden_nics,
        nvlinks_read=raw.has_read_nvlinks,
    )
    return Examination(
        topology=topology,
        wired=_wired(raw, nvlinks),
        trained_off=frozenset([gpu.pci for gpu in raw.gpus if is_trained_off(gpu)]),
        absent=absent_gpus(raw),
        faults=(*missing_gpus(raw), *_fabric_faults(answers)),
        notes=(*_unlisted(raw), *_unseen(raw, data_direct)),
    )


def _functions_by_row(
    raw: RawNode, numa: "_Numa", data_direct: Sequence[RawDataDirect]
) -> list[RawPci | None]:
    """The PCI function of each row of the matrix."""
    functions: list[RawPci | None] = []
    for gpu in raw.gpus:
        functions.append(numa.functions.get(gpu.pci))
    devices: list[RawNic | RawDataDirect] = [*raw.nics, *data_direct]
    for device in devices:
        functions.append(device.pci)
    return functions


def _shape(raw: RawNode, matrix: LinkMatrix, numa_nodes: Sequence[int | None]) -> str | None:
    """The hash of the wiring; None while a NIC is hidden."""
    if raw.hidden_nics:
        return None
    return shape(matrix, numa_nodes)


def conclude(
    topology: hw.NodeTopology,
    faults: Sequence[Fault],
    notes: Sequence[str],
    accepted: frozenset[str] | None = None,
) -> hw.NodeTopology:
    """The topology with its state, and the sentences of the faults that are not accepted."""
    registering = topology.fabric is hw.Fabric.IN_PROGRESS
    if registering:
        accepted = without(accepted, FaultKind.FABRIC)  # to register is no state that stays
    remaining = unaccepted(faults, accepted)
    state = hw.State.OK
    if registering:
        state = hw.State.UNKNOWN
    elif remaining:
        state = hw.State.DEGRADED
    by_sentence: dict[str, hw.NodeFault] = {}
    for fault in remaining:
        by_sentence.setdefault(fault.sentence, hw.NodeFault(fault.kind, fault.gpu))
    reasons = dict.fromkeys([*by_sentence, *notes, *_unsaid(topology)])
    return topology._replace(
        state=state,
        reasons=tuple(reasons),
        faults=tuple(by_sentence.values()),
    )


def expecting(gpu: hw.Gpu, links: int) -> hw.Gpu:
    """The GPU with the number of NVLinks that should be up; more than that is no fault."""
    return gpu._replace(links_expected=max(gpu.links_active, links))


def weak_links(gpus: Sequence[hw.Gpu]) -> list[Fault]:
    """GPUs with fewer active links than they should have.

    A link is dead, or the GPU was thrown out of the fabric.
    """
    faults = []
    for gpu in gpus:
        if not gpu.links_known or gpu.links_active >= gpu.links_expected:
            continue
        fault = Fault(
            FaultKind.LINKS_DOWN,
            subject=gpu.uuid or gpu.pci,
            where=f"GPU {gpu.index}",
            detail=f"{gpu.links_active} of {gpu.links_expected}",
            gpu=gpu.index,
        )
        faults.append(fault)
    return faults


def _wired(raw: RawNode, nvlinks: NvLinks) -> tuple[int | None, ...]:
    """NVLinks that each GPU should have up, by its board and the links that others have to it."""
    switches = len(raw.switch_functions)
    absent = len(absent_gpus(raw))
    by_board = wired_links(raw.gpus, nvlinks, switches, absent)
    wired: list[int | None] = []
    for gpu, links in zip(raw.gpus, by_board, strict=True):
        missing = nvlinks.missing_ends(gpu.pci)
        expected = links
        if missing and not is_trained_off(gpu):
            active = nvlinks.active(gpu.pci)
            by_others = active + missing
            expected = max(links or 0, by_others)
        wired.append(expected)
    return tuple(wired)


def _without_fabric(gpu: RawGpu) -> RawGpu:
    """The GPU, without the error of its fabric query if it can be in no multi-node fabric.

    Multi-node fabrics need NVLink 4.
    """
    too_old = gpu.architecture is not None and gpu.architecture < _FIRST_ARCHITECTURE_WITH_FABRIC
    is_card = gpu.name is not None and board_of(gpu.name) is None
    no_links = is_card and gpu.has_known_links and not gpu.links
    if too_old or no_links:
        return gpu._replace(fabric_error=None)
    return gpu


def _unknown(
    answers: Sequence[RawGpu], gpus: Sequence[hw.Gpu], paths: "_Paths"
) -> frozenset[hw.Fact]:
    """What labels cannot say because NVML refused an answer about some GPU."""
    unknown = set()
    for gpu in gpus:
        unknown |= _unknown_of_links(gpu)
    if not _are_paths_known(len(gpus), paths):
        unknown.add(hw.Fact.PATHS)
    if _is_product_open([gpu.product for gpu in gpus]):
        unknown.add(hw.Fact.PRODUCT)
    if _is_fabric_open(answers):
        unknown.add(hw.Fact.FABRIC)
    return frozenset(unknown)


def _unknown_of_links(gpu: hw.Gpu) -> set[hw.Fact]:
    unknown = set()
    if not gpu.links_known:
        unknown.add(hw.Fact.NVLINKS)
    for link in gpu.links:
        if link.joins and not link.mbps:
            unknown.add(hw.Fact.NVLINK_SPEED)
        if link.joins and not link.version:
            unknown.add(hw.Fact.NVLINK_VERSION)
    return unknown


def _are_paths_known(gpus: int, paths: "_Paths") -> bool:
    for first, second in _pairs(gpus):
        if not is_path_known(paths.matrix, paths.levels, first, second):
            return False
    return True


def _is_fabric_open(gpus: Sequence[RawGpu]) -> bool:
    """Whether a GPU does not answer about a fabric that it may be in.

    Others are in it, or its place in a rack promises it.
    """
    racked = has_members = has_errors = has_silent = False
    for gpu in gpus:
        racked |= gpu.is_racked
        has_members |= is_in_fabric(gpu.fabric)
        has_errors |= bool(gpu.fabric_error)
        has_silent |= gpu.fabric is None
    if has_errors:
        return racked or has_members
    return has_members and has_silent


def is_path_known(matrix: LinkMatrix, levels: hw.PciLevels, a: int, b: int) -> bool:
    """Whether anything was said about the path between two GPUs.

    If not, its cell is SYS for want of a better word.
    """
    cell = matrix.cells[a][b]
    if nv_links(cell):
        return True
    sysfs = levels.sysfs[a][b]
    nvml = levels.nvml[a][b]
    return sysfs is not None or nvml is not None


def _is_product_open(products: Sequence[str | None]) -> bool:
    """Whether the products that NVML refused to name could make another one the most frequent."""
    counts = Counter(products)
    refused = counts.pop(None, 0)
    counts.pop("", None)
    if not refused:
        return False
    frequencies = sorted(counts.values(), reverse=True)
    most, second, *_ = [*frequencies, 0, 0]
    return most <= second + refused


class _Numa:
    """NUMA nodes of devices: what the kernel reports, else the node whose CPUs are local.

    A machine with a single node has everything on it, whatever the firmware says of its devices.
    """

    def __init__(self, raw: RawNode) -> None:
        self._cpus: dict[int, frozenset[int]] = {}
        self._all: frozenset[int] = frozenset()
        self._only: int | None = None
        for node in raw.numa:
            cpus = kernel_list(node.cpus)
            self._cpus[node.id] = cpus
            self._all |= cpus
        if len(raw.numa) == 1:
            (self._only,) = self._cpus
        self.functions = {function.address: function for function in raw.gpu_functions}

    def of(self, function: RawPci | None) -> int | None:
        """The node of a function; of anything, where there is one node only."""
        if self._only is not None:
            return self._only
        return self.reported(function)

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
        for node, cpus in self._cpus.items():
            if local <= cpus:
                return node
        return None


def _gpu(
    raw: RawGpu, numa: _Numa, nvlinks: NvLinks, near: tuple[str, ...], *, has_known_links: bool
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
        module=_module(raw),
        mig=raw.has_mig,
        mig_devices=raw.mig_devices,
        path=function.path if function else (),
        links=nvlinks.facts(raw.pci),
        links_expected=0,
        c2c_links=raw.c2c_active,
        rails=near,
        fabric=gpu_fabric(raw),
        registration=registration(raw.fabric) if raw.fabric else None,
        links_known=has_known_links,
    )


def _module(gpu: RawGpu) -> int | None:
    """The GPU's place on the baseboard."""
    if gpu.module is None and gpu.platform:
        return gpu.platform.module
    return gpu.module


def _has_known_links(gpu: RawGpu, raw: RawNode, nvlinks: NvLinks) -> bool:
    """Whether NVML said all about a GPU's links.

    A GPU without any, on a board where others have some, was not read.
    """
    if not raw.has_read_nvlinks or not nvlinks.has_known_links(gpu.pci):
        return False
    if gpu.links or is_trained_off(gpu):
        return True
    board = board_of(gpu.name)
    for other in raw.gpus:
        is_mate = gpu.name is None or (board is not None and board_of(other.name) is board)
        if is_mate and other.links:
            return False
    return True


def _nic(raw: RawNic, numa: _Numa) -> hw.Nic:
    ports = []
    for port in raw.ports:
        _, _, state = port.state.rpartition(":")  # the kernel writes `4: ACTIVE`
        ports.append(hw.Port(port.number, port.link_layer, state.strip()))
    return hw.Nic(
        name=raw.name,
        pci=raw.pci.address,
        numa=numa.of(raw.pci),
        guid=raw.guid,
        path=raw.pci.path,
        ports=tuple(ports),
        parent=raw.parent,
        held=raw.is_held,
    )


def _names(positions: Sequence[int], nics: Sequence[RawNic] | Sequence[hw.Nic]) -> tuple[str, ...]:
    return tuple([nics[position].name for position in positions])


def _owners(function: RawDataDirect, nics: Sequence[RawNic]) -> list[int]:
    """Positions of the NICs whose card a Data Direct function belongs to.

    None while the card is not known.
    """
    positions = []
    for position, nic in enumerate(nics):
        if function.card and nic.card == function.card:
            positions.append(position)
    return positions


def _in_row_order(raw: RawNode) -> list[RawDataDirect]:
    """The Data Direct functions in the order of their NICs, as nvidia-smi numbers them.

    Functions of unknown NICs come last.
    """
    after_all = [len(raw.nics)]
    return sorted(raw.data_direct, key=lambda function: _owners(function, raw.nics) or after_all)


def _data_directs(
    functions: Sequence[RawDataDirect], nics: Sequence[RawNic], numa: _Numa
) -> tuple[hw.DataDirect, ...]:
    data_direct = []
    for function in functions:
        pci = function.pci
        owners = _owners(function, nics)
        device = hw.DataDirect(
            pci=pci.address,
            numa=numa.of(pci),
            path=pci.path,
            nics=_names(owners, nics),
        )
        data_direct.append(device)
    return tuple(data_direct)


def _is_rail_aligned(
    raw: RawNode,
    usable: Sequence[Sequence[int]],
    nics: Sequence[hw.Nic],
    data_direct: Sequence[hw.DataDirect],
) -> bool | None:
    """Whether every GPU has a card of its own.

    None where a NIC, or the NIC of a Data Direct function, is not known.
    """
    if raw.hidden_nics:
        return None
    if not all(function.nics for function in data_direct):
        return None
    numbers: dict[str, int] = {}
    for nic in nics:
        numbers.setdefault(nic.card, len(numbers))
    near = []
    for chosen in usable:
        cards = {numbers[nics[at].card] for at in chosen}
        near.append(sorted(cards))
    return bool(near) and is_rail_aligned(near)


def _platform(gpus: Sequence[RawGpu]) -> hw.Platform | None:
    """Where the node sits: what its GPUs agree on, because they share the tray.

    None when they disagree or do not know.
    """
    places = set()
    for gpu in gpus:
        place = gpu.platform
        if place is None or not place.chassis:
            continue
        platform = hw.Platform(
            place.chassis,
            place.slot,
            place.tray,
            place.host,
        )
        places.add(platform)
    return places.pop() if len(places) == 1 else None


class _Paths(NamedTuple):
    """The paths between all devices of a node."""

    matrix: LinkMatrix
    levels: hw.PciLevels
    """What the matrix is made of, beside NVLinks."""
    disputes: tuple[hw.PathDispute, ...]
    """Pairs of GPUs whose PCI level NVML and sysfs name differently."""


class _Table:
    """A symmetric table in the making."""

    def __init__(self, size: int) -> None:
        self._rows: list[list[Any]] = [[SELF] * size for _ in range(size)]

    def get(self, i: int, j: int) -> Any:
        """The cell of a pair."""
        return self._rows[i][j]

    def put(self, i: int, j: int, value: str | int | None) -> None:
        """Set the cell of a pair."""
        self._rows[i][j] = value
        self._rows[j][i] = value

    def rows(self) -> tuple[tuple[Any, ...], ...]:
        """All rows."""
        return tuple([tuple(row) for row in self._rows])


def _paths(
    raw: RawNode, functions: Sequence[RawPci | None], nvlinks: NvLinks, numa: _Numa
) -> _Paths:
    names = _row_names(raw)
    by_nvml = _nvml_levels(raw)
    by_sysfs = _sysfs_levels(functions, numa)
    nvlink_counts = _nvlink_counts(raw, nvlinks)
    cells = _Table(len(names))
    disputes = []
    for i, j in _pairs(len(names)):
        sysfs = by_sysfs.get(i, j)
        nvml: str | None = None
        links = 0
        if i < len(raw.gpus):
            nvml = by_nvml.get(i, j)
            links = nvlink_counts.get(i, j)
        if links:
            cells.put(i, j, nv_cell(links))
        else:
            cells.put(i, j, nvml or sysfs or SYS)
        if sysfs and nvml and sysfs != nvml:
            dispute = hw.PathDispute(names[j], names[i], nvml, sysfs)
            disputes.append(dispute)
    return _Paths(
        matrix=LinkMatrix(tuple(names), cells.rows()),
        levels=hw.PciLevels(sysfs=by_sysfs.rows(), nvml=by_nvml.rows()),
        disputes=tuple(disputes),
    )


def _nvml_levels(raw: RawNode) -> _Table:
    """The PCI level of each pair of GPUs by NVML."""
    levels = {}
    for pair in raw.ancestors:
        levels[pair.a, pair.b] = _ANCESTOR.get(pair.level)
    indices = [gpu.index for gpu in raw.gpus]
    count = len(indices)
    table = _Table(count)
    for i, j in _pairs(count):
        pair_of_indices = indices[j], indices[i]
        level = levels.get(pair_of_indices)
        table.put(i, j, level)
    return table


def _sysfs_levels(functions: Sequence[RawPci | None], numa: _Numa) -> _Table:
    """The PCI level of each pair of devices by their places in sysfs."""
    table = _Table(len(functions))
    for i, j in _pairs(len(functions)):
        level = _sysfs_level(functions[j], functions[i], numa)
        table.put(i, j, level)
    return table


def _nvlink_counts(raw: RawNode, nvlinks: NvLinks) -> _Table:
    """The active NVLinks between each pair of GPUs."""
    addresses = [gpu.pci for gpu in raw.gpus]
    count = len(addresses)
    table = _Table(count)
    for i, j in _pairs(count):
        links = nvlinks.links(addresses[j], addresses[i])
        table.put(i, j, links)
    return table


def _pairs(count: int) -> Iterator[tuple[int, int]]:
    """All pairs of positions, row by row of the lower triangle."""
    for i in range(count):
        for j in range(i):
            yield i, j


def _row_names(raw: RawNode) -> list[str]:
    """The devices as `nvidia-smi topo -m` names them."""
    names = [f"GPU{gpu.index}" for gpu in raw.gpus]
    for number, _ in enumerate(raw.nics):
        names.append(f"NIC{number}")
    for number, _ in enumerate(raw.data_direct):
        names.append(f"DD{number}")
    return names


def _sysfs_level(first: RawPci | None, second: RawPci | None, numa: _Numa) -> str | None:
    if first is None or second is None:
        return None
    return pci_level(first.path, second.path, numa.of(first), numa.of(second))


def _interconnect(
    gpus: int, domains: tuple[tuple[int, ...], ...], nvlinks: NvLinks
) -> hw.Interconnect:
    if gpus < 2:  # noqa: PLR2004 - a path needs two
        return hw.Interconnect.NONE
    if len(domains[0]) == 1:
        return hw.Interconnect.PCIE
    return hw.Interconnect.NVSWITCH if nvlinks.is_switched() else hw.Interconnect.NVLINK


def expected_gpus(raw: RawNode) -> dict[str, str]:
    """The GPUs on the bus that are not passed through to a VM: address to name.

    The name tells of a foreign driver.
    """
    names = {}
    for function in raw.gpu_functions:
        if _is_passed_through(function):
            continue
        name = function.address
        if function.driver not in (None, _NVIDIA_DRIVER):
            name = f"{function.address} (held by the driver {function.driver})"
        names[function.address] = name
    return names


def _is_passed_through(function: RawPci) -> bool:
    """Whether a driver that passes devices through to VMs holds it.

    `nouveau` does not: that is a fault.
    """
    driver = function.driver or ""
    return driver in _PASSTHROUGH or "vfio" in driver


def absent_gpus(raw: RawNode) -> tuple[str, ...]:
    """Addresses of GPUs on the PCI bus that NVML should list and does not, lost ones included."""
    seen = {gpu.pci for gpu in raw.gpus}
    return tuple([address for address in expected_gpus(raw) if address not in seen])


def missing_gpus(raw: RawNode) -> tuple[Fault, ...]:
    """The GPUs that NVML should see and does not, each named once."""
    lost = {}
    for fault in raw.faults:
        if fault.index is not None and fault.pci:
            lost[fault.pci] = fault
    absent = [address for address in absent_gpus(raw) if address not in lost]
    return (
        *_absent(raw, absent),
        *[_lost(fault, address) for address, fault in lost.items()],
        *(_withheld(raw) if absent else _nameless_losses(raw)),
    )


def _absent(raw: RawNode, addresses: Sequence[str]) -> Iterator[Fault]:
    names = expected_gpus(raw)
    loss = _loss_of_absent(raw, len(addresses))
    for address in addresses:
        where = f"GPU {names[address]}"
        yield Fault(FaultKind.GPU_ABSENT, subject=address, where=where, detail=loss)


def _withheld(raw: RawNode) -> Iterator[Fault]:
    setting = withheld(raw)
    if setting:
        yield Fault(FaultKind.GPUS_WITHHELD, detail=setting)


def _nameless(raw: RawNode) -> list[RawFault]:
    """What NVML says of GPUs that have nothing but an index."""
    return [fault for fault in raw.faults if fault.index is not None and not fault.pci]


def _nameless_losses(raw: RawNode) -> Iterator[Fault]:
    """The lost GPUs, where there is no sysfs: the index is all there is to name them by."""
    for fault in _nameless(raw):
        yield Fault(
            FaultKind.GPU_LOST,
            subject=f"index {fault.index}",
            where=f"GPU {fault.index}",
            detail=fault.text,
            gpu=fault.index,
        )


def _loss_of_absent(raw: RawNode, absent: int) -> str:
    """What NVML says of GPUs that are lost and that it cannot name.

    Empty unless these are the absent ones and no others.
    """
    faults = _nameless(raw)
    texts = set()
    for fault in faults:
        if fault.code not in LOST:
            return ""
        texts.add(fault.text)
    if len(faults) != absent or len(texts) != 1:
        return ""
    return f": {texts.pop()}"


def _lost(fault: RawFault, address: str) -> Fault:
    return Fault(
        FaultKind.GPU_LOST,
        subject=address,
        where=f"GPU {fault.index} ({address})",
        detail=fault.text,
        gpu=fault.index,
    )


def _fabric_faults(gpus: Sequence[RawGpu]) -> Iterator[Fault]:
    """What is wrong with the fabric.

    The key has the GPU by its UUID: its index changes at a reboot. Earlier agents made it of the
    words.
    """
    by_identity = []
    for gpu in gpus:
        identity = _checksum(gpu.uuid or gpu.pci)
        by_identity.append(gpu._replace(index=identity))
    problems = fabric_problems(gpus)
    lasting = fabric_problems(by_identity)
    for problem, lasting_problem in zip(problems, lasting, strict=True):
        yield Fault(
            FaultKind.FABRIC,
            subject=f"{_checksum(lasting_problem.identity):08x}",
            detail=problem.sentence,
            gpu=problem.gpu,
            former_subject=f"{_checksum(lasting_problem.sentence):08x}",
        )


def _checksum(text: str) -> int:
    return crc32(text.encode(errors="replace"))


def _unsaid(topology: hw.NodeTopology) -> Iterator[str]:
    """The GPUs whose NVLinks NVML refuses to tell. No fault: nothing was read that is wrong."""
    indices = [str(gpu.index) for gpu in topology.gpus if not gpu.links_known]
    if not indices or not topology.nvlinks_read:
        return
    noun = plural(len(indices), "GPU")
    which = ", ".join(indices)
    yield (
        f"{noun} {which}: NVML does not say which NVLinks are up, "
        "so the NVLink labels keep their values"
    )


def _unlisted(raw: RawNode) -> Iterator[str]:
    """The GPUs that NVML has and sysfs, which shows a PCI bus, does not.

    No fault: of the two, NVML asks the GPU.
    """
    listed = {function.address for function in raw.gpu_functions}
    unlisted, nowhere = [], []
    for gpu in raw.gpus:
        if not is_address(gpu.pci):
            nowhere.append(gpu)
        elif gpu.pci not in listed:
            unlisted.append(gpu)
    if raw.is_bus_visible and unlisted:
        which = _which(unlisted, raw)
        yield f"{which}: in NVML but not on the PCI bus, so NUMA node and PCI path are not known"
    if nowhere:
        yield f"{_which(nowhere, raw)}: NVML gives no PCI address, so the PCI path is not known"


def _which(gpus: Sequence[RawGpu], raw: RawNode) -> str:
    """Some of the node's GPUs, in words that accuse none: `GPU 7` names one with a fault."""
    indices = [str(gpu.index) for gpu in gpus]
    listed = ", ".join(indices)
    some = f"{len(gpus)} of {len(raw.gpus)} GPUs"
    return f"{some} (index {listed})"


def _unseen(raw: RawNode, data_direct: Sequence[hw.DataDirect]) -> Iterator[str]:
    """What of the networks cannot be seen.

    No fault: labels that depend on it stay unchanged.
    """
    if raw.hidden_nics:
        which = ", ".join(raw.hidden_nics)
        yield (
            f"the RDMA device of {which} is in another network namespace, "
            "so rails and shape are unknown: "
            "a pod holds it, or the agent needs the component host-sysfs"
        )
    nameless = []
    for number, function in enumerate(data_direct):
        if not function.nics:
            nameless.append(f"DD{number}")
    if nameless:
        yield (
            f"the NIC of {', '.join(nameless)} (Data Direct) is unknown, and so are the rails: "
            "only root can read the vital product data that names it"
        )
