"""The controller's Prometheus metrics, each explained in docs/metrics.md.

The registry is an argument, never global.

Those of ClusterTopologies are computed at each scrape: no series outlives its topology, level or
domain.
"""

import functools
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from operator import attrgetter
from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from toposcope import __version__
from toposcope.api.conditions import Condition
from toposcope.controller.assess.assessment import Assessment, LeftOutSelection
from toposcope.controller.assess.health import DegradedLevel, Health
from toposcope.controller.assess.rails import Rails
from toposcope.hardware.topology import State
from toposcope.hierarchy.coverage import Coverage, LevelSize, once_by_domain
from toposcope.integrations.framework.published import Published
from toposcope.kube.client import Request
from toposcope.kube.reflector import RELIST_REASONS
from toposcope.kube.requests import resource_of, verb_of
from toposcope.kube.runtime import REAL, Runtime
from toposcope.telemetry.families import Samples
from toposcope.telemetry.prometheus import counter, gauge


@dataclass(frozen=True, slots=True)
class Report:
    """The numbers, without the nodes behind them."""

    nodes: int
    gpus: int
    left_out: LeftOutSelection
    coverage: tuple[Coverage, ...]
    sizes: tuple[LevelSize, ...]
    health: Health
    rails: Rails
    conditions: tuple[Condition, ...]
    published: tuple[Published, ...]
    required: Mapping[str, int]
    """By domain: workloads that ask for it; 0 where only the spec does."""
    unavailable: tuple[str, ...]


def report(
    assessment: Assessment,
    conditions: Sequence[Condition],
    published: Sequence[Published],
    required: Mapping[str, int],
    sizes: Sequence[LevelSize],
) -> Report:
    """All that is shown of one pass, without the nodes."""
    return Report(
        nodes=assessment.nodes,
        gpus=assessment.gpus,
        left_out=assessment.left_out,
        coverage=once_by_domain(assessment.coverage),
        sizes=once_by_domain(sizes),
        health=assessment.health,
        rails=assessment.rails,
        conditions=tuple(conditions),
        published=tuple(published),
        required=required,
        unavailable=assessment.unavailable,
    )


OTHER: Final = "_other"
"""The other domains of a level; no label value begins like this, so it cannot be a domain."""

PUBLISHED_STATES: Final = ("InSync", "Waiting", "Conflict", "Rejected", "NotServed", "DryRun")
_STATUSES: Final = ("True", "False", "Unknown")

_Sample = tuple[tuple[str, ...], float]
_Reports: TypeAlias = Sequence[tuple[str, Report]]
"""By the topology's name."""

_LEVEL: Final = ("topology", "domain")
_PER_TOPOLOGY: Final[tuple[tuple[str, str, Callable[[Report], int]], ...]] = (
    ("topology_nodes", "Selected nodes.", lambda report: report.nodes),
    ("topology_gpus", "GPUs on the selected nodes.", lambda report: report.gpus),
    (
        "topology_left_out_nodes",
        "Selected nodes that lack a level.",
        lambda report: report.left_out.nodes,
    ),
    (
        "topology_left_out_gpus",
        "GPUs on the selected nodes that lack a level.",
        lambda report: report.left_out.gpus,
    ),
    (
        "topology_split_domains",
        "Chassis in several NVLink fabrics, and fabrics in several cliques.",
        lambda report: len(report.health.fabric.splits),
    ),
    (
        "topology_small_domains",
        "NVLink domains with fewer GPUs than most of their siblings have.",
        lambda report: len(report.health.fabric.small),
    ),
    (
        "topology_rail_nodes",
        "Ready nodes that know the switch of a rail.",
        lambda report: report.rails.nodes,
    ),
    (
        "topology_miscabled_rails",
        "Rails that end in another switch than those of their peers.",
        lambda report: len(report.rails.miscabled),
    ),
)
_PER_COVERAGE: Final = (
    ("level_domains", "Domains of the level.", attrgetter("domains")),
    ("level_nodes", "Selected nodes with the level.", attrgetter("nodes")),
    ("level_nodes_missing", "Selected nodes without the level.", attrgetter("missing")),
)
_PER_SIZE: Final = (
    ("level_gpus", "GPUs on nodes with the level.", attrgetter("gpus")),
    (
        "level_largest_domain_gpus",
        "GPUs in the largest domain of the level.",
        attrgetter("largest"),
    ),
)


