"""Compares NVIDIA's ResourceSlices with what NVML and sysfs say of each GPU.

NICs are left out: a driver publishes the PCIe root of a NIC's own function, and a ConnectX-8 with
Data Direct has a second one beside the GPU, so neither is wrong if they differ.
"""

from collections.abc import Collection, Iterator, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from toposcope.api.label_values import label_safe
from toposcope.hardware.pci import normal_address
from toposcope.integrations.dra.devices import BUS_ID, DraDevice, NodeDevices

DRIVER: Final = "gpu.nvidia.com"
PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"
NUMA_NODE: Final = "resource.kubernetes.io/numaNode"
_BUS_IDS: Final = (BUS_ID, "pciBusID", "pcieBusID")
_NUMA_NODES: Final = (NUMA_NODE, "numaNode")


class SeenGpu(NamedTuple):
    """A GPU as NVML and sysfs show it. A fact that is empty or None is unknown and not compared."""

    name: str
    """`GPU 3`."""
    uuid: str
    pci: str
    root: str
    """Its PCIe root complex: `pci0000:15`."""
    numa: int | None
    product: str
    """The product, as in a label."""


class DisagreementKind(Enum):
    """What driver and hardware disagree about."""

    UNPUBLISHED = "unpublished"
    """NVML shows a GPU that is in no ResourceSlice."""
    UNSEEN = "unseen"
    """A ResourceSlice has a GPU that NVML does not show."""
    ATTRIBUTE = "attribute"
    """An attribute of a GPU differs."""


class DriverDisagreement(NamedTuple):
    """One GPU or fact in which driver and hardware differ."""

    kind: DisagreementKind
    gpu: str = ""
    """`GPU 3`; empty if NVML does not show it."""
    address: str = ""
    device: str = ""
    """The driver's name for it; empty if it publishes none."""
    uuid: str = ""
    attribute: str = ""
    published: str = ""
    """The attribute's value in the ResourceSlice."""
    source: str = ""
    """The source of the other value: NVML or sysfs."""
    hardware_value: str = ""

    @property
    def sentence(self) -> str:
        """The disagreement in words."""
        if self.kind is DisagreementKind.UNPUBLISHED:
            return f"{self.gpu} ({self.address}) is in no ResourceSlice of {DRIVER}"
        if self.kind is DisagreementKind.UNSEEN:
            return (
                f"the ResourceSlices of {DRIVER} have {self.device} ({self.uuid}), "
                "which NVML does not show"
            )
        return (
            f"{self.gpu}: {self.device} of {DRIVER} has {self.attribute} {self.published}, but "
            f"{self.source} has {self.hardware_value}"
        )


class _Fact(NamedTuple):
    """One attribute of a GPU, from the driver and from the hardware."""

    attribute: str
    source: str
    published: Any
    hardware_value: Any

    @property
    def differs(self) -> bool:
        """Whether both are known and different."""
        if self.published is None or self.hardware_value in (None, ""):
            return False
        return bool(self.published != self.hardware_value)


def disagreements(seen_gpus: Sequence[SeenGpu], published: NodeDevices) -> tuple[str, ...]:
    """One sentence for each GPU or fact in which they differ."""
    return tuple([different.sentence for different in compare(seen_gpus, published)])


def compare(
    seen_gpus: Sequence[SeenGpu], node_devices: NodeDevices
) -> tuple[DriverDisagreement, ...]:
    """Each GPU or fact in which they differ; empty if the driver publishes nothing."""
    whole_gpus: list[DraDevice] = []
    others: list[DraDevice] = []
    for device in node_devices.devices:
        if device.driver != DRIVER:
            continue
        if device.is_gpu and device.attribute("type") != "vfio":
            whole_gpus.append(device)
        else:
            others.append(device)

    if not whole_gpus and not others:
        return ()
    published = _Published(whole_gpus)
    different = _different_gpus(seen_gpus, published, _stand_ins(others))
    return (*different, *_unseen(seen_gpus, published))


