"""Multi-node NVLink: what the fabric answers of a node's GPUs mean together. Pure.

Fields and values: nvml.h, NVML_GPU_FABRIC_STATE_*, NVML_GPU_FABRIC_HEALTH_MASK_*,
NVML_GPU_FABRIC_HEALTH_SUMMARY_*.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from toposcope.agent.raw import RawFabric, RawGpu, RawPlatform
from toposcope.hardware.topology import Fabric, GpuFabric, Registration
from toposcope.text import plural

NOT_SUPPORTED: Final = 0
NOT_STARTED: Final = 1
COMPLETED: Final = 3
ZERO_UUID: Final = "0" * 32

_DIRECT_PEERS: Final = 0
"""Platform peer type of GPUs that are wired to each other, with no switch between trays.

1 is switched."""
_NO_SLOT: Final = frozenset({0, 0xFF})
"""Slots of a rack are counted from 1; a board outside a rack answers one of these."""

_MISCONFIGURED: Final = {
    2: "wrong system GUID",
    3: "wrong chassis serial number",
    4: "no partition",
    5: "too few NVLinks",
    6: "GPU firmware does not fit",
    7: "invalid location",
    8: "invalid GPU state",
}


class _HealthField(NamedTuple):
    """A field of the health mask."""

    name: str
    shift: int
    width: int
    bad: Mapping[int, str]
    """The values that are bad, in plain words.

    0 is "not supported" everywhere: neither good nor bad.
    """


_HEALTH: Final = (
    _HealthField("degraded_bandwidth", 0, 0x3, {1: "degraded bandwidth"}),
    _HealthField("route_recovery", 2, 0x3, {1: "route recovery in progress"}),
    _HealthField("route_unhealthy", 4, 0x3, {1: "route unhealthy"}),
    _HealthField("access_timeout_recovery", 6, 0x3, {1: "access timeout recovery in progress"}),
    _HealthField("incorrect_configuration", 8, 0xF, _MISCONFIGURED),
    _HealthField("partition_unassigned", 12, 0x3, {2: "no partition assigned"}),
    _HealthField("fabric_manager_disconnected", 14, 0x3, {2: "fabric manager disconnected"}),
)

_SUMMARY: Final = {0: "not-supported", 1: "healthy", 2: "unhealthy", 3: "limited-capacity"}
_BAD_SUMMARIES: Final = (2, 3)

HEALTH_BITS: Final = tuple([field.name for field in _HEALTH])
"""What `health_bits` can return."""


def health_bits(fabric: RawFabric) -> dict[str, str]:
    """What is bad about a GPU's fabric health: name of the field to plain words."""
    mask = fabric.health_mask or 0
    bits = {}
    for field in _HEALTH:
        value = mask >> field.shift & field.width
        if value in field.bad:
            bits[field.name] = field.bad[value]
    return bits


def attached(fabric: RawFabric | None) -> bool:
    """Whether the GPU takes part in a fabric at all.

    State "not supported" and the all-zero UUID are one: HGX boards without multi-node NVLink answer
    "completed" with a zero UUID, with or without a bad status (torchcomms#1385, #936). All 16 bytes
    count: a real UUID may begin with a zero byte.
    """
    if fabric is None or fabric.state == NOT_SUPPORTED:
        return False
    return not (completed(fabric) and fabric.uuid == ZERO_UUID)


def in_rack(gpu: RawGpu) -> bool:
    """Whether the GPU sits in a compute tray of an NVLink rack, so that it must be in a fabric.

    Platform information places it in a slot of a chassis whose trays are joined by switches. An HGX
    board may answer a serial number and a module too, but is in no slot; boards whose GPUs are
    wired to each other have no switches.
    """
    platform = gpu.platform
    if platform is None or platform.slot in _NO_SLOT:
        return False
    serial = platform.chassis.strip("0 ")
    return bool(serial) and platform.peer_type != _DIRECT_PEERS


def missing_from_rack(gpu: RawGpu) -> bool:
    """Whether the GPU's rack has a fabric and the GPU is in none.

    This is a fault, whatever the node has shown before.
    """
    return in_rack(gpu) and not gpu.fabric_error and not attached(gpu.fabric)


