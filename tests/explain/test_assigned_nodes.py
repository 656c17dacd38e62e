"""Where Kueue assigned pods, in both versions of its API."""

from typing import Any

import pytest

from tests.explain.waiting import Object
from tests.support.tables import named_objects
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
