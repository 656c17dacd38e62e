"""Which objects get Events, how often, and how many at most."""

from typing import Any

from tests.support.cluster import topology
from tests.support.tables import each_case
from toposcope.controller.events import EventRateLimit, level_events
from toposcope.controller.requirements import Resolved
from toposcope.integrations.framework.level_requests import WorkloadRef


def workloads(count: int) -> tuple[WorkloadRef, ...]:
    return tuple(WorkloadRef("example.com/v1", "Job", "ns", f"w{i}", f"uid-{i}") for i in range(count))


def status(available: str | None, preferred: bool | None) -> dict[str, Any]:
    """One that says so of rack; nothing where nothing was said."""
    said = "Topology level 'rack' is no longer available in the cluster topology" if available == "False" else ""
    condition = {"type": "TopologyLevelsAvailable", "status": available, "reason": "Any", "message": said}
    found: dict[str, Any] = {"conditions": [condition]} if available else {}
    if preferred is not None:
        found["preferredBy"] = [{"domain": "rack", "workloads": 1, "available": preferred}]
    return found


@each_case("tables/controller.yaml")
def test_who_is_told(asked: str, was: list[Any], now: list[Any], told: list[str], warning: bool) -> None:
    events = level_events(topology(status(*was)), status(*now), Resolved(**{asked: {"rack": workloads(1)}}))
    assert [(event.regarding["name"], event.warning) for event in events] == [(name, warning) for name in told]


def test_the_budget_is_full_at_first_and_fills_with_time() -> None:
    limit = EventRateLimit(burst=3, per_second=0.5)
    assert [limit.allow(100.0) for _ in range(4)] == [True, True, True, False]
    assert not limit.allow(101.0)
    assert limit.allow(102.0)
    assert not limit.allow(102.0)
    assert not limit.allow(50.0)  # a clock that goes back gives nothing
    assert [limit.allow(1000.0) for _ in range(4)] == [True, True, True, False]
