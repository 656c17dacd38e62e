"""The agent's Prometheus metrics, named by Prometheus' conventions; the registry is an argument, never global."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from agent.describe import Description
from topology.hardware import State
from topology.version import __version__


class AgentMetrics:
    """What one agent tells about its probes, its writes and its node."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.last_probe = Gauge(
            "toposcope_agent_last_successful_probe_timestamp_seconds",
            "When the hardware last answered.",
            registry=registry,
        )
        self.last_publish = Gauge(
            "toposcope_agent_last_successful_publish_timestamp_seconds",
            "When the Node was last known to carry what the hardware says.",
            registry=registry,
        )
        self.probe_seconds = Histogram(
            "toposcope_agent_probe_duration_seconds",
            "How long probes took.",
            buckets=(0.005, 0.02, 0.1, 0.5, 2, 10, 60),
            registry=registry,
        )
        self.probe_failures = Counter(
            "toposcope_agent_probe_failures", "Probes without an answer from the hardware.", registry=registry
        )
        self.publishes = Counter(
            "toposcope_agent_publishes",
            "Attempts to publish by outcome: written, unchanged, failed.",
            ["outcome"],
            registry=registry,
        )
        self._gpus = Gauge("toposcope_agent_gpus", "GPUs that NVML sees.", registry=registry)
        self._state = Gauge(
            "toposcope_agent_state",
            "1 for the state that the node is in: ok, degraded, unknown.",
            ["state"],
            registry=registry,
        )
        build = Info("toposcope_agent_build", "Version of this agent.", registry=registry)
        build.info({"version": __version__})
        for outcome in ("written", "unchanged", "failed"):
            self.publishes.labels(outcome)

    def node(self, description: Description) -> None:
        """Show what the last probe said about the node."""
        topology = description.topology
        state = topology.state if topology else State.UNKNOWN if description.problem else State.OK
        for each in State:
            self._state.labels(each).set(each is state)
        if not description.problem:
            self._gpus.set(len(topology.gpus) if topology else 0)