class TopologyMetrics(Collector):
    """Shows `reports`, which the reconcile loop sets; by topology name."""

    def __init__(self) -> None:
        self.reports: Mapping[str, Report] = {}

    def collect(self) -> Iterator[Metric]:
        """The families; none has a series about a single node."""
        reports = sorted(self.reports.items())
        yield from _counts(reports)
        yield _node_states(reports)
        yield from _coverage(reports)
        yield from _sizes(reports)
        yield from _demand(reports)
        yield from _degraded(reports)
        yield _published_states(reports)
        yield _conditions(reports)


def _counts(reports: _Reports) -> Iterator[Metric]:
    """What is counted of each topology."""
    for name, text, number in _PER_TOPOLOGY:
        samples: list[_Sample] = []
        for topology, report in reports:
            labels = (topology,)
            samples.append((labels, number(report)))
        yield _gauge(name, text, ("topology",), samples)


def _node_states(reports: _Reports) -> Metric:
    samples: list[_Sample] = []
    for topology, report in reports:
        for state in State:
            labels = (topology, state.value)
            samples.append((labels, report.health.count(state)))
    states = ", ".join(State)
    text = f"Selected nodes by the state that their agents report: {states}."
    return _gauge("topology_node_states", text, ("topology", "state"), samples)


def _coverage(reports: _Reports) -> Iterator[Metric]:
    """The nodes of each level."""
    for name, text, count in _PER_COVERAGE:
        samples: list[_Sample] = []
        for topology, report in reports:
            for coverage in report.coverage:
                labels = (topology, coverage.level.domain)
                samples.append((labels, count(coverage)))
        yield _gauge(name, text, _LEVEL, samples)
    ratios: list[_Sample] = []
    for topology, report in reports:
        if not report.nodes:
            continue
        for coverage in report.coverage:
            labels = (topology, coverage.level.domain)
            ratio = coverage.nodes / report.nodes
            ratios.append((labels, ratio))
    text = "Share of the selected nodes that carry the level."
    yield _gauge("level_coverage_ratio", text, _LEVEL, ratios)


def _sizes(reports: _Reports) -> Iterator[Metric]:
    """The GPUs of each level."""
    for name, text, gpus in _PER_SIZE:
        samples: list[_Sample] = []
        for topology, report in reports:
            for size in report.sizes:
                labels = (topology, size.level.domain)
                samples.append((labels, gpus(size)))
        yield _gauge(name, text, _LEVEL, samples)


def _demand(reports: _Reports) -> Iterator[Metric]:
    """What is asked for and what is there.

    Levels in effect, and those that are asked for and not there.
    """
    required: list[_Sample] = []
    workloads: list[_Sample] = []
    available: list[_Sample] = []
    for topology, report in reports:
        usable = {coverage.level.domain: coverage.usable > 0 for coverage in report.coverage}
        for domain in sorted({*usable, *report.required}):
            is_available = usable.get(domain, False) and domain not in report.unavailable
            labels = (topology, domain)
            required.append((labels, domain in report.required))
            workloads.append((labels, report.required.get(domain, 0)))
            available.append((labels, is_available))
    yield _gauge(
        "level_required",
        "1 if the spec or a workload asks for the level, else 0.",
        _LEVEL,
        required,
    )
    yield _gauge("level_workloads", "Workloads that ask for the level.", _LEVEL, workloads)
    yield _gauge(
        "level_available",
        "1 if the level is in effect and on a node that takes pods, else 0.",
        _LEVEL,
        available,
    )


def _degraded(reports: _Reports) -> Iterator[Metric]:
    nodes: list[_Sample] = []
    domains: list[_Sample] = []
    for topology, report in reports:
        degraded = {level.level: level for level in report.health.levels}
        for coverage in report.coverage:
            labels = (topology, coverage.level.domain)
            level = degraded.get(coverage.level)
            domains.append((labels, level.domains if level else 0))
            if level:
                nodes += _degraded_nodes(labels, level)
    yield _gauge("degraded_domains", "Domains of the level with degraded nodes.", _LEVEL, domains)
    text = (
        "Degraded nodes of the worst domains of each level; "
        f"{OTHER}: those of all others and of domains of one node."
    )
    yield _gauge("degraded_nodes", text, ("topology", "domain", "value"), nodes)


