"""Hardware profiles: machines written down by hand, in YAML, for `discover --profile FILE`.

Everything is checked: an unknown field, a wrong type or a dangling name raises ProfileError.

    name: two-gpus-and-a-nic
    description: what it is, in one line
    driver: "570.86.15"
    sockets: 2                          # optional: CPU packages; default: one per NUMA node
    numa: {0: "0-31", 1: "32-63"}       # NUMA node to its CPUs; numbers may have gaps
    memory_nodes: "2-33"                # optional: NUMA nodes without CPUs
    distances: [[10, 21], [21, 10]]     # optional: ACPI distances, in order of node number

    gpus:
      count: 2
      product: NVIDIA L40S              # optional: if omitted, NVML does not report the name
      architecture: ada                 # kepler ... rubin
      pci_id: 0x26b9
      modules: [1, 2]                   # optional: place on a baseboard, one per GPU
      boards: [[0, 1]]                  # optional: GPUs that are dies of one board
      memory_nodes: [2, 10]             # optional: NUMA node of each GPU's own memory
      c2c: {links: 10, mbps: 44712}     # optional: links to the CPU of a Grace module
      mig: {0: 3}                       # optional: GPU to its MIG devices; {}: MIG is off
      geforce: true                     # optional: no serial number, no P2P over PCIe

    nics:                               # optional: RDMA devices, grouped by kind
      - names: [mlx5_0, mlx5_1]
        pci_id: 0x1021
        link_layer: InfiniBand          # or Ethernet (default: InfiniBand)
        state: ACTIVE                   # or DOWN (default: ACTIVE)
        data_direct: true               # optional: each has a function `mlx5_0/dd` under `pci`
      - {names: [mlx5_2], pci_id: 0x101e, physfn: mlx5_0}    # virtual functions, not under `pci`
      - {names: [mlx5_3], pci_id: 0x1021, management: true}  # bridges to NVSwitches

    pci:                                # root complexes, in bus order
      - numa: 0                         # optional: if omitted, the firmware does not say (-1)
        bus: "0000:17"                  # optional: domain and first bus; default: the next free one
        ports: [[gpu0, mlx5_0], [[gpu1], [nvswitch0]], mlx5_1]

    nvlink:                             # optional: no NVLink
      version: "4.0"                    # 1.0 2.0 2.2 3.0 3.1 4.0 5.0 6.0
      mbps: 26562                       # speed of one link and direction
      switched: 18                      # links of each GPU into NVSwitches, visible or hidden
      switch_pci_id: 0x22a3             # for visible NVSwitches
      pairs: [[0, 1, 4]]                # direct links between two GPUs, and how many
      cpu: 3                            # links of each GPU to its CPU (POWER9)
      links: 12                         # link ports of each GPU when more than are wired
      inactive: {1: [0, 5], 2: all}     # links that are down

    fabric: {state: completed, cluster_uuid: 6e4..., clique: 7, status: 0, health_mask: 0x1aa}
    platform: {chassis: "1821..", slot: 3, tray: 2, host: 1, peer_type: 1}    # optional, as fabric
    faults: {...}                       # optional: see below

A list under `ports` is a switch, nested lists are nested switches, `a+b` are functions of one card.
So gpu0 and mlx5_0 above are PIX, gpu1 and nvswitch0 PXB. `gpu<N>` and `nvswitch<N>` are the GPUs
and the visible NVSwitches, other names are NICs, with `/dd` behind them their Data Direct
functions; each appears in the tree exactly once.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from toposcope.errors import ToposcopeError
from toposcope.hardware.ranges import parse_list
from toposcope.simulator import machine as hardware
from toposcope.simulator.document import DocumentError, DocumentPart, Number, read_document
from toposcope.simulator.faults import LinksByGpu, MachineFaults
from toposcope.simulator.machine import (
    DataDirectFunction,
    FabricRegistration,
    Machine,
    NvLinkPort,
    PciFunction,
    PciId,
    SimulatedGpu,
    SimulatedNic,
    SimulatedNumaNode,
    Slot,
    TrayPlatform,
    identity,
    mig_uuids,
)
from toposcope.simulator.nvlink import (
    ARCHITECTURES,
    NVLINK_VERSIONS,
    NvLinkWiring,
    WiringError,
    wire,
)
from toposcope.simulator.pci import LayoutError, PcieSwitch, Port, RootComplex, place

_PROFILES: Final = Path(__file__).with_name("profiles")
_SWITCH: Final = "nvswitch"
"""Before the number of an NVSwitch in the PCI tree."""
_DIRECT: Final = "/dd"
"""Behind a NIC's name in the PCI tree: its Data Direct function."""
# No machine has a quarter of these; a typing error must not make a machine of millions.
_Count = Annotated[int, msgspec.Meta(ge=0, le=64)]
_DATA_DIRECT: Final = PciId(hardware.MELLANOX, hardware.DATA_DIRECT, hardware.CLASS_DMA)
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
            choices = ", ".join(words)
            raise ValueError(f"{word!r} is not one of {choices}")
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


