"""How many NVLinks of a GPU ought to be up.

A product counts where all of its links are wired: on the SXM boards that come with NVSwitches or a mesh. Only these: a
PCIe card's links are up when somebody has plugged a bridge, and on POWER9 half of a V100's links go to the CPU.
Sources: nvml.h's link counts, and `nvidia-smi nvlink -s` of the products.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from topology.hardware import Gpu

_LINKS: Final = (
    (re.compile(r"A100-SXM"), 12),
    (re.compile(r"A800-SXM"), 8),
    (re.compile(r"H100 80GB HBM3|GH200"), 18),
    (re.compile(r"H200(?! NVL)"), 18),
    (re.compile(r"H800$"), 8),
    (re.compile(r"\bG?B[23]00\b"), 18),
)
_BOARD: Final = 4
"""A board has four or eight GPUs; fewer are a part of one, given to a virtual machine without its switches."""


def expected_links(gpus: Sequence[tuple[str | None, int]]) -> list[int]:
    """Active NVLinks that each GPU ought to have: as many as its like on this node, and as its product.

    `gpus` are pairs of product and active links.
    """
    most: Counter[str | None] = Counter()
    for product, active in gpus:
        most[product] = max(most[product], active)
    return [max(most[product], _wired(product, active, len(gpus))) for product, active in gpus]


def _wired(product: str | None, active: int, gpus: int) -> int:
    full = next((links for pattern, links in _LINKS if product and pattern.search(product)), 0)
    return full if active or gpus >= _BOARD else 0


def weak_links(gpus: Sequence[Gpu]) -> list[str]:
    """GPUs with fewer active links than they ought to have: a dead link, or a GPU thrown out of the fabric."""
    return [
        f"GPU {gpu.index}: {gpu.links_active} of {gpu.links_expected} NVLinks active"
        for gpu in gpus
        if gpu.links_active < gpu.links_expected
    ]
