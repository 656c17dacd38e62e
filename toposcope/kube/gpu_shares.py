"""What one piece of a node's GPU resources is: a whole GPU, or a share of one.

A share is a time slice, an MPS client or a MIG device. Schedulers see numbers of `nvidia.com/gpu`
and cannot tell. The labels of GPU Feature Discovery and GKE can, and so can the number of GPUs that
the agent counted. Sources: k8s-device-plugin's README (sharing, MIG strategies) and
internal/lm/resource.go (the suffixes of the product); HAMi's deviceSplitCount; GKE's labels of
shared GPUs.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS, GPU_COUNT, GPUS, STATE
from toposcope.api.label_values import count_of
from toposcope.hardware.topology import State
from toposcope.kube.pod_resources import Requests, gpu_count, is_gpu_part
from toposcope.text import plural

Label = Callable[[str], str | None]
"""A label of a node by its key; None where there is none."""

_PRODUCT: Final = "nvidia.com/gpu.product"
_REPLICAS: Final = "nvidia.com/gpu.replicas"
_STRATEGY: Final = "nvidia.com/gpu.sharing-strategy"
_MIG_STRATEGY: Final = "nvidia.com/mig.strategy"
_MIG_CONFIG: Final = "nvidia.com/mig.config"
_GKE_CLIENTS: Final = "cloud.google.com/gke-max-shared-clients-per-gpu"
_GKE_STRATEGY: Final = "cloud.google.com/gke-gpu-sharing-strategy"
_GKE_PARTITION: Final = "cloud.google.com/gke-gpu-partition-size"

LABELS: Final = (
    GPUS,
    STATE,
    GPU_COUNT,
    _PRODUCT,
    _REPLICAS,
    _STRATEGY,
    _MIG_STRATEGY,
    _MIG_CONFIG,
    _GKE_CLIENTS,
    _GKE_STRATEGY,
    _GKE_PARTITION,
)
"""Labels that the number of GPUs and what they are offered as follow from, beside `allocatable`."""

_PROFILE: Final = r"(?P<profile>\d{1,4}(?:c\.\d{1,4})?g\.\d{1,5}gb(?:[+.-][a-z.+-]{0,32})?)"
"""Such as `1g.10gb`, `1c.3g.20gb`, `1g.10gb.me` or `1g.12gb+me.all`."""
_MIG_PRODUCT: Final = re.compile(rf"[^\n]{{0,64}}-MIG-{_PROFILE}(?:-SHARED)?")
_MIG_ALL: Final = re.compile(rf"all-{_PROFILE}")
_MIG_RESOURCE: Final = re.compile(r"nvidia\.com/mig-(?P<profile>[0-9a-z.+]+?)(?:\.shared)?")
_PARTITION: Final = re.compile(_PROFILE)
_NVIDIA: Final = "nvidia.com/"
_OTHER_AMOUNTS: Final = frozenset(
    {"nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"}
)
"""What HAMi counts beside GPUs."""
_SHARED_PRODUCT: Final = "-SHARED"
_SHARED_NAME: Final = ".shared"
_MPS: Final = "mps"
_SHARING: Final = frozenset({"time-slicing", "time-sharing", _MPS})
_MOST_GPUS: Final = 16
"""The most GPUs that a node has (DGX-2).

