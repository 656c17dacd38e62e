"""Whose turn it was, from lines as a kube-apiserver writes them."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tools.chaos.audit import AuditLog, PublishedWrites, Turns, Write
from tools.chaos.violations import Findings

CONTROLLER = "system:serviceaccount:toposcope-system:toposcope-controller"
AGENT = "system:serviceaccount:toposcope-system:toposcope-agent"
STATUS = {"apiGroup": "gpu.topology", "resource": "clustertopologies", "subresource": "status", "name": "cluster"}
A_WROTE = "a did patch clustertopologies/status/cluster"
LEASE = {"apiGroup": "coordination.k8s.io", "resource": "leases", "name": "toposcope-controller"}


class Log:
    """An audit log that grows; seconds count from noon."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.lines: list[str] = []
        self.reader = AuditLog(file)

    def add(self, pod: str, about: dict[str, str], second: int, *, lost: bool = False, **more: Any) -> None:
        """A request of a pod; `lost`: the server died before it answered."""
        user = {
            "username": AGENT if pod.startswith("agent") else CONTROLLER,
            "extra": {"authentication.kubernetes.io/pod-name": [pod]},
        }
        received = {
            "auditID": f"{len(self.lines)}",
            "stage": "RequestReceived",
            "objectRef": about,
            "verb": more.get("verb", "patch"),
            "requestURI": more.get("uri", "/"),
            "user": user,
            "requestReceivedTimestamp": f"2026-01-01T12:00:{second:02}.000000Z",
            "stageTimestamp": f"2026-01-01T12:00:{second:02}.500000Z",
        }
        self.lines.append(json.dumps(received))
        if lost:
            return
        completed = {
            **received,
            "stage": "ResponseComplete",
            "responseStatus": {"code": more.get("code", 200)},
            "requestObject": more.get("body"),
        }
        self.lines.append(json.dumps(completed))

    def claim(self, pod: str, second: int, holder: str | None = None, **more: Any) -> None:
        """Write the Lease, by default with the pod as its holder."""
        identity = f"{pod}_1" if holder is None else holder
        body = {"spec": {"holderIdentity": identity}}
        self.add(
            pod,
            LEASE,
            second,
            verb="update",
            body=body,
            **more,
        )

    def write(self, pod: str, second: int, **more: Any) -> None:
        """Write the status of the topology."""
        self.add(pod, STATUS, second, **more)

    def read(self) -> tuple[list[Write], list[Write]]:
        """What was written to the log since it was last read."""
        self.file.write_text(self.text(), encoding="utf-8")
        return self.reader.read()

    def text(self) -> str:
        """All of its lines."""
        return "".join(f"{line}\n" for line in self.lines)

    def out_of_turn(self) -> list[str]:
        """The writes that were out of turn, if a term lasts 8 seconds."""
        findings = Findings()
        turns = Turns(findings, term=8.0)
        turns.judge(*self.read())
        found = []
        for violation in findings.take():
            if violation.invariant == "writer":
                found.append(violation.what)
        return found


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "log")


def test_writes_in_turn_are_no_findings(log: Log) -> None:
    log.claim("a", 1)
    log.write("a", 2)
    log.claim("b", 10)
    log.write("b", 11)
    assert log.out_of_turn() == []


def test_write_after_the_term_is_out_of_turn(log: Log) -> None:
    log.claim("a", 1)
    log.claim("b", 10)
    log.write("a", 11)
    (violation,) = log.out_of_turn()
    assert violation.startswith(f"{A_WROTE} at 2026-01-01T12:00:11.000000Z")
    assert violation.endswith("; its last claim was at 2026-01-01T12:00:01.500000Z")


def test_write_after_another_wrote_is_out_of_turn(log: Log) -> None:
    log.claim("a", 1)
    log.claim("b", 2)
    log.write("b", 3)
    log.write("a", 4)
    (violation,) = log.out_of_turn()
    assert violation.startswith(f"{A_WROTE} at 2026-01-01T12:00:04.000000Z")
    assert " after another wrote; " in violation


def test_claim_of_another_ends_no_term(log: Log) -> None:
    """Whoever makes a deleted Lease anew waits for its old holder."""
    log.claim("a", 1)
    log.claim("b", 2)
    log.write("a", 3)
    assert log.out_of_turn() == []


def test_write_without_any_claim_is_out_of_turn(log: Log) -> None:
    log.write("a", 3)
    (violation,) = log.out_of_turn()
    assert violation.startswith(f"{A_WROTE} at 2026-01-01T12:00:03.000000Z")
    assert violation.endswith(" and had never claimed the Lease")


def test_refused_and_dry_writes_do_not_count(log: Log) -> None:
    log.claim("b", 1)
    log.write("a", 2, code=409)
    log.write("a", 3, uri="/x?dryRun=All")
    log.claim("a", 4, code=409)
    log.write("b", 5)
    assert log.out_of_turn() == []


def test_lease_that_another_gives_back_ends_no_term(log: Log) -> None:
    log.claim("a", 1)
    log.claim("b", 2, holder="")
    log.write("a", 3)
    assert log.out_of_turn() == []


