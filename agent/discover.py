"""From raw answers to a `NodeTopology`: pure, so that every machine that was ever recorded is a test.

The rules for the cells are those of `nvidia-smi topo -m`; for NVLink, NVIDIA's own words in nvml.h.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from agent.fabric import attached, fabric_reasons, health_bits, node_fabric
from agent.products import short_of_product
from agent.raw import RawGpu, RawLink, RawNic, RawNode, RawPci
from topology import hardware as hw
from topology.matrix import SELF, LinkMatrix, near_cards, nv_cell, nvlink_domains, rail_aligned
from topology.pci import NODE, PHB, PIX, PXB, SYS, card, normal_address, pci_level
from topology.ranges import parse_list
from topology.shape import shape

_ANCESTOR: Final = {0: PIX, 10: PIX, 20: PXB, 30: PHB, 40: NODE, 50: SYS}
"""nvmlGpuTopologyLevel_t; two dies of one board (0) print as PIX."""

_LINK_UP: Final = frozenset({1, 2})
"""Active, and asleep to save power: an idle GPU's links sleep and wake with traffic, they are not gone."""

_VERSION: Final = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}
"""NVML_NVLINK_VERSION_*; the numbers are an enum (A100 answers 5)."""

_REMOTE_GPU, _REMOTE_CPU, _REMOTE_SWITCH = 0, 1, 2
"""nvmlIntNvLinkDeviceType_t."""
_NO_ADDRESS: Final = "ffffffff:ff:ff.0"
"""What a link into a switch outside the node answers (GB200, virtual machines)."""

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


def discover(raw: RawNode) -> hw.NodeTopology:
    """Understand one probe in which NVML answered.

    A probe without NVML (see `RawNode.faults`) says nothing about links; call this only when NVML started.
    """
    numa = _Numa(raw)
    wiring = _Wiring(raw)
    matrix, disputes = _matrix(raw, wiring, numa)
    nics = tuple(_nic(nic, numa) for nic in raw.nics)
    gpus = tuple(_gpu(gpu, numa, _rails(matrix.cells[i][len(raw.gpus) :], nics)) for i, gpu in enumerate(raw.gpus))
    domains = nvlink_domains(matrix)
    fabric, clique = node_fabric(raw.gpus)
    reasons = tuple(
        dict.fromkeys((*_missing(raw), *_weak_links(gpus), *short_of_product(gpus), *fabric_reasons(raw.gpus)))
    )
    return hw.NodeTopology(
        gpus=gpus,
        nics=nics,
        numa=tuple(hw.NumaNode(node.id, node.cpus, node.distances) for node in raw.numa),
        matrix=matrix,
        nvlink_domains=domains,
        interconnect=_interconnect(len(gpus), domains, wiring),
        nvswitches=wiring.switches(raw.switch_functions),
        fabric=fabric,
        clique=clique,
        platform=_platform(raw.gpus),
        disputes=disputes,
        shape=shape(matrix, [gpu.numa for gpu in gpus] + [nic.numa for nic in nics]),
        rail_aligned=bool(gpus) and rail_aligned(near_cards(matrix, [card(nic.pci) for nic in nics])),
        state=hw.State.UNKNOWN if fabric is hw.Fabric.IN_PROGRESS else hw.State.DEGRADED if reasons else hw.State.OK,
        reasons=reasons,
    )


class _Numa:
    """NUMA nodes of devices: the kernel's word, else the node whose CPUs are local to the device."""

    def __init__(self, raw: RawNode) -> None:
        self._cpus = {node.id: parse_list(node.cpus) for node in raw.numa}
        self._all = frozenset().union(*self._cpus.values())
        self._functions = {function.address: function for function in raw.gpu_functions}

    def of(self, function: RawPci | None) -> int | None:
        if function is None:
            return None
        if function.numa is not None:
            return function.numa
        local = parse_list(function.local_cpus)
        if not local or local >= self._all:
            return None  # all CPUs are local to a device whose place the firmware does not tell
        return next((node for node, cpus in self._cpus.items() if local <= cpus), None)

    def function(self, address: str) -> RawPci | None:
        return self._functions.get(address)


