"""Hardware profiles: machines written down by hand, in YAML; docs/demo.md has the fields.

Everything is checked: an unknown field, a wrong type or a dangling name raises ProfileError.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from toposcope.errors import ToposcopeError
from toposcope.hardware.ranges import parse_list
from toposcope.simulator import machine as hardware
from toposcope.simulator.document import DocumentError, Number, Part, read_document
from toposcope.simulator.faults import Faults, LinksByGpu
from toposcope.simulator.machine import (
    DataDirect,
    Fabric,
    Gpu,
    Machine,
    Nic,
    NumaNode,
    NvLink,
    PciFunction,
    Platform,
    Slot,
    identity,
)
from toposcope.simulator.nvlink import ARCHITECTURES, NVLINK_VERSIONS, Wiring, WiringError, wire
from toposcope.simulator.pci import LayoutError, Port, RootComplex, Switch, place

_PROFILES: Final = Path(__file__).with_name("profiles")
_DIRECT: Final = "/dd"
"""Behind a NIC's name in the PCI tree: its Data Direct function."""
# No machine has a quarter of these; a typing error must not make a machine of millions.
_Count = Annotated[int, msgspec.Meta(ge=0, le=64)]
_DATA_DIRECT: Final = (hardware.MELLANOX, hardware.DATA_DIRECT, hardware.CLASS_DMA)
_Byte = Annotated[int, msgspec.Meta(ge=0, le=255)]


class ProfileError(DocumentError):
    """A profile that cannot be used; the message names file, field and fix."""


# Words, and lists of the kernel's, as what they stand for.
class _Cpus(frozenset[int]): ...


class _Architecture(int): ...


class _Version(int): ...


class _FabricState(int): ...


class _Health(int): ...


class _PciClass(int): ...


class _Active(int): ...


def _one_of(kind: type[int], words: Mapping[str, int]) -> Callable[[object], int]:
    def value(word: object) -> int:
        if not isinstance(word, str) or word not in words:
            raise ValueError(f"{word!r} is not one of {', '.join(words)}")
        return kind(words[word])

    return value


def _cpus(text: object) -> _Cpus:
    if not isinstance(text, str):
        raise ValueError(f'is {text!r}, write a quoted list such as "0-31,64-95"')  # noqa: TRY004 - msgspec names the field
    return _Cpus(parse_list(text))


_WORDS: Final[Mapping[Any, Callable[[Any], Any]]] = {
    _Cpus: _cpus,
    _Architecture: _one_of(_Architecture, ARCHITECTURES),
    _Version: _one_of(_Version, NVLINK_VERSIONS),
    _FabricState: _one_of(
        _FabricState, {"not-supported": 0, "not-started": 1, "in-progress": 2, "completed": 3}
    ),
    _Health: _one_of(_Health, {"not-supported": 0, "healthy": 1, "unhealthy": 2, "limited": 3}),
    _PciClass: _one_of(
        _PciClass, {"InfiniBand": hardware.CLASS_INFINIBAND, "Ethernet": hardware.CLASS_ETHERNET}
    ),
    _Active: _one_of(_Active, {"ACTIVE": 1, "DOWN": 0}),
}


class _C2c(Part):
    links: _Count = 0
    mbps: Number = 0


class _Gpus(Part, kw_only=True):
    count: _Count
    architecture: _Architecture
    pci_id: Number
    product: str | None = None
    modules: tuple[Number, ...] = ()
    boards: tuple[tuple[Number, ...], ...] = ()
    memory_nodes: tuple[Number, ...] = ()
    c2c: _C2c = msgspec.field(default_factory=_C2c)
    mig: dict[Number, Annotated[int, msgspec.Meta(ge=1, le=7)]] | None = None
    geforce: bool = False

    def __post_init__(self) -> None:
        for name in ("modules", "memory_nodes"):
            values = getattr(self, name)
            if values and len(values) != self.count:
                raise ValueError(
                    f"{name}: has {len(values)} entries, write one for each of the {self.count} GPUs"
                )
        dies = [gpu for board in self.boards for gpu in board]
        if len(set(dies)) < len(dies) or max(dies, default=-1) >= self.count:
            raise ValueError(f"boards: write each GPU below {self.count} on one board at most")
        if max(self.mig or {}, default=-1) >= self.count:
            raise ValueError(
                f"mig: write GPU numbers below {self.count} with 1 to 7 MIG devices each"
            )

    def mig_devices(self, name: str, gpu: int) -> tuple[str, ...] | None:
        """UUIDs of the GPU's MIG devices; None when the product has no MIG."""
        if self.mig is None:
            return None
        return tuple(
            f"MIG-{identity(name, 'gpu', gpu, 'mig', i)}" for i in range(self.mig.get(gpu, 0))
        )


