"""Where every NVLink of a node ends: at a GPU, an NVSwitch or a CPU. Pure; see nvml.h."""

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import Final, NamedTuple

from toposcope.agent.raw import RawGpu, RawLink, RawNode
from toposcope.hardware.pci import normal_address
from toposcope.hardware.topology import LinkEnd, LinkState, NvLink

_STATE: Final = {
    0: LinkState.INACTIVE,
    1: LinkState.ACTIVE,
    2: LinkState.SLEEP,
    3: LinkState.DISABLED,
}
"""NVML_FI_DEV_NVLINK_GET_STATE; `nvmlDeviceGetNvLinkState` knows the first two."""

_VERSION: Final = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}
"""NVML_NVLINK_VERSION_*; the numbers are an enum (A100 answers 5)."""

_REMOTE_TYPE_GPU: Final = 0
_REMOTE_TYPE_CPU: Final = 1
_REMOTE_TYPE_SWITCH: Final = 2
"""nvmlIntNvLinkDeviceType_t."""
_NO_ADDRESS: Final = "ffffffff:ff:ff.0"
"""What a link into a switch outside the node answers (GB200, virtual machines)."""


class _Ends(NamedTuple):
    peers: Counter[str]
    into_switches: int


class NvLinks:
    """The NVLinks of a node by their GPU's PCI address. Only links that are up make a path."""

    def __init__(self, raw: RawNode) -> None:
        self._bus_visible = raw.is_bus_visible
        self._on_bus = frozenset(raw.switch_functions)
        self._gpus = _gpu_addresses(raw)
        self._facts: dict[str, tuple[NvLink, ...]] = {}
        self._ends: dict[str, _Ends] = {}
        self._unknown: set[str] = set()

        for gpu in raw.gpus:
            address = gpu.pci
            facts = [self._fact(gpu, link) for link in gpu.links]
            self._facts[address] = tuple(facts)
            self._ends[address] = _ends(facts)

        for gpu in raw.gpus:
            if not self._has_known_ends(gpu):
                self._unknown.add(gpu.pci)

    def _fact(self, gpu: RawGpu, link: RawLink) -> NvLink:
        state = _state(link)
        remote = _remote(link)
        end: LinkEnd | None = None
        if state not in (LinkState.INACTIVE, LinkState.UNKNOWN):
            end = self._end(gpu, link, remote)
        return NvLink(
            link=link.link,
            state=state,
            version=None if link.version is None else _VERSION.get(link.version),
            mbps=link.mbps,
            remote=end,
            remote_pci=remote,
        )

    def _has_known_ends(self, gpu: RawGpu) -> bool:
        """Whether NVML said how many links there are, which of them are up, and where those end."""
        if not gpu.has_known_links:
            return False
        if not gpu.links:
            return not self._links_from_others(gpu.pci)
        for link, fact in zip(gpu.links, self._facts[gpu.pci], strict=True):
            if not self._is_answered(gpu, link, fact):
                return False
        return True

    def _is_answered(self, gpu: RawGpu, link: RawLink, fact: NvLink) -> bool:
        if fact.state is LinkState.UNKNOWN:
            return False
        if not fact.is_up or fact.remote in (LinkEnd.NVSWITCH, LinkEnd.CPU, LinkEnd.SELF):
            return True
        if fact.remote is LinkEnd.GPU:
            return fact.remote_pci is not None
        if link.remote_type is not None:
            return True
        # Drivers before 470 name no types: by its address it is no GPU, and by sysfs or the count
        # of links no switch.
        if _has_no_address(link):
            return gpu.switch_links is not None
        return link.remote_pci is not None and self._bus_visible

    def _end(self, gpu: RawGpu, link: RawLink, remote: str | None) -> LinkEnd:
        if remote == gpu.pci:
            return LinkEnd.SELF
        if remote in self._gpus or link.remote_type == _REMOTE_TYPE_GPU:
            return LinkEnd.GPU
        if link.remote_type == _REMOTE_TYPE_SWITCH or remote in self._on_bus:
            return LinkEnd.NVSWITCH
        if _is_hidden_switch(gpu, link, remote):
            return LinkEnd.NVSWITCH
        return LinkEnd.CPU if link.remote_type == _REMOTE_TYPE_CPU else LinkEnd.UNKNOWN

    def facts(self, gpu: str) -> tuple[NvLink, ...]:
        """All links of a GPU, those that are down too."""
        return self._facts[gpu]

    def active(self, gpu: str) -> int:
        """How many of a GPU's links are up."""
        return sum(link.is_up for link in self._facts[gpu])

    def has_known_links(self, gpu: str) -> bool:
        """Whether NVML said all about a GPU's links.

        False too for a GPU without links that others have links to.
        """
        return gpu not in self._unknown

    def missing_ends(self, gpu: str) -> int:
        """Links that are up at other GPUs, lead to this one and are not up here.

        A link has two ends.
        """
        own = self._ends[gpu].peers
        missing = 0
        for peer, peer_links in self._links_from_others(gpu).items():
            missing += max(0, peer_links - own[peer])
        return missing

    def _links_from_others(self, gpu: str) -> dict[str, int]:
        """How many links of each other GPU lead to this one; those without any are left out."""
        links = {}
        for peer, ends in self._ends.items():
            if peer != gpu and ends.peers[gpu]:
                links[peer] = ends.peers[gpu]
        return links

    def links(self, a: str, b: str) -> int:
        """Active NVLinks between two GPUs, direct or through switches.

        The smaller count of both ends stands.
        """
        first = self._ends[a]
        second = self._ends[b]
        direct = min(first.peers[b], second.peers[a])
        if direct:
            return direct
        return min(first.into_switches, second.into_switches)

    def is_meshed(self) -> bool:
        """Whether any link ends in another GPU."""
        return any(ends.peers for ends in self._ends.values())

    def is_switched(self) -> bool:
        """Whether any link ends in an NVSwitch."""
        return any(ends.into_switches for ends in self._ends.values())

    def switches(self, on_bus: tuple[str, ...]) -> int | None:
        """How many NVSwitches there are; None when links end in switches without an address."""
        addresses = set(on_bus)
        has_nameless = False
        for link in chain.from_iterable(self._facts.values()):
            if not link.is_up or link.remote is not LinkEnd.NVSWITCH:
                continue
            if link.remote_pci:
                addresses.add(link.remote_pci)
            else:
                has_nameless = True
        return None if has_nameless and not addresses else len(addresses)


