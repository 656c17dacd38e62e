"""One probe: asks NVML and sysfs for everything the agent uses, and concludes nothing. The calls are in nvml.h."""

from itertools import combinations
from typing import Any, Final

from toposcope.agent.nvml.gateway import GARBAGE, NOT_SUPPORTED, Nvml, NvmlReturn, numbered
from toposcope.agent.nvml.structs import bus_id, read_fabric, read_fields, read_platform
from toposcope.agent.raw import RawAncestor, RawFabric, RawFault, RawGpu, RawLink, RawNode, RawPci
from toposcope.agent.sysfs import Sysfs
from toposcope.topology.pci import is_address, normal_address, off_bus

_LINK_COUNT: Final = 91
_SPEED_COMMON: Final = 90
_SWITCH_LINKS: Final = 147
_SPEED: Final = 164
_STATE: Final = 165
_C2C_COUNT: Final = 170
_C2C_STATE: Final = 171
_C2C_ACTIVE: Final = 1
_INACTIVE: Final = 0
_NO_ADDRESS: Final = frozenset({"", "N/A"})


def probe(nvml: Nvml, sysfs: Sysfs, started: NvmlReturn | None, container: tuple[tuple[str, str], ...] = ()) -> RawNode:
    """Ask the hardware once; only sysfs if NVML's start failed. A GPU that does not answer costs only its own facts.

    What `nvml` remembers is not asked again: see `Nvml.fixed`.
    """
    nvml.enter("sysfs")
    devices = sysfs.devices()
    numa = sysfs.numa()
    driver: str | None = None
    gpus: list[RawGpu] = []
    ancestors: list[RawAncestor] = []
    faults: list[RawFault] = [RawFault(started.code, started.text)] if started else []
    if not started:
        driver = nvml.value("nvmlSystemGetDriverVersion")
        handles = _handles(nvml, faults)
        gpus = [gpu for index, handle in handles if (gpu := _gpu(nvml, index, handle, faults))]
        gpus = _without_lost(gpus, devices.gpus, faults)
        uuids = {gpu.index: gpu.uuid for gpu in gpus}
        ancestors = _ancestors(nvml, [(index, handle, uuids[index]) for index, handle in handles if index in uuids])
    return RawNode(
        driver=driver,
        gpus=tuple(gpus),
        faults=tuple(faults),
        ancestors=tuple(ancestors),
        gpu_functions=devices.gpus,
        switch_functions=devices.switches,
        nics=devices.nics,
        numa=numa,
        data_direct=devices.data_direct,
        hidden_nics=devices.hidden_nics,
        bus_visible=sysfs.bus_visible(),
        module_loaded=sysfs.module_loaded(),
        integrated_gpu=sysfs.integrated_gpu(),
        container=container,
    )


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
    """A GPU's PCI address. One that is not on the PCI bus (Jetson) has none, or an empty one. Raises ValueError."""
    if isinstance(pci, NvmlReturn):
        return off_bus(index)
    text = bus_id(pci)
    return off_bus(index) if text in _NO_ADDRESS else normal_address(text)


def _without_lost(gpus: list[RawGpu], on_bus: tuple[RawPci, ...], faults: list[RawFault]) -> list[RawGpu]:
    """The GPUs but for those without an address while the PCI bus has GPUs that no other one is: they are there."""
    known = {gpu.pci for gpu in gpus}
    if all(function.address in known for function in on_bus):
        return gpus
    lost = [gpu.index for gpu in gpus if not is_address(gpu.pci)]
    faults.extend(RawFault(NOT_SUPPORTED, "NVML gives no PCI address", index) for index in lost)
    return [gpu for gpu in gpus if is_address(gpu.pci)]


