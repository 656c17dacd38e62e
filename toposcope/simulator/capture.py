"""A machine from a pasted link matrix: the hardware that would make `nvidia-smi topo -m` print those cells.

A matrix says less than a machine is. PCI levels give a tree, NV cells give a wiring and hide the PCI level of their
pair; what stays open is filled in the plainest way and listed in `Machine.notes`. The result is checked cell for cell:
a capture that contradicts itself is refused.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations, count, pairwise
from typing import Final

from toposcope.hardware.pci import normal_address
from toposcope.hardware.ranges import format_list
from toposcope.simulator import machine as hardware
from toposcope.simulator.capture_text import Capture, CaptureError, read_capture
from toposcope.simulator.machine import (
    Ancestor,
    DataDirect,
    Gpu,
    Machine,
    Nic,
    NumaNode,
    NvLink,
    PciFunction,
    Remote,
    ancestor,
    identity,
)
from toposcope.simulator.nvlink import (
    ARCHITECTURES,
    NVLINK_VERSIONS,
    PRODUCTS,
    Wiring,
    WiringError,
    wire,
)
from toposcope.simulator.paste import Shows
from toposcope.simulator.pci import Card, LayoutError, Port, RootComplex, Switch, place

__all__ = ["CaptureError", "machine_from_capture"]

_DMA: Final = "_dma"
"""What NCCL adds to a NIC's name for its Data Direct function."""
_ETHERNET: Final = re.compile(r"roce.*|bnxt_re.*|irdma.*|qedr.*|.*_bond_?\d+")
"""Names of RDMA devices with Ethernet ports: those that udev calls RoCE, NICs that know nothing else, and bonds."""
_MOST_PORTS: Final = 18
"""No GPU has had more NVLink ports so far: more links in a row than this can only be shared ones, through switches."""
_MOST_FUNCTIONS: Final = 8
_WIRED: Final = re.compile(
    r"[AH][128]00[- ]SXM|A800-SXM|H100 80GB HBM3|H200(?! NVL)|H20\b|H800$|GH200|\bG?B[23]00\b"
)
"""Products whose boards wire every NVLink: a matrix of theirs without any shows a fault, or cannot show NVLink."""
_NAMED: Final = 10
"""How many cells or rows an error message names."""


def machine_from_capture(text: str, name: str = "capture", host: str | None = None) -> Machine:
    """The machine that a pasted `nvidia-smi topo -m` describes; `host` chooses one of several in the text.

    Raises CaptureError when rows are missing that symmetry does not fill, or when cells contradict each other.
    """
    capture = read_capture(text, host)
    _check_names(capture)
    cells = _symmetric_cells(capture)
    claims = _claims(capture)
    roots, numa_notes = _root_complexes(capture, cells, claims)
    functions = _functions(capture, roots)
    unread = _links_unread(capture, cells)
    links, link_note = (
        (_no_links(capture), (unread,)) if unread else _links(capture, cells, functions)
    )
    implied = _implied_nodes(capture, claims)
    machine = _assemble(
        capture, name, functions, links, tuple(_numa_nodes(capture, roots, claims, implied))
    )
    _compare(capture, cells, machine)
    notes = (*capture.notes, *numa_notes, *_implied_note(implied), *link_note, *_unknowns(capture))
    return replace(machine, notes=notes, nvlinks_known=not unread)


def _check_names(capture: Capture) -> None:
    if capture.gpus != tuple(f"GPU{i}" for i in range(len(capture.gpus))):
        raise CaptureError(
            f"the GPUs are {', '.join(capture.gpus)}; paste a header with GPU0 and all that follow it"
        )
    if beyond := [nic for nic in capture.legend if nic not in capture.devices]:
        raise CaptureError(
            f"the NIC legend names {_some(beyond)}, and the header does not: its lines are cut off; paste whole lines "
            "(nvidia-smi topo -m | cat)"
        )
    names = [capture.legend.get(nic, nic) for nic in capture.nics]
    for name in names:
        if not hardware.DEVICE_NAME.fullmatch(name):
            raise CaptureError(
                f"{name!r} is not a device name; check the header and the NIC legend"
            )
        if names.count(name) > 1:
            raise CaptureError(f"two NICs are called {name}; check the NIC legend")


