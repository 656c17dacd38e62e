"""Laying out a PCI tree: from nested root complexes, switches and cards to addresses.

    RootComplex(0, (Switch((("gpu0",), ("nic0", "nic1"))), ("nic2",)))

is a root complex on NUMA node 0 with two root ports: behind the first a switch with a GPU and a
dual-port card, behind the second a card of its own. Addresses are given out depth first, as
firmware does.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Final, TypeAlias

from toposcope.errors import ToposcopeError
from toposcope.simulator.machine import Slot

_FIRST_BUS: Final = re.compile(r"([0-9a-f]{4,5}):([0-9a-f]{2})")


class LayoutError(ToposcopeError, ValueError):
    """A PCI tree that cannot be given addresses."""


@dataclass(frozen=True, slots=True)
class Switch:
    """A PCIe switch with what hangs below its downstream ports."""

    members: "tuple[Port, ...]"


Card: TypeAlias = tuple[str, ...]
"""The functions of one card, by name."""
Port: TypeAlias = "Switch | Card"


@dataclass(frozen=True, slots=True)
class RootComplex:
    """A host bridge.

    `numa_node` -1: the firmware does not say. `bus` is `DDDD:BB`, None: the next free one.
    """

    numa_node: int
    ports: tuple[Port, ...]
    bus: str | None = None


class _Buses:
    """Bus numbers, those of each domain of 256 after the ones of the domain before it, and which are in use."""

    def __init__(self, taken: set[int]) -> None:
        self._taken = taken
        self._last = -1

    def start(self, bus: str | None) -> int:
        """The bus number of a root complex."""
        if bus is not None:
            match = _FIRST_BUS.fullmatch(bus)
            if match is None:
                raise LayoutError(
                    f"bus {bus!r}: write domain and bus in lower-case hexadecimal, such as '0000:17'"
                )
            self._last = int(match[1] + match[2], 16) - 1
            if self._last + 1 in self._taken:
                raise LayoutError(
                    f"bus {bus}: already used by the root complexes before it; choose a higher one"
                )
        return self.next()

    def next(self) -> int:
        """The next free bus after the last one given out."""
        self._last = next(bus for bus in count(self._last + 1) if bus not in self._taken)
        self._taken.add(self._last)
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
    buses = _Buses({int(a[:-8] + a[-7:-5], 16) for a in fixed.values()})
    slots: dict[str, Slot] = {}
    for root in roots:
        bus = buses.start(root.bus)
        # Device 0 of a root bus is the host bridge itself.
        for name, (address, bridges) in _below(bus, root.ports, (), buses, fixed, first=1):
            slots[name] = Slot(
                address, f"pci{bus >> 8:04x}:{bus & 0xFF:02x}", bridges, root.numa_node
            )
    return slots


def _below(
    bus: int,
    ports: tuple[Port, ...],
    bridges: tuple[str, ...],
    buses: _Buses,
    fixed: Mapping[str, str],
    first: int = 0,
) -> Iterator[tuple[str, tuple[str, tuple[str, ...]]]]:
    """Name, address and bridges of every function behind the ports that sit on `bus`."""
    for number, port in enumerate(ports, first):
        path = (*bridges, _address(bus, number))
        if isinstance(port, Switch):
            upstream, inside = buses.next(), buses.next()
            yield from _below(inside, port.members, (*path, _address(upstream, 0)), buses, fixed)
        elif port[0] in fixed:
            for name in port:
                yield name, (fixed[name], path)
        else:
            card = buses.next()
            for function, name in enumerate(port):
                yield name, (_address(card, 0, function), path)


def _address(bus: int, device: int, function: int = 0) -> str:
    if device >= 32 or function >= 8:  # noqa: PLR2004 - five and three bits in a PCI address
        raise LayoutError(
            "more than 32 ports on one bus or 8 functions on one card; split them over switches"
        )
    return f"{bus >> 8:04x}:{bus & 0xFF:02x}:{device:02x}.{function}"
