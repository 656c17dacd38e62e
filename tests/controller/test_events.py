"""Which objects get Events, how often, and how many at most."""

from typing import Any

import pytest
from tests.support.cluster import topology
from toposcope.controller.events import EventRateLimit, condition_events, level_events
from toposcope.controller.requirements import Resolved
from toposcope.integrations.framework.level_requests import WorkloadRef


def workloads(count: int) -> tuple[WorkloadRef, ...]:
    refs = []
    for i in range(count):
        refs.append(WorkloadRef("example.com/v1", "Job", "ns", f"w{i}", f"uid-{i}"))
    return tuple(refs)


def status(available: str | None, preferred: bool | None) -> dict[str, Any]:
    """One that says so of rack; nothing where nothing was said."""
    said = ""
    if available == "False":
        said = "Topology level 'rack' is no longer available in the cluster topology"
    condition = {
        "type": "TopologyLevelsAvailable",
        "status": available,
        "reason": "Any",
        "message": said,
    }
    found: dict[str, Any] = {"conditions": [condition]} if available else {}
    if preferred is not None:
        rack = {"domain": "rack", "workloads": 1, "available": preferred}
        found["preferredBy"] = [rack]
    return found


@pytest.mark.parametrize(
    ("asked", "was", "now", "told", "warning"),
    [
        pytest.param("required", ["True", None], ["False", None], ["cluster", "w0"], True, id="gone"),
        pytest.param("required", ["False", None], ["False", None], [], True, id="still-gone"),
        pytest.param("required", ["False", None], ["True", None], ["cluster", "w0"], False, id="back"),
        pytest.param("required", ["True", None], ["True", None], [], False, id="still-there"),
        pytest.param("required", [None, None], ["True", None], [], False, id="first-seen"),
        pytest.param("required", ["True", None], ["Unknown", None], [], True, id="unknown"),
        pytest.param("required", ["False", None], ["Unknown", None], [], True, id="unknown-after-gone"),
        pytest.param("required", ["Unknown", None], ["True", None], [], False, id="known-again"),
        pytest.param("missing", [None, None], ["False", None], ["cluster", "w0"], True, id="never-there"),
        pytest.param("preferred", ["True", True], ["True", False], ["w0"], True, id="preferred-gone"),
        pytest.param("preferred", ["True", False], ["True", False], [], True, id="preferred-still-gone"),
        pytest.param("preferred", ["True", False], ["True", True], ["w0"], False, id="preferred-back"),
    ],
)
def test_who_is_told(asked: str, was: list[Any], now: list[Any], told: list[str], warning: bool) -> None:
    before = topology(status(*was))
    resolved = Resolved(**{asked: {"rack": workloads(1)}})
    events = level_events(before, status(*now), resolved)
    names = [event.regarding["name"] for event in events]
    assert names == told
    for event in events:
        assert event.is_warning == warning


def with_levels(covered: str, *domains: str) -> dict[str, Any]:
    """A status with these levels, and whether all nodes carry them."""
    condition = {
        "type": "LevelsCovered",
        "status": covered,
        "reason": "Any",
        "message": "All 8 nodes carry every level",
    }
    levels = [{"domain": domain, "key": f"example.com/{domain}"} for domain in domains]
    return {"conditions": [condition], "levels": levels}


@pytest.mark.regression
def test_dropped_level_is_a_warning_and_no_good_news() -> None:
    before = topology(with_levels("False", "zone", "rack", "host"))
    (event,) = condition_events(before, with_levels("True", "zone", "host"))
    assert event.is_warning
    assert event.reason == "LevelDropped"
    assert event.note == (
        "Level 'rack' (example.com/rack) is dropped: for gracePeriod (10m) no node has carried the label, "
        "or the configuration has not named it; remaining levels: zone > host"
    )


@pytest.mark.regression
def test_levels_that_all_nodes_carry_again_are_good_news() -> None:
    before = topology(with_levels("False", "zone", "host"))
    events = condition_events(before, with_levels("True", "zone", "rack", "host"))
    assert [(event.is_warning, event.note) for event in events] == [(False, "All 8 nodes carry every level")]


@pytest.mark.regression
def test_level_that_the_spec_leaves_out_is_no_news() -> None:
    host = {"domain": "host", "key": "example.com/host"}
    before = topology(with_levels("True", "zone", "host"), levels=[host])
    assert condition_events(before, with_levels("True", "host")) == []


def test_the_budget_is_full_at_first_and_fills_with_time() -> None:
    limit = EventRateLimit(burst=3, per_second=0.5)
    burst = [limit.allow(100.0) for _ in range(4)]
    assert burst == [True, True, True, False]
    assert not limit.allow(101.0)
    assert limit.allow(102.0)
    assert not limit.allow(102.0)
    assert not limit.allow(50.0)  # a clock that goes back gives nothing
    burst = [limit.allow(1000.0) for _ in range(4)]
    assert burst == [True, True, True, False]