def test_claim_without_answer_counts_as_one(log: Log) -> None:
    log.claim("a", 1)
    log.claim("b", 10, lost=True)
    log.write("b", 11)
    assert log.out_of_turn() == []


@pytest.mark.regression
@pytest.mark.parametrize(
    ("stopped", "written", "is_out_of_turn"),
    [
        pytest.param(3, 30, False, id="late-answer"),
        pytest.param(3, 38, True, id="too-late"),  # 1.5 seconds before and 8 after it
        pytest.param(10, 30, True, id="term-over-before"),
    ],
)
def test_request_to_a_server_that_stood_still_is_late_and_not_out_of_turn(
    log: Log, stopped: int, written: int, is_out_of_turn: bool
) -> None:
    findings = Findings()
    turns = Turns(findings, term=8.0)
    turns.server_stops(moment(stopped))
    turns.server_goes_on(moment(30))
    turns.server_goes_on(moment(50))  # healing may come twice
    log.claim("a", 1)
    log.write("a", written)
    turns.judge(*log.read())
    assert bool(findings.take()) == is_out_of_turn


def moment(second: int) -> datetime:
    """So many seconds after noon."""
    return datetime(2026, 1, 1, 12, 0, second, tzinfo=UTC)


def test_log_is_read_as_it_grows_and_half_a_line_waits(log: Log) -> None:
    log.claim("a", 1)
    claims, _ = log.read()
    assert len(claims) == 1

    log.write("a", 2)
    text = log.text()
    log.file.write_text(text[:-20], encoding="utf-8")
    writes, _ = log.reader.read()
    assert writes == []

    log.file.write_text(text, encoding="utf-8")
    writes, _ = log.reader.read()
    (write,) = writes
    assert write.what == "patch clustertopologies/status/cluster at 2026-01-01T12:00:02.000000Z"


BINDING = {"apiGroup": "grove.io", "resource": "things", "name": "cluster"}
DESIRED_LEVELS = [{"key": "rack"}, {"key": "lost"}, {"key": "host"}]


def judged(log: Log, *, is_deletion_expected: bool = False) -> list[str]:
    """What is wrong with the published objects in a log: `lost` may be lacking, and KAI's `lent` be written."""
    findings = Findings()
    judge = PublishedWrites(findings)
    judge.levels["grove.io", "cluster"] = DESIRED_LEVELS
    judge.may_lack = lambda _name: {"lost"}
    judge.is_deletion_expected = is_deletion_expected
    judge.allowed = {("kai.scheduler", "lent")}
    writes, _ = log.read()
    judge.judge(writes)
    return [str(violation) for violation in findings.take()]


@pytest.mark.parametrize(
    "keys",
    [pytest.param(["rack", "lost", "host"], id="all"), pytest.param(["rack", "host"], id="without-the-lost-one")],
)
def test_published_object_may_say_what_is_desired(log: Log, keys: list[str]) -> None:
    levels = [{"key": key} for key in keys]
    log.add("a", BINDING, 1, body=with_levels(levels))
    assert judged(log) == []


def with_levels(levels: list[Any]) -> dict[str, Any]:
    """A published object with these levels."""
    return {"spec": {"levels": levels}}


def test_published_object_with_other_levels_is_found(log: Log) -> None:
    log.add("a", BINDING, 1, body=with_levels([{"key": "host"}]))
    (violation,) = judged(log)
    assert f"should be {DESIRED_LEVELS}" in violation


def test_delete_of_a_published_object_needs_a_cause(log: Log) -> None:
    log.add("a", BINDING, 1, verb="delete")
    (violation,) = judged(log)
    assert "without a cause" in violation


def test_expected_delete_of_a_published_object_is_right(log: Log) -> None:
    log.add("a", BINDING, 1, verb="delete")
    assert judged(log, is_deletion_expected=True) == []


def test_write_of_a_lent_object_is_right(log: Log) -> None:
    lent = {
        "apiGroup": "kai.scheduler",
        "resource": "things",
        "name": "lent",
    }
    log.add("a", lent, 1, body=with_levels(["rack", "host"]))
    assert judged(log) == []


@pytest.mark.parametrize("name", [pytest.param("somebodys", id="other-name"), pytest.param("lent", id="other-group")])
def test_write_of_a_foreign_object_is_found(log: Log, name: str) -> None:
    foreign = BINDING | {"name": name}
    log.add("a", foreign, 1, body=with_levels(["rack", "host"]))
    (violation,) = judged(log)
    assert "foreign" in violation


def test_agent_may_write_its_own_node(log: Log) -> None:
    log.add("agent-n1", {"resource": "nodes", "name": "n1"}, 1)
    assert judged(log) == []


def test_agent_that_writes_another_node_is_found(log: Log) -> None:
    log.add("agent-n1", {"resource": "nodes", "name": "n2"}, 1)
    (violation,) = judged(log)
    assert "not its own Node" in violation