def completed(fabric: RawFabric) -> bool:
    """Whether the registration has completed.

    Only then do `status`, `uuid` and `clique` mean anything.
    """
    return fabric.state == COMPLETED


def clique_of(fabric: RawFabric) -> str:
    """The pair that is the identity.

    Unrelated fabrics share clique ids, and one fabric has several cliques.
    """
    return f"{_dashed(fabric.uuid)}.{fabric.clique}"


def gpu_fabric(gpu: RawGpu) -> GpuFabric:
    """How far one GPU's registration is."""
    fabric = gpu.fabric
    if gpu.fabric_error:
        return GpuFabric.FAILED
    if fabric is None or not attached(fabric):
        return GpuFabric.FAILED if missing_from_rack(gpu) else GpuFabric.NOT_SUPPORTED
    if fabric.state == NOT_STARTED:
        return GpuFabric.NOT_STARTED
    if not completed(fabric):
        return GpuFabric.IN_PROGRESS
    return GpuFabric.COMPLETED if _sound(fabric) else GpuFabric.FAILED


def registration(fabric: RawFabric) -> Registration:
    """NVML's fabric information of one GPU, decoded."""
    return Registration(
        cluster_uuid=_dashed(fabric.uuid),
        clique=fabric.clique,
        cliques=fabric.cliques,
        status=fabric.status,
        health=tuple(health_bits(fabric)),
        summary=_SUMMARY.get(fabric.health_summary or 0, "unknown"),
    )


def _dashed(digits: str) -> str:
    """32 hex digits as a UUID is written.

    The module for UUIDs would be 2 ms of an agent's start.
    """
    parts = (
        digits[:8],
        digits[8:12],
        digits[12:16],
        digits[16:20],
        digits[20:],
    )
    return "-".join(parts)


def node_fabric(gpus: Sequence[RawGpu]) -> tuple[Fabric, str | None]:
    """The fabric state over all GPUs, and the clique if they share one.

    GPUs that disagree are a fault.

    A GPU that refuses to answer, beside GPUs that are in no fabric and in no rack, is a fault of
    that GPU alone.
    """
    members = _members(gpus)
    if _refused(gpus, members):
        return Fabric.FAILED, None
    if not all(completed(member) for member in members):
        return Fabric.IN_PROGRESS, None
    if any(missing_from_rack(gpu) for gpu in gpus):
        return Fabric.FAILED, None
    if not members:
        return Fabric.NOT_SUPPORTED, None
    clique = _shared_clique(members)
    if clique is None or len(members) < len(gpus):
        return Fabric.FAILED, None
    return Fabric.COMPLETED, clique


def _shared_clique(members: Sequence[RawFabric]) -> str | None:
    """The clique of all; None if they disagree, or if one did not get what it needs."""
    cliques = set()
    for member in members:
        if not _sound(member):
            return None
        cliques.add(clique_of(member))
    return cliques.pop() if len(cliques) == 1 else None


def _members(gpus: Sequence[RawGpu]) -> list[RawFabric]:
    """The answers of the GPUs that take part in a fabric."""
    return [gpu.fabric for gpu in gpus if gpu.fabric and attached(gpu.fabric)]


def _refused(gpus: Sequence[RawGpu], members: Sequence[RawFabric]) -> bool:
    """Whether a GPU of which a fabric is expected did not answer."""
    refused = [gpu for gpu in gpus if gpu.fabric_error]
    if not refused:
        return False
    nobody_answered = len(refused) == len(gpus)
    return bool(members) or nobody_answered or any(in_rack(gpu) for gpu in gpus)


def _sound(member: RawFabric) -> bool:
    """Whether a registration that has completed gave the GPU what it needs."""
    return member.status == 0 and member.clique is not None


class FabricProblem(NamedTuple):
    """One thing that is wrong with the fabric."""

    sentence: str
    gpu: int | None = None
    """The GPU's index; None where it is about several."""


def fabric_reasons(gpus: Sequence[RawGpu]) -> list[str]:
    """What is wrong with the fabric, a reason each."""
    return [problem.sentence for problem in fabric_problems(gpus)]


