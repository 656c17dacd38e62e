"""Hardware profiles: machines written down by hand, in YAML.

    name: two-gpus-and-a-nic
    description: what it is, in one line
    driver: "570.86.15"
    sockets: 2                          # optional: CPU packages; default one per NUMA node with CPUs
    numa: {0: "0-31", 1: "32-63"}       # NUMA node to its CPUs; numbers may have gaps
    memory_nodes: "2-33"                # optional: NUMA nodes without CPUs
    distances: [[10, 21], [21, 10]]     # optional: ACPI distances, in order of node number

    gpus:
      count: 2
      product: NVIDIA L40S              # optional: left out, NVML does not tell the name
      architecture: ada                 # kepler ... rubin
      pci_id: 0x26b9
      modules: [1, 2]                   # optional: place on a baseboard, one per GPU
      boards: [[0, 1]]                  # optional: GPUs that are dies of one board
      memory_nodes: [2, 10]             # optional: NUMA node of each GPU's own memory
      c2c: {links: 10, mbps: 44712}     # optional: links to the CPU of a Grace module
      mig: {0: 3}                       # optional: GPU to its MIG devices; {} when MIG is off; absent: no MIG
      geforce: true                     # optional: no serial number, no P2P over PCIe, a display controller

    nics:                               # optional: RDMA devices in groups of equals
      - names: [mlx5_0, mlx5_1]
        pci_id: 0x1021
        link_layer: InfiniBand          # or Ethernet (default: InfiniBand)
        state: ACTIVE                   # or DOWN (default: ACTIVE)
      - {names: [mlx5_2], pci_id: 0x101e, physfn: mlx5_0}    # virtual functions; they are not named under `pci`

    pci:                                # root complexes, in bus order
      - numa: 0                         # optional: left out, the firmware does not say (-1)
        bus: "0000:17"                  # optional: domain and first bus; default: the next free one
        ports: [[gpu0, mlx5_0], [[gpu1], [nvswitch0]], mlx5_1]

A list under `ports` is a switch, nested lists are nested switches, `a+b` are functions of one card. So gpu0 and mlx5_0
above are PIX, gpu1 and nvswitch0 PXB. `gpu<N>` and `nvswitch<N>` are the GPUs and the visible NVSwitches, other
names are NICs; every GPU and NIC stands in the tree exactly once.

    nvlink:                             # optional: no NVLink
      version: "4.0"                    # 1.0 2.0 2.2 3.0 3.1 4.0 5.0 6.0
      mbps: 26562                       # speed of one link and direction
      switched: 18                      # links of each GPU into NVSwitches: the visible ones, else hidden ones
      switch_pci_id: 0x22a3             # for visible NVSwitches
      pairs: [[0, 1, 4]]                # direct links between two GPUs, and how many
      cpu: 3                            # links of each GPU to its CPU (POWER9)
      links: 12                         # link ports of each GPU when more than are wired
      inactive: {1: [0, 5], 2: all}     # links that are down

    fabric: {state: completed, cluster_uuid: 6e4..., clique: 7, status: 0, health_mask: 0x1aa, health_summary: healthy}
    platform: {chassis: "1821..", slot: 3, tray: 2, host: 1, peer_type: 1}    # optional; fabric is optional too
    faults: {...}                       # optional: see toposcope.simulator.faults

Everything is checked: an unknown field, a wrong type or a dangling name raises ProfileError.
"""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from toposcope.simulator.document import DocumentError, Section, read_yaml
from toposcope.simulator.faults import Faults, faults_from, links_by_gpu
from toposcope.simulator.machine import (
    CLASS_COMPUTE,
    CLASS_DISPLAY,
    CLASS_ETHERNET,
    CLASS_INFINIBAND,
    CLASS_NVSWITCH,
    DEVICE_NAME,
    NVIDIA,
    Fabric,
    Gpu,
    Machine,
    Nic,
    NumaNode,
    NvLink,
    PciFunction,
    Platform,
    Slot,
    default_distances,
    identity,
    serial_number,
)
from toposcope.simulator.nvlink import ARCHITECTURES, NVLINK_VERSIONS, Wiring, WiringError, wire
from toposcope.simulator.pci import LayoutError, Port, RootComplex, Switch, place
from toposcope.topology.ranges import parse_list

