"""The agent's metrics as Prometheus reads them, each explained in docs/metrics.md.

Loaded by the first scrape: an agent that is not scraped, or has not labelled its node yet, does
without.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import combinations
from pathlib import Path
from typing import Final, NamedTuple, get_args

from toposcope import __version__
from toposcope.agent.describe import Description
from toposcope.agent.fabric import HEALTH_BITS
from toposcope.agent.metrics import REASONS, AgentMetrics, Outcome
from toposcope.hardware.matrix import nv_links
from toposcope.hardware.topology import Fabric, Gpu, GpuFabric, NodeTopology, State
from toposcope.telemetry.families import Family, Samples, family, histogram

_PREFIX: Final = "toposcope_agent_"
_Sample = tuple[tuple[str, ...], float]
"""Label values, and the number."""
_UTIME_FIELD: Final = 11
_RSS_FIELD: Final = 21
"""Fields of /proc/PID/stat, counted from the process' state (proc(5) counts from 3 there)."""


class AgentCollector:
    """One agent's metrics, built at each scrape.

    `worker` returns the worker's pid; `pairs` adds a series a pair.
    """

    def __init__(
        self,
        metrics: AgentMetrics,
        worker: Callable[[], int | None] = lambda: None,
        *,
        has_pairs: bool = False,
    ) -> None:
        self._metrics = metrics
        self._worker = worker
        self._pairs = has_pairs

    def collect(self) -> Iterator[Family]:
        """All families."""
        description = self._metrics.description
        topology = description.topology if description else None
        yield from _activity(self._metrics)
        yield from _node(description)
        if self._pairs:
            yield _pairs_family(topology)
        yield from _processes(self._worker())


def _activity(metrics: AgentMetrics) -> Iterator[Family]:
    text = "When the hardware last answered, in Unix time; 0 until it has."
    yield _number("last_successful_probe_timestamp_seconds", text, metrics.last_probe)

    text = "When the Node was last known to be up to date, in Unix time; 0 until it was."
    yield _number("last_successful_publish_timestamp_seconds", text, metrics.last_publish)

    text = "How long probes of the hardware took, failed ones included."
    counts = metrics.durations.cumulative()
    durations = ((), counts, metrics.durations.sum)
    name = f"{_PREFIX}probe_duration_seconds"
    yield histogram(name, text, (), [durations])

    reasons = ", ".join(REASONS)
    text = f"Probes without an answer from the hardware, by reason: {reasons}."
    yield _counter("probe_failures", text, "reason", metrics.failures)

    outcomes = ", ".join(get_args(Outcome))
    text = f"Attempts to bring the Node's labels up to date, by outcome: {outcomes}."
    yield _counter("publishes", text, "outcome", metrics.publishes)

    text = "1 while the Node is watched for changes by others, else 0."
    yield _number("watching", text, metrics.is_watching)

    text = (
        "1 while the admission policies refuse what they must "
        "and RBAC grants no more than is needed, else 0."
    )
    yield _number("confined", text, metrics.is_confined)

    text = "Version of this agent."
    version = (__version__,)
    yield family("info", f"{_PREFIX}build", text, ("version",), [(version, 1)])


def _node(description: Description | None) -> Iterator[Family]:
    """The families of the node, without samples for what is unknown.

    Facts from before a failed probe may be stale.
    """
    topology = description.topology if description else None
    gpus = topology.gpus if topology else ()
    fabric = topology.fabric if topology else None
    expected = description.expected if description else None
    text = "GPUs on the PCI bus."
    yield _number("gpus_expected", text, expected)
    text = "GPUs that NVML sees."
    yield _number("gpus_seen", text, _gpus_seen(description))
    text = "1 for the node's current state"
    yield _one_of("node_state", text, State, _state(description))
    text = "1 for the state of the multi-node NVLink registration over all GPUs"
    yield _one_of("fabric_state", text, Fabric, fabric)
    yield from _gpus(gpus)
    yield _fabric_states(gpus)
    yield _fabric_health(topology)


def _gpus_seen(description: Description | None) -> int | None:
    if description is None or description.problem:
        return None
    return len(description.topology.gpus) if description.topology else 0


def _state(description: Description | None) -> State | None:
    if description is None:
        return None
    if description.topology:
        return description.topology.state
    return State.UNKNOWN if description.problem else State.OK


def _bandwidth(gpu: Gpu) -> float | None:
    """Bytes per second over the links to other GPUs; None while NVML does not say what they are."""
    if not gpu.links_known:
        return None
    if not gpu.links_joining:
        return 0
    return None if gpu.link_mbps is None else gpu.links_joining * gpu.link_mbps * 10**6


_PER_GPU: Final[tuple[tuple[str, str, Callable[[Gpu], float | None]], ...]] = (
    (
        "gpu_nvlinks",
        "NVLinks that the GPU has.",
        lambda gpu: len(gpu.links) if gpu.links_known else None,
    ),
    (
        "gpu_nvlinks_active",
        "NVLinks of the GPU that are up, those asleep to save power included.",
        lambda gpu: gpu.links_active if gpu.links_known else None,
    ),
    (
        "gpu_nvlinks_expected",
        "NVLinks of the GPU that should be up, by its board's wiring and its own history.",
        lambda gpu: gpu.links_expected,
    ),
    (
        "gpu_nvlink_bandwidth_bytes_per_second",
        "Total bandwidth of the GPU's active NVLinks to other GPUs, in each direction.",
        _bandwidth,
    ),
    (
        "gpu_numa_node",
        "NUMA node of the CPUs next to the GPU; -1 when not known.",
        lambda gpu: -1 if gpu.numa is None else gpu.numa,
    ),
    (
        "gpu_mig_devices",
        "MIG devices on a GPU whose product can be partitioned.",
        lambda gpu: None if gpu.mig is None else gpu.mig_devices,
    ),
)
"""Metrics with one series per GPU: name, help text, value.

A GPU whose value is None has no series.
"""


