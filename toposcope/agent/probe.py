"""One probe: asks NVML and sysfs for everything the agent uses, and concludes nothing.

The calls are in nvml.h.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

from toposcope.agent.nvml.gateway import (
    GARBAGE,
    INVALID_ARGUMENT,
    NOT_FOUND,
    NOT_SUPPORTED,
    ImplausibleError,
    Nvml,
    NvmlReturn,
    numbered,
)
from toposcope.agent.nvml.structs import ask_platform, bus_id, read_fabric, read_fields
from toposcope.agent.raw import (
    RawAncestor,
    RawFabric,
    RawFault,
    RawGpu,
    RawLink,
    RawNode,
    RawPci,
    RawPlatform,
)
from toposcope.agent.sysfs import Sysfs
from toposcope.hardware.pci import is_address, normal_address, off_bus

_LINK_COUNT_FIELD: Final = 91
_COMMON_SPEED_FIELD: Final = 90
_SWITCH_LINKS_FIELD: Final = 147
_SPEED_FIELD: Final = 164
_STATE_FIELD: Final = 165
_C2C_COUNT_FIELD: Final = 170
_C2C_STATE_FIELD: Final = 171
_C2C_ACTIVE: Final = 1
_LINK_INACTIVE: Final = 0
_EMPTY_SLOT: Final = frozenset({INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND})
_MAX_LINKS: Final = 36
"""NVML_NVLINK_MAX_LINKS of the newest header.

