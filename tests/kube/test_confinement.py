"""The proof that admission policies confine a program: what each answer means, what is reported, when it asks."""

from typing import Any

import msgspec
import pytest
from tests.support.runtime import ManualRuntime
from tests.support.tables import each_row
from toposcope.kube.client import Request
from toposcope.kube.confinement import Confinement
from toposcope.kube.errors import ApiError

WRITES = {"a label": Request("PATCH", "/api/v1/nodes/n", {}), "an Event": Request("POST", "/apis/events", {})}


class Row(msgspec.Struct, forbid_unknown_fields=True):
    """One course of events."""

    case: str
    answers: list[list[int]]
    """HTTP status of both writes at each check; one status if the first raises."""
    confined: list[bool | None]
    """What is known after each."""
    told: list[str | None]
    """Reason of the Event after each."""
    waits: list[int]
    """Seconds until the next, without jitter."""
    ready: str = ""
    """What the last readiness answer holds; empty: it is ready."""


class Server:
    """Answers writes with the status of the moment."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.asked: list[Request] = []

    def call(self, request: Request) -> Any:
        self.asked.append(request)
        if (code := self.codes.pop(0)) >= 400:
            raise ApiError(code, "Because", f"answered {code}")


@pytest.mark.regression
@each_row("confinement.yaml", Row, ids=lambda row: row.case)
def test_a_course_of_answers(row: Row) -> None:
    server, runtime = Server(), ManualRuntime()
    confinement = Confinement(server, lambda: WRITES, runtime=runtime)
    assert "not known yet" in confinement.ready()
    confined, told, waits = [], [], []
    for codes in row.answers:
        server.codes = codes
        news = confinement.check()
        assert confinement.check() is None
        assert not server.codes, "it asks once"
        confined.append(confinement.confined)
        told.append(news and news[1])
        wait = confinement.seconds_until_due()
        runtime.seconds += wait
        waits.append(wait)
    assert (confined, told) == (row.confined, row.told)
    assert waits == [pytest.approx(wait, rel=0.1) for wait in row.waits]
    assert row.ready in confinement.ready()
    assert bool(row.ready) == bool(confinement.ready())
    assert all(request.query == {"dryRun": "All"} for request in server.asked)


class Rights:
    """Finds what a test says."""

    def __init__(self, *excess: str) -> None:
        self.found = [*excess]

    def excess(self, _client: object) -> list[str]:
        return self.found


def test_a_right_too_much_is_a_problem_as_an_accepted_write_is() -> None:
    server, rights, runtime = Server(), Rights("get secrets", "patch nodes/status"), ManualRuntime()
    confinement = Confinement(server, lambda: WRITES, rights, runtime)  # type: ignore[arg-type]
    server.codes = [403, 403]
    assert confinement.check() is None  # no Event yet: an installation takes a moment
    assert confinement.confined is False
    assert "may do more than the program needs: get secrets, patch nodes/status" in confinement.ready()
    assert "admission policies" not in confinement.ready()
    runtime.seconds += 70
    server.codes = [200, 403]
    assert confinement.check() == ("Warning", "Unconfined", confinement.ready())
    assert "would accept a label" in confinement.ready()
    assert "get secrets" in confinement.ready()
    rights.found = []
    runtime.seconds += 70
    server.codes = [403, 403]
    assert confinement.check() == ("Normal", "Confined", "the admission policies confine this program again")
    assert confinement.ready() == ""
