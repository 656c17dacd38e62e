"""A machine from a pasted link matrix: one for which `nvidia-smi topo -m` prints those cells.

A matrix says less than a machine is. PCI levels give a tree; NV cells give a wiring and hide the
PCI level of their pair. What stays open is filled in the plainest way and listed in
`Machine.notes`. The result is checked cell for cell: a capture that contradicts itself is refused.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, count, product
from typing import Final

from toposcope.hardware.pci import normal_address
from toposcope.hardware.ranges import format_list
from toposcope.simulator import machine as hardware
from toposcope.simulator.capture_text import Capture, CaptureError, Tail, read_capture
from toposcope.simulator.machine import (
    Ancestor,
    DataDirectFunction,
    Machine,
    NvLinkPort,
    PciFunction,
    Remote,
    SimulatedGpu,
    SimulatedNic,
    SimulatedNumaNode,
    Slot,
    ancestor,
    identity,
)
from toposcope.simulator.nvlink import (
    ARCHITECTURES,
    NVLINK_VERSIONS,
    PRODUCTS,
    NvLinkWiring,
    WiringError,
    wire,
)
from toposcope.simulator.paste import Shows
from toposcope.simulator.pci import Card, LayoutError, PcieSwitch, Port, RootComplex, place

__all__ = ["CaptureError", "machine_from_capture"]

Pair = tuple[str, str]
Cells = dict[Pair, str]
"""Cells by the two devices, in header order."""
Group = tuple[str, ...]
"""Devices that cells join, in header order."""

_DMA: Final = "_dma"
"""What NCCL adds to a NIC's name for its Data Direct function."""
_ETHERNET: Final = re.compile(r"roce.*|bnxt_re.*|irdma.*|qedr.*|.*_bond_?\d+")
"""Names of RDMA devices with Ethernet ports.

They are those that udev calls RoCE, NICs that know nothing else, and bonds.
"""
_MOST_PORTS: Final = 18
"""The most NVLink ports of a GPU so far.

More links in a row than this can only be shared ones, through switches.
"""
_MOST_FUNCTIONS: Final = 8
_WIRED: Final = re.compile(
    r"[AH][128]00[- ]SXM|A800-SXM|H100 80GB HBM3|H200(?! NVL)|H20\b|H800$|GH200|\bG?B[23]00\b"
)
"""Products whose boards wire every NVLink.

A matrix of such a product without any NVLink shows a fault, or cannot show NVLink.
"""
_MOST_NAMED: Final = 10
"""How many cells or rows an error message names."""


def machine_from_capture(text: str, name: str = "capture", host: str | None = None) -> Machine:
    """The machine that a pasted `nvidia-smi topo -m` describes; `host` chooses one of several.

    Raises CaptureError when rows are missing that symmetry does not fill, or when cells contradict
    each other.
    """
    capture = read_capture(text, host)
    _check_names(capture)
    cells = _symmetric_cells(capture)
    claims = _claims(capture)
    roots, numa_notes = _root_complexes(capture, cells, claims)
    functions = _functions(capture, roots)

    unread = _links_unread(capture, cells)
    if unread:
        links = _no_links(capture)
        link_notes: tuple[str, ...] = (unread,)
    else:
        links, link_notes = _links(capture, cells, functions)

    implied = _implied_nodes(capture, claims)
    numa_nodes = _numa_nodes(capture, roots, claims, implied)
    machine = _assemble(
        capture,
        name,
        functions,
        links,
        numa_nodes,
    )
    _compare(capture, cells, machine)

    notes = [*capture.notes, *numa_notes]
    if implied:
        nodes = format_list(implied)
        notes.append(f"NUMA nodes {nodes} assumed: the text names higher ones")
    notes += link_notes
    notes += _unknowns(capture)
    return replace(
        machine,
        notes=tuple(notes),
        has_known_nvlinks=not unread,
    )


