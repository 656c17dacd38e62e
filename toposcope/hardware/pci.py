"""PCI addresses, and how near two devices are on the PCI tree.

The rule for the levels is `nvidia-smi topo -m`'s legend, applied to sysfs paths: NVIDIA does not
publish its algorithm.
"""

import re
from functools import lru_cache
from typing import Final

_ADDRESS: Final = re.compile(
    r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])", re.ASCII
)

PIX: Final = "PIX"
PXB: Final = "PXB"
PHB: Final = "PHB"
NODE: Final = "NODE"
SYS: Final = "SYS"

NEAREST_FIRST: Final = (PIX, PXB, PHB, NODE, SYS)


@lru_cache(maxsize=256)  # the far ends of 144 links are a handful of addresses
def normal_address(text: str) -> str:
    """A PCI address as sysfs writes it: lower case, four digits of domain (more above ffff).

    Raises ValueError.
    """
    match = _ADDRESS.fullmatch(text.strip())
    if match is None:
        shown = repr(text[:40])
        raise ValueError(f"not a PCI address (domain:bus:device.function): {shown}")
    domain, bus, device, function = match.groups()
    number = int(domain, 16)
    place = f"{bus}:{device}.{function}"
    return f"{number:04x}:{place.lower()}"


def off_bus(index: int) -> str:
    """The key of a GPU that is not on the PCI bus, instead of its address; `index` is NVML's."""
    return f"gpu{index}"


def is_address(key: str) -> bool:
    """Whether it is a PCI address, and not the key of a GPU that has none."""
    return _ADDRESS.fullmatch(key) is not None


def card(address: str) -> str:
    """The address without its function: equal for the ports of one dual-port card."""
    return address.rpartition(".")[0]


def pci_level(
    path_a: tuple[str, ...], path_b: tuple[str, ...], numa_a: int | None, numa_b: int | None
) -> str:
    """The PCI level between two devices: `PIX`, `PXB`, `PHB`, `NODE` or `SYS`.

    A path holds the components of the device's real sysfs path from the root complex (`pci0000:00`)
    to the device itself. `numa` is the device's NUMA node, None when unknown; two unknown nodes are
    not the same node.
    """
    if card(path_a[-1]) == card(path_b[-1]):
        return PIX
    if path_a[0] != path_b[0]:
        is_same_node = numa_a is not None and numa_a == numa_b
        return NODE if is_same_node else SYS
    common = _common_length(path_a, path_b)
    if common == 1:
        return PHB
    # The bridges between the common ones and the devices: one on each side is two ports of one
    # switch.
    longest = max(len(path_a), len(path_b))
    bridges = longest - common - 1
    return PIX if bridges <= 1 else PXB


def _common_length(path_a: tuple[str, ...], path_b: tuple[str, ...]) -> int:
    """How many components the paths have in common, from the root complex down."""
    common = 0
    for a, b in zip(path_a, path_b, strict=False):
        if a != b:
            break
        common += 1
    return common
