"""The parts of `prometheus_client` that programs with many metrics use.

Agents use `toposcope.telemetry.families` instead.
"""

from typing import TypeVar

from prometheus_client import CollectorRegistry, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from toposcope.telemetry.families import Samples
from toposcope.telemetry.handler import Page


def new_registry() -> CollectorRegistry:
    """An empty registry without the `_created` series.

    Nobody reads them, and they double every counter's cost.
    """
    disable_created_metrics()  # type: ignore[no-untyped-call]  # the package leaves it untyped
    return CollectorRegistry()


Family = TypeVar("Family", GaugeMetricFamily, CounterMetricFamily)


def gauge(name: str, text: str, labels: tuple[str, ...], samples: Samples) -> GaugeMetricFamily:
    """A gauge with its samples; `labels` are the labels' names."""
    return _filled(GaugeMetricFamily(name, text, labels=labels), samples)


def counter(name: str, text: str, labels: tuple[str, ...], samples: Samples) -> CounterMetricFamily:
    """A counter with its samples; `labels` are the labels' names."""
    return _filled(CounterMetricFamily(name, text, labels=labels), samples)


def _filled(family: Family, samples: Samples) -> Family:
    for values, value in samples:
        family.add_metric(values, value)
    return family


def page(collector: Collector) -> Page:
    """The answer to a scrape of a registry, or of one collector."""
    return generate_latest(collector), CONTENT_TYPE_LATEST
