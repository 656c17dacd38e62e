"""Multi-node NVLink: what the fabric answers of a node's GPUs mean together. Pure.

Fields and values: nvml.h, NVML_GPU_FABRIC_STATE_*, NVML_GPU_FABRIC_HEALTH_MASK_*, NVML_GPU_FABRIC_HEALTH_SUMMARY_*.
"""

from collections.abc import Sequence
from typing import Final

from toposcope.agent.raw import RawFabric, RawGpu
from toposcope.topology.hardware import Fabric, GpuFabric, Registration

NOT_SUPPORTED: Final = 0
NOT_STARTED: Final = 1
COMPLETED: Final = 3
ZERO_UUID: Final = "0" * 32

_MISCONFIGURED: Final = {
    2: "wrong system GUID",
    3: "wrong chassis serial number",
    4: "no partition",
    5: "too few NVLinks",
    6: "GPU firmware does not fit",
    7: "invalid location",
    8: "invalid GPU state",
}
_HEALTH: Final[tuple[tuple[str, int, int, dict[int, str]], ...]] = (
    ("degraded_bandwidth", 0, 0x3, {1: "degraded bandwidth"}),
    ("route_recovery", 2, 0x3, {1: "route recovery in progress"}),
    ("route_unhealthy", 4, 0x3, {1: "route unhealthy"}),
    ("access_timeout_recovery", 6, 0x3, {1: "access timeout recovery in progress"}),
    ("incorrect_configuration", 8, 0xF, _MISCONFIGURED),
    ("partition_unassigned", 12, 0x3, {2: "no partition assigned"}),
    ("fabric_manager_disconnected", 14, 0x3, {2: "fabric manager disconnected"}),
)
"""Name, shift, width, and the values that are bad. 0 is "not supported" everywhere: neither good nor bad."""

_SUMMARY: Final = {0: "not-supported", 1: "healthy", 2: "unhealthy", 3: "limited-capacity"}
_BAD_SUMMARIES: Final = (2, 3)

HEALTH_BITS: Final = tuple(name for name, *_ in _HEALTH)
"""What `health_bits` can return."""


def health_bits(fabric: RawFabric) -> dict[str, str]:
    """What is bad about a GPU's fabric health: name of the field to plain words."""
    mask = fabric.health_mask or 0
    return {name: bad[value] for name, shift, width, bad in _HEALTH if (value := mask >> shift & width) in bad}


def attached(fabric: RawFabric | None) -> bool:
    """Whether the GPU takes part in a fabric at all.

    State "not supported" and the all-zero UUID are one: HGX boards without multi-node NVLink answer "completed" with
    a zero UUID, with or without a bad status (torchcomms#1385, #936). All 16 bytes count: a real UUID may begin with a
    zero byte.
    """
    return fabric is not None and fabric.state != NOT_SUPPORTED and not (completed(fabric) and fabric.uuid == ZERO_UUID)


def completed(fabric: RawFabric) -> bool:
    """Whether the registration has completed; only then do `status`, `uuid` and `clique` mean anything."""
    return fabric.state == COMPLETED


def clique_of(fabric: RawFabric) -> str:
    """The pair that is the identity: unrelated fabrics share clique ids, and one fabric has several cliques."""
    return f"{_dashed(fabric.uuid)}.{fabric.clique}"


def gpu_fabric(gpu: RawGpu) -> GpuFabric:
    """How far one GPU's registration is."""
    if gpu.fabric_error:
        return GpuFabric.FAILED
    if gpu.fabric is None or not attached(gpu.fabric):
        return GpuFabric.NOT_SUPPORTED
    if not completed(gpu.fabric):
        return GpuFabric.NOT_STARTED if gpu.fabric.state == NOT_STARTED else GpuFabric.IN_PROGRESS
    return GpuFabric.FAILED if gpu.fabric.status or gpu.fabric.clique is None else GpuFabric.COMPLETED


def registration(fabric: RawFabric) -> Registration:
    """NVML's fabric information of one GPU, decoded."""
    return Registration(
        cluster_uuid=_dashed(fabric.uuid),
        clique=fabric.clique,
        cliques=fabric.cliques,
        status=fabric.status,
        health=tuple(health_bits(fabric)) if attached(fabric) else (),
        summary=_SUMMARY.get(fabric.health_summary or 0, "unknown"),
    )


def _dashed(digits: str) -> str:
    """32 hex digits as a UUID is written. The module for UUIDs would be 2 ms of an agent's start."""
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def node_fabric(gpus: Sequence[RawGpu]) -> tuple[Fabric, str | None]:
    """The fabric state over all GPUs, and the clique if they share one. GPUs that disagree are a fault."""
    if any(gpu.fabric_error for gpu in gpus):
        return Fabric.FAILED, None
    members = [gpu.fabric for gpu in gpus if gpu.fabric and attached(gpu.fabric)]
    if any(not completed(member) for member in members):
        return Fabric.IN_PROGRESS, None
    if not members:
        return Fabric.NOT_SUPPORTED, None
    cliques = {clique_of(member) for member in members}
    sound = not any(member.status or member.clique is None for member in members)
    if len(cliques) > 1 or len(members) < len(gpus) or not sound:
        return Fabric.FAILED, None
    return Fabric.COMPLETED, cliques.pop()


def fabric_reasons(gpus: Sequence[RawGpu]) -> list[str]:
    """What is wrong with the fabric, a reason each."""
    fabric, _ = node_fabric(gpus)
    reasons = [f"GPU {gpu.index}: fabric query failed: {gpu.fabric_error}" for gpu in gpus if gpu.fabric_error]
    cliques = set()
    for gpu in gpus:
        if gpu.fabric is None or not attached(gpu.fabric):
            if fabric in (Fabric.FAILED, Fabric.IN_PROGRESS) and not gpu.fabric_error:
                reasons.append(f"GPU {gpu.index}: not in the NVLink fabric that other GPUs of this node are in")
        elif not completed(gpu.fabric):
            reasons.append(f"GPU {gpu.index}: still registering with the NVLink fabric")
        else:
            reasons += _problems(gpu.index, gpu.fabric)
            cliques.add(clique_of(gpu.fabric))
    if len(cliques) > 1:
        reasons.append(f"the GPUs of this node are in {len(cliques)} fabric cliques: {', '.join(sorted(cliques))}")
    return reasons


def _problems(index: int, fabric: RawFabric) -> list[str]:
    problems = []
    if fabric.status:
        problems.append(f"GPU {index}: fabric registration ended with NVML status {fabric.status}")
    if fabric.clique is None:
        problems.append(f"GPU {index}: the fabric gave it no clique for memory access")
    problems += [f"GPU {index}: fabric health: {words}" for words in health_bits(fabric).values()]
    if fabric.health_summary in _BAD_SUMMARIES and not health_bits(fabric):
        problems.append(f"GPU {index}: fabric health: {_SUMMARY[fabric.health_summary].replace('-', ' ')}")
    return problems
