"""How many NVLinks a product has where all of them are wired: on the SXM boards that come with NVSwitches or a mesh.

Only these: a PCIe card's links are up when somebody has plugged a bridge, and on POWER9 half of a V100's links go to
the CPU. Sources: nvml.h's link counts, and `nvidia-smi nvlink -s` of the products.
"""

import re
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


def short_of_product(gpus: Sequence[Gpu]) -> list[str]:
    """GPUs with fewer active links than their product has, one sentence each."""
    reasons = []
    for gpu in gpus:
        full = next((links for pattern, links in _LINKS if gpu.product and pattern.search(gpu.product)), 0)
        if gpu.links_active < full and (gpu.links_active or len(gpus) >= _BOARD):
            reasons.append(f"GPU {gpu.index}: {gpu.links_active} of {full} NVLinks active")
    return reasons
