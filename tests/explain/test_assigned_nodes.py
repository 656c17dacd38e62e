"""Where Kueue assigned pods, in both versions of its API, and what became of these nodes."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.explain.causes import CAUSES
from tests.explain.waiting import RACK, Object
from tests.support.saved import saved
from tests.support.tables import named_objects
from toposcope.cli.main import main
from toposcope.integrations.kueue.admission import AssignedDomain, assigned_domains

HOST = "kubernetes.io/hostname"
ASSIGNED = named_objects("assigned_nodes.yaml")
OLD, NEW = ASSIGNED["old"], ASSIGNED["new"]


def admitted(assignment: Object, name: str = "main") -> Object:
    return {"status": {"admission": {"podSetAssignments": [{"name": name, "topologyAssignment": assignment}]}}}


def test_both_forms_name_the_same_domains() -> None:
    found = [(domain.values, domain.pods) for domain in assigned_domains(admitted(OLD))]
    assert found == [(("r1", "n1"), 2), (("r1", "n2"), 1)]
    found = [(domain.values, domain.pods) for domain in assigned_domains(admitted(NEW))]
    assert found == [(("r1", "n1"), 2), (("r1", "n2"), 1), (("r2", "n3.local"), 4), (("r3", "n4"), 1)]
    assert next(assigned_domains(admitted(OLD, "w"))) == AssignedDomain("w", ("rack", HOST), ("r1", "n1"), 2)


@pytest.mark.parametrize(
    "wrong", [{}, {"levels": 3, "domains": "x"}, {"slices": [{"domainCount": "x"}, 3]}, {"domains": [3]}]
)
def test_malformed_assignments_name_nothing_that_matters(wrong: Any) -> None:
    assert all(not domain.levels for domain in assigned_domains(admitted(wrong)))


def cluster(**changes: Any) -> list[Any]:
    """That of the cause, with another fourth node in the assignment or another state of it."""
    objects: list[Any] = json.loads(
        json.dumps(next(cause for cause in CAUSES if cause.name == "assigned-node-gone").objects())
    )
    for document in objects:
        if document["kind"] == "Workload":
            assigned = document["status"]["admission"]["podSetAssignments"][0]
            if "assignment" in changes:
                assigned["topologyAssignment"] = changes["assignment"]
            else:
                assigned["topologyAssignment"]["slices"][0]["valuesPerLevel"][0]["individual"]["roots"][3] = "4"
        if document["kind"] == "Node" and document["metadata"]["name"] == "h200-4":
            document["spec"] |= changes.get("spec", {})
            if "ready" in changes:
                document["status"]["conditions"] = [{"type": "Ready", "status": changes["ready"]}]
    return objects


def on_rack(name: str) -> Object:
    return {"levels": [RACK], "domains": [{"values": [name], "count": 4}]}


CORDONED = {"unschedulable": True}
ONE = "Kueue assigned 1 pod of pod set main to node h200-4, which is"
STATES: dict[str, tuple[dict[str, Any], str]] = {
    "not Ready": ({"ready": "Unknown"}, f"{ONE} not Ready"),
    "cordoned": ({"spec": CORDONED}, f"{ONE} cordoned"),
    "another topology": (
        {"assignment": on_rack("rack-9")},
        f"Kueue assigned 4 pods of pod set main to domain rack-9 ({RACK}), which is gone",
    ),
    "well": ({}, ""),
    "one node of a rack": ({"assignment": on_rack("rack-3"), "spec": CORDONED}, ""),
}


@pytest.mark.parametrize("name", STATES)
def test_what_became_of_the_nodes(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes, expected = STATES[name]
    file = tmp_path / "cluster.json"
    file.write_text(saved(cluster(**changes)), encoding="utf-8")
    main(["explain", "wl/job-train", "-n", "ml", "--from", str(file), "-o", "json"])
    steps = json.loads(capsys.readouterr().out)["steps"]
    (step,) = (step for step in steps if step["step"] == "availability")
    assert (step["outcome"], step["message"]) == (("failed", expected) if expected else ("passed", step["message"]))
    assert not expected or any("Kueue 0.19 replaces" in line for line in step["details"])
