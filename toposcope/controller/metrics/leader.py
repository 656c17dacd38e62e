"""Metrics of leadership, and which of the others only the leader shows."""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

TOPOLOGY = "topology"
"""The label that makes a series one about a ClusterTopology."""


class LeaderMetrics:
    """Whether this process leads, and how often that changed."""

    def __init__(self, registry: CollectorRegistry, may_write: Callable[[], bool]) -> None:
        leader = Gauge("toposcope_leader", "1 while this process may write, else 0.", registry=registry)
        leader.set_function(may_write)
        self.transitions = Counter(
            "toposcope_leader_transitions", "How often this process began or ceased to lead.", registry=registry
        )


class LeadersView(Collector):
    """What is in `registry`, without the series about topologies while another process leads.

    A follower's would be those of its last term, beside the leader's own: an alert would fire on one of them for ever.
    """

    def __init__(self, registry: CollectorRegistry, leads: Callable[[], bool]) -> None:
        self._registry = registry
        self._leads = leads

    def collect(self) -> Iterable[Metric]:
        """All families; those of which a series names a topology only while this process leads."""
        for family in self._registry.collect():
            if self._leads() or not any(TOPOLOGY in sample.labels for sample in family.samples):
                yield family
