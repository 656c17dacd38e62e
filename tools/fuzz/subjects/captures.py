"""Pasted link matrices."""

import re
from typing import Any, Final

from tools.fuzz.material import text_of
from tools.fuzz.subject import Outcome, Subject, held, refusal
from toposcope.simulator.capture import machine_from_capture
from toposcope.simulator.capture_text import CaptureError

_TABS: Final = """\
\tGPU0\tGPU1\tmlx5_0\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV4\tPIX\t0-19\t0
GPU1\tNV4\t X \tSYS\t20-39\t1
mlx5_0\tPIX\tSYS\t X \t\t

Legend:

  X    = Self
"""
_COLUMNS: Final = """\
        GPU0    GPU1    GPU2    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      NV18    NV18    PXB     0-55,112-167    0               N/A
GPU1    NV18     X      NV18    NODE    0-55,112-167    0               N/A
GPU2    NV18    NV18     X      SYS     56-111,168-223  1               N/A
NIC0    PXB     NODE    SYS      X

NIC Legend:

  NIC0: mlx5_0
"""
_LINKS: Final = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-00000000-0000-0000-0000-000000000001)
\t Link 0: 25 GB/s
\t Link 1: <inactive>
"""
_SAMPLES: Final = (_TABS, _COLUMNS, _TABS + _LINKS)
_WORDS: Final = (
    "GPU0", "GPU9", "NV", "NV0", "NV99999999", "X", "PIX", "PXB", "PHB", "NODE", "SYS", "N/A", "NIC0", "0-9999999999",
    "mlx5_bond_0", "\t", "Link", "GB/s",
)  # fmt: skip


_GPU: Final = re.compile("GPU[0-9]+")
_CELL: Final = re.compile("X|NV[0-9]+|PIX|PXB|PHB|NODE|SYS")


def attempt(case: Any) -> Outcome:
    """A machine, or a sentence about the cell that is wrong."""
    try:
        machine = machine_from_capture(case)
    except CaptureError as error:
        return refusal(error)
    named = set(_GPU.findall(case))
    held(machine.gpus, "a machine without a GPU")
    held({f"GPU{i}" for i in range(len(machine.gpus))} <= named, f"{len(machine.gpus)} GPUs of {sorted(named)}")
    held(not (pair := _disagreeing(case)), f"a machine of a matrix whose rows disagree about {pair}")
    return "taken"


def _disagreeing(text: str) -> str:
    """Two devices whose rows differ in the cell that they share, in a matrix that is laid out as it should be."""
    lines = iter(text.splitlines())
    header = next((line for line in lines if line.split()[:2] == ["GPU0", "GPU1"]), "")
    devices = header.partition("CPU Affinity")[0].split()
    rows = {}
    for words in map(str.split, lines):
        if not words:
            break
        if words[0] in devices and all(map(_CELL.fullmatch, words[1 : 1 + len(devices)])):
            rows[words[0]] = dict(zip(devices, words[1:], strict=False))
    pairs = ((a, b) for a in rows for b in rows if rows[a].get(b) != rows[b].get(a))
    return " and ".join(next(pairs, ()))


CAPTURES: Final = Subject(
    "captures", "a pasted matrix becomes a machine or a sentence", text_of(_SAMPLES, _WORDS), attempt, guided=True
)