_PROFILES: Final = Path(__file__).with_name("profiles")
_MELLANOX: Final = 0x15B3
_FABRIC_STATES: Final = {"not-supported": 0, "not-started": 1, "in-progress": 2, "completed": 3}
_HEALTH: Final = {"not-supported": 0, "healthy": 1, "unhealthy": 2, "limited": 3}
_MOST_GPUS: Final = 64
_MOST_LINKS: Final = 64
"""Of one GPU. No machine has a quarter of either; a typing error must not make a machine of millions."""


class ProfileError(DocumentError):
    """A profile that cannot be used; the message names file, field and fix."""


def profile_names() -> tuple[str, ...]:
    """The profiles that are shipped, sorted."""
    return tuple(sorted(path.stem for path in _PROFILES.glob("*.yaml")))


def load_profile(name_or_path: str | Path) -> Machine:
    """The machine of a shipped profile (by name) or of a profile file (by path). Raises ProfileError."""
    path = Path(name_or_path)
    if isinstance(name_or_path, str) and name_or_path in profile_names():
        path = _PROFILES / f"{name_or_path}.yaml"
    if not path.is_file():
        known = ", ".join(profile_names())
        raise ProfileError(f"{name_or_path}: neither a profile file nor a shipped profile; shipped are {known}")
    profile = Section(read_yaml(path, ProfileError), path.name, ProfileError)
    machine = _machine(profile)
    profile.finish()
    return machine


def _machine(profile: Section) -> Machine:
    name = profile.text("name")
    nodes = _numa_nodes(profile)
    gpus = _Gpus.read(profile.section("gpus"), {node.id for node in nodes})
    cards = _nic_cards(profile)
    slots = _slots(profile, gpus.count, cards, {node.id for node in nodes})
    nvlink = _NvLink.read(profile) if "nvlink" in profile else None
    functions = _functions(gpus, cards, slots, nvlink)
    links = _wired(profile, nvlink, functions, gpus.count)
    fabric = _fabric(profile) if "fabric" in profile else None
    platform = _platform(profile, name) if "platform" in profile else None
    return Machine(
        name=name,
        description=profile.text("description"),
        driver=_driver(profile),
        numa_nodes=nodes,
        gpus=tuple(
            Gpu(
                function=functions[f"gpu{i}"],
                uuid=f"GPU-{identity(name, 'gpu', i)}",
                name=gpus.product,
                serial=None if gpus.geforce else serial_number(name, i),
                architecture=gpus.architecture,
                module_id=gpus.modules[i] if gpus.modules else 0,
                board=next((n for n, dies in enumerate(gpus.boards) if i in dies), None),
                links=links[i],
                nvlink_version=nvlink.version if nvlink else None,
                link_mbps=nvlink.mbps if nvlink else None,
                c2c_links=gpus.c2c[0],
                c2c_mbps=gpus.c2c[1],
                memory_node=gpus.memory_nodes[i] if gpus.memory_nodes else None,
                pcie_p2p=not gpus.geforce,
                mig=gpus.mig_devices(name, i),
                fabric=fabric,
                platform=platform,
            )
            for i in range(gpus.count)
        ),
        nics=tuple(
            Nic(
                name=nic,
                function=functions[nic],
                link_layer=card.link_layer,
                active=card.active,
                node_guid=identity(name, nic).int >> 64,
                physfn=functions[card.physfn].address if card.physfn else None,
            )
            for nic, card in ((name, cards[name]) for name in slots if name in cards)
        ),
        nvswitches=tuple(functions[switch] for switch in functions if switch.startswith("nvswitch")),
        faults=_faults(profile, gpus.count) if "faults" in profile else Faults(),
    )


def _faults(profile: Section, gpus: int) -> Faults:
    faults = faults_from(profile.section("faults"))
    if max(faults.gpus, default=-1) >= gpus:
        raise profile.error("faults", f"GPU {max(faults.gpus)} is not there; the GPUs are 0 to {gpus - 1}")
    return faults


