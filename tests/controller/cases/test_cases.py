"""Every row of the table."""

import re

import pytest

from tests.controller.cases import grove, kai, kueue
from tests.controller.cases.grove_objects import cluster
from tests.controller.cases.model import Case, Invalid, levels
from tests.controller.cases.world import World
from tests.support.cluster import History

CASES = (*grove.CASES, *kai.CASES, *kueue.CASES)
INVALID = (*grove.INVALID, *kueue.INVALID)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_status_events_and_published_topologies(at: World, case: Case) -> None:
    at.begin(case.nodes, case.workloads)
    for name, spec in case.topologies.items():
        code, answer = at.make_topology(name, spec)
        assert code == 201, answer
    at.reconcile()
    for name, expected in case.expected.items():
        assert at.status_of(name, expected.events) == expected
    for step in case.steps:
        step.do(at)
        at.reconcile()
        for name, expected in step.expected.items():
            assert (step.what, at.status_of(name, expected.events)) == (step.what, expected)


@pytest.mark.parametrize("case", INVALID, ids=lambda case: case.name)
def test_what_upstream_refuses_is_refused(at: World, case: Invalid) -> None:
    if not at.api.is_real:
        pytest.skip("the embedded API server does not know CEL")
    at.begin(cluster(2))
    code, answer = at.make_topology("invalid", {"levels": levels(*case.levels)})
    assert (code, case.refused in answer["message"]) == (422, True), answer


@pytest.mark.parametrize("case", INVALID, ids=lambda case: case.name)
def test_what_gets_past_an_api_server_is_found_by_the_controller(case: Invalid) -> None:
    history = History(levels=levels(*case.levels))
    history.look(())
    published = history.condition("Published")
    assert [published[key] for key in ("status", "reason", "message")] == ["False", "InvalidSpec", case.problem]


def test_grove_s_cases_are_all_here() -> None:
    numbers = {int(found[1]) for case in (*CASES, *INVALID) if (found := re.match(r"TAS(\d+) ", case.name))}
    assert numbers == set(range(1, 24))
    assert not {case.name for case in CASES} & set(kueue.PLACEMENT_ONLY)