def _different_gpus(
    seen_gpus: Sequence[SeenGpu], published: "_Published", stand_ins: Collection[str | None]
) -> Iterator[DriverDisagreement]:
    """The differences of the GPUs that NVML shows."""
    for gpu in seen_gpus:
        device = published.device_of(gpu)
        if device:
            yield from _different_facts(gpu, device)
        # else its MIG devices, or a VM's, stand for it
        elif gpu.uuid not in stand_ins and gpu.pci not in stand_ins:
            yield DriverDisagreement(DisagreementKind.UNPUBLISHED, gpu=gpu.name, address=gpu.pci)


def _unseen(seen_gpus: Sequence[SeenGpu], published: "_Published") -> Iterator[DriverDisagreement]:
    """The GPUs that NVML does not show; empty if it shows no GPU at all."""
    if not seen_gpus:
        return

    matched = set()
    for gpu in seen_gpus:
        match = published.device_of(gpu)
        if match:
            matched.add(match.id)

    for device in published.devices:
        if device.id not in matched:
            uuid = _text(device.attribute("uuid"))
            yield DriverDisagreement(DisagreementKind.UNSEEN, device=device.name, uuid=uuid)


class _Published:
    """Whole GPUs of the driver, by UUID and by PCI address."""

    def __init__(self, whole_gpus: Sequence[DraDevice]) -> None:
        self.devices = whole_gpus
        self._by_uuid: dict[str, DraDevice] = {}
        self._by_address: dict[str | None, DraDevice] = {}
        for device in whole_gpus:
            for uuid in device.texts("uuid"):
                self._by_uuid[uuid] = device
            self._by_address[_address(device)] = device

    def device_of(self, gpu: SeenGpu) -> DraDevice | None:
        """The driver's device for the GPU."""
        return self._by_uuid.get(gpu.uuid) or self._by_address.get(gpu.pci)


def _stand_ins(others: Sequence[DraDevice]) -> set[str | None]:
    """UUIDs and PCI addresses of the GPUs of which other devices are a part or a second form."""
    stand_ins: set[str | None] = set()
    for device in others:
        stand_ins.update(device.texts("parentUUID"))
        stand_ins.add(_address(device))
    return stand_ins


def _different_facts(gpu: SeenGpu, device: DraDevice) -> Iterator[DriverDisagreement]:
    for fact in _facts(gpu, device):
        if fact.differs:
            yield DriverDisagreement(
                DisagreementKind.ATTRIBUTE,
                gpu=gpu.name,
                device=device.name,
                attribute=fact.attribute,
                published=_text(fact.published),
                source=fact.source,
                hardware_value=str(fact.hardware_value),
            )


def _facts(gpu: SeenGpu, device: DraDevice) -> tuple[_Fact, ...]:
    product = device.attribute("productName")
    product_label = label_safe(product) if isinstance(product, str) else None
    return (
        _Fact("uuid", "NVML", _published(device, "uuid", gpu.uuid), gpu.uuid),
        _Fact("pciBusID", "sysfs", _address(device), gpu.pci),
        _Fact("pcieRoot", "sysfs", _published(device, PCIE_ROOT, gpu.root), gpu.root),
        _Fact("numaNode", "sysfs", _numa_node(device, gpu.numa), gpu.numa),
        _Fact("productName", "NVML", product_label, gpu.product),
    )


def _published(device: DraDevice, name: str, hardware_value: str | int | None) -> Any:
    """An attribute. If it has several values, the one that the hardware shows, if among them."""
    published = device.attribute(name)
    if isinstance(published, tuple) and hardware_value in published:
        return hardware_value
    return published


def _numa_node(device: DraDevice, hardware_node: int | None) -> Any:
    for name in _NUMA_NODES:
        published = _published(device, name, hardware_node)
        if published is not None:
            return published
    return None


def _text(published: Any) -> str:
    """An attribute as text from its ResourceSlice."""
    if isinstance(published, tuple):
        return str(list(published))
    return str(published)


def _address(device: DraDevice) -> str | None:
    """Its PCI address in the form of sysfs. Other text is returned unchanged, to be shown."""
    for name in _BUS_IDS:
        text = device.attribute(name)
        if isinstance(text, str):
            return _normal(text)
    return None


def _normal(text: str) -> str:
    try:
        return normal_address(text)
    except ValueError:
        return text
