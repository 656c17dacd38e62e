"""Events: one storage under two API groups, with different field names and stricter rules in the newer one."""

from __future__ import annotations

from typing import Any

import pytest

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


@pytest.mark.parametrize("missing", ["eventTime", "reportingController", "reportingInstance", "action", "reason"])
def test_the_newer_group_requires_its_fields(api: ApiUnderTest, missing: str) -> None:
    code, answer = api.request("POST", NEW, event(**{missing: None}))
    assert (code, answer["reason"]) == (422, "Invalid")
    assert f"{missing}: " in answer["message"]


def test_the_older_group_checks_the_namespace_of_the_object(api: ApiUnderTest) -> None:
    about = {**REGARDING, "namespace": "elsewhere"}
    body = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "old"}, "involvedObject": about}
    code, answer = api.request("POST", OLD, body)
    assert (code, answer["reason"]) == (422, "Invalid")
    assert 'Invalid value: "elsewhere": does not match event.namespace' in answer["message"]


@pytest.mark.parametrize(("namespace", "code"), [("default", 201), ("kube-system", 201), ("kube-public", 422)])
def test_cluster_scoped_objects_have_their_events_in_default(api: ApiUnderTest, namespace: str, code: int) -> None:
    about = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n1"}
    path = NEW.replace("/default/", f"/{namespace}/")
    assert api.request("POST", path, event(regarding=about))[0] == code
    api.request("DELETE", f"{path}/p.1")


def test_only_the_series_of_an_event_changes(api: ApiUnderTest) -> None:
    api.create(NEW, event())
    code, answer = api.request("PATCH", f"{NEW}/p.1", {"note": "something else"}, content_type=MERGE)
    assert (code, answer["reason"]) == (422, "Invalid")
    assert "field is immutable" in answer["message"]
    one = {"series": {"count": 1, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}}
    code, answer = api.request("PATCH", f"{NEW}/p.1", one, content_type=MERGE)
    assert code == 422
    assert "series.count" in answer["message"]


@pytest.mark.parametrize(
    "wrong",
    [{"type": "Odd"}, {"deprecatedCount": 1}, {"reason": "r" * 129}, {"note": "n" * 1025}, {"series": {"count": 1}}],
)
def test_what_the_newer_group_refuses(api: ApiUnderTest, wrong: dict[str, Any]) -> None:
    code, answer = api.request("POST", NEW, event(**wrong))
    assert (code, answer["reason"]) == (422, "Invalid")


def test_the_older_group_takes_less(api: ApiUnderTest) -> None:
    body = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "old"}, "involvedObject": REGARDING}
    assert api.request("POST", OLD, body)[0] == 201


def test_events_are_selected_by_their_object(api: ApiUnderTest) -> None:
    api.create(NEW, event())
    api.create(NEW, event(metadata={"name": "q.1"}, regarding={**REGARDING, "name": "q"}))
    found = api.get(f"{OLD}?fieldSelector=involvedObject.name%3Dq,involvedObject.kind%3DPod")["items"]
    assert [item["metadata"]["name"] for item in found] == ["q.1"]
    found = api.get(f"{NEW}?fieldSelector=regarding.name%3Dq")["items"]
    assert [item["metadata"]["name"] for item in found] == ["q.1"]