A driver refuses numbers beyond the GPU's own links.
"""
_NO_ADDRESS: Final = frozenset({"", "N/A"})


def probe(
    nvml: Nvml,
    sysfs: Sysfs,
    started: NvmlReturn | None,
    container: tuple[tuple[str, str], ...] = (),
) -> RawNode:
    """Ask the hardware once; only sysfs if NVML's start failed.

    A GPU that does not answer costs only its own facts.

    What `nvml` remembers is not asked again: see `Nvml.fixed`.
    """
    nvml.enter("sysfs")
    devices = sysfs.devices()
    numa = sysfs.numa()
    if started:
        answers = _Answers(faults=[RawFault(started.code, started.text)])
    else:
        answers = _ask_nvml(nvml, devices.gpus)
    return RawNode(
        driver=answers.driver,
        gpus=tuple(answers.gpus),
        faults=tuple(answers.faults),
        ancestors=tuple(answers.ancestors),
        gpu_functions=devices.gpus,
        switch_functions=devices.switches,
        nics=devices.nics,
        numa=numa,
        data_direct=devices.data_direct,
        hidden_nics=devices.hidden_nics,
        is_bus_visible=sysfs.is_bus_visible(),
        is_module_loaded=sysfs.is_module_loaded(),
        has_integrated_gpu=sysfs.has_integrated_gpu(),
        container=container,
    )


class _Answers(NamedTuple):
    """What NVML said."""

    faults: list[RawFault]
    driver: str | None = None
    gpus: Sequence[RawGpu] = ()
    ancestors: Sequence[RawAncestor] = ()


class _Identity(NamedTuple):
    """A GPU that answers."""

    index: int  # type: ignore[assignment]  # NVML's word; the tuple's own method is not used
    handle: Any
    uuid: str | None


def _ask_nvml(nvml: Nvml, on_bus: tuple[RawPci, ...]) -> _Answers:
    faults: list[RawFault] = []
    (driver,) = nvml.fixed(("driver",), ("nvmlSystemGetDriverVersion",))
    gpus = []
    handles = {}
    for index, handle in _handles(nvml, faults):
        gpu = _gpu(nvml, index, handle, faults)
        if gpu:
            gpus.append(gpu)
            handles[index] = handle
    gpus = _without_lost(gpus, on_bus, faults)
    identities = []
    for gpu in gpus:
        handle = handles[gpu.index]
        identities.append(_Identity(gpu.index, handle, gpu.uuid))
    ancestors = _ancestors(nvml, identities)
    return _Answers(faults, driver, gpus, ancestors)


def _handles(nvml: Nvml, faults: list[RawFault]) -> list[tuple[int, Any]]:
    nvml.enter("nvmlDeviceGetCount")
    count = nvml.ask("nvmlDeviceGetCount")
    if isinstance(count, NvmlReturn):
        faults.append(RawFault(count.code, count.text))
        return []
    try:
        indices = numbered("GPUs", count)
    except ValueError as error:
        faults.append(RawFault(GARBAGE, str(error)))
        return []
    handles = []
    for index in indices:
        nvml.enter(f"nvmlDeviceGetHandleByIndex GPU {index}")
        handle = nvml.ask("nvmlDeviceGetHandleByIndex", index)
        if isinstance(handle, NvmlReturn):
            faults.append(RawFault(handle.code, handle.text, index))
        else:
            handles.append((index, handle))
    return handles


def _address(pci: Any, index: int) -> str:
    """A GPU's PCI address. Raises ValueError.

    A GPU that is not on the PCI bus (Jetson) has none, or an empty one.
    """
    if isinstance(pci, NvmlReturn):
        return off_bus(index)
    text = bus_id(pci)
    return off_bus(index) if text in _NO_ADDRESS else normal_address(text)


def _without_lost(
    gpus: list[RawGpu], on_bus: tuple[RawPci, ...], faults: list[RawFault]
) -> list[RawGpu]:
    """The GPUs that are not lost.

    A GPU without an address is lost if the PCI bus has GPUs that no other one is.
    """
    known = {gpu.pci for gpu in gpus}
    if all(function.address in known for function in on_bus):
        return gpus
    answering = []
    for gpu in gpus:
        if is_address(gpu.pci):
            answering.append(gpu)
        else:
            faults.append(RawFault(NOT_SUPPORTED, "NVML gives no PCI address", gpu.index))
    return answering


def _gpu(nvml: Nvml, index: int, handle: Any, faults: list[RawFault]) -> RawGpu | None:
    """One GPU; None, and a fault, for one that is lost, whatever else it still answers."""
    nvml.enter(f"identity of GPU {index}")
    nvml.clear_loss()
    pci = nvml.ask("nvmlDeviceGetPciInfo", handle)
    if isinstance(pci, NvmlReturn) and pci.code != NOT_SUPPORTED:
        faults.append(RawFault(pci.code, pci.text, index))
        return None
    try:
        address = _address(pci, index)
    except ValueError as error:
        faults.append(RawFault(GARBAGE, str(error), index))
        return None
    try:
        gpu = _answers_of(nvml, index, handle, address)
    except ImplausibleError as error:
        faults.append(RawFault(GARBAGE, str(error), index, address))
        return None
    if nvml.loss:
        faults.append(RawFault(nvml.loss.code, nvml.loss.text, index, address))
        return None
    return gpu


def _answers_of(nvml: Nvml, index: int, handle: Any, address: str) -> RawGpu:
    """What a GPU answers. Raises ImplausibleError for a count that only a damaged driver gives."""
    uuid = nvml.value("nvmlDeviceGetUUID", handle)
    name, architecture = nvml.fixed(
        (uuid,), ("nvmlDeviceGetName", handle), ("nvmlDeviceGetArchitecture", handle)
    )
    nvml.enter(f"MIG of GPU {index}")
    mig, mig_devices = _mig(nvml, handle)
    nvml.enter(f"NVLinks of GPU {index}")
    counts = _counts(nvml, handle, uuid)
    links = _links(nvml, handle, uuid, counts)
    c2c_active = _c2c_active(nvml, handle, counts)
    nvml.enter(f"fabric of GPU {index}")
    fabric, fabric_error = _fabric(nvml, handle)
    # The binding keeps the module's number in a default argument that all calls share: one thread
    # only.
    module, memory_numa = nvml.fixed(
        (uuid, "place"), ("nvmlDeviceGetModuleId", handle), ("nvmlDeviceGetNumaNodeId", handle)
    )
    return RawGpu(
        index=index,
        pci=address,
        uuid=uuid,
        name=name,
        links=links or (),
        has_known_links=links is not None,
        switch_links=counts.into_switches,
        fabric=fabric,
        fabric_error=fabric_error,
        architecture=architecture,
        module=module,
        has_mig=mig,
        mig_devices=mig_devices,
        memory_numa=memory_numa,
        c2c_active=c2c_active,
        platform=_platform(nvml, handle, uuid),
    )


def _fabric(nvml: Nvml, handle: Any) -> tuple[RawFabric | None, str | None]:
    """A GPU's fabric information, and why there is none unless it simply has none."""
    answer = read_fabric(nvml, handle)
    if not isinstance(answer, NvmlReturn):
        return answer, None
    return None, None if answer.is_absent else answer.text


def _mig(nvml: Nvml, handle: Any) -> tuple[bool | None, int | None]:
    """Whether MIG mode is on, and how many MIG devices there are; None: NVML refuses to say."""
    mode = nvml.value("nvmlDeviceGetMigMode", handle)
    if mode is None:
        return None, 0
    if not mode or not mode[0]:
        return False, 0
    slots = nvml.value("nvmlDeviceGetMaxMigDeviceCount", handle)
    if slots is None:
        return True, None
    devices = 0
    for slot in numbered("MIG slots", slots):
        device = nvml.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, slot)
        if not isinstance(device, NvmlReturn):
            devices += 1
        elif device.code not in _EMPTY_SLOT:
            return True, None
    return True, devices


def _platform(nvml: Nvml, handle: Any, uuid: str | None) -> RawPlatform | None:
    """Where the GPU's tray sits, which only moves with the power off."""
    question = (uuid, "platform")
    remembered: tuple[RawPlatform | None] | None = nvml.recall(question)
    if remembered is not None:
        return remembered[0]
    answer = ask_platform(nvml, handle)
    if not isinstance(answer, NvmlReturn):
        nvml.remember(question, (answer,))
        return answer
    if answer.is_absent:
        nvml.remember(question, (None,))
    return None


