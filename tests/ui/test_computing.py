"""Questions are answered in a process that is ended when it misbehaves; the server and the next question go on."""

import contextlib
import logging
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest
from tests.planning.clusters import RACK, cluster, node, pods
from tests.support.api import wait_until
from tests.support.paths import ROOT
from tests.ui.serving import ManualRuntime
from tests.ui.workers import forgotten, misbehaving
from toposcope.integrations.grove.api import GANG
from toposcope.kube.errors import UnreachableError
from toposcope.planning.required import RequiredLevels
from toposcope.snapshot.model import Snapshot
from toposcope.ui import computing, protocol
from toposcope.ui.computing import Computing, ComputingWorker, CrashError, DeadlineError, DefectError, MemoryLimitError
from toposcope.ui.frames import EndedError
from toposcope.ui.known import KnownCluster
from toposcope.ui.questions import Ask, CheckRequest, Drain, NoPlanError, Overview

pytestmark = pytest.mark.slow

NOTHING = Snapshot("test", None, (), ())
LONG = 60.0
SHORT = 0.5


@contextlib.contextmanager
def computing_of(snapshot: Snapshot = NOTHING, **how: object) -> Iterator[Computing]:
    found = Computing(lambda: snapshot, lambda: NOTHING, RequiredLevels, **how)  # type: ignore[arg-type]
    try:
        yield found
    finally:
        found.close()


@pytest.fixture(scope="module")
def at_work() -> Iterator[Computing]:
    with computing_of(start=misbehaving, seconds=LONG) as found:
        yield found


def said(found: Computing, text: str, seconds: float | None = None) -> list[str]:
    answer = found.submit(CheckRequest(text), seconds).result(LONG)
    return msgspec.json.decode(answer, type=protocol.CheckAnswer).problems


