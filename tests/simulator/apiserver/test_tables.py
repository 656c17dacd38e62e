"""Tables, as `kubectl get` asks for them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulator.apiserver.widgets import WIDGETS, widget, widget_crd
from tests.support.api import MERGE, NODES, TABLE, ApiUnderTest, node


def table(api: ApiUnderTest, path: str) -> dict[str, Any]:
    code, found = api.request("GET", path, accept=TABLE)
    assert code == 200
    assert (found["kind"], found["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    answer: dict[str, Any] = found
    return answer


def cells(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Cells of each row by column name."""
    names = [column["name"] for column in found["columnDefinitions"]]
    return [dict(zip(names, row["cells"], strict=True)) for row in found["rows"]]


def test_nodes(api: ApiUnderTest) -> None:
    role = "node-role.kubernetes.io/control-plane"
    api.create(NODES, node("n1", labels={role: ""}))
    ready = {"type": "Ready", "status": "True"}
    status = {"conditions": [ready], "nodeInfo": {"kubeletVersion": "v1.36.3"}}
    api.request("PATCH", f"{NODES}/n1/status", {"status": status}, content_type=MERGE)
    api.request("PATCH", f"{NODES}/n1", {"spec": {"unschedulable": True}}, content_type=MERGE)
    api.create(NODES, node("n2"))
    found = table(api, NODES)
    shown = [column["name"] for column in found["columnDefinitions"] if column["priority"] == 0]
    assert shown == ["Name", "Status", "Roles", "Age", "Version"]
    first, second = cells(found)
    assert (first["Name"], first["Status"], first["Roles"], first["Version"]) == (
        "n1",
        "Ready,SchedulingDisabled",
        "control-plane",
        "v1.36.3",
    )
    assert first["Age"].endswith("s")
    assert (second["Status"], second["Roles"], second["Internal-IP"]) == ("Unknown", "<none>", "<none>")
    partial = found["rows"][0]["object"]
    assert (partial["kind"], partial["metadata"]["labels"]) == ("PartialObjectMetadata", {role: ""})


def test_printer_columns(api: ApiUnderTest) -> None:
    api.ensure_crd(widget_crd())
    api.create(WIDGETS, widget(mode="Auto", count=2))
    status = {"status": {"conditions": [{"type": "Other", "status": "no"}, {"type": "Ready", "status": "True"}]}}
    api.request("PATCH", f"{WIDGETS}/w1/status", status, content_type=MERGE)
    api.create(WIDGETS, widget("w2"))
    found = table(api, WIDGETS)
    assert [column["name"] for column in found["columnDefinitions"]] == ["Name", "Mode", "Ready", "Count", "Age"]
    assert [column["priority"] for column in found["columnDefinitions"]] == [0, 0, 0, 1, 0]
    first, second = cells(found)
    assert (first["Name"], first["Mode"], first["Ready"], first["Count"]) == ("w1", "Auto", "True", 2)
    assert (second["Mode"], second["Ready"], second["Count"]) == (None, None, 3)


def test_events(api: ApiUnderTest) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Lost",
        "message": "rack is gone",
        "type": "Warning",
    }
    api.create("/api/v1/namespaces/default/events", body)
    (row,) = cells(table(api, "/api/v1/namespaces/default/events"))
    assert (row["Type"], row["Reason"], row["Object"], row["Message"]) == ("Warning", "Lost", "pod/p", "rack is gone")


@pytest.mark.parametrize("path", [NODES, "/api/v1/namespaces/default/configmaps"])
def test_empty_table(api: ApiUnderTest, path: str) -> None:
    found = table(api, path)
    assert found["rows"] == []
    assert found["columnDefinitions"][0]["name"] == "Name"


def test_one_object(api: ApiUnderTest) -> None:
    api.create(NODES, node("n1"))
    assert [row["Name"] for row in cells(table(api, f"{NODES}/n1"))] == ["n1"]