class _Counts(NamedTuple):
    """What a GPU says about its links as a whole; None: no answer."""

    nvlinks: range | None
    common_mbps: int | None
    into_switches: int | None
    c2c: range


def _counts(nvml: Nvml, handle: Any, uuid: str | None) -> _Counts:
    """The GPU's links by field 91: the binding's constant is wrong."""
    question = (uuid, "link counts")
    remembered: _Counts | None = nvml.recall(question)
    if remembered is not None:
        return remembered
    fields = read_fields(
        nvml,
        handle,
        [_LINK_COUNT_FIELD, _COMMON_SPEED_FIELD, _SWITCH_LINKS_FIELD, _C2C_COUNT_FIELD],
    )
    count = fields.get((_LINK_COUNT_FIELD, 0))
    c2c_count = fields.get((_C2C_COUNT_FIELD, 0))
    counts = _Counts(
        nvlinks=numbered("NVLinks", count) if count else _counted(nvml, handle),
        common_mbps=fields.get((_COMMON_SPEED_FIELD, 0)),
        into_switches=fields.get((_SWITCH_LINKS_FIELD, 0)),
        c2c=numbered("C2C links", c2c_count),
    )
    if counts.nvlinks is not None:
        nvml.remember(question, counts)
    return counts


def _counted(nvml: Nvml, handle: Any) -> range | None:
    """The GPU's links, counted where field 91 is refused or answers 0.

    Some drivers mean "not supported" by that. None where NVML refuses this too, other than by
    "there is no such link" or "there are no links".
    """
    if not hasattr(nvml.module, "nvmlDeviceGetNvLinkState"):
        return None  # a recording of a probe that did not ask this
    for link in range(_MAX_LINKS):
        state = nvml.ask("nvmlDeviceGetNvLinkState", handle, link)
        if isinstance(state, NvmlReturn):
            ended = state.code in (INVALID_ARGUMENT, NOT_SUPPORTED)
            return range(link) if ended else None
    return range(_MAX_LINKS)


def _links(
    nvml: Nvml, handle: Any, uuid: str | None, counts: _Counts
) -> tuple[RawLink, ...] | None:
    """A GPU's links; None when NVML refuses to say how many there are."""
    if counts.nvlinks is None:
        return None
    if not counts.nvlinks:
        return ()
    states, speeds = _states_and_speeds(nvml, handle, uuid, counts.nvlinks)
    links = []
    for link in counts.nvlinks:
        state = states.get(link)
        if state is None:  # drivers before 520
            state = nvml.value("nvmlDeviceGetNvLinkState", handle, link)
        if state is None or state == _LINK_INACTIVE:
            links.append(RawLink(link, state))
            continue
        remote, version, remote_type = nvml.fixed(
            (uuid, link),
            ("nvmlDeviceGetNvLinkRemotePciInfo", handle, link),
            ("nvmlDeviceGetNvLinkVersion", handle, link),
            ("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link),
        )
        links.append(
            RawLink(
                link=link,
                state=int(state),
                version=version,
                remote_pci=bus_id(remote) if remote else None,
                remote_type=remote_type,
                mbps=speeds.get(link) or counts.common_mbps,
            )
        )
    return tuple(links)


def _states_and_speeds(
    nvml: Nvml, handle: Any, uuid: str | None, links: range
) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """State and speed of the links that answer, in one call.

    At rest the states alone, which are half of the work. A link gets its speed in training: it has
    another one only after it was down, and then everything is asked again.
    """
    known_speeds: dict[int, int] | None = nvml.recall((uuid, "link speeds"))
    questions = []
    for link in links:
        questions.append((_STATE_FIELD, link))
        if known_speeds is None:
            questions.append((_SPEED_FIELD, link))
    states: dict[int, int] = {}
    speeds: dict[int, int] = {}
    for (field, link), value in read_fields(nvml, handle, questions).items():
        if field == _STATE_FIELD:
            states[link] = value
        else:
            speeds[link] = value
    if known_speeds is not None:
        return states, known_speeds
    nvml.remember((uuid, "link speeds"), speeds)
    return states, speeds


def _c2c_active(nvml: Nvml, handle: Any, counts: _Counts) -> int:
    """How many C2C links to the CPU are active (Grace)."""
    if not counts.c2c:
        return 0
    states = read_fields(nvml, handle, [(_C2C_STATE_FIELD, link) for link in counts.c2c])
    return list(states.values()).count(_C2C_ACTIVE)


def _ancestors(nvml: Nvml, gpus: Sequence[_Identity]) -> list[RawAncestor]:
    nvml.enter("PCI ancestors")
    ancestors = []
    for first, second in combinations(gpus, 2):
        (level,) = nvml.fixed(
            (first.uuid, second.uuid),
            ("nvmlDeviceGetTopologyCommonAncestor", first.handle, second.handle),
        )
        if level is not None:
            ancestors.append(RawAncestor(first.index, second.index, int(level)))
    return ancestors