def _driver(profile: Section) -> str:
    driver = profile.text("driver")
    if not driver.split(".")[0].isdecimal():
        raise profile.error("driver", f"{driver!r} is not a driver version; write one such as '570.86.15'")
    return driver


# NUMA


def _numa_nodes(profile: Section) -> tuple[NumaNode, ...]:
    cpus: dict[int, frozenset[int]] = {}
    for node, text in profile.by_number("numa").items():
        cpus[node] = _cpu_list(profile, f"numa.{node}", text)
    if sum(map(len, cpus.values())) > len(frozenset().union(*cpus.values())):
        raise profile.error("numa", "a CPU is on two nodes; give every CPU to one")
    if not any(cpus.values()):
        raise profile.error("numa", 'give at least one node with CPUs, such as `{0: "0-31"}`')
    sockets = profile.integer("sockets", len(cpus))
    if not 0 < sockets <= len(cpus):
        raise profile.error("sockets", f"is {sockets}, write a number from 1 to the {len(cpus)} nodes with CPUs")
    packages = {node: position * sockets // len(cpus) for position, node in enumerate(sorted(cpus))}
    bare = _cpu_list(profile, "memory_nodes", profile.text("memory_nodes", ""))
    if bare & set(cpus):
        raise profile.error("memory_nodes", "names a node that has CPUs under `numa`")
    cpus |= dict.fromkeys(sorted(bare), frozenset())
    # A node that is only memory hangs off some package; its distances alone tell which.
    packages |= dict.fromkeys(bare, 0)
    distances = default_distances(packages, bare)
    given = profile.number_lists("distances")
    if given:
        if len(given) != len(cpus) or any(len(row) != len(cpus) for row in given):
            raise profile.error("distances", f"write {len(cpus)} lists of {len(cpus)} numbers, one per NUMA node")
        distances = {node: tuple(row) for node, row in zip(sorted(cpus), given, strict=True)}
    return tuple(NumaNode(node, cpus[node], packages[node], distances[node]) for node in sorted(cpus))


def _cpu_list(profile: Section, field: str, text: object) -> frozenset[int]:
    if not isinstance(text, str):
        raise profile.error(field, f'is {text!r}, write a quoted list such as "0-31,64-95"')
    try:
        return parse_list(text)
    except ValueError as error:
        raise profile.error(field, f'{error}; write one such as "0-31,64-95"') from error


# GPUs and NICs


@dataclass(frozen=True, slots=True)
class _Gpus:
    """The `gpus` section."""

    count: int
    product: str | None
    architecture: int
    pci_id: int
    modules: list[int]
    boards: list[list[int]]
    memory_nodes: list[int]
    c2c: tuple[int, int]
    mig: dict[int, int] | None
    geforce: bool

    @classmethod
    def read(cls, section: Section, numa: set[int]) -> "_Gpus":
        count = section.integer("count", most=_MOST_GPUS)
        per_gpu = {name: section.integers(name) for name in ("modules", "memory_nodes")}
        for name, values in per_gpu.items():
            if values and len(values) != count:
                raise section.error(name, f"has {len(values)} entries, write one for each of the {count} GPUs")
        if not numa.issuperset(per_gpu["memory_nodes"]):
            raise section.error("memory_nodes", "names a NUMA node that is not there; declare it at the top level")
        boards = section.number_lists("boards")
        dies = [gpu for board in boards for gpu in board]
        if len(set(dies)) < len(dies) or max(dies, default=-1) >= count:
            raise section.error("boards", f"write each GPU below {count} on one board at most")
        c2c = section.section("c2c") if "c2c" in section else None
        gpus = cls(
            count=count,
            product=section.text("product") if "product" in section else None,
            architecture=section.choice("architecture", ARCHITECTURES),
            pci_id=section.integer("pci_id"),
            modules=per_gpu["modules"],
            boards=boards,
            memory_nodes=per_gpu["memory_nodes"],
            c2c=(c2c.integer("links", most=_MOST_LINKS), c2c.integer("mbps")) if c2c else (0, 0),
            mig=_mig(section, count) if "mig" in section else None,
            geforce=section.boolean("geforce", default=False),
        )
        if c2c:
            c2c.finish()
        section.finish()
        return gpus

    def mig_devices(self, name: str, gpu: int) -> tuple[str, ...] | None:
        """UUIDs of the GPU's MIG devices; None when the product has no MIG."""
        if self.mig is None:
            return None
        return tuple(f"MIG-{identity(name, 'gpu', gpu, 'mig', i)}" for i in range(self.mig.get(gpu, 0)))


def _mig(section: Section, count: int) -> dict[int, int]:
    mig = section.by_number("mig")
    for gpu, devices in mig.items():
        if gpu >= count or type(devices) is not int or not 0 < devices <= 7:  # noqa: PLR2004 - MIG's own limit
            raise section.error(f"mig.{gpu}", f"write GPU numbers below {count} with 1 to 7 MIG devices each")
    return mig


@dataclass(frozen=True, slots=True)
class _NicCard:
    """One group of the `nics` section."""

    pci_id: int
    link_layer: str
    active: bool
    physfn: str | None


def _nic_cards(profile: Section) -> dict[str, _NicCard]:
    cards: dict[str, _NicCard] = {}
    for group in profile.sections("nics"):
        card = _NicCard(
            pci_id=group.integer("pci_id"),
            link_layer=group.choice("link_layer", {"InfiniBand": "InfiniBand", "Ethernet": "Ethernet"}, "InfiniBand"),
            active=group.choice("state", {"ACTIVE": True, "DOWN": False}, True),
            physfn=group.text("physfn") if "physfn" in group else None,
        )
        for name in group.strings("names"):
            if not DEVICE_NAME.fullmatch(name):
                raise group.error("names", f"{name!r} is not a device name; use letters, digits, `_`, `-` and `.`")
            if name in cards:
                raise group.error("names", f"{name} is there twice; device names are unique on a node")
            cards[name] = card
        group.finish()
    for name, card in cards.items():
        if card.physfn is not None and (card.physfn not in cards or cards[card.physfn].physfn is not None):
            raise profile.error("nics", f"physfn of {name}: {card.physfn} is not a physical NIC")
    return cards


# PCI


def _slots(profile: Section, gpus: int, cards: Mapping[str, _NicCard], numa: set[int]) -> dict[str, Slot]:
    roots: list[RootComplex] = []
    for section in profile.sections("pci"):
        node = section.integer("numa") if "numa" in section else -1
        if node >= 0 and node not in numa:
            raise section.error("numa", f"NUMA node {node} does not exist; declare it under the top-level `numa`")
        ports = tuple(_port(section, f"ports[{i}]", port) for i, port in enumerate(section.items("ports")))
        roots.append(RootComplex(node, ports, section.text("bus") if "bus" in section else None))
        section.finish()
    named = [name for root in roots for port in root.ports for name in _names(port)]
    switches = [name for name in named if name.startswith("nvswitch")]
    expected = [f"gpu{i}" for i in range(gpus)] + [name for name, card in cards.items() if card.physfn is None]
    expected += [f"nvswitch{i}" for i in range(len(switches))]
    for name in named:
        if name not in expected or named.count(name) > 1:
            problem = (
                "stands in the tree twice" if named.count(name) > 1 else "is not a GPU, NIC or NVSwitch of this file"
            )
            raise profile.error("pci", f"{name} {problem}")
    for name in expected:
        if name not in named:
            raise profile.error("pci", f"{name} has no place in the tree; name it under some `ports`")
    try:
        slots = place(tuple(roots))
    except LayoutError as error:
        raise profile.error("pci", str(error)) from error
    return slots | dict(_virtual_slots(cards, slots))


def _port(section: Section, field: str, value: object) -> Port:
    if isinstance(value, str) and value:
        return tuple(value.split("+"))
    if isinstance(value, list) and value:
        return Switch(tuple(_port(section, f"{field}[{i}]", member) for i, member in enumerate(value)))
    raise section.error(field, f"is {value!r}, write a device name, `a+b` for one card, or a list for a switch")


def _names(port: Port) -> Iterator[str]:
    if isinstance(port, Switch):
        for member in port.members:
            yield from _names(member)
    else:
        yield from port


def _virtual_slots(cards: Mapping[str, _NicCard], slots: Mapping[str, Slot]) -> Iterator[tuple[str, Slot]]:
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
    gpus: _Gpus, cards: Mapping[str, _NicCard], slots: Mapping[str, Slot], nvlink: "_NvLink | None"
) -> dict[str, PciFunction]:
    gpu_class = CLASS_DISPLAY if gpus.geforce else CLASS_COMPUTE
    functions = {f"gpu{i}": PciFunction(slots[f"gpu{i}"], NVIDIA, gpus.pci_id, gpu_class) for i in range(gpus.count)}
    for name, card in cards.items():
        pci_class = CLASS_INFINIBAND if card.link_layer == "InfiniBand" else CLASS_ETHERNET
        functions[name] = PciFunction(slots[name], _MELLANOX, card.pci_id, pci_class)
    for name in sorted((name for name in slots if name.startswith("nvswitch")), key=lambda name: int(name[8:])):
        functions[name] = PciFunction(slots[name], NVIDIA, nvlink.switch_pci_id if nvlink else 0, CLASS_NVSWITCH)
    return functions


