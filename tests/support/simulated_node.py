"""A simulated node with its agent, on a clock of its own: hours pass in milliseconds.

node.loses_links(0)
activity = node.run(minutes=5)
assert node.state == "degraded"
assert activity.events == ["Warning NodeDegraded"]
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from tests.support.machines import probed
from tests.support.runtime import ManualRuntime
from toposcope.agent.collector import AgentCollector
from toposcope.agent.describe import Description
from toposcope.agent.loop import Agent, AgentParts
from toposcope.agent.metrics import AgentMetrics
from toposcope.agent.nvml.supervisor import ProbeError
from toposcope.agent.options import AgentOptions
from toposcope.agent.publish import NodeEvent, node_events
from toposcope.agent.raw import RawNode
from toposcope.api import label_keys
from toposcope.kube.client import Request
from toposcope.kube.confinement import Confinement
from toposcope.kube.errors import ApiError, KubeError
from toposcope.kube.requests import NODES, get
from toposcope.simulator.faults import MachineFaults
from toposcope.simulator.machine import Machine
from toposcope.simulator.profile import load_profile

NODE_NAME = "n1"


def as_probed(raw: RawNode) -> RawNode:
    """Leave what the probe found as it is."""
    return raw


class NodeApi:
    """The API server as this agent sees it: the Node's labels, and a count of what is asked of it.

    It stands in the place of the agent's `Publisher`.
    """

    def __init__(self) -> None:
        self.reads = 0
        self.writes: list[Description] = []
        self.events: list[NodeEvent] = []
        self.fails: KubeError | None = None
        """What every request ends with."""
        self.baseline: str | None = None
        self.labels: dict[str, str] = {}
        self.annotations: dict[str, str] = {}
        self.after_write: Callable[[], None] | None = None
        """Called after each write, which somebody has undone by then."""
        self._carried: Description | None = None
        self._is_tampered = False

    def tamper(self) -> None:
        """Change one of the agent's labels by hand."""
        self._is_tampered = True

    def refresh(self) -> None:
        """Read the Node."""
        self._raise_if_failing()
        self.reads += 1
        if self._is_tampered:
            self._is_tampered = False
            self._carried = None

    def is_pending(self, description: Description) -> bool:
        """Whether the Node carries anything else than this."""
        if self._carried is None or description.labels != self._carried.labels:
            return True
        return not description.problem and description.annotations != self._carried.annotations

    def publish(self, description: Description) -> list[NodeEvent]:
        """Write the Node."""
        self._raise_if_failing()
        labels_before = self._carried.labels.by_key if self._carried else {}
        self._carried = description
        self.writes.append(description)

        kept = {key: value for key, value in self.labels.items() if key in description.labels.unknown}
        self.labels = {**kept, **description.labels.by_key}
        self.annotations = {**self.annotations, **description.annotations}
        self.baseline = description.annotations.get(label_keys.REFERENCE, self.baseline)
        if self.after_write:
            self.tamper()
            self.after_write()

        reasons = description.topology.reasons if description.topology else (description.problem,)
        return node_events(labels_before, description.labels.by_key, reasons)

    def record_event(self, node_event: NodeEvent) -> None:
        """Write an Event about the Node."""
        self._raise_if_failing()
        self.events.append(node_event)

    def _raise_if_failing(self) -> None:
        if self.fails:
            raise self.fails


@dataclass(frozen=True)
class Activity:
    """What an agent did while some time passed."""

    reads: int = 0
    writes: int = 0
    probes: int = 0
    refused: int = 0
    """Writes that ended with a 401 or 403."""
    node_events: list[NodeEvent] = field(default_factory=list)

    @property
    def events(self) -> list[str]:
        """The Events, as in `Warning NodeDegraded`."""
        return [f"{event.kind} {event.reason}" for event in self.node_events]

    @property
    def last_note(self) -> str:
        """The note of the last Event."""
        return self.node_events[-1].note


