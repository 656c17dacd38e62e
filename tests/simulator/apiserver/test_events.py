"""Events: one storage under two API groups, with different field names and stricter rules in the newer one."""

from __future__ import annotations

from typing import Any

from tests.support.api import MERGE, ApiUnderTest

NEW = "/apis/events.k8s.io/v1/namespaces/default/events"
OLD = "/api/v1/namespaces/default/events"
REGARDING = {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "default", "uid": "u"}


def event(**changes: Any) -> dict[str, Any]:
    full = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "p.1"},
        "eventTime": "2026-01-01T00:00:00.000001Z",
        "reportingController": "gpu.topology/controller",
        "reportingInstance": "controller-0",
        "action": "Check",
        "reason": "TopologyLevelsUnavailable",
        "regarding": REGARDING,
        "note": "rack is gone",
        "type": "Warning",
        **changes,
    }
    return {key: value for key, value in full.items() if value is not None}


def test_both_groups_show_the_same_event(api: ApiUnderTest) -> None:
    made = api.create(NEW, event())
    assert made["regarding"] == REGARDING
    assert made["note"] == "rack is gone"
    old = api.get(f"{OLD}/p.1")
    assert (old["apiVersion"], old["involvedObject"], old["message"]) == ("v1", REGARDING, "rack is gone")
    assert old["reportingComponent"] == "gpu.topology/controller"
    assert old["metadata"]["uid"] == made["metadata"]["uid"]
    assert api.get(NEW)["items"][0]["note"] == "rack is gone"
    assert api.get(OLD)["items"][0]["message"] == "rack is gone"


def test_series_are_counted_by_patch(api: ApiUnderTest) -> None:
    api.create(NEW, event())
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}}
    code, answer = api.request("PATCH", f"{NEW}/p.1", series, content_type=MERGE)
    assert code == 200, answer
    assert answer["series"]["count"] == 2


def test_events_are_selected_by_their_object(api: ApiUnderTest) -> None:
    api.create(NEW, event())
    api.create(NEW, event(metadata={"name": "q.1"}, regarding={**REGARDING, "name": "q"}))
    found = api.get(f"{OLD}?fieldSelector=involvedObject.name%3Dq,involvedObject.kind%3DPod")["items"]
    assert [item["metadata"]["name"] for item in found] == ["q.1"]
    found = api.get(f"{NEW}?fieldSelector=regarding.name%3Dq")["items"]
    assert [item["metadata"]["name"] for item in found] == ["q.1"]
