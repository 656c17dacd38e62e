"""Metrics: name, type, labels and help text as a scrape gets them.

`metrics.toml` adds what those have no room for.
"""

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from tools.docgen.tables import code, listed
from tools.figures import markdown
from toposcope.agent.collector import AgentCollector
from toposcope.agent.fabric import HEALTH_BITS
from toposcope.agent.metrics import AgentMetrics
from toposcope.controller.metrics import TOPOLOGY, ControllerMetrics, LeaderMetrics
from toposcope.errors import ToposcopeError
from toposcope.ui import planning_count, planning_metrics

NOTES: Final = Path(__file__).parent / "metrics.toml"
_SUFFIX: Final = {"counter": "_total", "info": "_info"}


class ForgottenNoteError(ToposcopeError):
    """`metrics.toml` names a metric that does not exist, or lacks the series of one that does."""


@dataclass(frozen=True, slots=True)
class Family:
    """A metric as queries name it."""

    name: str
    type: str
    labels: tuple[str, ...]
    help: str


class _Collected(CollectorRegistry):
    """Keeps what is registered with it, to ask each for its labels without a sample."""

    def __init__(self) -> None:
        super().__init__()
        self.collectors: list[Collector] = []

    def register(self, collector: Collector) -> None:
        super().register(collector)
        self.collectors.append(collector)


def families() -> dict[str, list[Family]]:
    """Every metric of each program with all its flags, by the part of the page that it is in."""
    registry = _Collected()
    ControllerMetrics(registry)
    LeaderMetrics(registry, lambda: True)
    controller = list(_families(registry.collectors))
    served = SimpleNamespace(
        collect=lambda: (
            *planning_metrics.families({}, 1),
            *planning_count.of_the_count(0.0, 0.0),
        )
    )
    return {
        "agent": [*_families([AgentCollector(AgentMetrics(), has_pairs=True)])],
        "topologies": [family for family in controller if TOPOLOGY in family.labels],
        "work": [family for family in controller if TOPOLOGY not in family.labels],
        "planning": [*_families([served])],
    }


def notes() -> dict[str, dict[str, str]]:
    """Metric to `more` (what to know beside the help text) and `series` (how many there are).

    Raises ForgottenNoteError when a metric that is spoken of does not exist.
    """
    text = NOTES.read_text(encoding="utf-8")
    notes: dict[str, dict[str, str]] = tomllib.loads(text)
    unknown = set(notes)
    for part in families().values():
        for family in part:
            unknown.discard(family.name)

    if unknown:
        names = ", ".join(sorted(unknown))
        raise ForgottenNoteError(f"{NOTES.name}: no such metric: {names}")
    return notes


def _families(collectors: Iterable[Any]) -> Iterator[Family]:
    for collector in collectors:
        for metric in collector.collect():
            suffix = _SUFFIX.get(metric.type, "")
            kind = metric.type
            if kind == "info":
                kind = "gauge"
            yield Family(
                metric.name + suffix,
                kind,
                _labels(collector, metric),
                metric.documentation,
            )


def _labels(collector: Any, metric: Any) -> tuple[str, ...]:
    """The labels of a metric: its own, or those of the collector that it belongs to.

    The client library exposes neither publicly.
    """
    for holder in (metric, collector):
        names = getattr(holder, "labelnames", None) or getattr(holder, "_labelnames", None)
        if names:
            return tuple(names)
    return tuple(metric.samples[0].labels) if metric.type == "info" else ()


def table(part: str) -> str:
    """The metrics in a part of the page."""
    note_by_metric = notes()
    bits = listed(HEALTH_BITS)
    shows_series = part != "agent"
    head = ["metric", "type", "labels", "meaning"]
    if shows_series:
        head.append("series")

    rows = []
    for family in families()[part]:
        note = note_by_metric.get(family.name, {})
        more = note.get("more", "")
        more = more.replace("{bits}", bits)
        row = [
            code(family.name),
            family.type,
            listed(family.labels),
            f"{family.help} {more}",
        ]
        if shows_series:
            series = note.get("series")
            if series is None:
                raise ForgottenNoteError(f"{NOTES.name}: how many series does {family.name} have?")
            row.append(series)
        rows.append(row)
    return markdown(head, rows)
