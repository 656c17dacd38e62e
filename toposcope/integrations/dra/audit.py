"""What NVIDIA's driver says of each GPU in its ResourceSlices.

Beside what NVML and sysfs say of it. NICs are left out: a driver publishes the PCIe root of a NIC's
own function, and a ConnectX-8 with Data Direct has a second one beside the GPU, so neither word is
wrong where they differ.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from toposcope.api.label_values import label_safe
from toposcope.hardware.pci import normal_address
from toposcope.integrations.dra.devices import BUS_ID, Device, NodeDevices

DRIVER: Final = "gpu.nvidia.com"
PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"
NUMA_NODE: Final = "resource.kubernetes.io/numaNode"
_BUS_IDS: Final = (BUS_ID, "pciBusID", "pcieBusID")
_NUMA_NODES: Final = (NUMA_NODE, "numaNode")


class SeenGpu(NamedTuple):
    """A GPU as NVML and sysfs show it.

    What is empty or None is not known, and compared with nothing.
    """

    name: str
    """`GPU 3`."""
    uuid: str
    pci: str
    root: str
    """Its PCIe root complex: `pci0000:15`."""
    numa: int | None
    product: str
    """As a label holds it."""


def disagreements(seen: Sequence[SeenGpu], there: NodeDevices) -> tuple[str, ...]:
    """One sentence for each GPU or fact in which they differ.

    None where the driver publishes nothing.
    """
    whole = [device for device in there.gpus_of(DRIVER) if device.attribute("type") != "vfio"]
    others = [device for device in there.devices if device.driver == DRIVER and device not in whole]
    return tuple(_differences(seen, whole, others)) if whole or others else ()


def _differences(
    seen: Sequence[SeenGpu], whole: Sequence[Device], others: Sequence[Device]
) -> Iterator[str]:
    by_uuid = {device.attribute("uuid"): device for device in whole}
    by_address = {_address(device): device for device in whole}
    stand_ins = {device.attribute("parentUUID") for device in others} | {
        _address(device) for device in others
    }
    left = {device.id for device in whole}
    for gpu in seen:
        device = by_uuid.get(gpu.uuid) or by_address.get(gpu.pci)
        if device:
            left.discard(device.id)
            yield from _facts(gpu, device)
        # else its MIG devices, or a VM's, stand for it
        elif stand_ins.isdisjoint({gpu.uuid, gpu.pci}):
            yield f"{gpu.name} ({gpu.pci}) is in no ResourceSlice of {DRIVER}"
    for device in whole if seen else ():
        if device.id in left:
            uuid = device.attribute("uuid")
            yield (
                f"the ResourceSlices of {DRIVER} have {device.name} ({uuid}), "
                "which NVML does not show"
            )


def _facts(gpu: SeenGpu, device: Device) -> Iterator[str]:
    product = device.attribute("productName")
    numa: Any = next(
        filter(lambda value: value is not None, map(device.attribute, _NUMA_NODES)), None
    )
    said_and_seen = {
        "uuid": (device.attribute("uuid"), gpu.uuid),
        "pciBusID": (_address(device), gpu.pci),
        "pcieRoot": (device.attribute(PCIE_ROOT), gpu.root),
        "numaNode": (gpu.numa if isinstance(numa, list) and gpu.numa in numa else numa, gpu.numa),
        "productName": (label_safe(product) if isinstance(product, str) else None, gpu.product),
    }
    for attribute, (said, known) in said_and_seen.items():
        if said is not None and known not in (None, "") and said != known:
            by = "NVML" if attribute in ("uuid", "productName") else "sysfs"
            yield (
                f"{gpu.name}: {device.name} of {DRIVER} says {attribute} {said}, {by} says {known}"
            )


def _address(device: Device) -> str | None:
    """Its PCI address as sysfs writes it; what is none stays as it is, to be shown."""
    text = next(
        (value for name in _BUS_IDS if isinstance(value := device.attribute(name), str)), None
    )
    try:
        return text and normal_address(text)
    except ValueError:
        return text