def _check_names(capture: Capture) -> None:
    for index, gpu in enumerate(capture.gpus):
        if gpu != f"GPU{index}":
            gpus = ", ".join(capture.gpus)
            raise CaptureError(
                f"the GPUs are {gpus}; paste a header with GPU0 and all that follow it"
            )

    missing = []
    for nic in capture.legend:
        if nic not in capture.devices:
            missing.append(nic)
    if missing:
        raise CaptureError(
            f"the NIC legend names {_some(missing)}, and the header does not: "
            "its lines are cut off; paste whole lines (nvidia-smi topo -m | cat)"
        )
    _check_nic_names(capture)


def _check_nic_names(capture: Capture) -> None:
    names: Counter[str] = Counter()
    for nic in capture.nics:
        names[capture.device_name(nic)] += 1

    for name, times in names.items():
        if not hardware.DEVICE_NAME.fullmatch(name):
            raise CaptureError(
                f"{name!r} is not a device name; check the header and the NIC legend"
            )
        if times > 1:
            raise CaptureError(f"two NICs are called {name}; check the NIC legend")


# The cells


def _symmetric_cells(capture: Capture) -> Cells:
    """A cell for every pair of devices, in header order; columns fill missing rows."""
    cells: Cells = {}
    unknown: list[str] = []
    for a, b in combinations(capture.devices, 2):
        cell = _symmetric_cell(capture, a, b)
        if cell:
            cells[a, b] = cell
        else:
            unknown.append(f"{a}-{b}")
    if unknown:
        rows = [device for device in capture.devices if (device, device) not in capture.cells]
        raise CaptureError(
            f"rows missing: {_some(rows)}; "
            f"nothing tells how these are connected: {_some(unknown)}; paste the whole matrix"
        )
    return cells


def _symmetric_cell(capture: Capture, a: str, b: str) -> str:
    """The cell of two devices, an empty text where neither has a row."""
    own = capture.cells.get((a, b), "")
    mirrored = capture.cells.get((b, a), "")
    if own and mirrored and own != mirrored:
        raise CaptureError(
            f"{a}-{b} is {own} in row {a} but {mirrored} in row {b}; a link matrix is symmetric"
        )

    cell = own or mirrored
    is_impossible = cell == "X"
    if _is_nvlink(cell):
        both_are_gpus = a in capture.gpus and b in capture.gpus
        is_impossible = not both_are_gpus
    if is_impossible:
        raise CaptureError(
            f"{a}-{b} is {cell}, which two different devices of these kinds cannot be"
        )
    return cell


def _is_nvlink(cell: str) -> bool:
    return cell.startswith("NV")


def _some(names: list[str]) -> str:
    text = ", ".join(names[:_MOST_NAMED])
    if len(names) > _MOST_NAMED:
        text += f" and {len(names) - _MOST_NAMED} more"
    return text


def _grouped(members: Iterable[str], cells: Cells, levels: tuple[Ancestor, ...]) -> list[Group]:
    """Groups of devices that cells of these levels join, directly or through others.

    Groups are in the order of the first of each.
    """
    level_names = {level.name for level in levels}
    group_of: dict[str, list[str]] = {}
    order: dict[str, int] = {}
    for position, device in enumerate(members):
        group_of[device] = [device]
        order[device] = position

    for (a, b), cell in cells.items():
        if cell not in level_names:
            continue
        if a in group_of and b in group_of:
            _join(group_of, a, b)

    groups: dict[Group, None] = {}
    for devices in group_of.values():
        in_order = sorted(devices, key=order.__getitem__)
        group = tuple(in_order)
        groups[group] = None
    return list(groups)


def _join(group_of: dict[str, list[str]], a: str, b: str) -> None:
    joined, added = group_of[a], group_of[b]
    if joined is added:
        return
    joined += added
    for device in added:
        group_of[device] = joined


# The PCI tree


def _ports(root: Group, cells: Cells, gpus: tuple[str, ...]) -> Iterator[Port]:
    """The root ports of one root complex."""
    for below in _grouped(root, cells, (Ancestor.PIX, Ancestor.PXB)):
        leaves = _grouped(below, cells, (Ancestor.PIX,))
        if len(leaves) == 1:
            yield _leaf(leaves[0], gpus)
            continue
        # Each leaf gets a switch of its own: two ports of one switch would be PIX.
        members = []
        for leaf in leaves:
            port = _leaf(leaf, gpus)
            if not isinstance(port, PcieSwitch):
                port = PcieSwitch((port,))
            members.append(port)
        yield PcieSwitch(tuple(members))


