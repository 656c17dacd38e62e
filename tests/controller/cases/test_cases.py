"""Every row of tests/fixtures/cases/."""

import re

import pytest
from tests.controller.cases.model import Case, Invalid
from tests.controller.cases.objects import cluster
from tests.controller.cases.world import World
from tests.support.cluster import History
from tests.support.tables import each_row, rows

pytestmark = pytest.mark.slow

FILES = ("cases/grove.yaml", "cases/kai.yaml", "cases/kueue.yaml")
CASES = [row for file in FILES for row in rows(file, Case)]
every_invalid = each_row("cases/invalid.yaml", Invalid, ids=lambda row: row.case)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.case)
def test_status_events_and_published_topologies(at: World, case: Case) -> None:
    at.begin(case.nodes, case.workloads)
    for name, spec in case.topologies.items():
        code, answer = at.make_topology(name, spec)
        assert code == 201, answer
    at.reconcile()
    for name, expected in case.expected.items():
        assert at.status_of(name, expected.events) == expected
    for step in case.steps:
        at.play(step)
        at.reconcile()
        for name, expected in step.expected.items():
            assert (step.what, at.status_of(name, expected.events)) == (step.what, expected)


@every_invalid
def test_what_upstream_refuses_is_refused(at: World, row: Invalid) -> None:
    if not at.api.is_real:
        pytest.skip("the embedded API server does not know CEL")
    at.begin(cluster(2))
    code, answer = at.make_topology("invalid", {"levels": row.levels})
    assert (code, row.refused in answer["message"]) == (422, True), answer


@every_invalid
def test_what_gets_past_an_api_server_is_found_by_the_controller(row: Invalid) -> None:
    history = History(levels=row.levels)
    history.look(())
    published = history.condition("Published")
    assert [published[key] for key in ("status", "reason", "message")] == ["False", "InvalidSpec", row.problem]


def test_grove_s_cases_are_all_here() -> None:
    numbers = {int(found[1]) for case in CASES if (found := re.match(r"TAS(\d+) ", case.case))}
    assert numbers == set(range(1, 24))