# The cells


def _symmetric_cells(capture: Capture) -> dict[tuple[str, str], str]:
    """A cell for every pair of devices, in header order; a missing row is filled from its column."""
    cells: dict[tuple[str, str], str] = {}
    unknown: list[str] = []
    for a, b in combinations(capture.devices, 2):
        both = {cell for cell in (capture.cells.get((a, b)), capture.cells.get((b, a))) if cell}
        if len(both) > 1:
            raise CaptureError(
                f"{a}-{b} is {capture.cells[a, b]} in row {a} but {capture.cells[b, a]} in row {b}; "
                "a link matrix is symmetric"
            )
        if not both:
            unknown.append(f"{a}-{b}")
            continue
        cells[a, b] = both.pop()
        if cells[a, b] == "X" or (cells[a, b].startswith("NV") and not {a, b} <= set(capture.gpus)):
            raise CaptureError(
                f"{a}-{b} is {cells[a, b]}, which two different devices of these kinds cannot be"
            )
    if unknown:
        rows = [device for device in capture.devices if (device, device) not in capture.cells]
        raise CaptureError(
            f"rows missing: {_some(rows)}; nothing tells how these are connected: {_some(unknown)}; "
            "paste the whole matrix"
        )
    return cells


def _some(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _grouped(
    members: Iterable[str], cells: dict[tuple[str, str], str], levels: tuple[Ancestor, ...]
) -> list[tuple[str, ...]]:
    """Devices that cells of these levels join, directly or through others, in the order of the first of each."""
    group = {device: [device] for device in members}
    for (a, b), cell in cells.items():
        joined = a in group and b in group and group[a] is not group[b]
        if joined and cell in {level.name for level in levels}:
            group[a] += group[b]
            for device in group[b]:
                group[device] = group[a]
    order = {device: i for i, device in enumerate(group)}
    return list(
        dict.fromkeys(tuple(sorted(devices, key=order.__getitem__)) for devices in group.values())
    )


# The PCI tree


def _ports(
    root: tuple[str, ...], cells: dict[tuple[str, str], str], gpus: tuple[str, ...]
) -> Iterator[Port]:
    """The root ports of one root complex."""
    for below in _grouped(root, cells, (Ancestor.PIX, Ancestor.PXB)):
        leaves = _grouped(below, cells, (Ancestor.PIX,))
        if len(leaves) == 1:
            yield _leaf(leaves[0], gpus)
        else:
            # Each leaf gets a switch of its own: two ports of one switch would be PIX.
            yield Switch(
                tuple(
                    port if isinstance(port := _leaf(leaf, gpus), Switch) else Switch((port,))
                    for leaf in leaves
                )
            )


def _leaf(devices: tuple[str, ...], gpus: tuple[str, ...]) -> Port:
    """Devices that are PIX to each other: functions of one card when they are all NICs, else ports of one switch."""
    if len(devices) == 1 or (len(devices) <= _MOST_FUNCTIONS and not set(devices) & set(gpus)):
        return devices
    members: list[Card] = [(device,) for device in devices]
    return Switch(tuple(members))


def _root_complexes(
    capture: Capture, cells: dict[tuple[str, str], str], claims: dict[str, int]
) -> tuple[tuple[RootComplex, ...], tuple[str, ...]]:
    """The root complexes with their NUMA nodes, and what had to be assumed for that.

    Devices joined by NODE or better share a NUMA node; the cells win over the affinity columns.
    """
    near = (Ancestor.PIX, Ancestor.PXB, Ancestor.PHB)
    groups = _grouped(capture.devices, cells, (*near, Ancestor.NODE))
    complexes = {group: _grouped(group, cells, near) for group in groups}
    nodes = _resolve(groups, complexes, claims, cells)
    placed = ((nodes[group], root) for group in groups for root in complexes[group])
    roots = tuple(
        RootComplex(node, tuple(_ports(root, cells, capture.gpus))) for node, root in placed
    )
    return roots, tuple(_numa_notes(groups, nodes, claims))


def _claims(capture: Capture) -> dict[str, int]:
    """The NUMA node that each GPU's row names: by the NUMA column, else by its CPUs."""
    nodes = dict(capture.node_cpus)
    lists = {tail.cpus for tail in capture.tails.values() if tail.cpus}
    if not nodes:
        nodes = dict(enumerate(sorted(lists, key=min)))
    claims: dict[str, int] = {}
    for gpu, tail in capture.tails.items():
        if tail.numa is not None:
            # A range lists memory-only nodes behind the node that has the CPUs.
            claims |= {gpu: tail.numa[0]} if tail.numa else {}
        elif tail.cpus:
            node = next((node for node, cpus in nodes.items() if tail.cpus <= cpus), None)
            claims |= {} if node is None else {gpu: node}
    return claims


def _resolve(
    groups: list[tuple[str, ...]],
    complexes: dict[tuple[str, ...], list[tuple[str, ...]]],
    claims: dict[str, int],
    cells: dict[tuple[str, str], str],
) -> dict[tuple[str, ...], int]:
    """A NUMA node for every group, -1 where unknown, such that SYS cells never join equal nodes."""
    apart = {frozenset(pair) for pair, cell in cells.items() if cell == Ancestor.SYS.name}
    claimed = {
        group: Counter(claims[device] for device in group if device in claims) for group in groups
    }
    wanted = {
        group: min(votes, key=lambda node: (-votes[node], node), default=-1)
        for group, votes in claimed.items()
    }
    nodes: dict[tuple[str, ...], int] = {}

    def contested(group: tuple[str, ...], others: dict[tuple[str, ...], int]) -> bool:
        rivals = (other for other in others if other != group and others[other] == wanted[group])
        return any(frozenset((a, b)) in apart for other in rivals for a in group for b in other)

    # NODE between two root complexes needs a known node; a single root complex can do without.
    unused = count(1 + max(claims.values(), default=-1))
    for group in groups:
        if len(complexes[group]) > 1:
            nodes[group] = (
                next(unused) if wanted[group] < 0 or contested(group, nodes) else wanted[group]
            )
    firm = wanted | nodes
    return {
        group: nodes.get(group, -1 if contested(group, firm) else wanted[group]) for group in groups
    }


def _numa_notes(
    groups: list[tuple[str, ...]], nodes: dict[tuple[str, ...], int], claims: dict[str, int]
) -> Iterator[str]:
    denied = [
        device
        for group in groups
        for device in group
        if claims.get(device, nodes[group]) != nodes[group]
    ]
    if denied:
        yield f"the affinity columns contradict the matrix for {', '.join(denied)}: the matrix was believed"
    for group in groups:
        if nodes[group] >= 0 and not any(device in claims for device in group):
            yield f"NUMA node {nodes[group]} assumed for {', '.join(group)}: the matrix says only that they share one"


def _functions(capture: Capture, roots: tuple[RootComplex, ...]) -> dict[str, PciFunction]:
    fixed = {
        f"GPU{i}": normal_address(a)
        for i, a in capture.addresses.items()
        if f"GPU{i}" in capture.gpus
    }
    if len(set(fixed.values())) < len(fixed):
        raise CaptureError("the list of PCI bus ids names one address twice")
    try:
        slots = place(roots, fixed)
    except LayoutError as error:
        raise CaptureError(str(error)) from error
    return {
        device: PciFunction(slots[device], hardware.NVIDIA, 0, hardware.CLASS_COMPUTE)
        if device in capture.gpus
        else PciFunction(slots[device], hardware.MELLANOX, hardware.DATA_DIRECT, hardware.CLASS_DMA)
        if device in capture.data_direct
        else PciFunction(slots[device], hardware.MELLANOX, 0, hardware.CLASS_INFINIBAND)
        for device in capture.devices
    }


# NVLink


def _links_unread(capture: Capture, cells: dict[tuple[str, str], str]) -> str:
    """Why the text does not say which NVLinks there are; empty where it does.

    `nvidia-smi topo -mp` leaves them out. A matrix without NVLink, legend and command may be of
    either kind: that of a product whose board wires all links is not believed.
    """
    if len(capture.gpus) > 1 and any(cell.startswith("NV") for cell in cells.values()):
        return ""
    up = any(speed is not None for links in capture.links.values() for speed in links)
    if (capture.links and not up) or capture.no_links:
        return ""
    wired = any(map(_WIRED.search, capture.products.values()))
    if capture.shows is Shows.PCI_ONLY:
        why = "the matrix is that of `nvidia-smi topo -mp`, which leaves NVLink out"
    elif len(capture.gpus) == 1 and wired and not up:
        return "NVLinks unknown: a matrix of one GPU shows none; append the output of `nvidia-smi nvlink -s`"
    elif capture.shows is Shows.UNSAID and (up or wired):
        why = (
            "the matrix shows no NVLink, and its legend, which would say whether it can, is missing"
        )
    else:
        return ""
    more = "; `nvlink -s` shows links, but not where they end" if up else ""
    return f"NVLinks unknown: {why}{more}; paste `nvidia-smi topo -m` with its legend"


def _no_links(capture: Capture) -> list[tuple[NvLink, ...]]:
    return [() for _ in capture.gpus]


def _links(
    capture: Capture, cells: dict[tuple[str, str], str], functions: dict[str, PciFunction]
) -> tuple[list[tuple[NvLink, ...]], tuple[str, ...]]:
    """The links of every GPU, and what was assumed for them."""
    gpus = capture.gpus
    counts = {pair: int(cell[2:]) for pair, cell in cells.items() if cell.startswith("NV")}
    rows = [sum(links for pair, links in counts.items() if gpu in pair) for gpu in gpus]
    ports = max((len(links) for links in capture.links.values()), default=0)
    if max(rows, default=0) <= _MOST_PORTS:
        pairs = tuple((gpus.index(a), gpus.index(b), links) for (a, b), links in counts.items())
        wiring, active = Wiring(pairs=pairs, ports=ports), rows
        note = "direct NVLinks assumed: no GPU has more links in its row than a GPU has ports"
    else:
        active = [
            max((links for pair, links in counts.items() if gpu in pair), default=0) for gpu in gpus
        ]
        wiring = _switched(capture, active, ports)
        note = f"NVSwitches out of sight assumed: no GPU has {max(rows)} ports, so that the links must be shared"
    for gpu, links in capture.links.items():
        seen = sum(speed is not None for speed in links)
        if gpu < len(gpus) and seen != active[gpu]:
            raise CaptureError(
                f"GPU{gpu} has {seen} active links in `nvlink -s` but {active[gpu]} by its row"
            )
    try:
        wired = wire(wiring, [functions[gpu].address for gpu in gpus], ())
    except WiringError as error:
        raise CaptureError(str(error)) from error
    return wired, (note,) if counts else ()


def _switched(capture: Capture, active: list[int], ports: int) -> Wiring:
    total = max(ports, *active)
    dead = {gpu: frozenset(range(alive, total)) for gpu, alive in enumerate(active)}
    for gpu, links in capture.links.items():
        if gpu in dead:
            dead[gpu] = frozenset(i for i in range(total) if i >= len(links) or links[i] is None)
    return Wiring(switched=total, inactive=dead)


# The machine


def _assemble(
    capture: Capture,
    name: str,
    functions: dict[str, PciFunction],
    links: list[tuple[NvLink, ...]],
    numa_nodes: tuple[NumaNode, ...],
) -> Machine:
    known = {i: _product(capture.products.get(i)) for i in range(len(capture.gpus))}
    return Machine(
        name=name,
        description="built from a pasted link matrix",
        driver=None,
        numa_nodes=numa_nodes,
        gpus=tuple(
            Gpu(
                function=functions[gpu],
                uuid=capture.uuids.get(i, f"GPU-{identity(name, 'gpu', i)}"),
                name=capture.products.get(i),
                architecture=known[i][0],
                links=links[i],
                nvlink_version=known[i][1],
                link_mbps=next(
                    (speed for speed in capture.links.get(i, ()) if speed is not None), None
                ),
                memory_node=capture.tails[gpu].memory_node if gpu in capture.tails else None,
            )
            for i, gpu in enumerate(capture.gpus)
        ),
        nics=tuple(
            Nic(
                name=capture.legend.get(nic, nic),
                function=functions[nic],
                link_layer=_link_layer(capture, nic),
                active=True,
                node_guid=identity(name, nic).int >> 64,
            )
            for nic in capture.nics
        ),
        data_direct=tuple(
            DataDirect(functions[device], _owner(capture, device)) for device in capture.data_direct
        ),
    )


def _link_layer(capture: Capture, nic: str) -> str:
    """What a NIC's ports are, by its name; a matrix does not say it."""
    return "Ethernet" if _ETHERNET.fullmatch(capture.legend.get(nic, nic)) else "InfiniBand"


def _owner(capture: Capture, direct: str) -> str | None:
    """The NIC of a Data Direct function, by the legend; None where that names none of the NICs."""
    names = {capture.legend.get(nic, nic) for nic in capture.nics}
    said = capture.legend.get(direct, "")
    return next((name for name in (said, said.removesuffix(_DMA)) if name in names), None)


def _product(name: str | None) -> tuple[int | None, int | None]:
    """Architecture and NVLink version of a product, None where unknown."""
    for part, (architecture, version) in PRODUCTS.items():
        if name is not None and part in name:
            return ARCHITECTURES[architecture], NVLINK_VERSIONS[version] if version else None
    return None, None


def _implied_nodes(capture: Capture, claims: dict[str, int]) -> dict[int, frozenset[int]]:
    """NUMA nodes that the text does not name, but implies, with the CPUs that it leaves to them.

    Node 3 implies the nodes 0 to 2, as CPU 48 implies the CPUs 0 to 47. Where every CPU belongs to
    a node that is named, there are no others: POWER9 numbers its nodes 0 and 8.
    """
    if capture.node_cpus:
        return {}
    missing = sorted(set(range(max(claims.values(), default=0))) - set(claims.values()))
    named: dict[int, frozenset[int]] = {}
    for gpu, node in claims.items():
        named[node] = named.get(node, frozenset()) | (capture.tails[gpu].cpus or frozenset())
    there = frozenset().union(*named.values())
    if not missing or not there:
        return dict.fromkeys(missing, frozenset())
    left = set(range(max(there))) - there
    if not left:
        return {}
    return _shifted(named, missing) or _divided(left, missing)


def _shifted(named: dict[int, frozenset[int]], missing: list[int]) -> dict[int, frozenset[int]]:
    """The CPUs of missing nodes where all nodes have as many, in the order of their numbers; else nothing.

    A node has a run of CPUs for each thread of a core, or every n-th CPU, which are runs of one.
    """
    shapes = set()
    for node, cpus in named.items():
        runs = _runs(cpus)
        width = len(runs[0]) if runs else 0
        shapes.add((width, tuple(run[0] - node * width for run in runs)))
        if any(len(run) != width for run in runs):
            return {}
    if len(shapes) != 1:
        return {}
    ((width, starts),) = shapes
    if starts[:1] != (0,):
        return {}
    found = {}
    for node in missing:
        firsts = [start + node * width for start in starts]
        found[node] = frozenset(cpu for first in firsts for cpu in range(first, first + width))
    return found


def _divided(left: set[int], missing: list[int]) -> dict[int, frozenset[int]]:
    """CPUs that no named node has, divided among the missing ones; of each run in the order of their numbers."""
    found: dict[int, frozenset[int]] = dict.fromkeys(missing, frozenset())
    for run in _runs(left):
        edges = [len(run) * number // len(missing) for number in range(len(missing) + 1)]
        for node, (start, end) in zip(missing, pairwise(edges), strict=True):
            found[node] |= frozenset(run[start:end])
    return found


def _runs(numbers: Iterable[int]) -> list[list[int]]:
    """The numbers in runs without a gap."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def _implied_note(implied: dict[int, frozenset[int]]) -> Iterator[str]:
    if implied:
        yield f"NUMA nodes {format_list(implied)} assumed: the text names higher ones"


def _numa_nodes(
    capture: Capture,
    roots: tuple[RootComplex, ...],
    claims: dict[str, int],
    implied: dict[int, frozenset[int]],
) -> Iterator[NumaNode]:
    """Every NUMA node that the text names, with the CPUs that it names for it, and those that it implies."""
    named = {root.numa_node for root in roots if root.numa_node >= 0}
    named |= set(capture.node_cpus) | set(claims.values()) | set(implied)
    for tail in capture.tails.values():
        named |= set(tail.numa or ()) | (
            {tail.memory_node} if tail.memory_node is not None else set()
        )
    # A kernel has at least node 0.
    cpus: dict[int, frozenset[int]] = {
        node: capture.node_cpus.get(node, frozenset()) for node in named or {0}
    }
    if sum(map(len, cpus.values())) > len(frozenset().union(*cpus.values())):
        raise CaptureError("the NUMA lines of lscpu put a CPU on two nodes")
    if not capture.node_cpus:
        for gpu, tail in sorted(capture.tails.items()):
            node = claims.get(gpu, min(cpus))
            taken = frozenset().union(*(cpus[other] for other in cpus if other != node))
            cpus[node] |= (tail.cpus or frozenset()) - taken
    cpus |= {node: cpus[node] | others for node, others in implied.items()}
    computing = [node for node in sorted(cpus) if cpus[node]]
    sockets = capture.sockets or len(computing)
    packages = dict.fromkeys(sorted(cpus), 0)
    packages |= {
        node: position * sockets // len(computing) for position, node in enumerate(computing)
    }
    distances = hardware.default_distances(packages, set(cpus) - set(computing))
    for node in sorted(cpus):
        yield NumaNode(node, cpus[node], packages[node], distances[node])


def _compare(capture: Capture, cells: dict[tuple[str, str], str], machine: Machine) -> None:
    """Raise CaptureError where the machine would not print the cell that it was built from."""
    devices: dict[str, Gpu | Nic | DataDirect] = dict(zip(capture.gpus, machine.gpus, strict=True))
    devices |= dict(zip(capture.nics, machine.nics, strict=True))
    devices |= dict(zip(capture.data_direct, machine.data_direct, strict=True))
    wrong: list[str] = []
    for (a, b), cell in cells.items():
        one, other = devices[a], devices[b]
        links = _links_between(one, other) if isinstance(one, Gpu) and isinstance(other, Gpu) else 0
        made = f"NV{links}" if links else ancestor(one.slot, other.slot).name
        if made != cell:
            wrong.append(f"{a}-{b} is {cell} where the other cells ask for {made}")
    if wrong:
        raise CaptureError(f"no machine has these cells: {_some(wrong)}")


def _links_between(a: Gpu, b: Gpu) -> int:
    """Active NVLinks between two GPUs: the direct ones, else what both have into switches."""
    direct = sum(link.active and link.address == b.function.address for link in a.links)
    shared = min(
        sum(link.active and link.remote is Remote.SWITCH for link in gpu.links) for gpu in (a, b)
    )
    return direct or shared


def _unknowns(capture: Capture) -> Iterator[str]:
    seen = any(cell.startswith("NV") for cell in capture.cells.values())
    if (
        capture.shows is Shows.UNSAID
        and len(capture.gpus) > 1
        and not (seen or capture.products or capture.links)
    ):
        yield "no NVLinks assumed: the matrix shows none, and there is no legend that says whether it could"
    if len(capture.products) < len(capture.gpus):
        yield "GPU names unknown: a matrix does not say them; append the output of `nvidia-smi -L`"
    ownerless = [device for device in capture.data_direct if _owner(capture, device) is None]
    if ownerless:
        yield f"NIC of {', '.join(ownerless)} (Data Direct) unknown: append the NIC legend"
    if capture.nics:
        kinds = sorted({_link_layer(capture, nic) for nic in capture.nics}, reverse=True)
        by_name = ", by their names" if "Ethernet" in kinds else ""
        yield f"NIC ports assumed to be active {' and '.join(kinds)}{by_name}: a matrix does not say"
