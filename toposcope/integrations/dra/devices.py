"""Devices of ResourceSlices.

Which there are on each node, which of them claims hold, and which are whole GPUs.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from toposcope.integrations.dra.api import CLAIM, SLICE
from toposcope.integrations.framework.document import Field, kind_of
from toposcope.integrations.framework.node_affinity import Taint
from toposcope.kube.pod_resources import is_gpu


class Version(str):
    """An attribute that is a version: CEL compares it with no string."""

    __slots__ = ()


Attribute = str | int | bool | list[Any]
DeviceId = tuple[str, str, str]
"""Driver, pool and name."""
_WHOLE: Final = frozenset({"", "gpu", "vfio", "amdgpu"})
"""What drivers of GPUs call a device that is a whole one, in its attribute `type`; else it is a
part, such as `mig`.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """One device as its driver describes it."""

    driver: str
    pool: str
    name: str
    attributes: Mapping[str, Attribute]
    taints: tuple[Taint, ...] = ()
    """Those that keep claims away which do not tolerate them."""

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
        return self.attributes.get(
            name, self.attributes.get(own, self.attributes.get(f"{self.driver}/{own}"))
        )

    def text(self, name: str) -> str:
        """An attribute that is text; empty where the device lacks it, or it is anything else."""
        value = self.attribute(name)
        return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """The devices of one node."""

    devices: tuple[Device, ...] = ()
    vague: bool = False
    """Whether more decides than which devices are in use: shared counters, shares, conditions, a
    pool without some of its slices."""

    @property
    def gpus(self) -> tuple[Device, ...]:
        """The whole GPUs.

        One that two devices stand for, one of them for virtual machines, counts once.
        """
        by_uuid = {
            device.text("uuid") or device.name: device for device in self.devices if device.is_gpu
        }
        return tuple(by_uuid.values())

    def gpus_of(self, driver: str) -> tuple[Device, ...]:
        """Every device of a driver that stands for a whole GPU."""
        return tuple(device for device in self.devices if device.driver == driver and device.is_gpu)


@dataclass(frozen=True)
class Inventory:
    """What the objects of resource.k8s.io say."""

    nodes: Mapping[str, NodeDevices] = field(default_factory=dict)
    taken: frozenset[DeviceId] = frozenset()
    """Allocated devices."""
    elsewhere: bool = False
    """Whether there are devices that no one node has."""

    @cached_property
    def gpus(self) -> Mapping[str, Counter[str]]:
        """By node and driver: whole GPUs."""
        return _by_driver((node, there.gpus) for node, there in self.nodes.items())

    @cached_property
    def gpus_taken(self) -> Mapping[str, Counter[str]]:
        """By node and driver: whole GPUs that claims hold, or a part of which they hold."""
        held = {
            node: [gpu for gpu in there.gpus if self._is_held(gpu, there)]
            for node, there in self.nodes.items()
        }
        return _by_driver(held.items())

    def _is_held(self, gpu: Device, there: NodeDevices) -> bool:
        """Whether the GPU, its other self or a part of it is allocated."""
        own = _names(gpu)
        return gpu.id in self.taken or any(
            device.id in self.taken and device.driver == gpu.driver and own & _names(device)
            for device in there.devices
        )


def _names(device: Device) -> frozenset[str]:
    """What a device says that it is, or is a part of."""
    return frozenset(filter(None, map(device.text, _SAME)))


def _by_driver(nodes: Iterable[tuple[str, Iterable[Device]]]) -> dict[str, Counter[str]]:
    counts = {node: Counter(device.driver for device in devices) for node, devices in nodes}
    return {node: count for node, count in counts.items() if count}


_VAGUE: Final = ("consumesCounters", "allowMultipleAllocations", "bindingConditions")
BUS_ID: Final = "resource.kubernetes.io/pciBusID"
_SAME: Final = ("uuid", "parentUUID", BUS_ID)
"""Attributes by which a MIG device or one for virtual machines names its GPU."""


def inventory(documents: Iterable[Mapping[str, Any]]) -> Inventory:
    """What these objects say: devices in the newest generation of each pool.

    Other kinds are skipped.
    """
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
    vague: set[str] = set()
    for (node, driver, pool_name), generations in pools.items():
        newest = generations[max(generations)] if node else []
        vague |= {
            node
            for root in newest
            if (root / "spec" / "pool" / "resourceSliceCount").number(1) != len(newest)
        }
        for root in newest:
            for device in (root / "spec" / "devices").items():
                named_values = [
                    (name, list(kinds.properties()))
                    for name, kinds in (device / "attributes").properties()
                ]
                attributes = {name: _value(*kinds[0]) for name, kinds in named_values if kinds}
                one = Device(
                    driver, pool_name, (device / "name").text() or "", attributes, _taints(device)
                )
                vague |= {node for name in _VAGUE if device / name}
                nodes.setdefault(node, []).append(one)
    there = {node: NodeDevices(tuple(devices), node in vague) for node, devices in nodes.items()}
    return Inventory(there, frozenset(taken), any(not node for node, _, _ in pools))


def _taints(device: Field) -> tuple[Taint, ...]:
    named = (
        [(taint / name).text() or "" for name in ("key", "value", "effect")]
        for taint in (device / "taints").items()
    )
    return tuple(Taint(*words) for words in named if words[2] in ("NoSchedule", "NoExecute"))


def _value(kind: str, value: Field) -> Any:
    if kind == "version":
        return Version(value.text() or "")
    return value.value if isinstance(value.value, str | int | list) else None


def allocated(claim: Field) -> Iterator[DeviceId]:
    """The devices that a ResourceClaim holds.

    Those of administrators, who share them, are left out.
    """
    for result in (claim / "status" / "allocation" / "devices" / "results").items():
        if not (result / "adminAccess").flag():
            driver, pool, device = (
                (result / name).text() or "" for name in ("driver", "pool", "device")
            )
            yield driver, pool, device