def _gpus(gpus: Sequence[Gpu]) -> Iterator[Family]:
    """The families with series for each GPU by its PCI address.

    The index changes when GPUs are lost.
    """
    for name, text, value in _PER_GPU:
        samples = []
        for gpu in gpus:
            number = value(gpu)
            if number is not None:
                samples.append(((gpu.pci,), number))
        yield _gauge(name, text, ("gpu",), samples)


def _fabric_states(gpus: Sequence[Gpu]) -> Family:
    samples: list[_Sample] = []
    for gpu in gpus:
        for state in GpuFabric:
            series = (gpu.pci, state)
            samples.append((series, gpu.fabric is state))
    states = ", ".join(GpuFabric)
    text = f"1 for the state of the GPU's registration with the fabric: {states}."
    return _gauge("gpu_fabric_state", text, ("gpu", "state"), samples)


def _fabric_health(topology: NodeTopology | None) -> Family:
    gpus: Sequence[Gpu] = ()
    if topology is not None and topology.fabric is not Fabric.NOT_SUPPORTED:
        gpus = topology.gpus
    samples: list[_Sample] = []
    for gpu in gpus:
        bad = gpu.registration.health if gpu.registration else ()
        for bit in HEALTH_BITS:
            series = (gpu.pci, bit)
            samples.append((series, bit in bad))
    text = "1 for each bad bit of the GPU's fabric health; absent without a fabric."
    return _gauge("gpu_fabric_health_bad", text, ("gpu", "bit"), samples)


def _pairs_family(topology: NodeTopology | None) -> Family:
    text = "NVLinks between two devices, and the path between them as in `nvidia-smi topo -m`."
    samples = list(_pairs(topology)) if topology else []
    return _gauge("pair_nvlinks", text, ("a", "b", "path"), samples)


def _pairs(topology: NodeTopology) -> Iterator["_Sample"]:
    """Every pair once.

    The path of NVLinks is `NV`: their number is the value, and may change without a new series.
    """
    rows = topology.matrix.cells
    devices = enumerate(_device_names(topology))
    for (i, a), (j, b) in combinations(devices, 2):
        cell = rows[i][j]
        links = nv_links(cell)
        path = "NV" if links else cell
        yield (a, b, path), links


def _device_names(topology: NodeTopology) -> Iterator[str]:
    for gpu in topology.gpus:
        yield gpu.pci
    for nic in topology.nics:
        yield nic.name
    for function in topology.data_direct:
        yield function.pci


class Usage(NamedTuple):
    """What a process uses."""

    resident: int
    """Memory in bytes, pages shared with other processes included."""
    cpu: float
    """Seconds since the process began."""


def usage(worker: int | None) -> dict[str, Usage]:
    """What `agent` (this process) and `worker` (a process id) use.

    A process that is gone or unreadable is left out.
    """
    used = {}
    for name, pid in (("agent", os.getpid()), ("worker", worker)):
        if pid is None:
            continue
        with contextlib.suppress(OSError):  # it has ended
            used[name] = _usage_of(pid)
    return used


def _usage_of(pid: int) -> Usage:
    """Raises OSError."""
    stat = Path(f"/proc/{pid}/stat").read_bytes()
    # The name may hold anything, parentheses and blanks too, so fields count from behind it.
    _, _, behind_name = stat.rpartition(b")")
    fields = behind_name.split()
    pages = int(fields[_RSS_FIELD])
    user = int(fields[_UTIME_FIELD])
    system = int(fields[_UTIME_FIELD + 1])
    return Usage(
        resident=pages * os.sysconf("SC_PAGESIZE"),
        cpu=(user + system) / os.sysconf("SC_CLK_TCK"),
    )


def _processes(worker: int | None) -> Iterator[Family]:
    resident: dict[str, float] = {}
    seconds: dict[str, float] = {}
    for name, process in usage(worker).items():
        resident[name] = process.resident
        seconds[name] = process.cpu
    text = "Resident memory of the agent's processes; shared pages count in each."
    yield _gauge("process_resident_memory_bytes", text, ("process",), _by_name(resident))
    text = "CPU time of the agent's processes, user and system; a replaced worker starts at 0."
    yield _counter("process_cpu_seconds", text, "process", seconds)


def _counter(name: str, text: str, label: str, counts: Mapping[str, float]) -> Family:
    return family("counter", _PREFIX + name, text, (label,), _by_name(counts))


def _by_name(values: Mapping[str, float]) -> "list[_Sample]":
    """The samples of a family whose one label has these values."""
    return [((name,), value) for name, value in values.items()]


def _gauge(name: str, text: str, labels: tuple[str, ...], samples: Samples) -> Family:
    return family("gauge", _PREFIX + name, text, labels, samples)


def _number(name: str, text: str, value: float | None) -> Family:
    samples: list[_Sample] = []
    if value is not None:
        samples.append(((), value))
    return _gauge(name, text, (), samples)


def _one_of(name: str, text: str, states: type[StrEnum], state: StrEnum | None) -> Family:
    """A series for each state, 1 for the one that holds; none while no state is known."""
    samples: list[_Sample] = []
    for member in states:
        if state is not None:
            series = (member.value,)
            samples.append((series, member is state))
    members = ", ".join(states)
    about = f"{text}: {members}."
    return _gauge(name, about, ("state",), samples)