@dataclass(slots=True)
class _Ends:
    """Where the active links of one GPU end."""

    peers: Counter[str]
    into_switches: int = 0


class _Wiring:
    """Where every active NVLink of the node ends, by the GPU's PCI address."""

    def __init__(self, raw: RawNode) -> None:
        self._gpus = {gpu.pci for gpu in raw.gpus} | {function.address for function in raw.gpu_functions}
        self._on_bus = frozenset(raw.switch_functions)
        self._seen: set[str] = set()
        self._nameless = False
        self._ends = {gpu.pci: self._ends_of(gpu) for gpu in raw.gpus}

    def _ends_of(self, gpu: RawGpu) -> _Ends:
        ends = _Ends(Counter())
        for link in gpu.links:
            if link.state not in _LINK_UP:
                continue
            remote = _remote(link)
            if remote in self._gpus:
                ends.peers[remote] += 1
            elif link.remote_type == _REMOTE_SWITCH or remote in self._on_bus or _hidden_switch(gpu, link, remote):
                ends.into_switches += 1
                if remote is None:
                    self._nameless = True
                else:
                    self._seen.add(remote)
        return ends

    def links(self, a: str, b: str) -> int:
        """Active NVLinks between two GPUs; both ends have to agree, so the smaller count stands.

        Through switches a pair shares all links that both have into them.
        """
        direct = min(self._ends[a].peers[b], self._ends[b].peers[a])
        return direct or min(self._ends[a].into_switches, self._ends[b].into_switches)

    def switched(self) -> bool:
        """Whether any link ends in an NVSwitch."""
        return any(ends.into_switches for ends in self._ends.values())

    def switches(self, on_bus: tuple[str, ...]) -> int | None:
        """How many NVSwitches there are; None when links end in switches that show no address."""
        known = len(self._seen.union(on_bus))
        return None if self._nameless and not known else known


def _remote(link: RawLink) -> str | None:
    """Address of the far end, None when the link does not tell it."""
    if link.remote_pci is None or link.remote_pci.lower() == _NO_ADDRESS:
        return None
    try:
        return normal_address(link.remote_pci)
    except ValueError:
        return None


def _hidden_switch(gpu: RawGpu, link: RawLink, remote: str | None) -> bool:
    """Whether a link of unknown type (drivers before 470) leads to a switch that shows no address.

    A POWER9 CPU at the far end looks just so; the count of switch links, where the driver gives one, tells them apart.
    """
    typed = link.remote_type in (_REMOTE_GPU, _REMOTE_CPU)
    return remote is None and not typed and (link.remote_pci or "").lower() == _NO_ADDRESS and gpu.switch_links != 0


def _gpu(raw: RawGpu, numa: _Numa, rails: tuple[str, ...]) -> hw.Gpu:
    up = [link for link in raw.links if link.state in _LINK_UP]
    return hw.Gpu(
        index=raw.index,
        pci=raw.pci,
        uuid=raw.uuid,
        product=raw.name,
        architecture=_ARCHITECTURE.get(raw.architecture),
        numa=numa.of(numa.function(raw.pci)),
        memory_numa=raw.memory_numa,
        module=raw.module,
        mig=raw.mig,
        mig_devices=raw.mig_devices,
        links_active=len(up),
        links_total=len(raw.links),
        link_mbps=max((link.mbps for link in up if link.mbps), default=None),
        nvlink_version=next((_VERSION[link.version] for link in up if link.version in _VERSION), None),
        c2c_links=raw.c2c_active,
        rails=rails,
        fabric_health=tuple(health_bits(raw.fabric)) if raw.fabric and attached(raw.fabric) else (),
    )


def _nic(raw: RawNic, numa: _Numa) -> hw.Nic:
    return hw.Nic(
        name=raw.name,
        pci=raw.pci.address,
        numa=numa.of(raw.pci),
        guid=raw.guid,
        link_layer=", ".join(sorted(set(filter(None, raw.link_layers)))) or None,
        active=any("ACTIVE" in state for state in raw.port_states),
    )