class _NicCard(Part, kw_only=True):
    names: list[str]
    pci_id: Number
    link_layer: _PciClass = _PciClass(hardware.CLASS_INFINIBAND)
    state: _Active = _Active(1)
    physfn: str | None = None
    management: bool = False
    data_direct: bool = False
    vpd: bool = True

    def __post_init__(self) -> None:
        for name in self.names:
            if not hardware.DEVICE_NAME.fullmatch(name):
                raise ValueError(
                    f"names: {name!r} is not a device name; use letters, digits, `_`, `-` and `.`"
                )


class _Root(Part, kw_only=True):
    ports: list[Any]
    numa: Number | None = None
    bus: str | None = None


class _NvLink(Part, kw_only=True):
    version: _Version
    mbps: Number
    switched: _Count = 0
    switch_pci_id: Number = 0
    pairs: tuple[tuple[Number, Number, _Count], ...] = ()
    cpu: _Count = 0
    links: _Count = 0
    inactive: LinksByGpu = msgspec.field(default_factory=dict)


class _FabricPart(Part, kw_only=True):
    state: _FabricState
    cluster_uuid: uuid.UUID = hardware.NO_CLUSTER
    clique: Number = 0
    status: Number = 0
    health_mask: Number = 0
    health_summary: _Health = _Health(0)


class _PlatformPart(Part):
    chassis: str
    slot: _Byte
    tray: _Byte
    host: _Byte
    peer_type: _Byte

    def __post_init__(self) -> None:
        if len(self.chassis.encode()) > 16:  # noqa: PLR2004 - the size of the field in nvmlPlatformInfo_t
            raise ValueError(f"chassis: {self.chassis!r} is longer than 16 bytes")


class _Profile(Part, kw_only=True):
    name: str
    description: str
    driver: str
    numa: dict[Number, _Cpus]
    gpus: _Gpus
    sockets: Number | None = None
    memory_nodes: _Cpus = _Cpus()
    distances: tuple[tuple[Number, ...], ...] = ()
    nics: tuple[_NicCard, ...] = ()
    pci: tuple[_Root, ...] = ()
    nvlink: _NvLink | None = None
    fabric: _FabricPart | None = None
    platform: _PlatformPart | None = None
    faults: Faults = msgspec.field(default_factory=Faults)


def profile_names() -> tuple[str, ...]:
    """The profiles that are shipped, sorted."""
    return tuple(sorted(path.stem for path in _PROFILES.glob("*.yaml")))


def load_profile(name_or_path: str | Path) -> Machine:
    """The machine of a shipped profile (by name) or of a profile file (by path).

    Raises ProfileError.
    """
    path = Path(name_or_path)
    if isinstance(name_or_path, str) and name_or_path in profile_names():
        path = _PROFILES / f"{name_or_path}.yaml"
    if not path.is_file():
        known = ", ".join(profile_names())
        raise ProfileError(
            f"{name_or_path}: neither a profile file nor a shipped profile; shipped are {known}"
        )
    profile = read_document(path, _Profile, ProfileError, _WORDS)
    try:
        return _machine(profile)
    except _FieldError as error:
        raise ProfileError(f"{path.name}: {error}") from error


class _FieldError(ToposcopeError):
    """A field that does not fit the others: its name and the fix."""