# NVLink


@dataclass(frozen=True, slots=True)
class _NvLink:
    """The `nvlink` section."""

    version: int
    mbps: int
    switch_pci_id: int
    wiring: Wiring

    @classmethod
    def read(cls, profile: Section) -> "_NvLink":
        section = profile.section("nvlink")
        pairs = section.number_lists("pairs")
        if any(len(pair) != 3 for pair in pairs):  # noqa: PLR2004 - two GPUs and a count
            raise section.error("pairs", "write triples: GPU, GPU, number of links between them")
        if any(links > _MOST_LINKS for _, _, links in pairs):
            raise section.error("pairs", f"no two GPUs have more than {_MOST_LINKS} links")
        nvlink = cls(
            version=section.choice("version", NVLINK_VERSIONS),
            mbps=section.integer("mbps"),
            switch_pci_id=section.integer("switch_pci_id", 0),
            wiring=Wiring(
                pairs=tuple((a, b, links) for a, b, links in pairs),
                switched=section.integer("switched", 0, _MOST_LINKS),
                cpu=section.integer("cpu", 0, _MOST_LINKS),
                ports=section.integer("links", 0, _MOST_LINKS),
                inactive=links_by_gpu(section, "inactive"),
            ),
        )
        section.finish()
        return nvlink


