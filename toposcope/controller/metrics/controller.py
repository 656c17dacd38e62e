"""The controller's Prometheus metrics, each explained in docs/metrics.md; the registry is an argument, never global."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from toposcope import __version__
from toposcope.controller.metrics.requests import RequestMetrics, WatchMetrics
from toposcope.controller.metrics.topology import Report, TopologyMetrics


class ControllerMetrics:
    """What the controller tells of its work and of every ClusterTopology; no series is about a single node."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.nodes = Gauge("toposcope_nodes", "Nodes that the controller follows.", registry=registry)
        self.last_sync = Gauge(
            "toposcope_last_successful_reconcile_timestamp_seconds",
            "When all ClusterTopologies were last brought up to date, in Unix time; 0 until they were.",
            registry=registry,
        )
        self.reconcile_seconds = Histogram(
            "toposcope_reconcile_duration_seconds",
            "How long it took to assess, publish and write.",
            buckets=(0.005, 0.02, 0.1, 0.5, 2, 10),
            registry=registry,
        )
        self.reaction_seconds = Histogram(
            "toposcope_reaction_duration_seconds",
            "From the first change that came until it was dealt with, debounce and failed passes included.",
            buckets=(0.02, 0.1, 0.5, 1, 2, 5, 15, 60),
            registry=registry,
        )
        self.reconciles = Counter(
            "toposcope_reconciles",
            "Passes over all ClusterTopologies by outcome: ok, failed, abandoned.",
            ["outcome"],
            registry=registry,
        )
        self.config_problems = Gauge(
            "toposcope_config_problems",
            "What is wrong with the file of --config, entries.",
            registry=registry,
        )
        self.requests = RequestMetrics(registry)
        self.watches = WatchMetrics(registry)
        self._topologies = TopologyMetrics()
        registry.register(self._topologies)
        Info("toposcope_build", "Version of this controller.", registry=registry).info({"version": __version__})
        # A series that begins at 1 shows no increase: rate() would miss the first failure.
        for outcome in ("ok", "failed", "abandoned"):
            self.reconciles.labels(outcome)

    def show(self, reports: Mapping[str, Report]) -> None:
        """Show these topologies and no others."""
        self._topologies.reports = dict(reports)
