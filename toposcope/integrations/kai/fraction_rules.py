"""What KAI's admission webhook refuses of annotations that ask for parts of GPUs.

Source of rules and messages: KAI (main of March 2026), binder/plugins/gpusharing/gpu-request.
"""

import re
from typing import Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.integrations.framework.document import Field
from toposcope.integrations.kai.api import GPU_FRACTION, GPU_MEMORY, SHARED_GPUS

_RULE: Final = "kai/gpu-share"
_NUMBER: Final = re.compile(r"[+-]?[0-9]{0,18}\.?[0-9]{0,18}(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_WHOLE: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_MPS: Final = "mps"


def fraction_of(text: str) -> float:
    """A part of a GPU, more than 0 and less than 1; 0 for anything else."""
    if not _NUMBER.fullmatch(text):
        return 0
    try:
        fraction = float(text)
    except ValueError:
        return 0
    return fraction if 0 < fraction < 1 else 0


def whole_number_of(text: str) -> int:
    """A whole number above 0; 0 for anything else."""
    return int(text) if _WHOLE.fullmatch(text) else 0


def check_shares(annotations: Field, pod_spec: Field) -> None:
    """Note what KAI refuses of a pod with these annotations."""
    fraction = annotations / GPU_FRACTION
    memory = annotations / GPU_MEMORY
    devices = annotations / SHARED_GPUS
    _check_conflicts(fraction, memory, has_gpus=_has_gpus(pod_spec))
    if memory and not whole_number_of(memory.text() or ""):
        text = "gpu-memory annotation value must be a positive integer greater than 0"
        memory.malformed(_RULE, text, "write MiB of one GPU, in quotes: '20000'")
    if fraction and not fraction_of(fraction.text() or ""):
        text = "gpu-fraction annotation value must be a positive number smaller than 1.0"
        fix = f"write a part of one GPU, in quotes: '0.5'; or request {ALLOCATABLE_GPUS}"
        fraction.malformed(_RULE, text, fix)
    if devices and not (fraction or memory):
        text = (
            "cannot request multiple fractional devices without specifying fraction portion "
            "or gpu-memory"
        )
        devices.error(_RULE, text, f"set {GPU_FRACTION} or {GPU_MEMORY}, or remove it")
    elif devices and not whole_number_of(devices.text() or ""):
        text = "fraction count annotation value must be a positive integer greater than 0"
        devices.malformed(_RULE, text, "write a whole number, in quotes: '2'")
    mps = annotations / _MPS
    if mps.text() == "true" and not (fraction or memory):
        text = "MPS is only supported with GPU fraction request"
        mps.error(_RULE, text, f"set {GPU_FRACTION} or {GPU_MEMORY}, or remove it")


def _check_conflicts(fraction: Field, memory: Field, *, has_gpus: bool) -> None:
    """Note parts of GPUs beside whole ones, and two ways to say how much."""
    if fraction and has_gpus:
        text = "cannot have both GPU fraction request and whole GPU resource request/limit"
        fraction.error(_RULE, text, f"remove it, or the limit of {ALLOCATABLE_GPUS}")
    if memory and (fraction or has_gpus):
        text = "cannot request both GPU and GPU memory"
        memory.error(_RULE, text, "keep one of them")


def _has_gpus(pod_spec: Field) -> bool:
    """Whether some container has a limit of GPUs."""
    for kind in ("containers", "initContainers"):
        for container in (pod_spec / kind).items():
            limits = container / "resources" / "limits"
            if limits / ALLOCATABLE_GPUS:
                return True
    return False
