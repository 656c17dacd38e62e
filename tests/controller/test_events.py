"""Which objects get Events, how often, and how many at most."""

from typing import Any

from tests.support.cluster import topology
from toposcope.controller.events import EventRateLimit, level_events
from toposcope.controller.requirements import Resolved
from toposcope.integrations.framework.level_requests import WorkloadRef

GONE = "Topology level 'rack' is no longer available in the cluster topology"


def workloads(count: int) -> tuple[WorkloadRef, ...]:
    return tuple(WorkloadRef("example.com/v1", "Job", "ns", f"w{i}", f"uid-{i}") for i in range(count))


def status(available: str, message: str = "", *, preferred: bool | None = None) -> dict[str, Any]:
    condition = {"type": "TopologyLevelsAvailable", "status": available, "reason": "Any", "message": message}
    found: dict[str, Any] = {"conditions": [condition]}
    if preferred is not None:
        found["preferredBy"] = [{"domain": "rack", "workloads": 1, "available": preferred}]
    return found


def announced(before: dict[str, Any], after: dict[str, Any], asked: Resolved) -> list[tuple[str, bool]]:
    events = level_events(topology(before), after, asked)
    return [(event.regarding["name"], event.warning) for event in events]


ASKED = Resolved(required={"rack": workloads(1)})


def test_a_transition_is_announced_once_each_way() -> None:
    there, gone = status("True"), status("False", GONE)
    assert announced(there, gone, ASKED) == [("cluster", True), ("w0", True)]
    assert announced(gone, gone, ASKED) == []
    assert announced(gone, there, ASKED) == [("cluster", False), ("w0", False)]
    assert announced({}, there, ASKED) == announced(there, there, ASKED) == []


def test_not_knowing_is_no_news() -> None:
    unknown = status("Unknown")
    for other in (status("True"), status("False", GONE)):
        assert announced(other, unknown, ASKED) == []
    assert announced(unknown, status("True"), ASKED) == []


def test_a_level_that_never_was_there_is_announced_like_one_that_went() -> None:
    assert announced({}, status("False", GONE), Resolved(missing={"rack": workloads(1)})) == [
        ("cluster", True),
        ("w0", True),
    ]


def test_a_preferred_level_is_announced_to_the_workload_and_not_to_the_topology() -> None:
    there, gone = status("True", preferred=True), status("True", preferred=False)
    asked = Resolved(preferred={"rack": workloads(1)})
    assert announced(there, gone, asked) == [("w0", True)]
    assert announced(gone, gone, asked) == []
    assert announced(gone, there, asked) == [("w0", False)]


def test_the_budget_is_full_at_first_and_fills_with_time() -> None:
    limit = EventRateLimit(burst=3, per_second=0.5)
    assert [limit.allow(100.0) for _ in range(4)] == [True, True, True, False]
    assert not limit.allow(101.0)
    assert limit.allow(102.0)
    assert not limit.allow(102.0)
    assert not limit.allow(50.0)  # a clock that goes back gives nothing
    assert [limit.allow(1000.0) for _ in range(4)] == [True, True, True, False]
