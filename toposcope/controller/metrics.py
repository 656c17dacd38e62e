"""The controller's Prometheus metrics, each explained in docs/metrics.md; the registry is an argument, never global.

Those of ClusterTopologies are computed at each scrape: no series outlives its topology, level or domain.
"""

import functools
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from operator import attrgetter, itemgetter
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from toposcope import __version__
from toposcope.api.conditions import Condition
from toposcope.controller.assess.assessment import Assessment
from toposcope.controller.assess.health import Health
from toposcope.controller.assess.rails import Rails
from toposcope.hardware.topology import State
from toposcope.hierarchy.coverage import Coverage, LevelSize
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
    left_out: tuple[int, int]
    """Nodes and GPUs."""
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
        coverage=_once(assessment.coverage),
        sizes=_once(sizes),
        health=assessment.health,
        rails=assessment.rails,
        conditions=tuple(conditions),
        published=tuple(published),
        required=required,
        unavailable=assessment.unavailable,
    )


PerLevel = TypeVar("PerLevel", Coverage, LevelSize)


def _once(measures: Sequence[PerLevel]) -> tuple[PerLevel, ...]:
    """The first of each domain: a spec that names one twice must not create two series of one name."""
    return tuple({measure.level.domain: measure for measure in reversed(measures)}.values())[::-1]


OTHER: Final = "_other"
"""The other domains of a level; no label value begins like this, so it cannot be a domain."""

PUBLISHED_STATES: Final = ("InSync", "Waiting", "Conflict", "Rejected", "NotServed", "DryRun")
_STATUSES: Final = ("True", "False", "Unknown")

_Sample = tuple[tuple[str, ...], float]