def _leaf(devices: Group, gpus: tuple[str, ...]) -> Port:
    """Devices that are PIX to each other: functions of one card if all NICs, else of a switch."""
    if len(devices) == 1:
        return devices
    has_gpu = not set(devices).isdisjoint(gpus)
    if len(devices) <= _MOST_FUNCTIONS and not has_gpu:
        return devices
    members: list[Card] = [(device,) for device in devices]
    return PcieSwitch(tuple(members))


def _root_complexes(
    capture: Capture, cells: Cells, claims: dict[str, int]
) -> tuple[tuple[RootComplex, ...], list[str]]:
    """The root complexes with their NUMA nodes, and what had to be assumed for that.

    Devices joined by NODE or better share a NUMA node; the cells win over the affinity columns.
    """
    below_root = (
        Ancestor.PIX,
        Ancestor.PXB,
        Ancestor.PHB,
    )
    below_node = (
        *below_root,
        Ancestor.NODE,
    )
    complexes = {}
    on_one_node = _grouped(capture.devices, cells, below_node)
    for group in on_one_node:
        complexes[group] = _grouped(group, cells, below_root)
    nodes = _resolve(complexes, claims, cells)

    roots = []
    for group, members in complexes.items():
        numa_node = nodes[group]
        for member in members:
            ports = _ports(member, cells, capture.gpus)
            root = RootComplex(numa_node, tuple(ports))
            roots.append(root)
    notes = _numa_notes(nodes, claims)
    return tuple(roots), notes


def _claims(capture: Capture) -> dict[str, int]:
    """The NUMA node that each GPU's row names: by the NUMA column, else by its CPUs."""
    nodes = dict(capture.node_cpus)
    if not nodes:
        cpu_lists = {tail.cpus for tail in capture.tails.values() if tail.cpus}
        nodes = dict(enumerate(sorted(cpu_lists, key=min)))
    claims: dict[str, int] = {}
    for gpu, tail in capture.tails.items():
        node = _claimed_node(tail, nodes)
        if node is not None:
            claims[gpu] = node
    return claims


def _claimed_node(tail: Tail, nodes: Mapping[int, frozenset[int]]) -> int | None:
    if tail.numa is not None:
        # A range lists memory-only nodes behind the node that has the CPUs.
        return tail.numa[0] if tail.numa else None
    if not tail.cpus:
        return None
    for node, cpus in nodes.items():
        if tail.cpus <= cpus:
            return node
    return None


def _resolve(
    complexes: dict[Group, list[Group]], claims: dict[str, int], cells: Cells
) -> dict[Group, int]:
    """A NUMA node for every group, -1 where unknown, such that SYS cells never join equal nodes."""
    apart = _apart(cells)
    wanted = {group: _most_claimed(group, claims) for group in complexes}
    highest = max(claims.values(), default=-1)
    unused = count(highest + 1)

    firm: dict[Group, int] = {}
    for group, roots in complexes.items():
        if len(roots) == 1:
            continue
        # NODE between several root complexes needs a known node.
        node = wanted[group]
        firm[group] = node
        if node < 0 or _is_contested(group, node, firm, apart):
            firm[group] = next(unused)

    candidates = wanted | firm
    nodes = dict(candidates)
    for group, node in candidates.items():
        if group in firm:
            continue
        if _is_contested(group, node, candidates, apart):
            nodes[group] = -1
    return nodes


def _apart(cells: Cells) -> set[frozenset[str]]:
    """The pairs of devices that are SYS to each other."""
    apart = set()
    for pair, cell in cells.items():
        if cell == Ancestor.SYS.name:
            apart.add(frozenset(pair))
    return apart


