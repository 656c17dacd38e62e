"""No page of another site, and no number of questions, keeps the page's server from answering."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import pytest
from tests.support.api import wait_until
from tests.support.sampling import slow_after
from tests.ui.serving import Served, facts_of, rack_nodes, served
from tests.ui.workers import misbehaving
from toposcope.kube.errors import UnreachableError
from toposcope.planning.required import RequiredLevels
from toposcope.snapshot.model import Snapshot
from toposcope.ui.computing import Computing, CrashError, DeadlineError, DefectError, MemoryLimitError
from toposcope.ui.questions import NoPlanError, Question
from toposcope.ui.turns import MAX_WAITING

COMPUTING = ("/api/planning?view=", "/api/gang?view=&kind=Job&name=x", "/api/drain?view=&node=n1")
OTHERS = ("/api/snapshot", "/api/node/n1", "/api/search?q=abcd", "/api/events")
INSTEAD = "check fewer or smaller workloads, or use toposcope check"
NOTHING = Snapshot("test", None, (), ())
PLACES = MAX_WAITING + 1


@dataclass
class Held:
    """Answers nothing before it may; what it was asked is counted."""

    may_answer: threading.Event = field(default_factory=threading.Event)
    asked: list[Question] = field(default_factory=list)
    failure: Exception | None = None

    def submit(self, question: Question, _seconds: float | None = None) -> Future[bytes]:
        self.asked.append(question)
        future: Future[bytes] = Future()
        threading.Thread(target=self._answer, args=(future,), daemon=True).start()
        return future

    def _answer(self, future: Future[bytes]) -> None:
        assert self.may_answer.wait(60)
        if self.failure:
            future.set_exception(self.failure)
        else:
            future.set_result(b"{}")


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.fixture
def server(tmp_path: Path, held: Held) -> Iterator[Served]:
    with served(tmp_path, computing=held) as found:
        yield found
        held.may_answer.set()


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(
            {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Dest": "image", "Sec_Fetch_Mode": "no-cors"},
            id="image",
        ),
        pytest.param({"Sec_Fetch_Site": "same-site"}, id="same-site"),
        pytest.param({"Origin": "http://evil.example"}, id="origin"),
        pytest.param({"Origin": "null"}, id="null-origin"),
        pytest.param({"Referer": "http://evil.example/page"}, id="referer"),
        pytest.param({"Sec_Fetch_Site": "none", "Origin": "http://evil.example"}, id="none-with-origin"),
    ],
)
def test_pages_of_other_sites_get_nothing(server: Served, held: Held, headers: dict[str, str]) -> None:
    for path in (*COMPUTING, *OTHERS):
        status, _, body = server.ask(path, "GET", None, **headers)
        assert status == 403, path
        assert body["error"] == "the request comes from another site's page"
        status, _, _ = server.ask(path, "HEAD", None, **headers)
        assert status == 403, path
    assert held.asked == []


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="program"),
        pytest.param({"Sec_Fetch_Site": "same-origin"}, id="page"),
        pytest.param({"Sec_Fetch_Site": "none"}, id="address-bar"),
        pytest.param({"Sec_Fetch_Site": "same-origin", "Origin": "http://127.0.0.1:{port}"}, id="origin"),
        pytest.param({"Referer": "http://127.0.0.1:{port}/#view"}, id="referer"),
    ],
)
def test_page_and_programs_are_answered(server: Served, held: Held, headers: dict[str, str]) -> None:
    held.may_answer.set()
    sent = {}
    for name, text in headers.items():
        sent[name] = text.format(port=server.port)
    for path in COMPUTING:
        assert server.status(path, "GET", None, **sent) == 200


def test_another_site_may_link_to_the_page(server: Served) -> None:
    status = server.status(
        "/",
        Sec_Fetch_Site="cross-site",
        Referer="http://wiki.example/",
    )
    assert status == 200


@pytest.mark.regression
def test_images_of_another_site_take_no_place(server: Served, held: Held) -> None:
    asked = []
    with ThreadPoolExecutor(100) as browsers:
        for _ in range(100):
            future = browsers.submit(server.status, COMPUTING[0], Sec_Fetch_Site="cross-site")
            asked.append(future)
        for future in asked:
            assert future.result() == 403
    assert held.asked == []


@pytest.mark.regression
def test_one_question_runs_some_wait_and_the_rest_are_refused(server: Served, held: Held) -> None:
    count = 101
    most_refused = count - PLACES
    asked = []
    with ThreadPoolExecutor(count) as browsers:
        for _ in range(count):
            future = browsers.submit(server.ask, COMPUTING[0], Sec_Fetch_Site="same-origin")
            asked.append(future)
        answered = as_completed(asked, timeout=60)
        for future in islice(answered, most_refused):
            status, headers, body = future.result()
            assert status == 429
            assert headers["retry-after"] == "5"
            assert "try again" in body["error"]

        assert len(held.asked) == 1
        for path in ("/healthz", "/readyz", "/api/snapshot", "/api/search?q=abcd"):
            assert server.status(path) == 200

        held.may_answer.set()
        statuses = []
        for future in asked:
            status, _, _ = future.result()
            statuses.append(status)
    assert statuses.count(200) == PLACES
    assert statuses.count(429) == most_refused
    assert len(held.asked) == PLACES
    assert server.status(COMPUTING[0]) == 200


@pytest.mark.parametrize(
    ("failure", "status", "error"),
    [
        pytest.param(NoPlanError("no gang is called x"), 404, "no gang is called x", id="no-plan"),
        pytest.param(
            DeadlineError("it took more than 20 s"),
            504,
            "it took more than 20 s; use toposcope whatif, score or slots",
            id="deadline",
        ),
        pytest.param(
            MemoryLimitError("too much memory"),
            503,
            "too much memory; use toposcope whatif, score or slots",
            id="memory",
        ),
        pytest.param(
            CrashError("it was killed"), 503, "it was killed; use toposcope whatif, score or slots", id="crash"
        ),
        pytest.param(DefectError("it failed"), 500, "it failed", id="defect-in-the-worker"),
        pytest.param(
            UnreachableError("no answer"), 503, "the cluster cannot be read right now: no answer", id="unreachable"
        ),
        pytest.param(ZeroDivisionError("a defect"), 500, "internal error; see the server's log", id="defect"),
    ],
)
@pytest.mark.parametrize("path", slow_after(1, COMPUTING), ids=["planning", "gang", "drain"])
def test_question_that_fails_says_why_and_gives_its_place_back(
    server: Served, held: Held, path: str, *, failure: Exception, status: int, error: str
) -> None:
    held.may_answer.set()
    held.failure = failure
    for _ in range(PLACES + 1):
        found, _, body = server.ask(path)
        assert found == status
        assert body == {"error": error}


def test_question_of_a_lost_page_is_dropped(server: Served, held: Held) -> None:
    with ThreadPoolExecutor(1) as browser:
        first = browser.submit(server.status, COMPUTING[0])
        wait_until(lambda: len(held.asked) == 1, "the first question runs")
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as gone:
            gone.sendall(b"GET /api/planning?view= HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert server.status("/healthz") == 200  # the server has read the other request too
        assert server.status("/healthz") == 200
        held.may_answer.set()
        assert first.result() == 200
    assert server.status(COMPUTING[1]) == 200
    assert len(held.asked) == 2


@pytest.mark.slow
@pytest.mark.regression
def test_page_goes_on_while_a_question_never_ends(tmp_path: Path) -> None:
    """The question holds the interpreter's lock of its process, as a regular expression does that has no end."""
    facts = facts_of(rack_nodes())
    computing = Computing(
        facts.snapshot,
        lambda: NOTHING,
        RequiredLevels,
        seconds=2.0,
        start=misbehaving,
    )
    try:
        with served(tmp_path, facts, computing=computing) as server, ThreadPoolExecutor(1) as browser:
            assert server.check("first")[0] == 200
            endless = browser.submit(server.check, "hang")
            for path in ("/healthz", "/readyz", "/api/snapshot", "/api/node/n1", "/"):
                assert server.status(path) in (200, 404)
            assert not endless.done()
            status, answer = endless.result()
            assert status == 504
            assert answer == {"error": f"it took more than 2 s and was stopped; {INSTEAD}"}
            assert server.check("next")[0] == 200
            status, answer = server.check("die")
            assert status == 503
            assert answer == {"error": f"the process that computed it was killed by SIGKILL; {INSTEAD}"}
            assert server.check("next")[0] == 200
    finally:
        computing.close()
