"""The registry that a program's metrics live in."""

from prometheus_client import CollectorRegistry, disable_created_metrics


def new_registry() -> CollectorRegistry:
    """An empty registry without the `_created` series, which nobody reads and which double every counter's cost."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # the package leaves it untyped
    return CollectorRegistry()