def _most_claimed(group: Group, claims: Mapping[str, int]) -> int:
    """The lowest NUMA node of those that most devices of a group claim, -1 where none does."""
    votes: Counter[int] = Counter()
    for device in group:
        node = claims.get(device)
        if node is not None:
            votes[node] += 1

    winner = -1
    most = 0
    for node in sorted(votes):
        if votes[node] > most:
            winner = node
            most = votes[node]
    return winner


def _is_contested(
    group: Group, node: int, nodes: Mapping[Group, int], apart: set[frozenset[str]]
) -> bool:
    """Whether another group has this node and a device that is SYS to one of this group."""
    for other_group, node_of_other in nodes.items():
        if other_group == group or node_of_other != node:
            continue
        if any(frozenset(pair) in apart for pair in product(group, other_group)):
            return True
    return False


def _numa_notes(nodes: Mapping[Group, int], claims: Mapping[str, int]) -> list[str]:
    denied: list[str] = []
    notes = []
    for group, node in nodes.items():
        has_claim = False
        for device in group:
            if device not in claims:
                continue
            has_claim = True
            if claims[device] != node:
                denied.append(device)

        if node >= 0 and not has_claim:
            devices = ", ".join(group)
            notes.append(
                f"NUMA node {node} assumed for {devices}: the matrix says only that they share one"
            )

    if denied:
        devices = ", ".join(denied)
        note = f"the affinity columns contradict the matrix for {devices}"
        notes.insert(0, f"{note}: the matrix is used")
    return notes


def _functions(capture: Capture, roots: tuple[RootComplex, ...]) -> dict[str, PciFunction]:
    fixed: dict[str, str] = {}
    for index, address in capture.addresses.items():
        gpu = f"GPU{index}"
        if gpu in capture.gpus:
            fixed[gpu] = normal_address(address)
    different = set(fixed.values())
    if len(different) < len(fixed):
        raise CaptureError("the list of PCI bus ids names one address twice")

    try:
        slots = place(roots, fixed)
    except LayoutError as error:
        raise CaptureError(str(error)) from error

    functions = {}
    for device in capture.devices:
        functions[device] = _function(capture, device, slots[device])
    return functions


def _function(capture: Capture, device: str, slot: Slot) -> PciFunction:
    vendor = hardware.MELLANOX
    product_id = 0
    pci_class = hardware.CLASS_INFINIBAND
    if device in capture.gpus:
        vendor = hardware.NVIDIA
        pci_class = hardware.CLASS_COMPUTE
    elif device in capture.data_direct:
        product_id = hardware.DATA_DIRECT
        pci_class = hardware.CLASS_DMA
    return PciFunction(slot, vendor, product_id, pci_class)


# NVLink


def _links_unread(capture: Capture, cells: Cells) -> str:
    """Why the text does not say which NVLinks there are; empty where it does.

    `nvidia-smi topo -mp` leaves them out. A matrix without NVLink, legend and command may be of
    either kind: that of a product whose board wires all links is not believed.
    """
    has_active_links = _has_active_links(capture)
    if _tells_nvlinks(capture, cells, has_active_links=has_active_links):
        return ""
    is_wired = _is_wired(capture)
    if capture.shows is Shows.PCI_ONLY:
        why = "the matrix is that of `nvidia-smi topo -mp`, which leaves NVLink out"
    elif len(capture.gpus) == 1 and is_wired and not has_active_links:
        return (
            "NVLinks unknown: a matrix of one GPU shows none; "
            "append the output of `nvidia-smi nvlink -s`"
        )
    elif capture.shows is Shows.UNSAID and (has_active_links or is_wired):
        why = (
            "the matrix shows no NVLink, and its legend, which would say whether it can, is missing"
        )
    else:
        return ""
    if has_active_links:
        why += "; `nvlink -s` shows links, but not where they end"
    return f"NVLinks unknown: {why}; paste `nvidia-smi topo -m` with its legend"


def _tells_nvlinks(capture: Capture, cells: Cells, *, has_active_links: bool) -> bool:
    """Whether a cell shows NVLinks, or `nvlink -s` says that there are none."""
    if capture.has_no_links:
        return True
    if len(capture.gpus) > 1 and any(_is_nvlink(cell) for cell in cells.values()):
        return True
    return bool(capture.links) and not has_active_links


