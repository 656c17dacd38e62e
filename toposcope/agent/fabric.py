"""Multi-node NVLink: what the fabric answers of a node's GPUs mean together. Pure.

Fields and values: nvml.h, NVML_GPU_FABRIC_STATE_*, NVML_GPU_FABRIC_HEALTH_MASK_*,
NVML_GPU_FABRIC_HEALTH_SUMMARY_*.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from toposcope.agent.raw import RawFabric, RawGpu
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
    return {field.name: field.bad[value] for field, value in _bad_fields(fabric)}


def _bad_fields(fabric: RawFabric) -> Iterator[tuple[_HealthField, int]]:
    """The fields of the health mask that are bad, and their values."""
    mask = fabric.health_mask or 0
    for field in _HEALTH:
        value = mask >> field.shift & field.width
        if value in field.bad:
            yield field, value


def is_in_fabric(fabric: RawFabric | None) -> bool:
    """Whether the GPU takes part in a fabric at all.

    State "not supported" and the all-zero UUID are one: HGX boards without multi-node NVLink answer
    "completed" with a zero UUID, with or without a bad status (torchcomms#1385, #936). All 16 bytes
    count: a real UUID may begin with a zero byte.
    """
    if fabric is None or fabric.state == NOT_SUPPORTED:
        return False
    return not (is_completed(fabric) and fabric.uuid == ZERO_UUID)


def is_in_rack(gpu: RawGpu) -> bool:
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


def is_missing_from_rack(gpu: RawGpu) -> bool:
    """Whether the GPU's rack has a fabric and the GPU is in none.

    This is a fault, whatever the node has shown before.
    """
    return is_in_rack(gpu) and not gpu.fabric_error and not is_in_fabric(gpu.fabric)


def is_completed(fabric: RawFabric) -> bool:
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
    if fabric is None or not is_in_fabric(fabric):
        return GpuFabric.FAILED if is_missing_from_rack(gpu) else GpuFabric.NOT_SUPPORTED
    if fabric.state == NOT_STARTED:
        return GpuFabric.NOT_STARTED
    if not is_completed(fabric):
        return GpuFabric.IN_PROGRESS
    return GpuFabric.COMPLETED if _is_sound(fabric) else GpuFabric.FAILED


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
    if _has_refusal(gpus, members):
        return Fabric.FAILED, None
    if not all(is_completed(member) for member in members):
        return Fabric.IN_PROGRESS, None
    if any(is_missing_from_rack(gpu) for gpu in gpus):
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
        if not _is_sound(member):
            return None
        cliques.add(clique_of(member))
    return cliques.pop() if len(cliques) == 1 else None


def _members(gpus: Sequence[RawGpu]) -> list[RawFabric]:
    """The answers of the GPUs that take part in a fabric."""
    return [gpu.fabric for gpu in gpus if gpu.fabric and is_in_fabric(gpu.fabric)]


def _has_refusal(gpus: Sequence[RawGpu], members: Sequence[RawFabric]) -> bool:
    """Whether a GPU of which a fabric is expected did not answer."""
    refused = [gpu for gpu in gpus if gpu.fabric_error]
    if not refused:
        return False
    nobody_answered = len(refused) == len(gpus)
    return bool(members) or nobody_answered or any(is_in_rack(gpu) for gpu in gpus)


def _is_sound(member: RawFabric) -> bool:
    """Whether a registration that has completed gave the GPU what it needs."""
    return member.status == 0 and member.clique is not None


class FabricProblemKind(StrEnum):
    """What can be wrong with the fabric; the accepted faults of a baseline go by it."""

    QUERY_FAILED = "query-failed"
    MISSING_FROM_RACK = "missing-from-rack"
    OUTSIDE = "outside"
    REGISTERING = "registering"
    ENDED = "ended"
    NO_CLIQUE = "no-clique"
    HEALTH = "health"
    CLIQUES = "cliques"


class FabricProblem(NamedTuple):
    """One thing that is wrong with the fabric."""

    kind: FabricProblemKind
    gpus: tuple[int, ...]
    """The indices of the GPUs that it is about."""
    sentence: str
    """Baselines of earlier agents hold its checksum: other words forget what an admin accepted."""
    detail: str = ""
    """What tells it from others of its kind, for programs."""

    @property
    def gpu(self) -> int | None:
        """The GPU, if it is about one alone."""
        if len(self.gpus) != 1:
            return None
        (gpu,) = self.gpus
        return gpu

    @property
    def identity(self) -> str:
        """Equal for the same problem of the same GPUs."""
        in_order = sorted(self.gpus)
        gpus = [str(gpu) for gpu in in_order]
        parts = [self.kind, *gpus, self.detail]
        return " ".join(parts)


def fabric_reasons(gpus: Sequence[RawGpu]) -> list[str]:
    """What is wrong with the fabric, a reason each."""
    return [problem.sentence for problem in fabric_problems(gpus)]


def fabric_problems(gpus: Sequence[RawGpu]) -> list[FabricProblem]:
    """What is wrong with the fabric."""
    members = _members(gpus)
    problems = []
    for gpu in gpus:
        if gpu.fabric_error:
            problems.append(_query_failed(gpu, gpu.fabric_error))
    if not members:
        problems += _missing_from_rack(gpus)
    for gpu in gpus:
        if not gpu.fabric_error:
            problems += _registration_problems(gpu, is_expected=bool(members))
            problems += _health_problems(gpu)
    cliques = {clique_of(member) for member in members if is_completed(member)}
    if len(cliques) > 1:
        problems.append(_several_cliques(cliques))
    return problems


def _query_failed(gpu: RawGpu, error: str) -> FabricProblem:
    return FabricProblem(
        FabricProblemKind.QUERY_FAILED,
        gpus=(gpu.index,),
        sentence=f"GPU {gpu.index}: fabric query failed: {error}",
        detail=error,
    )


def _several_cliques(cliques: Collection[str]) -> FabricProblem:
    names = ", ".join(sorted(cliques))
    return FabricProblem(
        FabricProblemKind.CLIQUES,
        gpus=(),
        sentence=f"the GPUs of this node are in {len(cliques)} fabric cliques: {names}",
        detail=names,
    )


class _Absence(NamedTuple):
    """Why a GPU of a rack is in no fabric, and where the rack has it."""

    status: int | None
    """How the registration ended, an NVML error code; None: there was none."""
    slot: int
    chassis: str

    @property
    def words(self) -> str:
        """The absence in words."""
        place = f"slot {self.slot} of chassis {self.chassis}, an NVLink rack"
        if self.status is None:
            return f"NVML says that there is no NVLink fabric, in {place}"
        if self.status == 0:
            return f"fabric registration ended without a cluster UUID, in {place}"
        return (
            f"fabric registration ended with NVML status {self.status} "
            f"and without a cluster UUID, in {place}"
        )


def _missing_from_rack(gpus: Sequence[RawGpu]) -> list[FabricProblem]:
    """Why GPUs of a rack are in no fabric.

    A tray that is missing as a whole is one fault, with one reason.
    """
    indices: dict[_Absence, list[int]] = {}
    for gpu in gpus:
        if gpu.platform is None or not is_missing_from_rack(gpu):
            continue
        fabric = gpu.fabric
        status = fabric.status if fabric is not None and is_completed(fabric) else None
        absence = _Absence(status, gpu.platform.slot, gpu.platform.chassis)
        alike = indices.setdefault(absence, [])
        alike.append(gpu.index)

    problems = []
    for absence, missing in indices.items():
        problem = FabricProblem(
            FabricProblemKind.MISSING_FROM_RACK,
            gpus=tuple(missing),
            sentence=f"{_gpus(missing)}: {absence.words}",
            detail=f"{absence.status} {absence.slot} {absence.chassis}",
        )
        problems.append(problem)
    return problems


def _gpus(indices: Sequence[int]) -> str:
    """`GPU 3`, `GPUs 0, 1, 3`."""
    noun = plural(len(indices), "GPU")
    names = [str(index) for index in indices]
    return f"{noun} {', '.join(names)}"


def _registration_problems(gpu: RawGpu, *, is_expected: bool) -> list[FabricProblem]:
    """What is wrong with one GPU's registration; `is_expected`: others of its node are in one."""
    fabric = gpu.fabric
    if fabric is None or not is_in_fabric(fabric):
        if not is_expected:
            return []
        words = "not in the NVLink fabric that other GPUs of this node are in"
        return [_of_gpu(gpu, FabricProblemKind.OUTSIDE, words)]
    if not is_completed(fabric):
        words = "still registering with the NVLink fabric"
        return [_of_gpu(gpu, FabricProblemKind.REGISTERING, words)]

    problems = []
    if fabric.status:
        status = str(fabric.status)
        words = f"fabric registration ended with NVML status {status}"
        problems.append(_of_gpu(gpu, FabricProblemKind.ENDED, words, status))
    if fabric.clique is None:
        words = "the fabric gave it no clique for memory access"
        problems.append(_of_gpu(gpu, FabricProblemKind.NO_CLIQUE, words))
    return problems


def _of_gpu(gpu: RawGpu, kind: FabricProblemKind, words: str, detail: str = "") -> FabricProblem:
    sentence = f"GPU {gpu.index}: {words}"
    return FabricProblem(kind, (gpu.index,), sentence, detail)


def _health_problems(gpu: RawGpu) -> list[FabricProblem]:
    """What is bad about one GPU's fabric health: the fields of the mask, else NVML's own verdict.

    It counts whatever the cluster UUID is, but not while the GPU is still registering.
    """
    fabric = gpu.fabric
    if fabric is None or fabric.state not in (COMPLETED, NOT_SUPPORTED):
        return []
    problems = []
    for field, value in _bad_fields(fabric):
        words = f"fabric health: {field.bad[value]}"
        detail = f"{field.name} {value}"
        problems.append(_of_gpu(gpu, FabricProblemKind.HEALTH, words, detail))
    if not problems and fabric.health_summary in _BAD_SUMMARIES:
        summary = _SUMMARY[fabric.health_summary]
        words = f"fabric health: {summary.replace('-', ' ')}"
        problems.append(_of_gpu(gpu, FabricProblemKind.HEALTH, words, summary))
    return problems
