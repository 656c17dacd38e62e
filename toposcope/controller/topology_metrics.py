"""Metrics of every ClusterTopology, computed at each scrape: no series outlives its topology, level or domain."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, TypeVar

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from toposcope.api.conditions import Condition
from toposcope.controller.assess.assessment import Assessment
from toposcope.controller.assess.health import Health
from toposcope.controller.assess.rails import Rails
from toposcope.integrations.framework.published import Published
from toposcope.telemetry.families import Samples
from toposcope.telemetry.prometheus import gauge
from toposcope.topology.hardware import State
from toposcope.topology.hierarchy import Coverage, LevelSize


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
    ("topology_left_out_nodes", "Selected nodes that lack a level.", lambda report: report.left_out[0]),
    ("topology_left_out_gpus", "GPUs on the selected nodes that lack a level.", lambda report: report.left_out[1]),
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
    ("topology_rail_nodes", "Ready nodes that know the switch of a rail.", lambda report: report.rails.nodes),
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
    ("level_largest_domain_gpus", "GPUs in the largest domain of the level.", attrgetter("largest")),
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
            f"Selected nodes by what their agents say of them: {', '.join(State)}.",
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
            (((n, c.type, s), c.status == s) for n, r in reports for c in r.conditions for s in _STATUSES),
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
            available.append(((name, domain), usable.get(domain, False) and domain not in report.unavailable))
    yield _gauge("level_required", "1 where the spec or a workload asks for the level, else 0.", _LEVEL, required)
    yield _gauge("level_workloads", "Workloads that ask for the level.", _LEVEL, workloads)
    yield _gauge(
        "level_available", "1 where the level is in effect and on a node that takes pods, else 0.", _LEVEL, available
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
    yield _gauge(
        "degraded_nodes",
        f"Degraded nodes of the worst domains of each level; {OTHER}: those of all others and of domains of one node.",
        ("topology", "domain", "value"),
        nodes,
    )


def _published(name: str, report: Report) -> Iterator[_Sample]:
    for resource in report.published:
        group = resource.api_version.partition("/")[0]
        state = resource.reason or "InSync"
        for known in dict.fromkeys((*PUBLISHED_STATES, state)):
            yield (name, group, resource.kind, known), known == state


def _gauge(name: str, text: str, labels: tuple[str, ...], samples: Samples) -> Metric:
    return gauge(f"toposcope_{name}", text, labels, samples)
