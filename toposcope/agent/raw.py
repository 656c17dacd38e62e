"""What NVML and sysfs answered, word for word, before anything is concluded from it.

Plain data that travels from the worker to the agent as JSON arrays. None always means "not known".

Named tuples, where the rest of the house has frozen dataclasses: to define those takes a package
that the worker needs for nothing else, 1.3 MB and 10 ms on every GPU node. For the same reason what
arrives is checked here and not by msgspec, which would be 2 MB and 15 ms.
"""

from functools import cache
from types import NoneType, UnionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from toposcope.text import compact, parse


class RawLink(NamedTuple):
    """One NVLink of one GPU."""

    link: int
    state: int | None
    """NVML_FI_DEV_NVLINK_GET_STATE.

    0 inactive, 1 active, 2 sleeping, 3 active with traffic disabled.
    """
    version: int | None = None
    """`NVML_NVLINK_VERSION_*`, an enum and not a number of a version."""
    remote_pci: str | None = None
    remote_type: int | None = None
    """0 GPU, 1 POWER CPU, 2 switch, 255 unknown."""
    mbps: int | None = None


class RawFabric(NamedTuple):
    """NVML's fabric information of one GPU; `uuid` is 32 hex digits."""

    state: int
    status: int
    uuid: str
    clique: int | None
    """The clique for memory access; None when a layout with several lists none of that type."""
    cliques: tuple[tuple[int, int], ...] = ()
    """All (type, id) pairs; drivers before 615 have one."""
    health_mask: int | None = None
    health_summary: int | None = None


class RawPlatform(NamedTuple):
    """Where a GPU's tray sits (GB200 and later)."""

    chassis: str
    slot: int
    tray: int
    host: int
    module: int
    peer_type: int | None = None
    """0: the GPUs are wired to each other, 1: through switches."""


class RawGpu(NamedTuple):
    """One GPU that NVML gave a handle for; a MIG device is part of its GPU."""

    index: int  # type: ignore[assignment]  # NVML's word; the tuple's own method is not used
    pci: str
    """Its PCI address; `topology.pci.off_bus` for a GPU that is not on the PCI bus (Jetson)."""
    uuid: str | None
    name: str | None
    links: tuple[RawLink, ...]
    switch_links: int | None
    """How many links lead into NVSwitches, by NVML's own count (field 147)."""
    fabric: RawFabric | None
    fabric_error: str | None = None
    """Why there is no `fabric`, unless the GPU or driver simply has none."""
    architecture: int | None = None
    """`NVML_DEVICE_ARCH_*`."""
    module: int | None = None
    """Place on the baseboard; 0 off one."""
    has_mig: bool | None = None
    """Whether MIG mode is on; None: the product has no MIG."""
    mig_devices: int | None = 0
    """None: NVML refuses to count them."""
    memory_numa: int | None = None
    """NUMA node of the GPU's own memory (Grace), not of its CPUs."""
    c2c_active: int = 0
    """Active C2C links to the CPU (Grace)."""
    platform: RawPlatform | None = None
    has_known_links: bool = True
    """False: NVML refused to say how many links there are, which is not the same as having none."""

    @property
    def is_racked(self) -> bool:
        """Whether its tray is in a rack that has a serial number."""
        return self.platform is not None and bool(self.platform.chassis)


class RawAncestor(NamedTuple):
    """The nearest common PCI ancestor of two GPUs by NVML.

    0 same board, 10, 20, 30, 40, 50 outwards.
    """

    a: int
    b: int
    level: int


class RawPci(NamedTuple):
    """One PCI function: its real sysfs path from the root complex down, and where it belongs."""

    address: str
    path: tuple[str, ...]
    numa: int | None
    local_cpus: str
    driver: str | None


class RawPort(NamedTuple):
    """One port of a NIC: its files `link_layer` and `state`."""

    number: int
    link_layer: str
    state: str


class RawNic(NamedTuple):
    """One entry of /sys/class/infiniband that is a NIC.

    See `toposcope.agent.rdma` for those that are none.
    """

    name: str
    pci: RawPci
    guid: str
    ports: tuple[RawPort, ...]
    parent: str | None = None
    """Address of the physical function that a virtual one belongs to.

    None: it is a physical one.
    """
    card: str = ""
    """The UUID that all functions of its card share; empty: not known (only root can read it)."""
    is_held: bool = False
    """Its RDMA device is not visible now, though its PCI function is as it was: a pod took the
    device along. The other facts are from when it was seen last."""