def _machine(profile: _Profile) -> Machine:
    if not profile.driver.partition(".")[0].isdecimal():
        raise _FieldError(
            f"driver: {profile.driver!r} is not a driver version; write one such as '570.86.15'"
        )
    name, gpus, nvlink, platform = profile.name, profile.gpus, profile.nvlink, profile.platform
    nodes = _numa_nodes(profile)
    cards = _nic_cards(profile)
    slots = _slots(profile, cards, {node.id for node in nodes})
    functions = _functions(gpus, cards, slots, nvlink)
    links = _wired(nvlink, functions, gpus.count)
    if max(profile.faults.gpus, default=-1) >= gpus.count:
        there = f"the GPUs are 0 to {gpus.count - 1}"
        raise _FieldError(f"faults: GPU {max(profile.faults.gpus)} is not there; {there}")
    if not {node.id for node in nodes}.issuperset(gpus.memory_nodes):
        raise _FieldError(
            "gpus.memory_nodes: names a NUMA node that is not there; declare it at the top level"
        )
    fabric = None
    if said := profile.fabric:
        numbers = (said.clique, said.status, said.health_mask, int(said.health_summary))
        fabric = Fabric(int(said.state), said.cluster_uuid, *numbers)
    placed = None
    if platform:
        placed = Platform(
            **msgspec.structs.asdict(platform), ib_guid=identity(name, "platform").bytes
        )
    return Machine(
        name=name,
        description=profile.description,
        driver=profile.driver,
        numa_nodes=nodes,
        gpus=tuple(
            Gpu(
                function=functions[f"gpu{i}"],
                uuid=f"GPU-{identity(name, 'gpu', i)}",
                name=gpus.product,
                serial=None if gpus.geforce else hardware.serial_number(name, i),
                architecture=int(gpus.architecture),
                module_id=gpus.modules[i] if gpus.modules else 0,
                board=next((n for n, dies in enumerate(gpus.boards) if i in dies), None),
                links=links[i],
                nvlink_version=int(nvlink.version) if nvlink else None,
                link_mbps=nvlink.mbps if nvlink else None,
                c2c_links=gpus.c2c.links,
                c2c_mbps=gpus.c2c.mbps,
                memory_node=gpus.memory_nodes[i] if gpus.memory_nodes else None,
                pcie_p2p=not gpus.geforce,
                mig=gpus.mig_devices(name, i),
                fabric=fabric,
                platform=placed,
            )
            for i in range(gpus.count)
        ),
        nics=tuple(
            Nic(
                name=nic,
                function=functions[nic],
                link_layer="InfiniBand"
                if card.link_layer == hardware.CLASS_INFINIBAND
                else "Ethernet",
                active=bool(card.state),
                node_guid=identity(name, nic).int >> 64,
                physfn=functions[card.physfn].address if card.physfn else None,
                management=card.management,
                vpd=card.vpd,
            )
            for nic, card in ((name, cards[name]) for name in slots if name in cards)
        ),
        data_direct=tuple(
            DataDirect(functions[name], name.removesuffix(_DIRECT))
            for name in slots
            if name.endswith(_DIRECT)
        ),
        nvswitches=tuple(
            functions[switch] for switch in functions if switch.startswith("nvswitch")
        ),
        faults=profile.faults,
    )


