"""What NVML and sysfs answered, word for word, before anything is concluded from it.

Plain data that travels from the worker to the agent as JSON arrays. None always means "did not tell".

Named tuples, where the rest of the house has frozen dataclasses: to define those takes a package that the worker needs
for nothing else, 1.3 MB and 10 ms on every GPU node.
"""

from typing import NamedTuple


class RawLink(NamedTuple):
    """One NVLink of one GPU."""

    link: int
    state: int | None
    """NVML_FI_DEV_NVLINK_GET_STATE: 0 inactive, 1 active, 2 sleeping, 3 active with traffic disabled."""
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
    """All (type, id) pairs; drivers before 615 tell one."""
    health_mask: int | None = None
    health_summary: int | None = None


class RawPlatform(NamedTuple):
    """Where a GPU's tray sits (GB200 and later)."""

    chassis: str
    slot: int
    tray: int
    host: int
    module: int


class RawGpu(NamedTuple):
    """One GPU that NVML gave a handle for; a MIG device is part of its GPU."""

    index: int  # type: ignore[assignment]  # NVML's word, and of the tuple's own method nobody here has use
    pci: str
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
    mig: bool | None = None
    """Whether MIG mode is on; None: the product has no MIG."""
    mig_devices: int = 0
    memory_numa: int | None = None
    """NUMA node of the GPU's own memory (Grace), not of its CPUs."""
    c2c_active: int = 0
    """Active C2C links to the CPU (Grace)."""
    platform: RawPlatform | None = None


class RawAncestor(NamedTuple):
    """The nearest common PCI ancestor of two GPUs by NVML: 0 same board, 10, 20, 30, 40, 50 outwards."""

    a: int
    b: int
    level: int


class RawPci(NamedTuple):
    """One PCI function: its real sysfs path from the root complex down to itself, and where it belongs."""

    address: str
    path: tuple[str, ...]
    numa: int | None
    local_cpus: str
    driver: str | None


class RawPort(NamedTuple):
    """One port of a NIC: what its files `link_layer` and `state` say."""

    number: int
    link_layer: str
    state: str


class RawNic(NamedTuple):
    """One entry of /sys/class/infiniband that is no virtual function."""

    name: str
    pci: RawPci
    guid: str
    ports: tuple[RawPort, ...]


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


class RawNode(NamedTuple):
    """One probe of one node."""

    driver: str | None
    gpus: tuple[RawGpu, ...]
    faults: tuple[RawFault, ...]
    ancestors: tuple[RawAncestor, ...]
    gpu_functions: tuple[RawPci, ...]
    """NVIDIA display and 3D controllers on the PCI bus: the GPUs that ought to be there."""
    switch_functions: tuple[str, ...]
    """Addresses of NVSwitches on the PCI bus."""
    nics: tuple[RawNic, ...]
    numa: tuple[RawNuma, ...]
    bus_visible: bool = True
    """Whether sysfs shows the PCI bus at all; without it the two tuples above prove nothing."""
    module_loaded: bool = False
    """Whether the kernel has the NVIDIA module, which a container sees even when it got nothing of the driver."""
    container: tuple[tuple[str, str], ...] = ()
    """What this process was given: `/dev/nvidiactl`, and the variables that the NVIDIA runtime reads."""