def _gpu_addresses(raw: RawNode) -> set[str]:
    """The GPUs of the node, in NVML or on the bus."""
    addresses = set()
    for function in raw.gpu_functions:
        addresses.add(function.address)
    for gpu in raw.gpus:
        addresses.add(gpu.pci)
    return addresses


def _state(link: RawLink) -> LinkState:
    if link.state is None:
        return LinkState.UNKNOWN
    return _STATE.get(link.state, LinkState.UNKNOWN)


def _ends(facts: Iterable[NvLink]) -> _Ends:
    peers: Counter[str] = Counter()
    into_switches = 0
    for link in facts:
        if not link.is_up:
            continue
        if link.remote is LinkEnd.NVSWITCH:
            into_switches += 1
        elif link.remote is LinkEnd.GPU and link.remote_pci:
            peers[link.remote_pci] += 1
    return _Ends(peers, into_switches)


def _remote(link: RawLink) -> str | None:
    """Address of the far end, None when the link has none."""
    if link.remote_pci is None or link.remote_pci.lower() == _NO_ADDRESS:
        return None
    try:
        return normal_address(link.remote_pci)
    except ValueError:
        return None


def _has_no_address(link: RawLink) -> bool:
    """Whether NVML answered that the far end has no address."""
    return (link.remote_pci or "").lower() == _NO_ADDRESS


def _is_hidden_switch(gpu: RawGpu, link: RawLink, remote: str | None) -> bool:
    """Whether a link of unknown type leads to a switch without address, and not to a POWER9 CPU.

    Drivers before 470 name no types.
    """
    if remote is not None or link.remote_type in (_REMOTE_TYPE_GPU, _REMOTE_TYPE_CPU):
        return False
    return _has_no_address(link) and bool(gpu.switch_links)
