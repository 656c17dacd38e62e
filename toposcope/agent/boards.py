"""How many NVLinks a board wires: what a GPU should have when its node has no baseline yet. Pure.

Only boards that wire every link are known here: SXM and HGX boards, Grace superchips and trays. A
PCIe card has links when somebody put a bridge on it, and nothing on the node tells whether somebody
did.

Sources: the products' `nvidia-smi nvlink -s`; NVIDIA's Fabric Manager user guide for MIG (links of
an A100 are trained off) and for virtual machines (links per GPU by GPUs assigned).
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from toposcope.agent.nvlinks import NvLinks
from toposcope.agent.raw import RawGpu

_AMPERE: Final = 7
"""NVML_DEVICE_ARCH_AMPERE."""
_WHOLE_BOARD_GPUS: Final = 8
"""GPUs of a board with NVSwitches, and of a hybrid cube mesh."""
_MESH_GPUS: Final = 4
"""GPUs of a board that wires each GPU to each other one."""


class Board(NamedTuple):
    """A product and the NVLinks of each of its GPUs."""

    product: re.Pattern[str]
    links: int
    switches: int = 0
    """NVSwitches of a board that show on the PCI bus; 0: they do not, or it has none."""
    parts: Mapping[int, int] = MappingProxyType({})
    """Number of the board's GPUs in a VM that sees no switch, to the links of each of them."""
    has_mesh_of_four: bool = False
    """Whether there is a board of four as well, without switches."""
    is_cube_mesh: bool = False
    """Whether it is a hybrid cube mesh of eight.

    Smaller boards with these GPUs are wired in several ways.
    """


_PARTS_OF_12: Final = MappingProxyType({1: 0, 2: 2, 3: 2, 4: 6})
_PARTS_OF_8: Final = MappingProxyType({1: 0, 2: 1, 3: 1, 4: 4})
_PARTS_OF_6: Final = MappingProxyType({1: 0, 2: 1, 3: 1, 4: 3})

_BOARDS: Final = (
    Board(re.compile(r"A100-SXM"), links=12, switches=6, parts=_PARTS_OF_12, has_mesh_of_four=True),
    Board(re.compile(r"A800-SXM"), links=8, switches=6, parts=_PARTS_OF_8),
    Board(re.compile(r"GH200"), links=18, has_mesh_of_four=True),
    Board(re.compile(r"H100 \d+GB HBM\d|H100 SXM"), links=18, switches=4, has_mesh_of_four=True),
    Board(re.compile(r"\bH200(?! NVL)"), links=18, switches=4, has_mesh_of_four=True),
    Board(re.compile(r"\bH20\b(?! NVL)"), links=18, switches=4),
    Board(re.compile(r"\bH800$|\bH800 SXM"), links=8, switches=4),
    Board(re.compile(r"\bGB[123]00\b"), links=18, has_mesh_of_four=True),
    Board(re.compile(r"\bB[123]00\b"), links=18),
    Board(re.compile(r"V100-SXM3"), links=6, switches=6, parts=_PARTS_OF_6),
    Board(re.compile(r"V100-SXM2"), links=6, is_cube_mesh=True),
    Board(re.compile(r"P100-SXM2"), links=4, is_cube_mesh=True),
)


def board_of(product: str | None) -> Board | None:
    """The board that a product sits on; None for a card, and for an unknown product."""
    if not product:
        return None
    for board in _BOARDS:
        if board.product.search(product):
            return board
    return None


def is_trained_off(gpu: RawGpu) -> bool:
    """Whether the driver keeps the GPU's links down on purpose: MIG mode of Ampere.

    Hopper and later keep them up.
    """
    return bool(gpu.has_mig) and gpu.architecture in (_AMPERE, None)