def _rails(row: Sequence[str], nics: Sequence[hw.Nic]) -> tuple[str, ...]:
    """The NICs nearest to a GPU, given its cells to all NICs; those beyond PXB are no rail."""
    for level in (PIX, PXB):
        near = tuple(nic.name for nic, cell in zip(nics, row, strict=True) if cell == level)
        if near:
            return near
    return ()


def _platform(gpus: Sequence[RawGpu]) -> hw.Platform | None:
    """Where the node sits: what its GPUs agree on (they share the tray), None when they do not or cannot tell."""
    places = {
        hw.Platform(p.chassis, p.slot, p.tray, p.host) for gpu in gpus if (p := gpu.platform) is not None and p.chassis
    }
    return places.pop() if len(places) == 1 else None


def _matrix(raw: RawNode, wiring: _Wiring, numa: _Numa) -> tuple[LinkMatrix, tuple[hw.PathDispute, ...]]:
    """The link matrix, and the pairs of GPUs whose PCI level NVML and sysfs name differently."""
    ancestors: Mapping[tuple[int, int], int] = {(a.a, a.b): a.level for a in raw.ancestors}
    functions = [numa.function(gpu.pci) for gpu in raw.gpus] + [nic.pci for nic in raw.nics]
    names = [f"GPU{gpu.index}" for gpu in raw.gpus] + [f"NIC{i}" for i in range(len(raw.nics))]
    cells = [[SELF] * len(names) for _ in names]
    disputes = []
    for i in range(len(names)):
        for j in range(i):
            first, second = functions[j], functions[i]
            by_path = None
            if first and second:
                by_path = pci_level(first.path, second.path, numa.of(first), numa.of(second))
            by_nvml, links = None, 0
            if i < len(raw.gpus):
                a, b = raw.gpus[j], raw.gpus[i]
                by_nvml = _ANCESTOR.get(ancestors.get((a.index, b.index), -1))
                links = wiring.links(a.pci, b.pci)
            if by_path and by_nvml and by_path != by_nvml:
                disputes.append(hw.PathDispute(names[j], names[i], by_nvml, by_path))
            cells[i][j] = cells[j][i] = nv_cell(links) if links else by_nvml or by_path or SYS
    return LinkMatrix(tuple(names), tuple(map(tuple, cells))), tuple(disputes)


def _interconnect(gpus: int, domains: tuple[tuple[int, ...], ...], wiring: _Wiring) -> hw.Interconnect:
    if gpus < 2:  # noqa: PLR2004 - a path needs two
        return hw.Interconnect.NONE
    if len(domains[0]) == 1:
        return hw.Interconnect.PCIE
    return hw.Interconnect.NVSWITCH if wiring.switched() else hw.Interconnect.NVLINK


def expected_gpus(raw: RawNode) -> list[str]:
    """Addresses of the GPUs that NVML ought to see: on the bus, and not held by another driver (VFIO)."""
    return [function.address for function in raw.gpu_functions if function.driver in (None, _NVIDIA_DRIVER)]


def _missing(raw: RawNode) -> list[str]:
    """GPUs that NVML ought to see and does not, by name."""
    seen = {gpu.pci for gpu in raw.gpus}
    lost = [f"GPU {gpu} is on the PCI bus but not in NVML" for gpu in expected_gpus(raw) if gpu not in seen]
    # Without sysfs the index is all there is to name it by.
    return lost or [f"GPU {fault.index}: {fault.text}" for fault in raw.faults if fault.index is not None]


def _weak_links(gpus: tuple[hw.Gpu, ...]) -> list[str]:
    """GPUs with fewer active links than their like on this node: a dead link, or a GPU thrown out of the fabric."""
    most: Counter[str | None] = Counter()
    for gpu in gpus:
        most[gpu.product] = max(most[gpu.product], gpu.links_active)
    return [
        f"GPU {gpu.index}: {gpu.links_active} of {most[gpu.product]} NVLinks active"
        for gpu in gpus
        if gpu.links_active < most[gpu.product]
    ]
