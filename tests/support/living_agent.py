"""An agent on a simulated machine, with a clock of its own: hours pass in milliseconds."""

from collections.abc import Callable
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
from toposcope.agent.options import Options
from toposcope.agent.publish import NodeEvent, node_events
from toposcope.agent.raw import RawNode
from toposcope.api import label_keys
from toposcope.kube.client import Request
from toposcope.kube.confinement import Confinement
from toposcope.kube.errors import ApiError, KubeError
from toposcope.kube.requests import NODES, get
from toposcope.simulator.faults import Faults
from toposcope.simulator.machine import Machine

OPTIONS = Options("n1")


class Cluster:
    """Stands in for the publisher: counts what the agent does to the API server."""

    def __init__(self) -> None:
        self.reads = 0
        self.writes: list[Description] = []
        self.events: list[NodeEvent] = []
        self.fails: KubeError | None = None
        self.baseline: str | None = None
        self.labels: dict[str, str] = {}
        """What the Node carries."""
        self.annotations: dict[str, str] = {}
        self._carried: Description | None = None
        self._tampered = False
        self.opponent: Callable[[], None] | None = None
        """Called after each write that was undone at once."""

    def _answer(self) -> None:
        if self.fails:
            raise self.fails

    def tamper(self) -> None:
        """Somebody else changes a label of ours."""
        self._tampered = True

    def refresh(self) -> None:
        self._answer()
        self.reads += 1
        if self._tampered:
            self._tampered, self._carried = False, None

    def pending(self, description: Description) -> bool:
        if self._carried is None or description.labels != self._carried.labels:
            return True
        return not description.problem and description.annotations != self._carried.annotations

    def publish(self, description: Description) -> list[NodeEvent]:
        self._answer()
        before = self._carried.labels.known if self._carried else {}
        self._carried = description
        kept = {key: value for key, value in self.labels.items() if key in description.labels.unknown}
        self.labels = {**kept, **description.labels.known}
        self.annotations = {**self.annotations, **description.annotations}
        self.writes.append(description)
        if self.opponent:
            self.tamper()
            self.opponent()
        self.baseline = description.annotations.get(label_keys.REFERENCE, self.baseline)
        reasons = description.topology.reasons if description.topology else (description.problem,)
        return node_events(before, description.labels.known, reasons)

    def record_event(self, node_event: NodeEvent) -> None:
        self._answer()
        self.events.append(node_event)


class Node:
    """A machine, its agent and its clock."""

    def __init__(self, machine: Machine, folder: Path, *, seed: int = 1, **options: Any) -> None:
        self.machine, self.folder = machine, folder
        self.faults = Faults()
        self.failure = ""
        """What the probe fails with, and under which reason."""
        self.reason = "hang"
        self.container: dict[str, str] = {}
        """What the NVIDIA runtime gave the agent's container."""
        self.change: Callable[[RawNode], RawNode] = lambda raw: raw
        """What else is different about the node."""
        self.confined = True
        """Whether the admission policies are in force."""
        self.cluster = Cluster()
        self.registry = CollectorRegistry()
        metrics = AgentMetrics()
        self.registry.register(AgentCollector(metrics))  # type: ignore[arg-type]  # it takes whatever has the attributes
        self.probes = 0
        self.runtime = ManualRuntime(seed=seed)
        parts = AgentParts(
            OPTIONS._replace(**options),
            self,  # type: ignore[arg-type]  # the probe
            self.cluster,  # type: ignore[arg-type]  # the publisher
            metrics,
            confinement=Confinement(self, lambda: {"anything": get(NODES)}, runtime=self.runtime),
        )
        self.agent = Agent(parts, self.runtime)

    @property
    def seconds(self) -> float:
        """Seconds since it was made."""
        return self.runtime.seconds

    @seconds.setter
    def seconds(self, seconds: float) -> None:
        self.runtime.seconds = seconds

    def call(self, _request: Request) -> None:
        """Answer a write that the admission policies must refuse."""
        if self.confined:
            raise ApiError(403, "Forbidden", "ValidatingAdmissionPolicy 'x' denied request")
        if self.cluster.fails:
            raise self.cluster.fails

    def probe(self) -> RawNode:
        self.probes += 1
        if self.failure:
            raise ProbeError(self.reason, self.failure)
        raw = probed(self.machine, self.folder, self.faults)
        return self.change(raw._replace(container=tuple(self.container.items())))

    def metric(self, name: str, **labels: str) -> float | None:
        """One of the agent's metrics, as a scrape would see it."""
        return self.registry.get_sample_value(f"toposcope_agent_{name}", labels)

    @property
    def labels(self) -> dict[str, str]:
        """What the Node carries by now, keys without their prefix."""
        return {key.removeprefix(label_keys.PREFIX): value for key, value in self.cluster.labels.items()}

    def live(self, seconds: float) -> None:
        """Let so much time pass; nothing happens that would wake the agent early."""
        end = self.seconds + seconds
        while True:
            self.agent.sync()
            seconds = self.agent.seconds_until_sync()
            assert seconds > 0
            if self.seconds + seconds > end:
                self.seconds = end
                return
            self.seconds += seconds
