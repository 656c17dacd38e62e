"""The controller's Prometheus metrics; gauges are set anew from every assessment, so none outlives its subject."""

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from controller.assess import Assessment
from topology.version import __version__


class ControllerMetrics:
    """What the controller tells of its work and of every ClusterTopology; no series is about a single node."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.nodes = Gauge("toposcope_nodes", "Nodes that the controller follows.", registry=registry)
        self.last_sync = Gauge(
            "toposcope_last_successful_reconcile_timestamp_seconds",
            "When all ClusterTopologies were last brought up to date.",
            registry=registry,
        )
        self.reconcile_seconds = Histogram(
            "toposcope_reconcile_duration_seconds",
            "How long it took to assess, publish and write.",
            buckets=(0.005, 0.02, 0.1, 0.5, 2, 10),
            registry=registry,
        )
        self.reconciles = Counter(
            "toposcope_reconciles", "Passes over all ClusterTopologies by outcome.", ["outcome"], registry=registry
        )
        self.config_problems = Gauge(
            "toposcope_config_problems", "What is wrong with the file of --config, entries.", registry=registry
        )
        self._level_nodes = Gauge(
            "toposcope_level_nodes",
            "Selected nodes that carry the level.",
            ["topology", "domain"],
            registry=registry,
        )
        self._level_missing = Gauge(
            "toposcope_level_nodes_missing",
            "Selected nodes that lack the level.",
            ["topology", "domain"],
            registry=registry,
        )
        self._level_domains = Gauge(
            "toposcope_level_domains", "Domains of the level.", ["topology", "domain"], registry=registry
        )
        self._gpus = Gauge("toposcope_topology_gpus", "GPUs on the selected nodes.", ["topology"], registry=registry)
        self._conditions = Gauge(
            "toposcope_condition",
            "1 for the status that each condition has.",
            ["topology", "type", "status"],
            registry=registry,
        )
        build = Info("toposcope_build", "Version of this controller.", registry=registry)
        build.info({"version": __version__})
        for outcome in ("ok", "failed", "abandoned"):
            self.reconciles.labels(outcome)

    def show(self, assessments: Mapping[str, Assessment]) -> None:
        """Show what the last pass found."""
        for gauge in (self._level_nodes, self._level_missing, self._level_domains, self._gpus, self._conditions):
            gauge.clear()
        for name, assessment in assessments.items():
            self._gpus.labels(name).set(assessment.gpus)
            for coverage in assessment.coverage:
                self._level_nodes.labels(name, coverage.level.domain).set(coverage.nodes)
                self._level_missing.labels(name, coverage.level.domain).set(coverage.missing)
                self._level_domains.labels(name, coverage.level.domain).set(coverage.domains)
            for condition in assessment.conditions:
                for status in _STATUSES:
                    self._conditions.labels(name, condition.type, status).set(condition.status == status)


_STATUSES: Iterable[str] = ("True", "False", "Unknown")