def _has_active_links(capture: Capture) -> bool:
    return any(_active_count(links) for links in capture.links.values())


def _is_wired(capture: Capture) -> bool:
    """Whether the board of some GPU wires every NVLink."""
    return any(_WIRED.search(name) for name in capture.products.values())


def _active_count(links: Iterable[int | None]) -> int:
    """How many links of `nvlink -s` have a speed."""
    return sum(speed is not None for speed in links)


def _no_links(capture: Capture) -> list[tuple[NvLinkPort, ...]]:
    return [() for _ in capture.gpus]


def _links(
    capture: Capture, cells: Cells, functions: dict[str, PciFunction]
) -> tuple[list[tuple[NvLinkPort, ...]], tuple[str, ...]]:
    """The links of every GPU, and what was assumed for them."""
    counts: dict[Pair, int] = {}
    for pair, cell in cells.items():
        if _is_nvlink(cell):
            counts[pair] = int(cell[2:])

    rows = [_counts_of(gpu, counts) for gpu in capture.gpus]
    active = [sum(row) for row in rows]
    longest = max(active, default=0)
    if longest <= _MOST_PORTS:
        wiring = _direct(capture, counts)
        note = "direct NVLinks assumed: no GPU has more links in its row than a GPU has ports"
    else:
        active = [max(row, default=0) for row in rows]
        wiring = _switched(capture, active)
        note = (
            f"NVSwitches out of sight assumed: no GPU has {longest} ports, "
            "so that the links must be shared"
        )
    _check_active(capture, active)

    addresses = [functions[gpu].address for gpu in capture.gpus]
    try:
        wired = wire(wiring, addresses, ())
    except WiringError as error:
        raise CaptureError(str(error)) from error
    notes = (note,) if counts else ()
    return wired, notes


def _seen_ports(capture: Capture) -> int:
    """The most links that `nvlink -s` lists of a GPU."""
    most = 0
    for links in capture.links.values():
        most = max(most, len(links))
    return most


def _counts_of(gpu: str, counts: Mapping[Pair, int]) -> list[int]:
    """The numbers of NVLinks in a GPU's row."""
    return [links for pair, links in counts.items() if gpu in pair]


def _direct(capture: Capture, counts: Mapping[Pair, int]) -> NvLinkWiring:
    index_of = {gpu: index for index, gpu in enumerate(capture.gpus)}
    pairs = []
    for (a, b), links in counts.items():
        index_of_a = index_of[a]
        index_of_b = index_of[b]
        pairs.append((index_of_a, index_of_b, links))
    return NvLinkWiring(
        pairs=tuple(pairs),
        ports=_seen_ports(capture),
    )


def _check_active(capture: Capture, active: list[int]) -> None:
    """Raise CaptureError where `nvlink -s` and a GPU's row disagree."""
    for gpu, links in capture.links.items():
        if gpu >= len(active):
            continue
        in_links = _active_count(links)
        in_row = active[gpu]
        if in_links != in_row:
            raise CaptureError(
                f"GPU{gpu} has {in_links} active links in `nvlink -s` but {in_row} by its row"
            )


def _switched(capture: Capture, active: list[int]) -> NvLinkWiring:
    total = max(_seen_ports(capture), *active)
    inactive = {}
    for gpu, alive in enumerate(active):
        inactive[gpu] = frozenset(range(alive, total))
        speeds = capture.links.get(gpu)
        if speeds is None:
            continue
        without_speed = set(range(total))
        for index, speed in enumerate(speeds):
            if speed is not None:
                without_speed.discard(index)
        inactive[gpu] = frozenset(without_speed)
    return NvLinkWiring(switched=total, inactive=inactive)


# The machine


