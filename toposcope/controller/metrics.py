"""The controller's Prometheus metrics, each explained in docs/metrics.md; the registry is an argument, never global."""

import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import nan
from operator import itemgetter
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from toposcope import __version__
from toposcope.controller.topology_metrics import Report, TopologyMetrics
from toposcope.kube.client import Request
from toposcope.kube.reflector import RELIST_REASONS
from toposcope.kube.requests import resource_of, verb_of
from toposcope.telemetry.prometheus import counter, gauge


class RequestMetrics:
    """Counts requests by verb, resource and result; an `ApiClient`'s `observe`."""

    def __init__(self, registry: CollectorRegistry, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._requests = Counter(
            "toposcope_api_requests",
            "Requests to the API server by HTTP status of the answer; code none: there was no answer.",
            ["verb", "resource", "code"],
            registry=registry,
        )
        self._seconds = Histogram(
            "toposcope_api_request_duration_seconds",
            "How long requests to the API server took, watches left out.",
            ["verb"],
            buckets=(0.005, 0.025, 0.1, 0.5, 2, 10),
            registry=registry,
        )

    def __call__(self, request: Request) -> Callable[[int], None]:
        """As in `Observe`."""
        began = self._monotonic()

        def answered(code: int) -> None:
            verb = verb_of(request)
            self._requests.labels(verb, resource_of(request), str(code) if code else "none").inc()
            if verb != "watch":
                self._seconds.labels(verb).observe(self._monotonic() - began)

        return answered


class WatchMetrics(Collector):
    """An `Observer` of every watched collection. It counts in plain numbers: it is called for each event of each node.

    `now` is Unix time. Each collection has one thread that counts, so nothing is lost without a lock.
    """

    def __init__(self, registry: CollectorRegistry, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lists: Tally[tuple[str, str]] = Tally()
        self._events: Tally[str] = Tally()
        self._heard: dict[str, float] = {}
        registry.register(self)

    def listed(self, path: str, reason: str) -> None:
        """As in `Observer`."""
        if (path, reason) not in self._lists:
            # A series that begins at 1 shows no increase.
            self._lists.update(dict.fromkeys(((path, cause) for cause in RELIST_REASONS), 0))
        self._lists[path, reason] += 1
        self._heard.setdefault(path, self._now())

    def heard(self, path: str) -> None:
        """As in `Observer`."""
        self._events[path] += 1
        self._heard[path] = self._now()

    def ended(self, path: str) -> None:
        """As in `Observer`."""
        self._heard.pop(path, None)

    def collect(self) -> Iterator[Metric]:
        """The metrics; a collection that is no longer watched keeps its counts and loses its timestamp."""
        yield counter(
            "toposcope_lists",
            f"Whole reads of a followed collection, by reason: {', '.join(RELIST_REASONS)}.",
            ("resource", "reason"),
            _by_name(self._lists, lambda at: (_name(at[0]), at[1])),
        )
        yield counter(
            "toposcope_watch_events",
            "Events and bookmarks that came for a followed collection.",
            ("resource",),
            _by_name(self._events, lambda path: (_name(path),)),
        )
        # While one version replaces another both are watched for a moment.
        latest = {_name(path): moment for path, moment in sorted(dict(self._heard).items(), key=itemgetter(1))}
        yield gauge(
            "toposcope_watch_last_heard_timestamp_seconds",
            "When the API server last sent an event or a bookmark for a followed collection.",
            ("resource",),
            (((name,), moment) for name, moment in sorted(latest.items())),
        )


Key = TypeVar("Key", str, tuple[str, str])


def _by_name(counts: Mapping[Key, int], labels: Callable[[Key], tuple[str, ...]]) -> list[tuple[tuple[str, ...], int]]:
    """The counts by name: a kind that was watched in one version and then in another has two paths and one name."""
    sums: Tally[tuple[str, ...]] = Tally()
    for key, count in dict(counts).items():
        sums[labels(key)] += count
    return sorted(sums.items())


def _name(path: str) -> str:
    return resource_of(Request("GET", path, {}))


class ControllerMetrics:
    """Metrics of the controller's work and of every ClusterTopology; no series is about a single node."""

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
            "Passes over all ClusterTopologies by outcome: ok, failed, abandoned, interrupted.",
            ["outcome"],
            registry=registry,
        )
        self.left_out = Gauge(
            "toposcope_topologies_left_out",
            "ClusterTopologies that are not kept up to date because there are more than the supported number.",
            registry=registry,
        )
        self.config_problems = Gauge(
            "toposcope_config_problems", "What is wrong with the file of --config, entries.", registry=registry
        )
        self.requests = RequestMetrics(registry)
        self.watches = WatchMetrics(registry)
        self._topologies = TopologyMetrics()
        registry.register(self._topologies)
        Info("toposcope_build", "Version of this controller.", registry=registry).info({"version": __version__})
        # A series that begins at 1 shows no increase: rate() would miss the first failure.
        for outcome in ("ok", "failed", "abandoned", "interrupted"):
            self.reconciles.labels(outcome)

    def show(self, reports: Mapping[str, Report]) -> None:
        """Show these topologies and no others."""
        self._topologies.reports = dict(reports)


TOPOLOGY = "topology"
"""The label of series about a ClusterTopology."""


class LeaderMetrics:
    """Whether this process leads, how often that changed, and whether admission policies confine it (None: unknown)."""

    def __init__(
        self,
        registry: CollectorRegistry,
        may_write: Callable[[], bool],
        confined: Callable[[], bool | None] = lambda: None,
    ) -> None:
        leader = Gauge("toposcope_leader", "1 while this process may write, else 0.", registry=registry)
        leader.set_function(may_write)
        self.transitions = Counter(
            "toposcope_leader_transitions", "How often this process began or ceased to lead.", registry=registry
        )

        def value() -> float:
            known = confined()
            return nan if known is None else known

        text = "1 while the admission policies refuse what they must, 0 while they do not, NaN while that is not known."
        Gauge("toposcope_confined", text, registry=registry).set_function(value)


class LeaderOnly(Collector):
    """`registry`, without a follower's series about topologies: an alert on those would never resolve."""

    def __init__(self, registry: CollectorRegistry, leads: Callable[[], bool]) -> None:
        self._registry = registry
        self._leads = leads

    def collect(self) -> Iterable[Metric]:
        """All metrics; those with a series about a topology only while this process leads."""
        for family in self._registry.collect():
            if self._leads() or not any(TOPOLOGY in sample.labels for sample in family.samples):
                yield family