def _wired(
    profile: Section, nvlink: _NvLink | None, functions: Mapping[str, PciFunction], gpus: int
) -> list[tuple[NvLink, ...]]:
    addresses = [functions[f"gpu{i}"].address for i in range(gpus)]
    switches = [function.address for name, function in functions.items() if name.startswith("nvswitch")]
    try:
        return wire(nvlink.wiring if nvlink else Wiring(), addresses, switches)
    except WiringError as error:
        raise profile.error("nvlink", str(error)) from error


# Fabric and platform


def _fabric(profile: Section) -> Fabric:
    section = profile.section("fabric")
    text = section.text("cluster_uuid", str(uuid.UUID(int=0)))
    try:
        cluster = uuid.UUID(text)
    except ValueError as error:
        raise section.error("cluster_uuid", f"{text!r} is not a UUID") from error
    fabric = Fabric(
        state=section.choice("state", _FABRIC_STATES),
        cluster_uuid=cluster,
        clique=section.integer("clique", 0),
        status=section.integer("status", 0),
        health_mask=section.integer("health_mask", 0),
        health_summary=section.choice("health_summary", _HEALTH, 0),
    )
    section.finish()
    return fabric


def _platform(profile: Section, name: str) -> Platform:
    section = profile.section("platform")
    chassis = section.text("chassis")
    if len(chassis.encode()) > 16:  # noqa: PLR2004 - the size of the field in nvmlPlatformInfo_t
        raise section.error("chassis", f"{chassis!r} is longer than 16 bytes")
    numbers: dict[str, int] = {field: section.integer(field) for field in ("slot", "tray", "host", "peer_type")}
    for field, number in numbers.items():
        if number > 255:  # noqa: PLR2004 - one byte each
            raise section.error(field, f"{number} does not fit one byte")
    section.finish()
    return Platform(chassis=chassis, ib_guid=identity(name, "platform").bytes, **numbers)
