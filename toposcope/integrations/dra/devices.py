"""Devices of ResourceSlices: those of each node, those that claims hold, and whole GPUs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

from toposcope.integrations.dra.api import CLAIM, SLICE, text_at
from toposcope.integrations.framework.document import Field, kind_of
from toposcope.integrations.framework.node_affinity import Taint
from toposcope.kube.pod_resources import is_gpu


class Version(str):
    """An attribute that is a version, which CEL cannot compare with a string."""

    __slots__ = ()


Attribute = str | int | bool | tuple[str | int, ...]
"""Several values are a tuple, so that any attribute can be in a set."""
DeviceId = tuple[str, str, str]
"""Driver, pool and name."""
_WHOLE: Final = frozenset({"", "gpu", "vfio", "amdgpu"})
"""The attribute `type` of a whole GPU, in GPU drivers; a part has another, such as `mig`.
"""


@dataclass(frozen=True, slots=True, eq=False)
class DraDevice:
    """One device as its driver describes it."""

    driver: str
    pool: str
    name: str
    attributes: Mapping[str, Attribute]
    taints: tuple[Taint, ...] = ()
    """Taints. Claims that do not tolerate them cannot get the device."""

    @property
    def id(self) -> DeviceId:
        """Its identity in claims."""
        return self.driver, self.pool, self.name

    @property
    def is_gpu(self) -> bool:
        """Whether it is a whole GPU."""
        return is_gpu(self.driver) and self.attribute("type") in (None, *_WHOLE)

    def attribute(self, name: str) -> Attribute | None:
        """An attribute by its name, with or without the driver's domain."""
        attributes = self.attributes
        if name in attributes:
            return attributes[name]
        prefix = f"{self.driver}/"
        own = name.removeprefix(prefix)
        if own in attributes:
            return attributes[own]
        return attributes.get(prefix + own)

    def text(self, name: str) -> str:
        """An attribute that is text; empty if missing or of another type."""
        value = self.attribute(name)
        return value if isinstance(value, str) else ""

    def texts(self, name: str) -> tuple[str, ...]:
        """All texts of an attribute that has one or several."""
        value = self.attribute(name)
        values = value if isinstance(value, tuple) else (value,)
        texts = []
        for text in values:
            if text and isinstance(text, str):
                texts.append(text)
        return tuple(texts)


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """The devices of one node."""

    devices: tuple[DraDevice, ...] = ()
    is_uncertain: bool = False
    """Whether more than free devices matters: shared counters, shares, conditions, or an incomplete
    pool."""

    @property
    def gpus(self) -> tuple[DraDevice, ...]:
        """The whole GPUs. A GPU with a second device, for virtual machines, counts once."""
        by_uuid = {}
        for device in self.devices:
            if device.is_gpu:
                identity = device.text("uuid") or device.name
                by_uuid[identity] = device
        return tuple(by_uuid.values())

    def gpus_of(self, driver: str) -> tuple[DraDevice, ...]:
        """Every device of a driver that is a whole GPU."""
        gpus = []
        for device in self.devices:
            if device.driver == driver and device.is_gpu:
                gpus.append(device)
        return tuple(gpus)


@dataclass(frozen=True)
class Inventory:
    """The devices and allocations in the objects of resource.k8s.io."""

    nodes: Mapping[str, NodeDevices] = field(default_factory=dict)
    allocated_ids: frozenset[DeviceId] = frozenset()
    """Allocated devices."""
    has_shared_devices: bool = False
    """Whether there are devices that belong to no single node."""

    @cached_property
    def gpus(self) -> Mapping[str, Counter[str]]:
        """The number of whole GPUs by node and driver."""
        gpus = {node: node_devices.gpus for node, node_devices in self.nodes.items()}
        return _by_driver(gpus)

    @cached_property
    def gpus_taken(self) -> Mapping[str, Counter[str]]:
        """The number of GPUs, by node and driver, that claims hold wholly or in part."""
        held: dict[str, list[DraDevice]] = {}
        for node, node_devices in self.nodes.items():
            for gpu in node_devices.gpus:
                if self._is_held(gpu, node_devices):
                    held.setdefault(node, []).append(gpu)
        return _by_driver(held)

    def _is_held(self, gpu: DraDevice, node_devices: NodeDevices) -> bool:
        """Whether the GPU, its second device or a part of it is allocated."""
        if gpu.id in self.allocated_ids:
            return True
        own = _names(gpu)
        for device in node_devices.devices:
            if device.driver != gpu.driver or device.id not in self.allocated_ids:
                continue
            if not own.isdisjoint(_names(device)):
                return True
        return False