def fabric_problems(gpus: Sequence[RawGpu]) -> list[FabricProblem]:
    """What is wrong with the fabric."""
    members = _members(gpus)
    problems = []
    for gpu in gpus:
        if gpu.fabric_error:
            text = f"GPU {gpu.index}: fabric query failed: {gpu.fabric_error}"
            problems.append(FabricProblem(text, gpu.index))
    if not members:
        problems += _missing_from_rack(gpus)
    for gpu in gpus:
        if gpu.fabric_error:
            continue
        sentences = _registration_problems(gpu, expected=bool(members))
        sentences += _health_problems(gpu)
        for sentence in sentences:
            problems.append(FabricProblem(sentence, gpu.index))
    cliques = {clique_of(member) for member in members if completed(member)}
    if len(cliques) > 1:
        names = ", ".join(sorted(cliques))
        text = f"the GPUs of this node are in {len(cliques)} fabric cliques: {names}"
        problems.append(FabricProblem(text))
    return problems


def _missing_from_rack(gpus: Sequence[RawGpu]) -> list[FabricProblem]:
    """Why GPUs of a rack are in no fabric.

    A tray that is missing as a whole is one fault, with one reason.
    """
    indices: dict[str, list[int]] = {}
    for gpu in gpus:
        if gpu.platform is None or not missing_from_rack(gpu):
            continue
        ended = _ended(gpu.fabric)
        place = _place(gpu.platform)
        same_reason = indices.setdefault(f"{ended}, in {place}", [])
        same_reason.append(gpu.index)
    problems = []
    for why, missing in indices.items():
        sentence = f"{_gpus(missing)}: {why}"
        alone = None
        if len(missing) == 1:
            (alone,) = missing
        problem = FabricProblem(sentence, alone)
        problems.append(problem)
    return problems


def _place(platform: RawPlatform) -> str:
    return f"slot {platform.slot} of chassis {platform.chassis}, an NVLink rack"


def _gpus(indices: Sequence[int]) -> str:
    """`GPU 3`, `GPUs 0, 1, 3`."""
    noun = plural(len(indices), "GPU")
    names = [str(index) for index in indices]
    return f"{noun} {', '.join(names)}"


def _ended(fabric: RawFabric | None) -> str:
    """How the registration of a GPU in no fabric ended."""
    if fabric is None or not completed(fabric):
        return "NVML says that there is no NVLink fabric"
    if fabric.status:
        return (
            f"fabric registration ended with NVML status {fabric.status} and without a cluster UUID"
        )
    return "fabric registration ended without a cluster UUID"


def _registration_problems(gpu: RawGpu, *, expected: bool) -> list[str]:
    """What is wrong with one GPU's registration; `expected`: GPUs of the node are in a fabric."""
    fabric = gpu.fabric
    name = f"GPU {gpu.index}"
    if fabric is None or not attached(fabric):
        if not expected:
            return []
        return [f"{name}: not in the NVLink fabric that other GPUs of this node are in"]
    if not completed(fabric):
        return [f"{name}: still registering with the NVLink fabric"]
    problems = []
    if fabric.status:
        problems.append(f"{name}: fabric registration ended with NVML status {fabric.status}")
    if fabric.clique is None:
        problems.append(f"{name}: the fabric gave it no clique for memory access")
    return problems


def _health_problems(gpu: RawGpu) -> list[str]:
    """What is bad about one GPU's fabric health: the fields of the mask, else NVML's own verdict.

    It counts whatever the cluster UUID is, but not while the GPU is still registering.
    """
    fabric = gpu.fabric
    if fabric is None or fabric.state not in (COMPLETED, NOT_SUPPORTED):
        return []
    bad = list(health_bits(fabric).values())
    if not bad and fabric.health_summary in _BAD_SUMMARIES:
        summary = _SUMMARY[fabric.health_summary]
        bad.append(summary.replace("-", " "))
    problems = []
    for words in bad:
        problems.append(f"GPU {gpu.index}: fabric health: {words}")
    return problems
