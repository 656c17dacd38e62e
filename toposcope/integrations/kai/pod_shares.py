"""Fractions of GPUs that pods request from KAI by annotation, and what its webhook rejects.

Source of rules and messages: KAI (main of March 2026), binder/plugins/gpusharing/gpu-request.
"""

import re
from collections.abc import Mapping
from typing import Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.integrations.framework.constraints import GpuShare, Pods
from toposcope.integrations.framework.document import Field
from toposcope.integrations.kai.api import GPU_FRACTION, GPU_MEMORY, SHARED_GPUS

_RULE: Final = "kai/gpu-share"
_NUMBER: Final = re.compile(r"[+-]?[0-9]{0,18}\.?[0-9]{0,18}(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_WHOLE: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_MPS: Final = "mps"


def fraction_of(text: str) -> float:
    """A fraction of a GPU, more than 0 and less than 1; 0 for anything else."""
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


def share_of(annotations: Mapping[str, str]) -> GpuShare | None:
    """The fraction that a pod with these annotations requests; None if KAI reads none."""
    fraction = fraction_of(annotations.get(GPU_FRACTION, ""))
    memory = whole_number_of(annotations.get(GPU_MEMORY, ""))
    if not fraction and not memory:
        return None
    devices = whole_number_of(annotations.get(SHARED_GPUS, "")) or 1
    if fraction:
        return GpuShare(devices, fraction=fraction)
    return GpuShare(devices, memory_mib=memory)


def with_share(pods: Pods, annotations: Mapping[str, str]) -> Pods:
    """The pods with the fraction of a GPU that their annotations request."""
    share = share_of(annotations)
    if share is None:
        return pods
    return pods.sharing(share)


def with_share_at(pods: Pods, annotations: Field) -> Pods:
    """The same, by the annotations in a document."""
    return with_share(pods, annotations.texts())


def check_shares(annotations: Field, pod_spec: Field) -> None:
    """Note what KAI rejects in a pod with these annotations."""
    fraction = annotations / GPU_FRACTION
    memory = annotations / GPU_MEMORY
    _check_conflicts(fraction, memory, has_gpus=_has_gpus(pod_spec))
    _check_amounts(fraction, memory)
    is_sharing = bool(fraction or memory)
    _check_devices(annotations / SHARED_GPUS, is_sharing=is_sharing)
    mps = annotations / _MPS
    if mps.text() == "true" and not is_sharing:
        text = "MPS is only supported with GPU fraction request"
        mps.error(_RULE, text, f"set {GPU_FRACTION} or {GPU_MEMORY}, or remove it")


def _check_amounts(fraction: Field, memory: Field) -> None:
    if memory and not whole_number_of(memory.text() or ""):
        text = "gpu-memory annotation value must be a positive integer greater than 0"
        memory.malformed(_RULE, text, "set the MiB of one GPU, in quotes: '20000'")
    if fraction and not fraction_of(fraction.text() or ""):
        text = "gpu-fraction annotation value must be a positive number smaller than 1.0"
        fix = f"set a fraction of one GPU, in quotes: '0.5'; or request {ALLOCATABLE_GPUS}"
        fraction.malformed(_RULE, text, fix)


def _check_devices(devices: Field, *, is_sharing: bool) -> None:
    if not devices:
        return
    if not is_sharing:
        text = (
            "cannot request multiple fractional devices without specifying fraction portion "
            "or gpu-memory"
        )
        devices.error(_RULE, text, f"set {GPU_FRACTION} or {GPU_MEMORY}, or remove it")
    elif not whole_number_of(devices.text() or ""):
        text = "fraction count annotation value must be a positive integer greater than 0"
        devices.malformed(_RULE, text, "set a whole number, in quotes: '2'")


def _check_conflicts(fraction: Field, memory: Field, *, has_gpus: bool) -> None:
    """Note fractions beside whole GPUs, and fractions given in two ways."""
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