def _assemble(
    capture: Capture,
    name: str,
    functions: dict[str, PciFunction],
    links: list[tuple[NvLinkPort, ...]],
    numa_nodes: tuple[SimulatedNumaNode, ...],
) -> Machine:
    gpus = []
    for index, gpu in enumerate(capture.gpus):
        uuid = capture.uuids.get(index, f"GPU-{identity(name, 'gpu', index)}")
        gpus.append(_gpu(capture, index, functions[gpu], uuid, links[index]))
    nics = []
    for nic in capture.nics:
        described = SimulatedNic(
            name=capture.device_name(nic),
            function=functions[nic],
            link_layer=_link_layer(capture, nic),
            is_active=True,
            node_guid=identity(name, nic).int >> 64,
        )
        nics.append(described)
    data_direct = []
    for device in capture.data_direct:
        owner = _owner(capture, device)
        data_direct.append(DataDirectFunction(functions[device], owner))
    return Machine(
        name=name,
        description="built from a pasted link matrix",
        driver=None,
        numa_nodes=numa_nodes,
        gpus=tuple(gpus),
        nics=tuple(nics),
        data_direct=tuple(data_direct),
    )


def _gpu(
    capture: Capture,
    index: int,
    function: PciFunction,
    uuid: str,
    links: tuple[NvLinkPort, ...],
) -> SimulatedGpu:
    product_name = capture.products.get(index)
    architecture, nvlink_version = _product(product_name)
    tail = capture.tails.get(f"GPU{index}")
    memory_node = None
    if tail:
        memory_node = tail.memory_node

    link_mbps = None
    for speed in capture.links.get(index, ()):
        if speed is not None:
            link_mbps = speed
            break

    return SimulatedGpu(
        function=function,
        uuid=uuid,
        name=product_name,
        architecture=architecture,
        links=links,
        nvlink_version=nvlink_version,
        link_mbps=link_mbps,
        memory_node=memory_node,
    )


def _link_layer(capture: Capture, nic: str) -> str:
    """What a NIC's ports are, by its name; a matrix does not say it."""
    if _ETHERNET.fullmatch(capture.device_name(nic)):
        return "Ethernet"
    return "InfiniBand"


def _owner(capture: Capture, direct: str) -> str | None:
    """The NIC of a Data Direct function, by the legend; None where that names none of the NICs."""
    in_legend = capture.legend.get(direct, "")
    without_suffix = in_legend.removesuffix(_DMA)
    names = [capture.device_name(nic) for nic in capture.nics]
    if in_legend in names:
        return in_legend
    if without_suffix in names:
        return without_suffix
    return None


def _product(name: str | None) -> tuple[int | None, int | None]:
    """Architecture and NVLink version of a product, None where unknown."""
    if name is None:
        return None, None
    for part, (architecture, version) in PRODUCTS.items():
        if part in name:
            nvlink_version = NVLINK_VERSIONS[version] if version else None
            return ARCHITECTURES[architecture], nvlink_version
    return None, None


def _implied_nodes(capture: Capture, claims: dict[str, int]) -> dict[int, frozenset[int]]:
    """NUMA nodes that the text does not name, but implies, with the CPUs that it leaves to them.

    Node 3 implies the nodes 0 to 2, as CPU 48 implies the CPUs 0 to 47. Where every CPU belongs to
    a node that is named, there are no others: POWER9 numbers its nodes 0 and 8.
    """
    if capture.node_cpus:
        return {}
    claimed = set(claims.values())
    highest = max(claimed, default=0)
    missing = sorted(set(range(highest)) - claimed)

    named: dict[int, frozenset[int]] = {}
    named_cpus: frozenset[int] = frozenset()
    for gpu, node in claims.items():
        cpus = capture.tails[gpu].cpus or frozenset()
        before = named.get(node, frozenset())
        named[node] = before | cpus
        named_cpus |= cpus

    if not missing or not named_cpus:
        return dict.fromkeys(missing, frozenset())
    highest_cpu = max(named_cpus)
    every_cpu = set(range(highest_cpu))
    unclaimed = every_cpu - named_cpus
    if not unclaimed:
        return {}
    shifted = _shifted(named, missing)
    if shifted:
        return shifted
    return _divided(unclaimed, missing)


