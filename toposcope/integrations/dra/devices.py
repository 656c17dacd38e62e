"""Devices of ResourceSlices: which there are on each node, which of them claims hold, and which are whole GPUs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from toposcope.integrations.dra.api import CLAIM, SLICE
from toposcope.integrations.framework.document import Field, kind_of
from toposcope.kube.pod_resources import is_gpu

Attribute = str | int | bool | list[Any]
DeviceId = tuple[str, str, str]
"""Driver, pool and name."""
_WHOLE: Final = frozenset({"", "gpu", "vfio", "amdgpu"})
"""What drivers of GPUs call a device that is a whole one, in its attribute `type`; else it is a part, such as `mig`."""


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """One device as its driver describes it."""

    driver: str
    pool: str
    name: str
    attributes: Mapping[str, Attribute]

    @property
    def id(self) -> DeviceId:
        """What claims name it by."""
        return self.driver, self.pool, self.name

    @property
    def is_gpu(self) -> bool:
        """Whether it is a whole GPU."""
        return is_gpu(self.driver) and self.attribute("type") in (None, *_WHOLE)

    def attribute(self, name: str) -> Attribute | None:
        """An attribute by its name, with or without the driver's domain."""
        own = name.removeprefix(f"{self.driver}/")
        return self.attributes.get(name, self.attributes.get(own, self.attributes.get(f"{self.driver}/{own}")))


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """The devices of one node."""

    devices: tuple[Device, ...] = ()

    @property
    def gpus(self) -> tuple[Device, ...]:
        """The whole GPUs; one that two devices stand for, one of them for virtual machines, counts once."""
        by_uuid = {device.attribute("uuid") or device.name: device for device in self.devices if device.is_gpu}
        return tuple(by_uuid.values())


@dataclass(frozen=True)
class Inventory:
    """What the objects of resource.k8s.io say."""

    nodes: Mapping[str, NodeDevices] = field(default_factory=dict)
    taken: frozenset[DeviceId] = frozenset()
    """Allocated devices."""

    @cached_property
    def gpus(self) -> Mapping[str, Counter[str]]:
        """By node and driver: whole GPUs."""
        return _by_driver((node, there.gpus) for node, there in self.nodes.items())

    @cached_property
    def gpus_taken(self) -> Mapping[str, Counter[str]]:
        """By node and driver: whole GPUs that claims hold, or a part of which they hold."""
        held = {node: [gpu for gpu in there.gpus if self._is_held(gpu, there)] for node, there in self.nodes.items()}
        return _by_driver(held.items())

    def _is_held(self, gpu: Device, there: NodeDevices) -> bool:
        """Whether the GPU, its other self or a part of it is allocated."""
        own = {gpu.attribute(name) for name in _SAME} - {None}
        return gpu.id in self.taken or any(
            device.id in self.taken and device.driver == gpu.driver and own & {device.attribute(n) for n in _SAME}
            for device in there.devices
        )


def _by_driver(nodes: Iterable[tuple[str, Iterable[Device]]]) -> dict[str, Counter[str]]:
    counts = {node: Counter(device.driver for device in devices) for node, devices in nodes}
    return {node: count for node, count in counts.items() if count}


_SAME: Final = ("uuid", "parentUUID", "resource.kubernetes.io/pciBusID")
"""Attributes by which a MIG device or one for virtual machines names its GPU."""


def inventory(documents: Iterable[Mapping[str, Any]]) -> Inventory:
    """What these objects say: devices in the newest generation of each pool; other kinds are skipped."""
    pools: dict[tuple[str, str, str], dict[int, list[Field]]] = {}
    taken: set[DeviceId] = set()
    for root in map(Field, documents):
        if kind_of(root.value) == CLAIM.key:
            taken.update(allocated(root))
        elif kind_of(root.value) == SLICE.key:
            pool = root / "spec" / "pool"
            named = [(root / "spec" / name).text() or "" for name in ("nodeName", "driver")]
            generations = pools.setdefault((named[0], named[1], (pool / "name").text() or ""), {})
            generations.setdefault((pool / "generation").number(0), []).append(root)
    nodes: dict[str, list[Device]] = {}
    for (node, driver, pool_name), generations in pools.items():
        for root in generations[max(generations)] if node else ():
            for device in (root / "spec" / "devices").items():
                named_values = [
                    (name, list(kinds.properties())) for name, kinds in (device / "attributes").properties()
                ]
                attributes = {name: kinds[0][1].value for name, kinds in named_values if kinds}
                one = Device(driver, pool_name, (device / "name").text() or "", attributes)
                nodes.setdefault(node, []).append(one)
    return Inventory({node: NodeDevices(tuple(devices)) for node, devices in nodes.items()}, frozenset(taken))


def allocated(claim: Field) -> Iterator[DeviceId]:
    """The devices that a ResourceClaim holds; those of administrators, who share them, are left out."""
    for result in (claim / "status" / "allocation" / "devices" / "results").items():
        if not (result / "adminAccess").flag():
            driver, pool, device = ((result / name).text() or "" for name in ("driver", "pool", "device"))
            yield driver, pool, device