_LEVEL: Final = ("topology", "domain")
_PER_TOPOLOGY: Final[tuple[tuple[str, str, Callable[[Report], int]], ...]] = (
    ("topology_nodes", "Selected nodes.", lambda report: report.nodes),
    ("topology_gpus", "GPUs on the selected nodes.", lambda report: report.gpus),
    (
        "topology_left_out_nodes",
        "Selected nodes that lack a level.",
        lambda report: report.left_out[0],
    ),
    (
        "topology_left_out_gpus",
        "GPUs on the selected nodes that lack a level.",
        lambda report: report.left_out[1],
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
        for name, text, number in _PER_TOPOLOGY:
            yield _gauge(name, text, ("topology",), (((n,), number(r)) for n, r in reports))
        yield _gauge(
            "topology_node_states",
            f"Selected nodes by the state that their agents report: {', '.join(State)}.",
            ("topology", "state"),
            (((n, state.value), r.health.count(state)) for n, r in reports for state in State),
        )
        covered = [((n, c.level.domain), c, r.nodes) for n, r in reports for c in r.coverage]
        for name, text, count in _PER_COVERAGE:
            yield _gauge(name, text, _LEVEL, ((at, count(coverage)) for at, coverage, _ in covered))
        yield _gauge(
            "level_coverage_ratio",
            "Share of the selected nodes that carry the level.",
            _LEVEL,
            ((at, coverage.nodes / nodes) for at, coverage, nodes in covered if nodes),
        )
        sizes = [((n, size.level.domain), size) for n, r in reports for size in r.sizes]
        for name, text, gpus in _PER_SIZE:
            yield _gauge(name, text, _LEVEL, ((at, gpus(size)) for at, size in sizes))
        yield from _demand(reports)
        yield from _degraded(reports)
        yield _gauge(
            "published_state",
            f"1 for the state of each published resource: {', '.join(PUBLISHED_STATES)}.",
            ("topology", "group", "kind", "state"),
            (sample for n, r in reports for sample in _published(n, r)),
        )
        yield _gauge(
            "condition",
            "1 for the status of each condition: True, False, Unknown.",
            ("topology", "type", "status"),
            (
                ((n, c.type, s), c.status == s)
                for n, r in reports
                for c in r.conditions
                for s in _STATUSES
            ),
        )


def _demand(reports: Iterable[tuple[str, Report]]) -> Iterator[Metric]:
    """What is asked for and what is there: levels in effect, and those that are asked for and not there."""
    required: list[_Sample] = []
    workloads: list[_Sample] = []
    available: list[_Sample] = []
    for name, report in reports:
        usable = {coverage.level.domain: coverage.usable > 0 for coverage in report.coverage}
        for domain in sorted({*usable, *report.required}):
            required.append(((name, domain), domain in report.required))
            workloads.append(((name, domain), report.required.get(domain, 0)))
            available.append(
                ((name, domain), usable.get(domain, False) and domain not in report.unavailable)
            )
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


def _degraded(reports: Iterable[tuple[str, Report]]) -> Iterator[Metric]:
    nodes: list[_Sample] = []
    domains: list[_Sample] = []
    for name, report in reports:
        degraded = {level.level: level for level in report.health.levels}
        for coverage in report.coverage:
            domain = coverage.level.domain
            level = degraded.get(coverage.level)
            domains.append(((name, domain), level.domains if level else 0))
            if level:
                nodes += [((name, domain, worst.name), worst.degraded) for worst in level.worst]
                rest = level.nodes - sum(worst.degraded for worst in level.worst)
                nodes += [((name, domain, OTHER), rest)] if rest else []
    yield _gauge("degraded_domains", "Domains of the level with degraded nodes.", _LEVEL, domains)
    text = f"Degraded nodes of the worst domains of each level; {OTHER}: those of all others and of domains of one node."
    yield _gauge("degraded_nodes", text, ("topology", "domain", "value"), nodes)


def _published(name: str, report: Report) -> Iterator[_Sample]:
    for resource in report.published:
        group = resource.api_version.partition("/")[0]
        state = resource.reason or "InSync"
        for known in dict.fromkeys((*PUBLISHED_STATES, state)):
            yield (name, group, resource.kind, known), known == state


def _gauge(name: str, text: str, labels: tuple[str, ...], samples: Samples) -> Metric:
    return gauge(f"toposcope_{name}", text, labels, samples)


class RequestMetrics:
    """Counts requests by verb, resource and result; an `ApiClient`'s `observe`."""

    def __init__(self, registry: CollectorRegistry, runtime: Runtime = REAL) -> None:
        self._runtime = runtime
        text = "Requests to the API server by HTTP status of the answer; code none: there was no answer."
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
        self._requests, self._seconds = (
            functools.cache(requests.labels),
            functools.cache(seconds.labels),
        )

    def __call__(self, request: Request) -> Callable[[int], None]:
        """As in `Observe`."""
        began = self._runtime.monotonic()

        def answered(code: int) -> None:
            verb = verb_of(request)
            self._requests(verb, resource_of(request), str(code) if code else "none").inc()
            if verb != "watch":
                self._seconds(verb).observe(self._runtime.monotonic() - began)

        return answered


class WatchMetrics(Collector):
    """An `Observer` of every watched collection.

    It counts in plain numbers: it is called for each event of each node.

    Each collection has one thread that counts, so nothing is lost without a lock.
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
            self._lists.update(dict.fromkeys(((path, cause) for cause in RELIST_REASONS), 0))
        self._lists[path, reason] += 1
        self._heard.setdefault(path, self._runtime.now().timestamp())

    def heard(self, path: str) -> None:
        """As in `Observer`."""
        self._events[path] += 1
        self._heard[path] = self._runtime.now().timestamp()

    def ended(self, path: str) -> None:
        """As in `Observer`."""
        self._heard.pop(path, None)

    def collect(self) -> Iterator[Metric]:
        """The metrics; a collection that is no longer watched keeps its counts and loses its timestamp."""
        text = f"Whole reads of a followed collection, by reason: {', '.join(RELIST_REASONS)}."
        yield counter(
            "toposcope_lists",
            text,
            ("resource", "reason"),
            _by_name(self._lists, lambda at: (_name(at[0]), at[1])),
        )
        text = "Events and bookmarks received for a watched collection."
        yield counter(
            "toposcope_watch_events",
            text,
            ("resource",),
            _by_name(self._events, lambda path: (_name(path),)),
        )
        # While one version replaces another both are watched for a moment.
        latest = {
            _name(path): moment
            for path, moment in sorted(dict(self._heard).items(), key=itemgetter(1))
        }
        text = "When the API server last sent an event or a bookmark for a followed collection."
        moments = (((name,), moment) for name, moment in sorted(latest.items()))
        yield gauge("toposcope_watch_last_heard_timestamp_seconds", text, ("resource",), moments)


Key = TypeVar("Key", str, tuple[str, str])


def _by_name(
    counts: Mapping[Key, int], labels: Callable[[Key], tuple[str, ...]]
) -> list[tuple[tuple[str, ...], int]]:
    """The counts by name: a kind that was watched in one version and then in another has two paths and one name."""
    sums: Tally[tuple[str, ...]] = Tally()
    for key, count in dict(counts).items():
        sums[labels(key)] += count
    return sorted(sums.items())


def _name(path: str) -> str:
    return resource_of(Request("GET", path, {}))


class ControllerMetrics:
    """Metrics of the controller's work and of every ClusterTopology; no series is about a single node."""

    def __init__(self, registry: CollectorRegistry, runtime: Runtime = REAL) -> None:
        self.nodes = Gauge(
            "toposcope_nodes", "Nodes that the controller follows.", registry=registry
        )
        text = "When all ClusterTopologies were last brought up to date, in Unix time; 0 until they were."
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
        text = "ClusterTopologies that are not kept up to date because there are more than the supported number."
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
    """Whether this process leads, how often that changed, and whether admission policies confine it (None: unknown)."""

    def __init__(
        self,
        registry: CollectorRegistry,
        may_write: Callable[[], bool],
        confined: Callable[[], bool | None] = lambda: None,
    ) -> None:
        leader = Gauge(
            "toposcope_leader", "1 while this process may write, else 0.", registry=registry
        )
        leader.set_function(may_write)
        self.transitions = Counter(
            "toposcope_leader_transitions",
            "How often this process started or stopped leading.",
            registry=registry,
        )

        def value() -> float:
            known = confined()
            return nan if known is None else known

        text = (
            "1 while the admission policies refuse what they must and RBAC grants no more than is needed, else 0; "
            "NaN while that is not known."
        )
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