@dataclass(frozen=True, slots=True)
class _Runs:
    """Where a node's CPUs lie: how long its runs are, and where those of a node 0 would begin."""

    width: int
    starts: tuple[int, ...]

    def of_node(self, node: int) -> frozenset[int]:
        """The CPUs of the node with this number."""
        cpus: set[int] = set()
        for start in self.starts:
            first = start + node * self.width
            cpus.update(range(first, first + self.width))
        return frozenset(cpus)


def _shifted(named: dict[int, frozenset[int]], missing: list[int]) -> dict[int, frozenset[int]]:
    """The CPUs of missing nodes where all nodes have equally many, in order; else nothing.

    A node has a run of CPUs for each thread of a core, or every n-th CPU, which are runs of one.
    """
    layouts = set()
    for node, cpus in named.items():
        layouts.add(_layout(node, cpus))
    if len(layouts) != 1:
        return {}
    layout = layouts.pop()
    if layout is None or layout.starts[:1] != (0,):
        return {}
    return {node: layout.of_node(node) for node in missing}


def _layout(node: int, cpus: frozenset[int]) -> _Runs | None:
    """The runs of a node, None where they are not of equal length."""
    runs = _runs(cpus)
    width = len(runs[0]) if runs else 0
    starts = []
    for run in runs:
        if len(run) != width:
            return None
        starts.append(run[0] - node * width)
    return _Runs(width, tuple(starts))


def _divided(unclaimed: set[int], missing: list[int]) -> dict[int, frozenset[int]]:
    """CPUs that no named node has: each run divided among the missing nodes, in order."""
    cpus: dict[int, frozenset[int]] = dict.fromkeys(missing, frozenset())
    parts = len(missing)
    for run in _runs(unclaimed):
        length = len(run)
        start = 0
        for position, node in enumerate(missing, start=1):
            end = length * position // parts
            cpus[node] |= frozenset(run[start:end])
            start = end
    return cpus


def _runs(numbers: Iterable[int]) -> list[list[int]]:
    """The numbers in runs without a gap."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def _numa_nodes(
    capture: Capture,
    roots: tuple[RootComplex, ...],
    claims: dict[str, int],
    implied: dict[int, frozenset[int]],
) -> tuple[SimulatedNumaNode, ...]:
    """Every NUMA node that the text names or implies, with its CPUs."""
    cpus = _node_cpus(capture, roots, claims, implied)
    packages = _packages(cpus, capture.sockets)
    without_cpus = set()
    for number, of_node in cpus.items():
        if not of_node:
            without_cpus.add(number)
    distances = hardware.default_distances(packages, without_cpus)

    nodes = []
    for number in sorted(cpus):
        node = SimulatedNumaNode(
            number,
            cpus[number],
            packages[number],
            distances[number],
        )
        nodes.append(node)
    return tuple(nodes)


def _node_cpus(
    capture: Capture,
    roots: tuple[RootComplex, ...],
    claims: dict[str, int],
    implied: dict[int, frozenset[int]],
) -> dict[int, frozenset[int]]:
    numbers = _named_nodes(capture, roots)
    numbers.update(claims.values())
    numbers.update(implied)
    if not numbers:
        numbers.add(0)  # a kernel has at least node 0

    cpus: dict[int, frozenset[int]] = {}
    listed: set[int] = set()
    for number in numbers:
        of_node = capture.node_cpus.get(number, frozenset())
        if not listed.isdisjoint(of_node):
            raise CaptureError("the NUMA lines of lscpu put a CPU on two nodes")
        listed |= of_node
        cpus[number] = of_node

    if not capture.node_cpus:
        _add_affinity(cpus, capture, claims)
    for node, others in implied.items():
        cpus[node] |= others
    return cpus


def _named_nodes(capture: Capture, roots: tuple[RootComplex, ...]) -> set[int]:
    named: set[int] = set(capture.node_cpus)
    for root in roots:
        if root.numa_node >= 0:
            named.add(root.numa_node)
    for tail in capture.tails.values():
        named.update(tail.numa or ())
        if tail.memory_node is not None:
            named.add(tail.memory_node)
    return named


def _add_affinity(
    cpus: dict[int, frozenset[int]], capture: Capture, claims: Mapping[str, int]
) -> None:
    """Give nodes the CPUs of their GPUs' rows, in place, but for those that another node has."""
    for gpu, tail in sorted(capture.tails.items()):
        own = claims.get(gpu, min(cpus))
        affinity = tail.cpus or frozenset()
        for node, taken in cpus.items():
            if node != own:
                affinity -= taken
        cpus[own] |= affinity