def wired_links(
    gpus: Sequence[RawGpu], nvlinks: NvLinks, switches: int, absent: int
) -> list[int | None]:
    """The active links that each GPU should have by its board; None: not known.

    `switches` are the NVSwitches on the PCI bus, `absent` is the number of GPUs there that NVML
    does not list.
    """
    wired: list[int | None] = []
    for gpu in gpus:
        board = board_of(gpu.name)
        if is_trained_off(gpu):
            wired.append(0)
        elif board is None or _is_mig_unknown(gpu, nvlinks):
            wired.append(None)
        else:
            mates = [mate for mate in gpus if mate.name is None or board_of(mate.name) is board]
            site = _site(mates, nvlinks, switches=switches, absent=absent)
            wired.append(_on_this_machine(board, site))
    return wired


def _is_mig_unknown(gpu: RawGpu, nvlinks: NvLinks) -> bool:
    """Whether NVML refused to say whether MIG mode is on.

    It would explain links that are down.
    """
    return gpu.architecture == _AMPERE and gpu.has_mig is None and not nvlinks.active(gpu.pci)


def _site(mates: Sequence[RawGpu], nvlinks: NvLinks, *, switches: int, absent: int) -> "_Site":
    """What this machine has of the board that `mates` sit on."""
    linked = 0
    is_racked = False
    last_module = 0
    counts = set()
    for mate in mates:
        linked += not is_trained_off(mate)
        is_racked = is_racked or mate.is_racked
        last_module = max(last_module, mate.module or 0)
        counts.add(nvlinks.active(mate.pci))
    return _Site(
        gpus=len(mates) + absent,
        absent=absent,
        linked=linked,
        switches=switches,
        is_switched=nvlinks.is_switched(),
        is_meshed=nvlinks.is_meshed(),
        has_equal_links=len(counts) == 1,
        is_racked=is_racked,
        last_module=last_module,
    )


class _Site(NamedTuple):
    """What this machine has of a board."""

    gpus: int
    """Its GPUs here, those that NVML does not list too."""
    absent: int
    linked: int
    """Those in NVML whose links are not trained off."""
    switches: int
    """NVSwitches on the PCI bus."""
    is_switched: bool
    """Whether a link ends in an NVSwitch."""
    is_meshed: bool
    """Whether a link ends in another GPU."""
    has_equal_links: bool
    """Whether all of them have equally many links up."""
    is_racked: bool
    """Whether it is a tray of a rack, whose switches are in other trays."""
    last_module: int
    """The highest place on the baseboard; 0: not known."""


def _on_this_machine(board: Board, site: _Site) -> int | None:
    if board.is_cube_mesh:
        is_whole = site.gpus == _WHOLE_BOARD_GPUS and not site.absent
        return board.links if is_whole else None
    if site.gpus >= _WHOLE_BOARD_GPUS or site.is_racked:
        return board.links
    if site.is_switched or site.switches:
        return _behind_switches(board, site)
    if site.is_meshed:
        return _in_mesh(board, site)
    return _without_links(board, site)


def _in_mesh(board: Board, site: _Site) -> int | None:
    """Part of a board that wires each GPU to each other one."""
    if not board.has_mesh_of_four:
        return None
    to_each = board.links // (_MESH_GPUS - 1)
    return min(board.links, to_each * (site.linked - 1))


def _behind_switches(board: Board, site: _Site) -> int | None:
    """Part of a board with NVSwitches.

    A VM with a part of the GPUs has a part of the switches, or sees none.
    """
    superchip = board.has_mesh_of_four and not board.switches
    if site.gpus > _MESH_GPUS or superchip or site.switches >= board.switches > 0:
        return board.links
    if site.switches > 0:
        return board.links // board.switches * site.switches
    if board.parts:
        return board.parts.get(site.gpus, board.links)
    # How many links Hopper and later leave to a part is not documented: what all of its GPUs have
    # is not wrong.
    return None if site.has_equal_links else board.links


def _without_links(board: Board, site: _Site) -> int | None:
    """A machine none of whose links is up.

    A broken board, or GPUs that were passed through without their switches.
    """
    if site.gpus > _MESH_GPUS:
        return board.links
    board_of_four = (
        board.has_mesh_of_four and site.gpus == _MESH_GPUS and site.last_module <= _MESH_GPUS
    )
    return board.links if board_of_four else None