def is_gone(pid: int) -> bool:
    """Whether there is no such process, not even one that nobody has waited for."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.regression
@pytest.mark.parametrize("text", ["hang", "wait", "freeze"])
def test_endless_question_is_ended_and_the_next_is_answered(at_work: Computing, text: str) -> None:
    assert said(at_work, "first") == ["first"]
    before = at_work.worker
    assert before

    with pytest.raises(DeadlineError, match=r"it took more than 0\.5 s and was stopped"):
        said(at_work, text, SHORT)

    assert is_gone(before)
    assert said(at_work, "next") == ["next"]


@pytest.mark.parametrize(
    ("text", "how"),
    [
        pytest.param("die", "was killed by SIGKILL", id="killed"),
        pytest.param("leave", "ended with code 3", id="exit"),
        pytest.param("overflow", "sent no answer: a message has 34,603,", id="overflow"),
    ],
)
def test_worker_that_ends_fails_one_question(at_work: Computing, text: str, how: str) -> None:
    with pytest.raises(CrashError, match=f"the process that computed it {how}"):
        said(at_work, text)
    assert said(at_work, "next") == ["next"]


def test_memory_is_limited(at_work: Computing) -> None:
    assert said(at_work, "first") == ["first"]
    before = at_work.worker
    assert before
    with pytest.raises(MemoryLimitError, match="too much memory"):
        said(at_work, "fill memory")
    assert is_gone(before)
    assert said(at_work, "next") == ["next"]


def test_defect_fails_one_question_and_is_in_the_log(at_work: Computing, caplog: pytest.LogCaptureFixture) -> None:
    assert said(at_work, "first") == ["first"]
    before = at_work.worker
    with caplog.at_level(logging.ERROR), pytest.raises(DefectError, match="the server's log says where"):
        said(at_work, "fail")
    assert "ZeroDivisionError: a defect" in caplog.text
    assert at_work.worker == before


def test_worker_that_ends_when_idle_is_replaced_without_zombie(at_work: Computing) -> None:
    assert said(at_work, "first") == ["first"]
    before = at_work.worker
    assert before
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: is_gone(before), "the process was waited for")
    assert said(at_work, "next") == ["next"]


def test_idle_worker_ends() -> None:
    ticks = ManualRuntime()
    with computing_of(start=misbehaving, runtime=ticks) as found:
        said(found, "first")
        before = found.worker
        assert before
        ticks.seconds += computing.IDLE_SECONDS + 1
        wait_until(lambda: is_gone(before), "the idle worker has ended")
        assert said(found, "next") == ["next"]


def test_end_waits_for_no_question() -> None:
    with computing_of(start=misbehaving) as found:
        said(found, "first")
        before = found.worker
        assert before
        running, waiting = found.submit(CheckRequest("hang")), found.submit(CheckRequest("never asked"))
        found.close()
        for future in (running, waiting, found.submit(CheckRequest("too late"))):
            with pytest.raises(CrashError):
                future.result(LONG)
        wait_until(lambda: is_gone(before), "the worker has ended")


def test_worker_that_cannot_be_started_is_reported() -> None:
    def full() -> ComputingWorker:
        raise BlockingIOError("no more processes")

    with computing_of(start=full) as found, pytest.raises(CrashError, match="cannot be started: no more processes"):
        said(found, "x")


def test_kernel_ends_a_worker_whose_server_forgot_it() -> None:
    worker = forgotten()
    handle = os.pidfd_open(worker.pid)
    try:
        assert worker.answer(Ask(CheckRequest("first"), LONG), KnownCluster()).error == ""
        with pytest.raises((TimeoutError, EndedError)):
            worker.answer(Ask(CheckRequest("hang"), SHORT), KnownCluster())
        select.select([handle], [], [], LONG)
        assert worker.end() == "was killed by SIGALRM"
    finally:
        os.close(handle)


SERVER = """
from tests.ui.workers import forgotten, misbehaving
from toposcope.planning.required import RequiredLevels
from toposcope.snapshot.model import Snapshot
from toposcope.ui.computing import Computing
from toposcope.ui.questions import CheckRequest
snapshot = Snapshot("test", None, (), ())
computing = Computing(lambda: snapshot, lambda: snapshot, RequiredLevels, start=misbehaving)
computing.submit(CheckRequest("first")).result(60)
print(computing.worker, flush=True)
computing.submit(CheckRequest("hang")).result(600)
"""


def test_worker_ends_with_its_server() -> None:
    """Even one that never reads whether the server is still there."""
    with subprocess.Popen([sys.executable, "-c", SERVER], cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        handle = os.pidfd_open(int(server.stdout.readline()))
        server.kill()
    try:
        assert select.select([handle], [], [], LONG)[0]
    finally:
        os.close(handle)


def test_cluster_that_does_not_answer_fails_one_question() -> None:
    def away() -> Snapshot:
        raise UnreachableError("https://cluster.test does not answer")

    found = Computing(lambda: NOTHING, away, RequiredLevels)
    try:
        with pytest.raises(UnreachableError, match="does not answer"):
            said(found, "x")
    finally:
        found.close()


RACKS = [node(f"n{i}", f"b{i // 4}", f"r{i // 2}") for i in range(8)]
GANG_PODS = [
    msgspec.structs.replace(pod, owner=None, labels={"grove.io/podgang": "g"}) for pod in pods("g", "n0", "n1")
]


def test_drain_goes_by_what_the_gang_s_object_requires_now() -> None:
    """It is read again after ten seconds, and for a new worker."""
    running = cluster(RACKS, [*GANG_PODS, *pods("others", "n3", "n5", "n7")])
    required = [RequiredLevels()]
    ticks = ManualRuntime()
    found = Computing(lambda: running, lambda: NOTHING, lambda: required[0], runtime=ticks)

    def fate() -> str:
        answer = found.submit(Drain("cluster", (), "n0")).result(LONG)
        return msgspec.json.decode(answer, type=protocol.Drained).gangs[0].text

    try:
        assert "spreads" in fate()
        required[0] = _requiring_a_rack()
        assert "spreads" in fate()
        ticks.seconds += computing.PLAN_SECONDS
        assert "waits, as no rack has room" in fate()
        pid = found.worker
        assert pid
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: is_gone(pid), "the worker has ended")
        assert "waits, as no rack has room" in fate()
    finally:
        found.close()


def _requiring_a_rack() -> RequiredLevels:
    required = RequiredLevels()
    metadata, constraint = {"namespace": "ml", "name": "g"}, {"packConstraint": {"required": RACK}}
    spec = {"topologyConstraint": constraint}
    required.put(
        {
            "apiVersion": f"{GANG.group}/v1alpha1",
            "kind": GANG.kind,
            "metadata": metadata,
            "spec": spec,
        }
    )
    return required


def test_question_without_an_answer_says_why() -> None:
    with computing_of(cluster(RACKS, ())) as found, pytest.raises(NoPlanError, match="choose one"):
        found.submit(Overview("cluster/segment")).result(LONG)
