"""Metrics in Prometheus' text format."""

from prometheus_client import CollectorRegistry, disable_created_metrics, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from telemetry.server import Page


def new_registry() -> CollectorRegistry:
    """An empty registry without the `_created` series, which nobody reads and which double every counter's cost."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # the package leaves it untyped
    return CollectorRegistry()


def page(collector: Collector) -> Page:
    """What a scrape of a registry, or of one collector, answers."""
    return generate_latest(collector), CONTENT_TYPE_LATEST
