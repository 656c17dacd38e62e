"""How many workloads ask for each level, also while not all of them are listed."""

from toposcope.controller.requirements import Resolved
from toposcope.controller.status import Demand, demand_of
from toposcope.integrations.framework.level_requests import WorkloadRef


def refs(count: int) -> tuple[WorkloadRef, ...]:
    return tuple(WorkloadRef("example.com/v1", "Job", "ns", f"w{i}", f"uid-{i}") for i in range(count))


BEFORE = {
    "requiredBy": [{"domain": "block", "workloads": 3}, {"domain": "rack", "workloads": 7}],
    "preferredBy": [{"domain": "host", "workloads": 2, "available": True}],
}
ASKED = Resolved(required={"rack": refs(2)}, missing={"row": refs(1)})


def test_levels_that_are_lacking_count_as_well() -> None:
    assert demand_of(ASKED, {}, listed=True) == Demand({"rack": 2, "row": 1})


def test_a_workload_that_is_not_listed_yet_has_not_stopped_asking() -> None:
    assert demand_of(ASKED, BEFORE, listed=False) == Demand({"block": 3, "rack": 2, "row": 1}, {"host": 2})
    assert demand_of(ASKED, BEFORE, listed=True) == Demand({"rack": 2, "row": 1})


def test_what_the_status_has_no_room_for_is_left_out() -> None:
    many = Resolved(
        required={f"level-{i:03}": refs(1) for i in range(60)}, preferred={f"l{i}": refs(1) for i in range(99)}
    )
    before = {"requiredBy": [{"domain": f"old-{i}", "workloads": 1} for i in range(64)]}
    found = demand_of(many, before, listed=False)
    assert (len(found.required), len(found.preferred)) == (64, 64)