class _C2c(DocumentPart):
    links: _Count = 0
    mbps: Number = 0


class _Gpus(DocumentPart, kw_only=True):
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
        count = self.count
        for name in ("modules", "memory_nodes"):
            values = getattr(self, name)
            if values and len(values) != count:
                raise ValueError(
                    f"{name}: has {len(values)} entries, write one for each of the {count} GPUs"
                )

        dies: set[int] = set()
        for board in self.boards:
            for die in board:
                if die in dies or die >= count:
                    raise ValueError(f"boards: write each GPU below {count} on one board at most")
                dies.add(die)

        highest_mig = max(self.mig or {}, default=-1)
        if highest_mig >= count:
            raise ValueError(f"mig: write GPU numbers below {count} with 1 to 7 MIG devices each")

    def mig_devices(self, name: str, gpu: int) -> tuple[str, ...] | None:
        """UUIDs of the GPU's MIG devices; None when the product has no MIG."""
        if self.mig is None:
            return None
        return mig_uuids(name, gpu, self.mig.get(gpu, 0))

    def board_of(self, gpu: int) -> int | None:
        """The board that the GPU shares with others."""
        for number, dies in enumerate(self.boards):
            if gpu in dies:
                return number
        return None


class _NicCard(DocumentPart, kw_only=True):
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


class _Root(DocumentPart, kw_only=True):
    ports: list[Any]
    numa: Number | None = None
    bus: str | None = None


class _NvLink(DocumentPart, kw_only=True):
    version: _Version
    mbps: Number
    switched: _Count = 0
    switch_pci_id: Number = 0
    pairs: tuple[tuple[Number, Number, _Count], ...] = ()
    cpu: _Count = 0
    links: _Count = 0
    inactive: LinksByGpu = msgspec.field(default_factory=dict)


class _FabricPart(DocumentPart, kw_only=True):
    state: _FabricState
    cluster_uuid: uuid.UUID = hardware.NO_CLUSTER
    clique: Number = 0
    status: Number = 0
    health_mask: Number = 0
    health_summary: _Health = _Health(0)


class _PlatformPart(DocumentPart):
    chassis: str
    slot: _Byte
    tray: _Byte
    host: _Byte
    peer_type: _Byte

    def __post_init__(self) -> None:
        if len(self.chassis.encode()) > 16:  # noqa: PLR2004 - the size of the field in nvmlPlatformInfo_t
            raise ValueError(f"chassis: {self.chassis!r} is longer than 16 bytes")


class _Profile(DocumentPart, kw_only=True):
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
    faults: MachineFaults = msgspec.field(default_factory=MachineFaults)