def _packages(cpus: Mapping[int, frozenset[int]], sockets: int | None) -> dict[int, int]:
    """The package of each node: those with CPUs divided in order, the others in the first."""
    numbers = sorted(cpus)
    packages = dict.fromkeys(numbers, 0)
    computing = [node for node in numbers if cpus[node]]
    if not sockets:
        sockets = len(computing)
    for position, node in enumerate(computing):
        packages[node] = position * sockets // len(computing)
    return packages


def _compare(capture: Capture, cells: Cells, machine: Machine) -> None:
    """Raise CaptureError where the machine would not print the cell that it was built from."""
    names = capture.gpus + capture.nics + capture.data_direct
    devices = machine.gpus + machine.nics + machine.data_direct
    by_name = dict(zip(names, devices, strict=True))

    differences = []
    for (a, b), cell in cells.items():
        first = by_name[a]
        second = by_name[b]
        printed = _printed_cell(first, second)
        if printed != cell:
            text = f"{a}-{b} is {cell} where the other cells require {printed}"
            differences.append(text)
    if differences:
        text = _some(differences)
        raise CaptureError(f"no machine has these cells: {text}")


def _printed_cell(
    a: SimulatedGpu | SimulatedNic | DataDirectFunction,
    b: SimulatedGpu | SimulatedNic | DataDirectFunction,
) -> str:
    if isinstance(a, SimulatedGpu) and isinstance(b, SimulatedGpu):
        links = _links_between(a, b)
        if links:
            return f"NV{links}"
    return ancestor(a.slot, b.slot).name


def _links_between(a: SimulatedGpu, b: SimulatedGpu) -> int:
    """Active NVLinks between two GPUs: the direct ones, else what both have into switches."""
    address_of_b = b.function.address
    direct = 0
    for link in a.links:
        if link.is_active and link.address == address_of_b:
            direct += 1
    if direct:
        return direct

    of_a = _links_into_switches(a)
    of_b = _links_into_switches(b)
    return min(of_a, of_b)


def _links_into_switches(gpu: SimulatedGpu) -> int:
    count_of = 0
    for link in gpu.links:
        if link.is_active and link.remote is Remote.SWITCH:
            count_of += 1
    return count_of


def _unknowns(capture: Capture) -> Iterator[str]:
    if _may_hide_nvlinks(capture):
        yield (
            "no NVLinks assumed: the matrix shows none, "
            "and there is no legend that says whether it could"
        )
    if len(capture.products) < len(capture.gpus):
        yield "GPU names unknown: a matrix does not say them; append the output of `nvidia-smi -L`"

    ownerless = []
    for device in capture.data_direct:
        if _owner(capture, device) is None:
            ownerless.append(device)
    if ownerless:
        devices = ", ".join(ownerless)
        yield f"NIC of {devices} (Data Direct) unknown: append the NIC legend"

    if capture.nics:
        kinds = {_link_layer(capture, nic) for nic in capture.nics}
        named = " and ".join(sorted(kinds, reverse=True))
        if "Ethernet" in kinds:
            named += ", by their names"
        yield f"NIC ports assumed to be active {named}: a matrix does not say"


def _may_hide_nvlinks(capture: Capture) -> bool:
    """Whether several GPUs are shown without NVLinks, and nothing tells whether that is so."""
    if capture.shows is not Shows.UNSAID or len(capture.gpus) == 1:
        return False
    if capture.products or capture.links:
        return False
    return not any(_is_nvlink(cell) for cell in capture.cells.values())