A larger number cannot be explained by a lost GPU that a device plugin still offers.
"""


class GpuUnit(StrEnum):
    """What one piece of a resource is, where it is not a whole GPU."""

    TIME_SLICE = "time slice"
    MPS_CLIENT = "MPS client"
    MIG_DEVICE = "MIG device"
    SHARE = "share"
    """A share of a kind that no label names.

    More is offered than there are GPUs, as HAMi's deviceSplitCount does.
    """


@dataclass(frozen=True, slots=True)
class Shares:
    """A resource of a node whose pieces are shares of its GPUs."""

    resource: str
    unit: GpuUnit
    total: int
    """Pieces that are allocatable."""
    profile: str = ""
    """The MIG profile, `1g.5gb`; empty where there is none, or it is unknown."""

    @property
    def described(self) -> str:
        """`time slices`, `1g.5gb MIG devices`, `time slices of 1g.5gb MIG devices`."""
        pieces = plural(self.total, self.unit)
        if not self.profile:
            return pieces
        if self.unit is GpuUnit.MIG_DEVICE:
            return f"{self.profile} {pieces}"
        return f"{pieces} of {self.profile} MIG devices"

    @property
    def is_of_mig(self) -> bool:
        """Whether they are MIG devices, or shares of such."""
        return self.unit is GpuUnit.MIG_DEVICE or bool(self.profile)


def gpus_of(label: Label, allocatable: Requests) -> int:
    """The number of a node's GPUs.

    It comes from the agent's count, else from GPU Feature Discovery, else from what device plugins
    offer. A label with an implausible number is ignored. Without any count, time slices are divided
    by their number per GPU. MIG devices cannot be divided, and are counted as they are offered.
    """
    counted = count_of(label(GPUS))
    if counted is not None:
        return counted
    offered = gpu_count(allocatable)
    labelled = _labelled_gpus(label, allocatable)
    if labelled:
        return labelled
    shares = _of_gpus(label, allocatable)
    per_gpu = _clients(label)
    if shares is None or shares.is_of_mig or not per_gpu or shares.total % per_gpu:
        return offered
    return offered - shares.total + shares.total // per_gpu


def shares_of(label: Label, allocatable: Requests) -> tuple[Shares, ...]:
    """The resources of a node that are shares of GPUs, `nvidia.com/gpu` first."""
    shares = []
    of_gpus = _of_gpus(label, allocatable)
    if of_gpus:
        shares.append(of_gpus)
    for resource, total in allocatable.items():
        if total and (is_gpu_part(resource) or _is_renamed(label, resource, total)):
            shares.append(_of_part(label, resource, total))
    return tuple(shares)


def _is_renamed(label: Label, resource: str, total: int) -> bool:
    """Whether these are shares under a name that somebody chose (the device plugin's `rename`)."""
    if not resource.startswith(_NVIDIA):
        return False
    if resource == ALLOCATABLE_GPUS or resource in _OTHER_AMOUNTS:
        return False
    clients = _clients(label)
    return clients > 1 and total % clients == 0


def whole_gpus(label: Label, allocatable: Requests) -> Requests:
    """`allocatable`, with `nvidia.com/gpu` left only for whole GPUs.

    Shares are renamed to shared GPUs, so that no GPU is offered twice. A device plugin that has not
    noticed a lost GPU offers more than the agent counts: those are no shares, and the number is
    cut. Where nothing has to change, this is the same mapping.
    """
    shares = _of_gpus(label, allocatable)
    if shares:
        return _renamed(allocatable, shares.total)
    counted = count_of(label(GPUS))
    if counted is not None and allocatable.get(ALLOCATABLE_GPUS, 0) > counted:
        return {**allocatable, ALLOCATABLE_GPUS: counted}
    return allocatable


SHARED_GPUS: Final = "nvidia.com/gpu.shared"
"""What the device plugin calls shares under a name of their own (`renameByDefault`)."""


def on_shares(requests: Requests) -> Requests:
    """What a pod requests of a node whose `nvidia.com/gpu` are shares, as `whole_gpus` names it."""
    return _renamed(requests, requests.get(ALLOCATABLE_GPUS, 0))


def _renamed(amounts: Requests, shares: int) -> Requests:
    """The amounts with so many shared GPUs more, in place of whole ones."""
    renamed = dict(amounts)
    renamed.pop(ALLOCATABLE_GPUS, None)
    renamed[SHARED_GPUS] = renamed.get(SHARED_GPUS, 0) + shares
    return renamed


def _of_gpus(label: Label, allocatable: Requests) -> Shares | None:
    """What `nvidia.com/gpu` is on a node, if it is not whole GPUs."""
    total = allocatable.get(ALLOCATABLE_GPUS, 0)
    if not total:
        return None
    profile = _mig_profile(label)
    if profile is not None:
        return Shares(ALLOCATABLE_GPUS, _unit_of_mig(label), total, profile)
    unit = _unit_of_gpus(label, allocatable, total)
    return None if unit is None else Shares(ALLOCATABLE_GPUS, unit, total)


def _unit_of_gpus(label: Label, allocatable: Requests, total: int) -> GpuUnit | None:
    """What `total` pieces of `nvidia.com/gpu` are where no MIG profile is named.

    None means whole GPUs.
    """
    if _has_shared_gpus(label):
        return _unit(label)
    counted = count_of(label(GPUS)) or _labelled_gpus(label, allocatable)
    exceeds = counted is not None and total > counted
    if _is_shared(label):
        # Where shares have a name of their own, what is left under this one is whole.
        whole = _offers_parts(allocatable) if counted is None else not exceeds
        return None if whole else _unit(label)
    if not exceeds or _is_stale(label, total, counted):
        return None
    return GpuUnit.MIG_DEVICE if label(_MIG_STRATEGY) == "single" else GpuUnit.SHARE


def _offers_parts(allocatable: Requests) -> bool:
    return any(is_gpu_part(resource) for resource in allocatable)


def _has_shared_gpus(label: Label) -> bool:
    """Whether labels say that GPUs are shared under their usual name."""
    product = label(_PRODUCT) or ""
    return product.endswith(_SHARED_PRODUCT) or label(_GKE_STRATEGY) in _SHARING


def _unit_of_mig(label: Label) -> GpuUnit:
    """What pieces of GPUs in MIG mode are: MIG devices can be shared too."""
    return _unit(label) if _has_shared_gpus(label) else GpuUnit.MIG_DEVICE


def _of_part(label: Label, resource: str, total: int) -> Shares:
    mig = _MIG_RESOURCE.fullmatch(resource)
    if mig is None:
        return Shares(resource, _unit(label), total)
    unit = _unit(label) if resource.endswith(_SHARED_NAME) else GpuUnit.MIG_DEVICE
    return Shares(resource, unit, total, mig["profile"])


def _unit(label: Label) -> GpuUnit:
    strategies = label(_STRATEGY), label(_GKE_STRATEGY)
    if _MPS in strategies:
        return GpuUnit.MPS_CLIENT
    names_sharing = not _SHARING.isdisjoint(strategies)
    if names_sharing or _clients(label) > 1:
        return GpuUnit.TIME_SLICE
    return GpuUnit.SHARE


def _is_shared(label: Label) -> bool:
    """Whether labels say that something on the node is shared.

    With `renameByDefault`, that is not under the usual name.
    """
    if _clients(label) > 1:
        return True
    return label(_STRATEGY) in _SHARING or label(_GKE_STRATEGY) in _SHARING


def _clients(label: Label) -> int:
    """Shares per GPU by the labels; 0 where they do not say."""
    return count_of(label(_REPLICAS)) or count_of(label(_GKE_CLIENTS)) or 0


def _mig_profile(label: Label) -> str | None:
    """The profile of the MIG devices that are offered as GPUs; None if none are.

    That happens with the strategy `single`, and with GKE's partitions.
    """
    product = label(_PRODUCT) or ""
    match = _MIG_PRODUCT.fullmatch(product)
    if match is None:
        partition = label(_GKE_PARTITION) or ""
        match = _PARTITION.fullmatch(partition)
    if match is None and not product and label(_MIG_STRATEGY) == "single":
        config = label(_MIG_CONFIG) or ""
        match = _MIG_ALL.fullmatch(config)

    if match is None:
        return None
    return match["profile"]


def _labelled_gpus(label: Label, allocatable: Requests) -> int | None:
    """GPUs by GPU Feature Discovery's count; None where it counted MIG devices, or nothing."""
    counted = count_of(label(GPU_COUNT))
    if not counted or _mig_profile(label) is not None:
        return None
    too_many = label(_MIG_STRATEGY) == "single" and counted > _MOST_GPUS
    if too_many and counted == allocatable.get(ALLOCATABLE_GPUS):
        return None
    return counted


def _is_stale(label: Label, total: int, counted: int | None) -> bool:
    """Whether GPUs that were lost explain why more is offered than the agent counts."""
    labelled = count_of(label(GPU_COUNT)) or 0
    if total <= labelled or counted is None or total < 2 * counted:
        return True
    may_have_lost_some = label(STATE) in (State.DEGRADED, State.UNKNOWN)
    return may_have_lost_some and total <= _MOST_GPUS


def described(gpus: int, shares: Shares, free: int | None) -> str:
    """`its 4 GPUs are offered as 40 time slices (nvidia.com/gpu), 39 free`."""
    verb = plural(gpus, "GPU is", "GPUs are")
    pieces = f"{shares.total:,} {shares.described}"
    sentence = f"its {gpus:,} {verb} offered as {pieces} ({shares.resource})"
    if free is None:
        return sentence
    return f"{sentence}, {free:,} free"
