"""What the controller tells of its requests, its watches and how soon it reacts."""

import pytest
from prometheus_client import CollectorRegistry

from tests.support.publishing import Time
from toposcope.controller.loop import Trigger
from toposcope.controller.metrics import RequestMetrics, WatchMetrics
from toposcope.kube.client import Request
from toposcope.kube.requests import apply, get

DGD = "/apis/nvidia.com/{}/dynamographdeployments"


def test_requests_are_counted_by_what_they_do_and_how_they_end() -> None:
    registry, time = CollectorRegistry(), Time()
    observe = RequestMetrics(registry, time)
    write = apply("/apis/gpu.topology/v1alpha1/clustertopologies/cluster/status", {}, "m", force=True)
    for answer in (200, 200, 409, 0):
        answered = observe(write)
        time.seconds += 0.25
        answered(answer)
    resource = "clustertopologies.gpu.topology/status"
    for code, count in (("200", 2), ("409", 1), ("none", 1)):
        labels = {"verb": "apply", "resource": resource, "code": code}
        assert registry.get_sample_value("toposcope_api_requests_total", labels) == count
    seconds = "toposcope_api_request_duration_seconds"
    assert registry.get_sample_value(f"{seconds}_sum", {"verb": "apply"}) == 1.0
    assert registry.get_sample_value(f"{seconds}_bucket", {"verb": "apply", "le": "0.1"}) == 0


@pytest.mark.parametrize(
    ("request_", "code", "labels"),
    [
        (Request("GET", "/api/v1/nodes", {"watch": "true"}), 200, {"verb": "watch", "resource": "nodes"}),
        (get("/apis/grove.io/v1alpha1"), 404, {"verb": "get", "resource": "discovery"}),
    ],
    ids=["watch", "discovery"],
)
def test_names_come_from_the_request_alone_and_watches_are_not_timed(
    request_: Request, code: int, labels: dict[str, str]
) -> None:
    registry = CollectorRegistry()
    RequestMetrics(registry)(request_)(code)
    assert registry.get_sample_value("toposcope_api_requests_total", labels | {"code": str(code)}) == 1
    timed = registry.get_sample_value("toposcope_api_request_duration_seconds_count", {"verb": labels["verb"]})
    assert timed == (None if labels["verb"] == "watch" else 1)


def test_watches_tell_when_they_were_heard_and_why_they_began_again() -> None:
    registry, now = CollectorRegistry(), Time()
    watches = WatchMetrics(registry, now)
    now.seconds = 100
    watches.listed("/api/v1/nodes", "first")
    watches.listed("/api/v1/nodes", "expired")
    now.seconds = 160
    watches.heard("/api/v1/nodes")
    nodes = {"resource": "nodes"}
    assert registry.get_sample_value("toposcope_watch_last_heard_timestamp_seconds", nodes) == 160
    assert registry.get_sample_value("toposcope_watch_events_total", nodes) == 1
    for reason, count in (("first", 1), ("expired", 1), ("silent", 0)):
        assert registry.get_sample_value("toposcope_lists_total", nodes | {"reason": reason}) == count
    watches.ended("/api/v1/nodes")
    assert registry.get_sample_value("toposcope_watch_last_heard_timestamp_seconds", nodes) is None
    assert registry.get_sample_value("toposcope_watch_events_total", nodes) == 1


def test_two_versions_of_a_kind_are_one_resource() -> None:
    registry, now = CollectorRegistry(), Time()
    watches = WatchMetrics(registry, now)
    for version, moment in (("v1beta1", 20), ("v1alpha1", 10)):
        now.seconds = moment
        watches.listed(DGD.format(version), "first")
        watches.heard(DGD.format(version))
    resource = {"resource": "dynamographdeployments.nvidia.com"}
    assert registry.get_sample_value("toposcope_lists_total", resource | {"reason": "first"}) == 2
    assert registry.get_sample_value("toposcope_watch_last_heard_timestamp_seconds", resource) == 20
    samples = [s for family in registry.collect() for s in family.samples]
    assert len(samples) == len({(s.name, tuple(s.labels.items())) for s in samples})


def test_the_first_change_counts_until_the_work_is_done() -> None:
    time = Time()
    wake = Trigger(time)
    assert not wake.wait(0)
    assert wake.done() is None
    time.seconds = 10
    wake.set()
    time.seconds = 12
    wake.set()
    assert wake.wait(0)
    wake.clear()
    assert not wake.wait(0)
    time.seconds = 13
    wake.set()  # comes while the loop works, and the work fails
    wake.clear()
    time.seconds = 15
    assert wake.done() == 5
    assert wake.done() is None
    wake.set()
    time.seconds = 16
    wake.clear()
    assert wake.done() == 1
