"""The proof that admission policies confine a program: what each answer means, what is reported, when it asks."""

from typing import Any

import pytest
from tests.support.runtime import ManualRuntime
from toposcope.kube.client import Request
from toposcope.kube.confinement import Confinement
from toposcope.kube.errors import ApiError

WRITES = {"a label": Request("PATCH", "/api/v1/nodes/n", {}), "an Event": Request("POST", "/apis/events", {})}


class Server:
    """Answers writes with the status of the moment."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.asked: list[Request] = []

    def call(self, request: Request) -> Any:
        self.asked.append(request)
        code = self.codes.pop(0)
        if code >= 400:
            raise ApiError(code, "Because", f"answered {code}")


HOUR = 3600
"""Seconds until the next check of a program that is confined."""
CONFINED = (True, None)
UNCONFINED = (False, None)
UNKNOWN = (None, None)
UNCONFINED_WITH_EVENT = (False, "Unconfined")
CONFINED_WITH_EVENT = (True, "Confined")
"""Whether it is confined, and the reason of the Event."""


class Course:
    """Checks of a program, each as soon as it is due."""

    def __init__(self) -> None:
        self._server = Server()
        self._runtime = ManualRuntime()
        self._confinement = Confinement(self._server, lambda: WRITES, runtime=self._runtime)
        assert "not known yet" in self._confinement.ready()

    def check(self, *codes: int) -> tuple[bool | None, str | None]:
        """Check with these answers to the writes: whether it is confined, and the reason of the Event."""
        self._runtime.seconds += self._confinement.seconds_until_due()
        self._server.codes = list(codes)
        news = self._confinement.check()
        assert self._confinement.check() is None, "it asks again before it is due"
        assert self._server.codes == [], "it does not ask for each write"
        for request in self._server.asked:
            assert request.query == {"dryRun": "All"}
        reason: str | None = None
        if news is not None:
            _, reason, _ = news
        return self._confinement.is_confined, reason

    def waits(self, seconds: float) -> bool:
        """Whether the next check is due in so many seconds, give or take the jitter."""
        due = self._confinement.seconds_until_due()
        return due == pytest.approx(seconds, rel=0.1)

    def ready(self) -> str:
        return self._confinement.ready()


@pytest.fixture
def course() -> Course:
    return Course()


@pytest.mark.regression
def test_refused_writes_are_well_for_an_hour(course: Course) -> None:
    for _ in range(2):
        assert course.check(403, 403) == CONFINED
        assert course.waits(HOUR)
    assert course.ready() == ""


@pytest.mark.regression
def test_policies_that_come_into_force_later_are_no_alarm(course: Course) -> None:
    assert course.check(200, 403) == UNCONFINED
    assert course.waits(2)
    assert course.check(403, 403) == CONFINED
    assert course.waits(HOUR)
    assert course.ready() == ""


@pytest.mark.regression
def test_writes_accepted_a_minute_later_too_are_told_once(course: Course) -> None:
    assert course.check(200, 403) == UNCONFINED
    assert course.waits(2)
    for seconds in (4, 8, 16, 32):
        assert course.check(200, 201) == UNCONFINED
        assert course.waits(seconds)
    assert course.check(200, 201) == UNCONFINED_WITH_EVENT
    assert course.waits(60)
    assert course.check(200, 201) == UNCONFINED
    assert course.waits(60)
    expected = "do not confine this program: the API server would accept a label, an Event;"
    assert expected in course.ready()


@pytest.mark.regression
def test_binding_that_was_deleted_and_came_back_is_told_twice(course: Course) -> None:
    assert course.check(403, 403) == CONFINED
    assert course.waits(HOUR)
    for seconds in (2, 4, 8, 16, 32):
        assert course.check(403, 201) == UNCONFINED
        assert course.waits(seconds)
    assert course.check(403, 201) == UNCONFINED_WITH_EVENT
    assert course.waits(60)
    assert course.check(403, 403) == CONFINED_WITH_EVENT
    assert course.waits(HOUR)
    assert course.check(403, 403) == CONFINED
    assert course.waits(HOUR)
    assert course.ready() == ""


@pytest.mark.regression
def test_no_answer_at_the_start_is_no_proof(course: Course) -> None:
    assert course.check(503) == UNKNOWN
    assert course.waits(2)
    assert course.check(403, 400) == UNKNOWN
    assert course.waits(4)
    expected = "not known yet whether the admission policies confine this program: 400 Because"
    assert expected in course.ready()


@pytest.mark.regression
def test_no_answer_later_changes_nothing(course: Course) -> None:
    assert course.check(403, 403) == CONFINED
    assert course.waits(HOUR)
    assert course.check(503) == CONFINED
    assert course.waits(2)
    assert course.check(403, 429) == CONFINED
    assert course.waits(4)
    assert course.check(403, 403) == CONFINED
    assert course.waits(HOUR)
    assert course.ready() == ""


class Rights:
    """Finds what a test says."""

    def __init__(self, *excess: str) -> None:
        self.found = [*excess]

    def excess(self, _client: object) -> list[str]:
        return self.found


def test_a_right_too_much_is_a_problem_as_an_accepted_write_is() -> None:
    server = Server()
    runtime = ManualRuntime()
    rights = Rights("get secrets", "patch nodes/status")
    confinement = Confinement(server, lambda: WRITES, rights, runtime)  # type: ignore[arg-type]
    server.codes = [403, 403]
    assert confinement.check() is None  # no Event yet: an installation takes a moment
    assert confinement.is_confined is False
    ready = confinement.ready()
    assert "may do more than the program needs: get secrets, patch nodes/status" in ready
    assert "admission policies" not in ready
    runtime.seconds += 70
    server.codes = [200, 403]
    news = confinement.check()
    ready = confinement.ready()
    assert news == ("Warning", "Unconfined", ready)
    assert "would accept a label" in ready
    assert "get secrets" in ready
    rights.found = []
    runtime.seconds += 70
    server.codes = [403, 403]
    news = confinement.check()
    assert news == (
        "Normal",
        "Confined",
        "the admission policies confine this program again",
    )
    assert confinement.ready() == ""