def _names(device: DraDevice) -> set[str]:
    """The GPUs that a device is, or is a part of."""
    names: set[str] = set()
    for attribute in _SAME:
        names.update(device.texts(attribute))
    return names


def _by_driver(devices: Mapping[str, Iterable[DraDevice]]) -> dict[str, Counter[str]]:
    """How many devices of each driver a node has. Nodes without any are left out."""
    counts = {}
    for node, of_node in devices.items():
        drivers = [device.driver for device in of_node]
        if drivers:
            counts[node] = Counter(drivers)
    return counts


_VAGUE: Final = ("consumesCounters", "allowMultipleAllocations", "bindingConditions")
_REPELLING: Final = ("NoSchedule", "NoExecute")
BUS_ID: Final = "resource.kubernetes.io/pciBusID"
_SAME: Final = ("uuid", "parentUUID", BUS_ID)
"""Attributes by which a MIG device or one for virtual machines names its GPU."""


def inventory(documents: Iterable[Mapping[str, Any]]) -> Inventory:
    """The devices of these objects, from the newest generation of each pool. Skips other kinds."""
    pools: dict[_PoolKey, dict[int, list[Field]]] = {}
    allocated_ids: set[DeviceId] = set()
    for document in documents:
        root = Field(document)
        kind = kind_of(document)
        if kind == CLAIM.key:
            allocated_ids.update(allocated(root))
        elif kind == SLICE.key:
            generations = pools.setdefault(_pool_of(root), {})
            generation = (root / "spec" / "pool" / "generation").number(0)
            generations.setdefault(generation, []).append(root)

    nodes: dict[str, list[DraDevice]] = {}
    uncertain_nodes: set[str] = set()
    has_shared_devices = False
    for key, generations in pools.items():
        if not key.node:
            has_shared_devices = True
            continue

        newest = generations[max(generations)]
        pool = _read_pool(key, newest)
        if pool.devices:
            nodes.setdefault(key.node, []).extend(pool.devices)
        if pool.is_uncertain:
            uncertain_nodes.add(key.node)

    devices = {}
    for node, of_node in nodes.items():
        devices[node] = NodeDevices(tuple(of_node), is_uncertain=node in uncertain_nodes)
    return Inventory(devices, frozenset(allocated_ids), has_shared_devices)


class _PoolKey(NamedTuple):
    """The identity of a pool."""

    node: str
    driver: str
    name: str


def _pool_of(root: Field) -> _PoolKey:
    """The pool of a ResourceSlice."""
    spec = root / "spec"
    return _PoolKey(
        node=text_at(spec, "nodeName"),
        driver=text_at(spec, "driver"),
        name=text_at(spec / "pool", "name"),
    )


def _read_pool(key: _PoolKey, slices: Sequence[Field]) -> NodeDevices:
    """The devices in the newest slices of a pool."""
    devices = []
    is_uncertain = False
    for root in slices:
        spec = root / "spec"
        slice_count = (spec / "pool" / "resourceSliceCount").number(1)
        if slice_count != len(slices):
            is_uncertain = True

        for device in (spec / "devices").items():
            devices.append(_read_device(key, device))
            for name in _VAGUE:
                if device / name:
                    is_uncertain = True

    return NodeDevices(tuple(devices), is_uncertain)


def _read_device(pool: _PoolKey, device: Field) -> DraDevice:
    attributes = {}
    for name, kinds in (device / "attributes").properties():
        for kind, value in kinds.properties():
            attributes[name] = _value(kind, value)
            break  # an attribute has one value, below the name of its type

    return DraDevice(
        driver=pool.driver,
        pool=pool.name,
        name=text_at(device, "name"),
        attributes=attributes,
        taints=_taints(device),
    )


def _taints(device: Field) -> tuple[Taint, ...]:
    """The taints that repel claims."""
    taints = []
    for taint in (device / "taints").items():
        key = text_at(taint, "key")
        value = text_at(taint, "value")
        effect = text_at(taint, "effect")
        if effect in _REPELLING:
            taints.append(Taint(key, value, effect))
    return tuple(taints)


def _value(kind: str, value: Field) -> Any:
    if kind == "version":
        return Version(value.text() or "")
    if isinstance(value.value, str | int):
        return value.value
    if isinstance(value.value, list):
        return tuple([part for part in value.value if isinstance(part, str | int)])
    return None


def allocated(claim: Field) -> Iterator[DeviceId]:
    """The devices that a ResourceClaim holds, without those of admin access, which are shared."""
    results = claim / "status" / "allocation" / "devices" / "results"
    for result in results.items():
        if (result / "adminAccess").flag():
            continue
        driver = text_at(result, "driver")
        pool = text_at(result, "pool")
        device = text_at(result, "device")
        yield driver, pool, device