def _degraded_nodes(labels: tuple[str, str], level: DegradedLevel) -> Iterator[_Sample]:
    """The degraded nodes of the worst domains, and of all others."""
    other_nodes = level.nodes
    for worst in level.worst:
        yield (*labels, worst.name), worst.degraded
        other_nodes -= worst.degraded
    if other_nodes:
        yield (*labels, OTHER), other_nodes


def _published_states(reports: _Reports) -> Metric:
    samples: list[_Sample] = []
    for topology, report in reports:
        for resource in report.published:
            group = resource.api_version.partition("/")[0]
            state = resource.reason or "InSync"
            for known in dict.fromkeys((*PUBLISHED_STATES, state)):
                labels = (topology, group, resource.kind, known)
                samples.append((labels, known == state))
    states = ", ".join(PUBLISHED_STATES)
    text = f"1 for the state of each published resource: {states}."
    labels_of_state = ("topology", "group", "kind", "state")
    return _gauge("published_state", text, labels_of_state, samples)


def _conditions(reports: _Reports) -> Metric:
    samples: list[_Sample] = []
    for topology, report in reports:
        for condition in report.conditions:
            for status in _STATUSES:
                labels = (topology, condition.type, status)
                samples.append((labels, condition.status == status))
    text = "1 for the status of each condition: True, False, Unknown."
    return _gauge("condition", text, ("topology", "type", "status"), samples)


def _gauge(name: str, text: str, labels: tuple[str, ...], samples: Samples) -> Metric:
    return gauge(f"toposcope_{name}", text, labels, samples)


class RequestMetrics:
    """Counts requests by verb, resource and result; an `ApiClient`'s `observe`."""

    def __init__(self, registry: CollectorRegistry, runtime: Runtime = REAL) -> None:
        self._runtime = runtime
        text = (
            "Requests to the API server by HTTP status of the answer; "
            "code none: there was no answer."
        )
        requests = Counter(
            "toposcope_api_requests", text, ["verb", "resource", "code"], registry=registry
        )
        seconds = Histogram(
            "toposcope_api_request_duration_seconds",
            "How long requests to the API server took, except watches.",
            ["verb"],
            buckets=(0.005, 0.025, 0.1, 0.5, 2, 10),
            registry=registry,
        )
        self._requests = functools.cache(requests.labels)
        self._seconds = functools.cache(seconds.labels)

    def __call__(self, request: Request) -> Callable[[int], None]:
        """As in `Observe`."""
        began = self._runtime.monotonic()

        def answered(code: int) -> None:
            verb = verb_of(request)
            result = str(code) if code else "none"
            self._requests(verb, resource_of(request), result).inc()
            if verb != "watch":
                seconds = self._runtime.monotonic() - began
                self._seconds(verb).observe(seconds)

        return answered


class WatchMetrics(Collector):
    """An `Observer` of every watched collection.

    It counts in plain numbers, because it is called for each event of each node. Each collection
    has one thread that counts, so it needs no lock.
    """

    def __init__(self, registry: CollectorRegistry, runtime: Runtime = REAL) -> None:
        self._runtime = runtime
        self._lists: Tally[tuple[str, str]] = Tally()
        self._events: Tally[str] = Tally()
        self._heard: dict[str, float] = {}
        registry.register(self)

    def listed(self, path: str, reason: str) -> None:
        """As in `Observer`."""
        if (path, reason) not in self._lists:
            # A series that begins at 1 shows no increase.
            for known in RELIST_REASONS:
                self._lists[path, known] += 0
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
        """The metrics.

        A collection that is no longer watched keeps its counts and loses its timestamp.
        """
        yield self._counted_lists()
        yield self._counted_events()
        text = "When the API server last sent an event or a bookmark for a followed collection."
        name = "toposcope_watch_last_heard_timestamp_seconds"
        yield gauge(name, text, ("resource",), self._last_heard())

    def _counted_lists(self) -> Metric:
        lists: Tally[tuple[str, ...]] = Tally()
        for (path, reason), count in dict(self._lists).items():
            labels = (_name(path), reason)
            lists[labels] += count
        reasons = ", ".join(RELIST_REASONS)
        text = f"Whole reads of a followed collection, by reason: {reasons}."
        samples = sorted(lists.items())
        return counter("toposcope_lists", text, ("resource", "reason"), samples)

    def _counted_events(self) -> Metric:
        events: Tally[tuple[str, ...]] = Tally()
        for path, count in dict(self._events).items():
            labels = (_name(path),)
            events[labels] += count
        text = "Events and bookmarks received for a watched collection."
        samples = sorted(events.items())
        return counter("toposcope_watch_events", text, ("resource",), samples)

    def _last_heard(self) -> list[_Sample]:
        """When each resource was last heard of.

        While one version replaces another both are watched for a moment.
        """
        latest: dict[tuple[str, ...], float] = {}
        for path, moment in dict(self._heard).items():
            labels = (_name(path),)
            before = latest.get(labels, moment)
            latest[labels] = max(moment, before)
        return sorted(latest.items())

    def _now(self) -> float:
        """In Unix time."""
        return self._runtime.now().timestamp()