def profile_names() -> tuple[str, ...]:
    """The profiles that are shipped, sorted."""
    names = [path.stem for path in _PROFILES.glob("*.yaml")]
    return tuple(sorted(names))


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
    _check_driver(profile.driver)
    gpus = profile.gpus
    nodes = _numa_nodes(profile)
    cards = _nic_cards(profile)
    slots = _slots(profile, cards, {node.id for node in nodes})
    functions = _functions(profile, cards, slots)
    links = _wired(profile.nvlink, functions, gpus.count)
    _check_faults(profile)
    if not {node.id for node in nodes}.issuperset(gpus.memory_nodes):
        raise _FieldError(
            "gpus.memory_nodes: names a NUMA node that is not there; declare it at the top level"
        )
    nics = []
    data_direct = []
    for name in slots:
        if name in cards:
            nics.append(_nic(profile.name, name, cards[name], functions))
        elif name.endswith(_DIRECT):
            owner = name.removesuffix(_DIRECT)
            data_direct.append(DataDirectFunction(functions[name], owner))
    switches = [functions[name] for name in functions if name.startswith(_SWITCH)]
    return Machine(
        name=profile.name,
        description=profile.description,
        driver=profile.driver,
        numa_nodes=nodes,
        gpus=_simulated_gpus(profile, functions, links),
        nics=tuple(nics),
        data_direct=tuple(data_direct),
        nvswitches=tuple(switches),
        faults=profile.faults,
    )


def _check_driver(driver: str) -> None:
    branch = driver.partition(".")[0]
    if not branch.isdecimal():
        raise _FieldError(
            f"driver: {driver!r} is not a driver version; write one such as '570.86.15'"
        )


def _check_faults(profile: _Profile) -> None:
    highest = max(profile.faults.gpus, default=-1)
    count = profile.gpus.count
    if highest >= count:
        last = count - 1
        raise _FieldError(f"faults: GPU {highest} is not there; the GPUs are 0 to {last}")


def _simulated_gpus(
    profile: _Profile,
    functions: Mapping[str, PciFunction],
    links: Sequence[tuple[NvLinkPort, ...]],
) -> tuple[SimulatedGpu, ...]:
    name = profile.name
    spec = profile.gpus
    nvlink = profile.nvlink
    fabric = _fabric(profile.fabric)
    platform = _platform(name, profile.platform)
    gpus = []
    for index in range(spec.count):
        gpu = SimulatedGpu(
            function=functions[f"gpu{index}"],
            uuid=f"GPU-{identity(name, 'gpu', index)}",
            name=spec.product,
            serial=None if spec.geforce else hardware.serial_number(name, index),
            architecture=int(spec.architecture),
            module_id=spec.modules[index] if spec.modules else 0,
            board=spec.board_of(index),
            links=links[index],
            nvlink_version=int(nvlink.version) if nvlink else None,
            link_mbps=nvlink.mbps if nvlink else None,
            c2c_links=spec.c2c.links,
            c2c_mbps=spec.c2c.mbps,
            memory_node=spec.memory_nodes[index] if spec.memory_nodes else None,
            has_pcie_p2p=not spec.geforce,
            mig=spec.mig_devices(name, index),
            fabric=fabric,
            platform=platform,
        )
        gpus.append(gpu)
    return tuple(gpus)


def _fabric(part: _FabricPart | None) -> FabricRegistration | None:
    if part is None:
        return None
    return FabricRegistration(
        state=int(part.state),
        cluster_uuid=part.cluster_uuid,
        clique=part.clique,
        status=part.status,
        health_mask=part.health_mask,
        health_summary=int(part.health_summary),
    )


def _platform(name: str, part: _PlatformPart | None) -> TrayPlatform | None:
    if part is None:
        return None
    return TrayPlatform(**msgspec.structs.asdict(part), ib_guid=identity(name, "platform").bytes)


def _nic(
    machine: str, name: str, card: _NicCard, functions: Mapping[str, PciFunction]
) -> SimulatedNic:
    is_infiniband = card.link_layer == hardware.CLASS_INFINIBAND
    return SimulatedNic(
        name=name,
        function=functions[name],
        link_layer="InfiniBand" if is_infiniband else "Ethernet",
        is_active=bool(card.state),
        node_guid=identity(machine, name).int >> 64,
        physfn=functions[card.physfn].address if card.physfn else None,
        is_management=card.management,
        has_vpd=card.vpd,
    )