class SimulatedNode:
    """A machine, its agent and their clock."""

    def __init__(self, machine: Machine, folder: Path, *, seed: int = 1, **options: Any) -> None:
        self.machine = machine
        self.folder = folder
        self.faults = MachineFaults()
        self.container: dict[str, str] = {}
        """What the NVIDIA runtime gave the agent's container."""
        self.change: Callable[[RawNode], RawNode] = as_probed
        """What else is different about the node."""
        self.is_confined = True
        """Whether the admission policies are in force."""
        self.probes = 0
        self.api = NodeApi()
        self.runtime = ManualRuntime(seed=seed)
        self._probe_failure: ProbeError | None = None

        metrics = AgentMetrics()
        self.registry = CollectorRegistry()
        self.registry.register(AgentCollector(metrics))  # type: ignore[arg-type]  # it has what is asked for
        confinement = Confinement(self, lambda: {"anything": get(NODES)}, runtime=self.runtime)
        parts = AgentParts(
            AgentOptions(NODE_NAME)._replace(**options),
            self,  # type: ignore[arg-type]  # the probe
            self.api,  # type: ignore[arg-type]  # the publisher
            metrics,
            confinement=confinement,
        )
        self.agent = Agent(parts, self.runtime)

    @classmethod
    def of(cls, profile: str, folder: Path, **options: Any) -> "SimulatedNode":
        """The machine of a shipped profile."""
        return cls(load_profile(profile), folder, **options)

    @classmethod
    def without_gpus(cls, folder: Path) -> "SimulatedNode":
        """A machine that has no GPU."""
        return cls(replace(load_profile("t4-1"), gpus=()), folder)

    # What happens to it

    def loses_links(self, gpu: int, *links: int) -> None:
        """These NVLinks of a GPU go down, all of them if none is named; whatever was broken before works again."""
        self.faults = MachineFaults(links_down={gpu: frozenset(links) if links else "all"})

    def driver_fails(self, nvml_error: int) -> None:
        """NVML does not start any more."""
        self.faults = MachineFaults(init_error=nvml_error)

    def heals(self) -> None:
        """Nothing is broken any more."""
        self.faults = MachineFaults()
        self._probe_failure = None

    def probe_fails(self, message: str, reason: str = "hang") -> None:
        """No probe comes to an end any more."""
        self._probe_failure = ProbeError(reason, message)

    def loads_kernel_module(self) -> None:
        """The driver's kernel module is there."""
        self._module_folder().mkdir(parents=True, exist_ok=True)

    def unloads_kernel_module(self) -> None:
        """The driver's kernel module is not there (any more)."""
        self.loads_kernel_module()
        self._module_folder().rmdir()

    def _module_folder(self) -> Path:
        probed(self.machine, self.folder, self.faults)  # writes the device tree
        return self.folder / "sys" / "module" / "nvidia"

    def hides_pci_bus(self) -> None:
        """sysfs shows no bus."""
        self.change = lambda raw: raw._replace(gpu_functions=(), switch_functions=(), is_bus_visible=False)

    def hands_gpus_to(self, driver: str) -> None:
        """Another driver holds all GPUs. NVML does not see those of vfio-pci."""

        def held(raw: RawNode) -> RawNode:
            functions = [function._replace(driver=driver) for function in raw.gpu_functions]
            gpus = () if driver == "vfio-pci" else raw.gpus
            return raw._replace(gpus=gpus, gpu_functions=tuple(functions))

        self.change = held

    def loses_baseline(self) -> None:
        """Somebody deleted the annotation, and the agent read the Node again."""
        self.api.baseline = None

    def is_tampered_with(self) -> None:
        """Somebody changes one of the agent's labels, and the agent's watch notices."""
        self.api.tamper()
        self.agent.node_changed()

    def in_new_container(self) -> "SimulatedNode":
        """The same machine with an agent that starts anew and an API server that knows nothing."""
        return SimulatedNode(self.machine, self.folder)

    # Time

    @property
    def seconds(self) -> float:
        """Seconds since it was made. A test that sets it lets time pass in which the loop does not turn."""
        return self.runtime.seconds

    @seconds.setter
    def seconds(self, seconds: float) -> None:
        self.runtime.seconds = seconds

    def run(self, *, seconds: float = 0.0, minutes: float = 0.0, hours: float = 0.0) -> Activity:
        """Let time pass in which nothing wakes the agent early."""
        before = self._counts()
        self._run_until(self.seconds + seconds + 60 * minutes + 3600 * hours)
        after = self._counts()
        return Activity(
            reads=after.reads - before.reads,
            writes=after.writes - before.writes,
            probes=after.probes - before.probes,
            refused=after.refused - before.refused,
            node_events=after.node_events[len(before.node_events) :],
        )

    def _run_until(self, end: float) -> None:
        while True:
            self.agent.sync()
            pause = self.agent.seconds_until_sync()
            assert pause > 0, "the agent wants to turn again at once, for ever"
            if self.seconds + pause > end:
                self.seconds = end
                return
            self.seconds += pause

    def _counts(self) -> Activity:
        return Activity(
            reads=self.api.reads,
            writes=self.writes,
            probes=self.probes,
            refused=int(self.metric("publishes_total", outcome="forbidden") or 0),
            node_events=self.api.events[:],
        )

    # How it looks

    @property
    def labels(self) -> dict[str, str]:
        """What the Node carries, keys without their prefix."""
        return {key.removeprefix(label_keys.PREFIX): value for key, value in self.api.labels.items()}

    @property
    def state(self) -> str | None:
        """The label `gpu.topology/state`."""
        return self.labels.get("state")

    @property
    def writes(self) -> int:
        """How often the agent wrote to its Node."""
        return len(self.api.writes)

    @property
    def problem(self) -> str:
        """Why the agent knows nothing of the hardware, by its last write."""
        return self.api.writes[-1].problem

    def metric(self, name: str, **labels: str) -> float | None:
        """One of the agent's metrics, as a scrape would see it."""
        return self.registry.get_sample_value(f"toposcope_agent_{name}", labels)

    # The agent's view of it

    def call(self, _request: Request) -> None:
        """Answer a write that the admission policies must refuse."""
        if self.is_confined:
            raise ApiError(403, "Forbidden", "ValidatingAdmissionPolicy 'x' denied request")
        if self.api.fails:
            raise self.api.fails

    def probe(self) -> RawNode:
        """Probe the machine."""
        self.probes += 1
        if self._probe_failure:
            raise self._probe_failure
        raw = probed(self.machine, self.folder, self.faults)
        return self.change(raw._replace(container=tuple(self.container.items())))