def _gpu(nvml: Nvml, index: int, handle: Any, faults: list[RawFault]) -> RawGpu | None:
    nvml.enter(f"identity of GPU {index}")
    pci = nvml.ask("nvmlDeviceGetPciInfo", handle)
    if isinstance(pci, NvmlReturn) and pci.code != NOT_SUPPORTED:
        faults.append(RawFault(pci.code, pci.text, index))
        return None
    uuid = nvml.value("nvmlDeviceGetUUID", handle)
    name, architecture = nvml.fixed((uuid,), ("nvmlDeviceGetName", handle), ("nvmlDeviceGetArchitecture", handle))
    try:
        address = _address(pci, index)
        nvml.enter(f"MIG of GPU {index}")
        mig, mig_devices = _mig(nvml, handle)
        nvml.enter(f"NVLinks of GPU {index}")
        links, switch_links, c2c_active = _links(nvml, handle, uuid)
    except ValueError as error:
        faults.append(RawFault(GARBAGE, str(error), index))
        return None
    nvml.enter(f"fabric of GPU {index}")
    fabric = read_fabric(nvml, handle)
    return RawGpu(
        index=index,
        pci=address,
        uuid=uuid,
        name=name,
        links=links,
        switch_links=switch_links,
        fabric=fabric if isinstance(fabric, RawFabric) else None,
        fabric_error=fabric.text if isinstance(fabric, NvmlReturn) and not fabric.absent else None,
        architecture=architecture,
        # The binding keeps this result in a default argument that all calls share: one thread only.
        module=nvml.value("nvmlDeviceGetModuleId", handle),
        mig=mig,
        mig_devices=mig_devices,
        memory_numa=nvml.value("nvmlDeviceGetNumaNodeId", handle),
        c2c_active=c2c_active,
        platform=read_platform(nvml, handle),
    )


def _mig(nvml: Nvml, handle: Any) -> tuple[bool | None, int]:
    """Whether MIG mode is on, and how many MIG devices there are; an empty slot answers NotFound."""
    mode = nvml.value("nvmlDeviceGetMigMode", handle)
    if not mode or not mode[0]:
        return (None if mode is None else False), 0
    slots = numbered("MIG slots", nvml.value("nvmlDeviceGetMaxMigDeviceCount", handle))
    devices = (nvml.value("nvmlDeviceGetMigDeviceHandleByIndex", handle, slot) for slot in slots)
    return True, sum(device is not None for device in devices)


def _links(nvml: Nvml, handle: Any, uuid: str | None) -> tuple[tuple[RawLink, ...], int | None, int]:
    """A GPU's links by field 91 (the binding's constant is wrong), NVML's count into switches, active C2C links."""
    common = read_fields(nvml, handle, [_LINK_COUNT, _SPEED_COMMON, _SWITCH_LINKS, _C2C_COUNT])
    numbers = numbered("NVLinks", common.get((_LINK_COUNT, 0)))
    fields = (
        read_fields(nvml, handle, [(field, link) for link in numbers for field in (_STATE, _SPEED)]) if numbers else {}
    )
    links = []
    for link in numbers:
        state = fields.get((_STATE, link))
        if state is None:  # drivers before 520
            state = nvml.value("nvmlDeviceGetNvLinkState", handle, link)
        if state is None or state == _INACTIVE:
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
                mbps=fields.get((_SPEED, link)) or common.get((_SPEED_COMMON, 0)),
            )
        )
    c2c = numbered("C2C links", common.get((_C2C_COUNT, 0)))
    c2c_states = read_fields(nvml, handle, [(_C2C_STATE, link) for link in c2c]) if c2c else {}
    return tuple(links), common.get((_SWITCH_LINKS, 0)), sum(state == _C2C_ACTIVE for state in c2c_states.values())


def _ancestors(nvml: Nvml, handles: list[tuple[int, Any, str | None]]) -> list[RawAncestor]:
    nvml.enter("PCI ancestors")
    return [
        RawAncestor(a, b, int(level))
        for (a, first, uuid), (b, second, other) in combinations(handles, 2)
        for level in nvml.fixed((uuid, other), ("nvmlDeviceGetTopologyCommonAncestor", first, second))
        if level is not None
    ]