def _numa_nodes(profile: _Profile) -> tuple[SimulatedNumaNode, ...]:
    cpus = {node: frozenset(listed) for node, listed in profile.numa.items()}
    packages = _packages(profile, cpus)
    without_cpus = profile.memory_nodes
    if without_cpus & set(cpus):
        raise _FieldError("memory_nodes: names a node that has CPUs under `numa`")
    for number in sorted(without_cpus):
        cpus[number] = frozenset()
        # A node that is only memory hangs off some package; its distances alone tell which.
        packages[number] = 0
    distances = _distances(profile, packages)
    nodes = []
    for number in sorted(cpus):
        node = SimulatedNumaNode(number, cpus[number], packages[number], distances[number])
        nodes.append(node)
    return tuple(nodes)


def _packages(profile: _Profile, cpus: Mapping[int, frozenset[int]]) -> dict[int, int]:
    """The package of each node with CPUs."""
    listed = sum(len(of_node) for of_node in cpus.values())
    if listed > len(frozenset().union(*cpus.values())):
        raise _FieldError("numa: a CPU is on two nodes; give every CPU to one")
    if not listed:
        raise _FieldError('numa: give at least one node with CPUs, such as `{0: "0-31"}`')
    sockets = profile.sockets
    if sockets is None:
        sockets = len(cpus)
    if not 0 < sockets <= len(cpus):
        raise _FieldError(
            f"sockets: is {sockets}, write a number from 1 to the {len(cpus)} nodes with CPUs"
        )
    packages = {}
    for position, node in enumerate(sorted(cpus)):
        packages[node] = position * sockets // len(cpus)
    return packages


def _distances(profile: _Profile, packages: dict[int, int]) -> dict[int, tuple[int, ...]]:
    rows = profile.distances
    if not rows:
        return hardware.default_distances(packages, profile.memory_nodes)

    size = len(packages)
    lengths = {len(row) for row in rows}
    if len(rows) != size or lengths != {size}:
        raise _FieldError(f"distances: write {size} lists of {size} numbers, one per NUMA node")
    nodes = sorted(packages)
    return dict(zip(nodes, rows, strict=True))


def _nic_cards(profile: _Profile) -> dict[str, _NicCard]:
    cards: dict[str, _NicCard] = {}
    for card in profile.nics:
        for name in card.names:
            if name in cards:
                raise _FieldError(f"nics: {name} appears twice; device names are unique on a node")
            cards[name] = card
    for name, card in cards.items():
        if card.physfn is None:
            continue
        physical = cards.get(card.physfn)
        if physical is None or physical.physfn is not None:
            raise _FieldError(f"nics: physfn of {name}: {card.physfn} is not a physical NIC")
    return cards


def _slots(profile: _Profile, cards: Mapping[str, _NicCard], numa: set[int]) -> dict[str, Slot]:
    roots = _root_complexes(profile, numa)
    named: list[str] = []
    for root in roots:
        for port in root.ports:
            named += _names(port)
    _check_tree(named, _expected_names(profile, cards, named))
    try:
        slots = place(roots)
    except LayoutError as error:
        raise _FieldError(f"pci: {error}") from error
    return slots | dict(_virtual_slots(cards, slots))


def _root_complexes(profile: _Profile, numa: set[int]) -> tuple[RootComplex, ...]:
    roots = []
    for number, root in enumerate(profile.pci):
        place_of_root = f"pci[{number}]"
        numa_node = root.numa
        if numa_node is None:
            numa_node = -1
        elif numa_node not in numa:
            wrong = f"NUMA node {numa_node} does not exist; declare it under the top-level `numa`"
            raise _FieldError(f"{place_of_root}.numa: {wrong}")

        ports = _ports(f"{place_of_root}.ports", root.ports)
        roots.append(RootComplex(numa_node, ports, root.bus))
    return tuple(roots)


def _expected_names(
    profile: _Profile, cards: Mapping[str, _NicCard], named: Sequence[str]
) -> list[str]:
    """What has to stand in the tree; NVSwitches are numbered, however many there are."""
    names = [f"gpu{index}" for index in range(profile.gpus.count)]
    data_direct = []
    for name, card in cards.items():
        if card.physfn is None:
            names.append(name)
        if card.data_direct:
            data_direct.append(f"{name}{_DIRECT}")
    names += data_direct

    switches = _switches(named)
    for index in range(len(switches)):
        names.append(f"{_SWITCH}{index}")
    return names


