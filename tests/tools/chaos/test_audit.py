"""Whose turn it was, from lines as a kube-apiserver writes them."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.support.tables import each_case
from tools.chaos.audit import AuditLog, PublishedWrites, Turns, Write
from tools.chaos.violations import Findings

CONTROLLER = "system:serviceaccount:toposcope-system:toposcope-controller"
AGENT = "system:serviceaccount:toposcope-system:toposcope-agent"
STATUS = {"apiGroup": "gpu.topology", "resource": "clustertopologies", "subresource": "status", "name": "cluster"}
LEASE = {"apiGroup": "coordination.k8s.io", "resource": "leases", "name": "toposcope-controller"}


class Log:
    """An audit log that grows; seconds count from noon."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.lines: list[str] = []
        self.reader = AuditLog(file)

    def add(self, pod: str, about: dict[str, str], second: int, *, lost: bool = False, **more: Any) -> None:
        account = AGENT if pod.startswith("agent") else CONTROLLER
        line = {
            "auditID": f"{len(self.lines)}",
            "stage": "RequestReceived",
            "objectRef": about,
            "verb": more.get("verb", "patch"),
            "requestURI": more.get("uri", "/"),
            "user": {"username": account, "extra": {"authentication.kubernetes.io/pod-name": [pod]}},
            "requestReceivedTimestamp": f"2026-01-01T12:00:{second:02}.000000Z",
            "stageTimestamp": f"2026-01-01T12:00:{second:02}.500000Z",
        }
        status = {"code": more.get("code", 200)}
        done = {"stage": "ResponseComplete", "responseStatus": status, "requestObject": more.get("body")}
        self.lines += [json.dumps(line), *([] if lost else [json.dumps({**line, **done})])]

    def claim(self, pod: str, second: int, **more: Any) -> None:
        self.add(pod, LEASE, second, verb="update", **{"body": {"spec": {"holderIdentity": f"{pod}_1"}}, **more})

    def read(self) -> tuple[list[Write], list[Write]]:
        self.file.write_text("".join(f"{line}\n" for line in self.lines), encoding="utf-8")
        return self.reader.read()


CLAIMS: dict[str, dict[str, Any]] = {
    "claims": {},
    "claims-in-vain": {"code": 409},
    "claims-as-the-server-dies": {"lost": True},
    "gives-back": {"body": {"spec": {"holderIdentity": ""}}},
}
WRITES: dict[str, dict[str, Any]] = {
    "writes": {},
    "writes-in-vain": {"code": 409},
    "dry-runs": {"uri": "/x?dryRun=All"},
}


@each_case("tables/tools.yaml")
def test_a_write_out_of_turn_is_found(tmp_path: Path, script: str, problem: str) -> None:
    log = Log(tmp_path / "log")
    for line in script.split(", "):
        pod, act, second = line.split()
        if act in CLAIMS:
            log.claim(pod, int(second), **CLAIMS[act])
        else:
            log.add(pod, STATUS, int(second), **WRITES[act])
    findings = Findings()
    Turns(findings, term=8.0).judge(*log.read())
    violations = [violation.what for violation in findings.take() if violation.invariant == "writer"]
    assert len(violations) == bool(problem)
    assert all(
        re.fullmatch(f"a did patch clustertopologies/status/cluster at .*{problem}", what) for what in violations
    )


@pytest.mark.regression
def test_what_was_sent_to_a_server_that_stood_still_is_late_and_not_out_of_turn(tmp_path: Path) -> None:
    def judged_after(stop: int, last: int) -> list[str]:
        findings = Findings()
        turns = Turns(findings, term=8.0)
        turns.server_stops(datetime(2026, 1, 1, 12, 0, stop, tzinfo=UTC))
        for second in (30, 50):  # healing may come twice
            turns.server_goes_on(datetime(2026, 1, 1, 12, 0, second, tzinfo=UTC))
        log = Log(tmp_path / "log")
        log.claim("a", 1)
        log.add("a", STATUS, last)
        turns.judge(*log.read())
        return [violation.what for violation in findings.take()]

    assert judged_after(stop=3, last=30) == []
    assert judged_after(stop=3, last=38) != []  # 1.5 seconds before and 8 after it
    assert judged_after(stop=10, last=30) != []  # its term was over before


def test_the_log_is_read_as_it_grows_and_half_a_line_waits(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.claim("a", 1)
    assert len(log.read()[0]) == 1
    log.add("a", STATUS, 2)
    whole = "".join(f"{line}\n" for line in log.lines)
    log.file.write_text(whole[:-20], encoding="utf-8")
    assert log.reader.read()[0] == []
    log.file.write_text(whole, encoding="utf-8")
    assert [write.what for write in log.reader.read()[0]] == [
        "patch clustertopologies/status/cluster at 2026-01-01T12:00:02.000000Z"
    ]


@each_case("tables/tools.yaml")
def test_published_objects_say_what_is_desired_and_an_agent_writes_its_own_node(
    tmp_path: Path, pod: str, about: dict[str, str], write: dict[str, Any], deletion_expected: bool, problem: str
) -> None:
    log = Log(tmp_path / "log")
    log.add(pod, about, 1, **write)
    findings = Findings()
    judge = PublishedWrites(findings)
    judge.levels["grove.io", "cluster"] = [{"key": key} for key in ("rack", "lost", "host")]
    judge.may_lack = lambda _name: {"lost"}
    judge.deletion_expected = deletion_expected
    judge.allowed = {("kai.scheduler", "lent")}
    judge.judge(log.read()[0])
    found = [str(violation) for violation in findings.take()]
    assert problem in found[0] if problem else found == []