class RawDataDirect(NamedTuple):
    """A Data Direct function: through it a ConnectX-8 reaches the memory of GPUs near it."""

    pci: RawPci
    card: str = ""
    """As in its NIC."""


class RawNuma(NamedTuple):
    """One NUMA node of the kernel."""

    id: int
    cpus: str
    distances: tuple[int, ...] = ()
    """ACPI distances to all nodes, in their order."""


class RawFault(NamedTuple):
    """NVML could not be used at all, or one GPU could not be asked."""

    code: int
    text: str
    index: int | None = None  # type: ignore[assignment]  # as above
    """The GPU's NVML index; None: NVML as a whole."""
    pci: str | None = None
    """The GPU's PCI address, if it still answered that."""


class RawNode(NamedTuple):
    """One probe of one node."""

    driver: str | None
    gpus: tuple[RawGpu, ...]
    faults: tuple[RawFault, ...]
    ancestors: tuple[RawAncestor, ...]
    gpu_functions: tuple[RawPci, ...]
    """NVIDIA display and 3D controllers on the PCI bus: the GPUs that should be there."""
    switch_functions: tuple[str, ...]
    """Addresses of NVSwitches on the PCI bus."""
    nics: tuple[RawNic, ...]
    numa: tuple[RawNuma, ...]
    data_direct: tuple[RawDataDirect, ...] = ()
    hidden_nics: tuple[str, ...] = ()
    """Addresses of network functions whose RDMA device this process cannot see.

    It has not seen them before either.
    """
    is_bus_visible: bool = True
    """Whether sysfs shows the PCI bus at all; without it the two tuples above prove nothing."""
    is_module_loaded: bool = False
    """Whether the kernel has the NVIDIA module.

    A container sees that even when it got nothing of the driver.
    """
    has_integrated_gpu: bool = False
    """Whether the kernel has the driver of a Jetson's GPU, which is on no PCI bus."""
    container: tuple[tuple[str, str], ...] = ()
    """What this process was given.

    `/dev/nvidiactl`, and the variables that the NVIDIA runtime reads.
    """
    has_read_nvlinks: bool = True
    """False: the NVLinks could not be asked about, so that GPUs without `links` may have some."""

    @property
    def down(self) -> RawFault | None:
        """Why NVML as a whole could not be used; None when it could."""
        for fault in self.faults:
            if fault.index is None:
                return fault
        return None


def encode(raw: RawNode) -> bytes:
    """A probe as JSON arrays; a byte in a file name that is not UTF-8 becomes a question mark."""
    return compact(raw).encode(errors="replace")


def decode(content: bytes) -> RawNode:
    """What `encode` wrote.

    Raises ValueError for anything else: a worker's memory may be damaged.
    """
    try:
        raw: RawNode = typed(parse(content), RawNode)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except UnicodeError as error:
        raise ValueError("not UTF-8 text") from error
    return raw


def typed(value: Any, kind: Any) -> Any:  # dense: each value of each probe goes through here
    """A decoded JSON value as `kind`.

    Str, int, bool, None, or a list, dict by str, tuple, named tuple, union of these. Tuples and
    named tuples are arrays in JSON, of exactly their length; true and false are not integers. The
    first kind of a union that fits is taken. Raises ValueError.
    """
    origin, arguments, fields = _parts(kind)
    if origin is UnionType:
        if type(value) in arguments:
            return value
        for member in arguments:
            try:
                return typed(value, member)
            except ValueError:
                continue
    elif origin is dict and type(value) is dict:
        return {key: typed(item, arguments[1]) for key, item in value.items()}
    elif type(value) is list and arguments and (origin is list or arguments[1:] == (...,)):
        entry = arguments[0]
        return origin([typed(item, entry) for item in value])
    elif type(value) is list and fields and len(value) == len(fields):
        return tuple.__new__(origin, map(typed, value, fields))
    elif type(value) is kind and kind in (str, int, bool, NoneType):
        return value
    raise ValueError(f"{str(value)[:40]!r} is not {getattr(kind, '__name__', kind)}")


class _Kind(NamedTuple):
    origin: Any
    arguments: tuple[Any, ...]
    fields: tuple[Any, ...]
    """The kinds of the fields of a tuple."""


@cache
def _parts(kind: Any) -> _Kind:
    if hasattr(kind, "_fields"):
        hints = get_type_hints(kind)
        return _Kind(kind, (), tuple(hints.values()))
    origin, arguments = get_origin(kind), get_args(kind)
    fields = arguments if origin is tuple else ()
    return _Kind(origin, arguments, fields)