def _check_tree(named: Sequence[str], expected: Sequence[str]) -> None:
    for name in named:
        if named.count(name) > 1:
            raise _FieldError(f"pci: {name} appears in the tree twice")
        if name not in expected:
            raise _FieldError(
                f"pci: {name} is not a GPU, NIC, Data Direct function or NVSwitch of this file"
            )
    for name in expected:
        if name not in named:
            raise _FieldError(f"pci: {name} is not in the tree; list it under some `ports`")


def _ports(field: str, values: Sequence[object]) -> tuple[Port, ...]:
    ports = []
    for index, value in enumerate(values):
        port = _port(f"{field}[{index}]", value)
        ports.append(port)
    return tuple(ports)


def _port(field: str, value: object) -> Port:
    if isinstance(value, str) and value:
        return tuple(value.split("+"))
    if isinstance(value, list) and value:
        return PcieSwitch(_ports(field, value))
    raise _FieldError(
        f"{field}: is {value!r}, write a device name, `a+b` for one card, or a list for a switch"
    )


def _names(port: Port) -> Iterator[str]:
    if isinstance(port, PcieSwitch):
        for member in port.members:
            yield from _names(member)
    else:
        yield from port


def _virtual_slots(
    cards: Mapping[str, _NicCard], slots: Mapping[str, Slot]
) -> Iterator[tuple[str, Slot]]:
    """Virtual functions follow the last function of their card, eight to a device number."""
    functions_by_bus: dict[str, int] = {}
    for name, card in cards.items():
        if card.physfn is None:
            continue
        parent = slots[card.physfn]
        bus = parent.address[:-5]
        if bus not in functions_by_bus:
            functions_by_bus[bus] = sum(slot.address.startswith(bus) for slot in slots.values())
        device, function = divmod(functions_by_bus[bus], 8)
        functions_by_bus[bus] += 1
        slot = Slot(
            f"{bus}:{device:02x}.{function}",
            parent.root,
            parent.bridges,
            parent.numa_node,
        )
        yield name, slot


def _functions(
    profile: _Profile, cards: Mapping[str, _NicCard], slots: Mapping[str, Slot]
) -> dict[str, PciFunction]:
    ids = {}
    for index in range(profile.gpus.count):
        ids[f"gpu{index}"] = _gpu_id(profile.gpus)
    for name, card in cards.items():
        ids[name] = PciId(hardware.MELLANOX, card.pci_id, int(card.link_layer))
    for name in slots:
        if name.endswith(_DIRECT):
            ids[name] = _DATA_DIRECT

    switch_id = 0
    if profile.nvlink:
        switch_id = profile.nvlink.switch_pci_id
    switch = PciId(hardware.NVIDIA, switch_id, hardware.CLASS_NVSWITCH)
    switches = _switches(slots)
    for name in sorted(switches, key=_switch_number):
        ids[name] = switch

    functions = {}
    for name, pci_id in ids.items():
        functions[name] = PciFunction(slots[name], *pci_id)
    return functions


def _gpu_id(gpus: _Gpus) -> PciId:
    pci_class = hardware.CLASS_COMPUTE
    if gpus.geforce:
        pci_class = hardware.CLASS_DISPLAY
    return PciId(hardware.NVIDIA, gpus.pci_id, pci_class)


def _switches(names: Iterable[str]) -> list[str]:
    """The NVSwitches among these."""
    return [name for name in names if name.startswith(_SWITCH)]


def _switch_number(name: str) -> int:
    return int(name.removeprefix(_SWITCH))


def _wired(
    nvlink: _NvLink | None, functions: Mapping[str, PciFunction], gpus: int
) -> list[tuple[NvLinkPort, ...]]:
    addresses = [functions[f"gpu{index}"].address for index in range(gpus)]
    switches = [functions[name].address for name in _switches(functions)]
    wiring = NvLinkWiring()
    if nvlink:
        wiring = NvLinkWiring(
            pairs=nvlink.pairs,
            switched=nvlink.switched,
            cpu=nvlink.cpu,
            ports=nvlink.links,
            inactive=nvlink.inactive,
        )
    try:
        return wire(wiring, addresses, switches)
    except WiringError as error:
        raise _FieldError(f"nvlink: {error}") from error