def _numa_nodes(profile: _Profile) -> tuple[NumaNode, ...]:
    cpus = {node: frozenset(listed) for node, listed in profile.numa.items()}
    if sum(map(len, cpus.values())) > len(frozenset().union(*cpus.values())):
        raise _FieldError("numa: a CPU is on two nodes; give every CPU to one")
    if not any(cpus.values()):
        raise _FieldError('numa: give at least one node with CPUs, such as `{0: "0-31"}`')
    sockets = len(cpus) if profile.sockets is None else profile.sockets
    if not 0 < sockets <= len(cpus):
        raise _FieldError(
            f"sockets: is {sockets}, write a number from 1 to the {len(cpus)} nodes with CPUs"
        )
    packages = {node: position * sockets // len(cpus) for position, node in enumerate(sorted(cpus))}
    bare = profile.memory_nodes
    if bare & set(cpus):
        raise _FieldError("memory_nodes: names a node that has CPUs under `numa`")
    cpus |= dict.fromkeys(sorted(bare), frozenset())
    # A node that is only memory hangs off some package; its distances alone tell which.
    packages |= dict.fromkeys(bare, 0)
    distances = hardware.default_distances(packages, bare)
    if given := profile.distances:
        if len(given) != len(cpus) or any(len(row) != len(cpus) for row in given):
            raise _FieldError(
                f"distances: write {len(cpus)} lists of {len(cpus)} numbers, one per NUMA node"
            )
        distances = dict(zip(sorted(cpus), given, strict=True))
    return tuple(
        NumaNode(node, cpus[node], packages[node], distances[node]) for node in sorted(cpus)
    )


def _nic_cards(profile: _Profile) -> dict[str, _NicCard]:
    cards: dict[str, _NicCard] = {}
    for card in profile.nics:
        for name in card.names:
            if name in cards:
                raise _FieldError(f"nics: {name} is there twice; device names are unique on a node")
            cards[name] = card
    for name, card in cards.items():
        if card.physfn is not None and (
            card.physfn not in cards or cards[card.physfn].physfn is not None
        ):
            raise _FieldError(f"nics: physfn of {name}: {card.physfn} is not a physical NIC")
    return cards


def _slots(profile: _Profile, cards: Mapping[str, _NicCard], numa: set[int]) -> dict[str, Slot]:
    roots: list[RootComplex] = []
    for number, root in enumerate(profile.pci):
        if root.numa is not None and root.numa not in numa:
            wrong = f"NUMA node {root.numa} does not exist; declare it under the top-level `numa`"
            raise _FieldError(f"pci[{number}].numa: {wrong}")
        ports = tuple(_port(f"pci[{number}].ports[{i}]", port) for i, port in enumerate(root.ports))
        roots.append(RootComplex(-1 if root.numa is None else root.numa, ports, root.bus))
    named = [name for root in roots for port in root.ports for name in _names(port)]
    switches = [name for name in named if name.startswith("nvswitch")]
    expected = [f"gpu{i}" for i in range(profile.gpus.count)]
    expected += [name for name, card in cards.items() if card.physfn is None]
    expected += [f"{name}{_DIRECT}" for name, card in cards.items() if card.data_direct]
    expected += [f"nvswitch{i}" for i in range(len(switches))]
    for name in named:
        if named.count(name) > 1:
            raise _FieldError(f"pci: {name} stands in the tree twice")
        if name not in expected:
            raise _FieldError(
                f"pci: {name} is not a GPU, NIC, Data Direct function or NVSwitch of this file"
            )
    for name in expected:
        if name not in named:
            raise _FieldError(f"pci: {name} has no place in the tree; name it under some `ports`")
    try:
        slots = place(tuple(roots))
    except LayoutError as error:
        raise _FieldError(f"pci: {error}") from error
    return slots | dict(_virtual_slots(cards, slots))


def _port(field: str, value: object) -> Port:
    if isinstance(value, str) and value:
        return tuple(value.split("+"))
    if isinstance(value, list) and value:
        return Switch(tuple(_port(f"{field}[{i}]", member) for i, member in enumerate(value)))
    raise _FieldError(
        f"{field}: is {value!r}, write a device name, `a+b` for one card, or a list for a switch"
    )


def _names(port: Port) -> Iterator[str]:
    if isinstance(port, Switch):
        for member in port.members:
            yield from _names(member)
    else:
        yield from port


def _virtual_slots(
    cards: Mapping[str, _NicCard], slots: Mapping[str, Slot]
) -> Iterator[tuple[str, Slot]]:
    """Virtual functions follow the last function of their card, eight to a device number."""
    taken: dict[str, int] = {}
    for name, card in cards.items():
        if card.physfn is None:
            continue
        parent = slots[card.physfn]
        bus = parent.address[:-5]
        routing = taken.get(bus, sum(slot.address.startswith(bus) for slot in slots.values()))
        taken[bus] = routing + 1
        address = f"{bus}:{routing // 8:02x}.{routing % 8}"
        yield name, Slot(address, parent.root, parent.bridges, parent.numa_node)


def _functions(
    gpus: _Gpus, cards: Mapping[str, _NicCard], slots: Mapping[str, Slot], nvlink: _NvLink | None
) -> dict[str, PciFunction]:
    gpu = (
        hardware.NVIDIA,
        gpus.pci_id,
        hardware.CLASS_DISPLAY if gpus.geforce else hardware.CLASS_COMPUTE,
    )
    switch = (hardware.NVIDIA, nvlink.switch_pci_id if nvlink else 0, hardware.CLASS_NVSWITCH)
    switches = sorted(
        (name for name in slots if name.startswith("nvswitch")), key=lambda name: int(name[8:])
    )
    ids = dict.fromkeys((f"gpu{i}" for i in range(gpus.count)), gpu)
    ids |= {
        name: (hardware.MELLANOX, card.pci_id, int(card.link_layer)) for name, card in cards.items()
    }
    ids |= {name: _DATA_DIRECT for name in slots if name.endswith(_DIRECT)}
    return {
        name: PciFunction(slots[name], *about)
        for name, about in (ids | dict.fromkeys(switches, switch)).items()
    }


def _wired(
    nvlink: _NvLink | None, functions: Mapping[str, PciFunction], gpus: int
) -> list[tuple[NvLink, ...]]:
    addresses = [functions[f"gpu{i}"].address for i in range(gpus)]
    switches = [
        function.address for name, function in functions.items() if name.startswith("nvswitch")
    ]
    wiring = (
        Wiring(nvlink.pairs, nvlink.switched, nvlink.cpu, nvlink.links, nvlink.inactive)
        if nvlink
        else Wiring()
    )
    try:
        return wire(wiring, addresses, switches)
    except WiringError as error:
        raise _FieldError(f"nvlink: {error}") from error
