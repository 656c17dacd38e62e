"""What can be wrong with a node, by kind.

A fault is accepted by its key; its sentence is made last.

An admin accepts the present state with `toposcope agent --accept-degraded`: then the keys of the
present faults are kept in the baseline, and those faults are not named again until they heal and
come back.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple


class FaultKind(StrEnum):
    """The kinds of faults."""

    GPU_ABSENT = "gpu-absent"
    """On the PCI bus, but not in NVML.

    Excluded, held by another driver, too old for this driver, or lost.
    """
    GPU_LOST = "gpu-lost"
    """NVML lists it, and answers that it is lost or needs a reset."""
    GPUS_WITHHELD = "gpus-withheld"
    """A setting of the agent's container hides GPUs."""
    GPU_GONE = "gpu-gone"
    """In the baseline, and neither in NVML nor on the PCI bus."""
    GPUS_GONE = "gpus-gone"
    """The same for some of several GPUs, when nothing tells which: others came meanwhile."""
    LINKS_DOWN = "links-down"
    """Fewer active NVLinks than the GPU should have."""
    PATH_WORSE = "path-worse"
    """A worse path between two GPUs than before."""
    FABRIC = "fabric"
    """A bad registration with the multi-node NVLink fabric, or bad health."""
    FABRIC_LEFT = "fabric-left"
    """The node was in a multi-node NVLink fabric and is in none."""


_SENTENCES: Final = {
    FaultKind.GPU_ABSENT: "{where} is on the PCI bus but not in NVML{detail}",
    FaultKind.GPU_LOST: "{where}: {detail}",
    FaultKind.GPUS_WITHHELD: "{detail}",
    FaultKind.GPU_GONE: "{where} is missing, but was here before",
    FaultKind.GPUS_GONE: "{detail}",
    FaultKind.LINKS_DOWN: "{where}: {detail} NVLinks active",
    FaultKind.PATH_WORSE: "{where}: {detail}",
    FaultKind.FABRIC: "{detail}",
    FaultKind.FABRIC_LEFT: "the node has left its multi-node NVLink fabric",
}

_SAME_FAULT: Final = {FaultKind.GPU_LOST: FaultKind.GPU_ABSENT}
"""A GPU that is lost today may be missing from NVML after the next reboot.

To accept one is to accept the other.
"""

_WITHOUT_KEY: Final = frozenset(
    {
        FaultKind.GPU_GONE,
        FaultKind.GPUS_GONE,
        FaultKind.LINKS_DOWN,
        FaultKind.PATH_WORSE,
        FaultKind.FABRIC_LEFT,
        FaultKind.GPUS_WITHHELD,
    }
)
"""All but the last are measured against the baseline, so that a new baseline accepts them
without a key. The last one only explains missing GPUs."""


class Fault(NamedTuple):
    """One thing that is wrong."""

    kind: FaultKind
    subject: str = ""
    """What identifies its subject over reboots: a PCI address, a UUID. Empty: the node."""
    where: str = ""
    """How people name the subject: `GPU 3`, `GPU 0000:1b:00.0`."""
    detail: str = ""
    """What is wrong, where the kind alone does not say it."""
    gpu: int | None = None
    """NVML's index of the GPU that is at fault, if it is one GPU that NVML lists."""
    former_subject: str = ""
    """Its subject in baselines of earlier agents; empty: as now."""

    @property
    def key(self) -> str:
        """Equal for the same fault of the same subject, whatever numbers GPUs have today."""
        return f"{_SAME_FAULT.get(self.kind, self.kind)}:{self.subject}"

    @property
    def former_key(self) -> str:
        """Its key in baselines of earlier agents."""
        return self._replace(subject=self.former_subject or self.subject).key

    @property
    def sentence(self) -> str:
        """The fault in words, for people only."""
        return _SENTENCES[self.kind].format(where=self.where, detail=self.detail)


def acceptable(faults: Iterable[Fault]) -> frozenset[str]:
    """The keys to keep of faults that are accepted.

    All that a new baseline doesn't accept itself.
    """
    keys = set()
    for fault in faults:
        if fault.kind not in _WITHOUT_KEY:
            keys.add(fault.key)
    return frozenset(keys)


def renewed(accepted: frozenset[str], faults: Iterable[Fault]) -> frozenset[str]:
    """The accepted keys, those of earlier agents as they are now."""
    keys = set(accepted)
    for fault in faults:
        if fault.former_key in keys:
            keys.discard(fault.former_key)
            keys.add(fault.key)
    return frozenset(keys)


def kind_of(key: str) -> str:
    """The kind of fault that a key is of."""
    return key.partition(":")[0]


def without(accepted: frozenset[str] | None, kind: FaultKind) -> frozenset[str]:
    """The accepted keys of all other kinds."""
    if accepted is None:
        return frozenset()
    return frozenset([key for key in accepted if kind_of(key) != kind])


def unaccepted(faults: Iterable[Fault], accepted: frozenset[str] | None) -> list[Fault]:
    """The faults that are not accepted.

    A container setting that hides GPUs goes with the last missing GPU.
    """
    remaining = []
    missing = False
    for fault in faults:
        if accepted is not None and fault.key in accepted:
            continue
        remaining.append(fault)
        if fault.kind in (FaultKind.GPU_ABSENT, FaultKind.GPU_LOST):
            missing = True
    if missing:
        return remaining
    return [fault for fault in remaining if fault.kind is not FaultKind.GPUS_WITHHELD]