def _name(path: str) -> str:
    return resource_of(Request("GET", path, {}))


class ControllerMetrics:
    """Metrics of the controller's work and of every ClusterTopology.

    No series is about a single node.
    """

    def __init__(self, registry: CollectorRegistry, runtime: Runtime = REAL) -> None:
        self.nodes = Gauge(
            "toposcope_nodes", "Nodes that the controller watches.", registry=registry
        )
        text = (
            "When all ClusterTopologies were last brought up to date, in Unix time; "
            "0 until they were."
        )
        self.last_sync = Gauge(
            "toposcope_last_successful_reconcile_timestamp_seconds", text, registry=registry
        )
        text = "How long it took to assess, publish and write."
        self.reconcile_seconds = Histogram(
            "toposcope_reconcile_duration_seconds",
            text,
            buckets=(0.005, 0.02, 0.1, 0.5, 2, 10),
            registry=registry,
        )
        text = "From the first change until it was handled, debounce and failed passes included."
        self.reaction_seconds = Histogram(
            "toposcope_reaction_duration_seconds",
            text,
            buckets=(0.02, 0.1, 0.5, 1, 2, 5, 15, 60),
            registry=registry,
        )
        text = "Passes over all ClusterTopologies by outcome: ok, failed, abandoned, interrupted."
        self.reconciles = Counter("toposcope_reconciles", text, ["outcome"], registry=registry)
        text = (
            "ClusterTopologies that are not kept up to date "
            "because there are more than the supported number."
        )
        self.left_out = Gauge("toposcope_topologies_left_out", text, registry=registry)
        self.config_problems = Gauge(
            "toposcope_config_problems", "Invalid entries of the --config file.", registry=registry
        )
        self.requests = RequestMetrics(registry, runtime)
        self.watches = WatchMetrics(registry, runtime)
        self._topologies = TopologyMetrics()
        registry.register(self._topologies)
        Info("toposcope_build", "Version of this controller.", registry=registry).info(
            {"version": __version__}
        )
        # A series that begins at 1 shows no increase: rate() would miss the first failure.
        for outcome in ("ok", "failed", "abandoned", "interrupted"):
            self.reconciles.labels(outcome)

    def show(self, reports: Mapping[str, Report]) -> None:
        """Show these topologies and no others."""
        self._topologies.reports = dict(reports)


TOPOLOGY = "topology"
"""The label of series about a ClusterTopology."""


class LeaderMetrics:
    """Whether this process leads, how often that changed, and whether policies confine it.

    `confined` is None while that is not known.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        can_write: Callable[[], bool],
        confined: Callable[[], bool | None] = lambda: None,
    ) -> None:
        leader = Gauge(
            "toposcope_leader", "1 while this process may write, else 0.", registry=registry
        )
        leader.set_function(can_write)
        self.transitions = Counter(
            "toposcope_leader_transitions",
            "How often this process started or stopped leading.",
            registry=registry,
        )

        def value() -> float:
            answer = confined()
            return nan if answer is None else answer

        text = (
            "1 while the admission policies refuse what they must "
            "and RBAC grants no more than is needed, else 0; "
            "NaN while that is not known."
        )
        Gauge("toposcope_confined", text, registry=registry).set_function(value)


class LeaderOnly(Collector):
    """`registry`, without a follower's series about topologies.

    An alert on those would never resolve.
    """

    def __init__(self, registry: CollectorRegistry, leads: Callable[[], bool]) -> None:
        self._registry = registry
        self._leads = leads

    def collect(self) -> Iterable[Metric]:
        """All metrics; those with a series about a topology only while this process leads."""
        for family in self._registry.collect():
            about_topologies = any(TOPOLOGY in sample.labels for sample in family.samples)
            if self._leads() or not about_topologies:
                yield family
