"""Laying out a PCI tree: from nested root complexes, switches and cards to addresses.

    RootComplex(0, (Switch((("gpu0",), ("nic0", "nic1"))), ("nic2",)))

is a root complex on NUMA node 0 with two root ports: behind the first a switch with a GPU and a
dual-port card, behind the second a card of its own. Addresses are given out depth first, as
firmware does.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from toposcope.errors import ToposcopeError
from toposcope.simulator.machine import Slot

_FIRST_BUS: Final = re.compile(r"([0-9a-f]{4,5}):([0-9a-f]{2})")


class LayoutError(ToposcopeError, ValueError):
    """A PCI tree that cannot be given addresses."""


@dataclass(frozen=True, slots=True)
class PcieSwitch:
    """A PCIe switch with what hangs below its downstream ports."""

    members: "tuple[Port, ...]"


Card: TypeAlias = tuple[str, ...]
"""The functions of one card, by name."""
Port: TypeAlias = "PcieSwitch | Card"


@dataclass(frozen=True, slots=True)
class RootComplex:
    """A host bridge.

    `numa_node` is -1 where the firmware does not say. `bus` is `DDDD:BB`, None for the next free
    one.
    """

    numa_node: int
    ports: tuple[Port, ...]
    bus: str | None = None


class _Buses:
    """Bus numbers, each domain's 256 after those of the domain before it, and which are in use."""

    def __init__(self, used_numbers: set[int]) -> None:
        self._used_numbers = used_numbers
        self._last = -1

    def start(self, bus: str | None) -> int:
        """The bus number of a root complex."""
        if bus is not None:
            match = _FIRST_BUS.fullmatch(bus)
            if match is None:
                raise LayoutError(
                    f"bus {bus!r}: write domain and bus in lower-case hexadecimal, "
                    "such as '0000:17'"
                )
            self._last = int(match[1] + match[2], 16) - 1
            if self._last + 1 in self._used_numbers:
                raise LayoutError(
                    f"bus {bus}: already used by the root complexes before it; choose a higher one"
                )
        return self.next()

    def next(self) -> int:
        """The next free bus after the last one given out."""
        self._last += 1
        while self._last in self._used_numbers:
            self._last += 1
        self._used_numbers.add(self._last)
        return self._last


def place(
    roots: tuple[RootComplex, ...], fixed: Mapping[str, str] | None = None
) -> dict[str, Slot]:
    """A slot for every card function of a tree.

    `fixed` names the PCI addresses that are known already.

    Raises LayoutError when a bus number is malformed or used twice, or a bus gets more than 32
    devices.
    """
    fixed = fixed or {}
    buses = _Buses({_bus_of(address) for address in fixed.values()})
    tree = _Tree(buses, fixed)
    slots: dict[str, Slot] = {}
    for root in roots:
        bus = buses.start(root.bus)
        root_name = f"pci{bus >> 8:04x}:{bus & 0xFF:02x}"
        # Device 0 of a root bus is the host bridge itself.
        for name, position in tree.below(bus, root.ports, (), first=1):
            slots[name] = Slot(
                position.address,
                root_name,
                position.bridges,
                root.numa_node,
            )
    return slots


def _bus_of(address: str) -> int:
    """The bus number of an address `DDDD:BB:DD.F`."""
    domain = address[:-8]
    bus = address[-7:-5]
    return int(domain + bus, 16)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a function is: its address, and the bridges above it."""

    address: str
    bridges: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Tree:
    """Numbers the buses below the root ports; `fixed` has the addresses that are given."""

    buses: _Buses
    fixed: Mapping[str, str]

    def below(
        self, bus: int, ports: tuple[Port, ...], bridges: tuple[str, ...], *, first: int = 0
    ) -> Iterator[tuple[str, _Place]]:
        """Every function behind the ports on `bus`, the first one at this device number."""
        for number, port in enumerate(ports, first):
            root_port = _address(bus, number)
            path = (*bridges, root_port)
            if isinstance(port, PcieSwitch):
                upstream = self.buses.next()
                inside = self.buses.next()
                switch_path = (*path, _address(upstream, 0))
                yield from self.below(inside, port.members, switch_path)
                continue

            if port[0] in self.fixed:
                for name in port:
                    address = self.fixed[name]
                    yield name, _Place(address, path)
                continue

            card = self.buses.next()
            for function, name in enumerate(port):
                address = _address(card, 0, function)
                yield name, _Place(address, path)


def _address(bus: int, device: int, function: int = 0) -> str:
    if device >= 32 or function >= 8:  # noqa: PLR2004 - five and three bits in a PCI address
        raise LayoutError(
            "more than 32 ports on one bus or 8 functions on one card; split them over switches"
        )
    return f"{bus >> 8:04x}:{bus & 0xFF:02x}:{device:02x}.{function}"
