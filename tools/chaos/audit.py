"""Who wrote what, and whether it was their turn: from the API server's own audit log.

The controllers' tokens are bound to pods, and the log names the pod of each request. A controller
leads from the moment at which its claim of the Lease was stored until somebody else's is.
"""

import json
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from tools.chaos.violations import Findings

_POD: Final = "authentication.kubernetes.io/pod-name"
_LEASE: Final = "toposcope-controller"
_CONTROLLER: Final = "system:serviceaccount:toposcope-system:toposcope-controller"
_AGENT: Final = "system:serviceaccount:toposcope-system:toposcope-agent"
_FIRST_REFUSED_CODE: Final = 300


class Write(msgspec.Struct, frozen=True):
    """One request that the server took.

    Times are RFC 3339 with six digits, so that they compare as text.
    """

    pod: str
    user: str
    verb: str
    group: str
    resource: str
    name: str
    came: str
    done: str
    body: Mapping[str, Any]

    @property
    def what(self) -> str:
        """In words."""
        return f"{self.verb} {self.resource}/{self.name} at {self.came}"


class AuditLog:
    """Reads what has been added to the log since the last time."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._offset = 0
        self._began: dict[str, dict[str, Any]] = {}

    def read(self) -> tuple[list[Write], list[Write]]:
        """Writes that succeeded, and those whose end is unknown, oldest first.

        Unknown is what the server was processing when it died.
        """
        done = []
        for line in self._lines():
            write = self._take(line)
            if write:
                done.append(write)
        lost = []
        for line in self._began.values():
            write = _write(line)
            if write:
                lost.append(write)
        done.sort(key=lambda write: write.done)
        lost.sort(key=lambda write: write.came)
        return done, lost

    def _take(self, line: dict[str, Any]) -> Write | None:
        key = line["auditID"]
        if line["stage"] == "RequestReceived":
            self._began[key] = line
            return None
        self._began.pop(key, None)
        if (
            line["stage"] not in ("ResponseComplete", "Panic")
            or line["responseStatus"].get("code", 0) >= _FIRST_REFUSED_CODE
        ):
            return None
        return _write(line)

    def _lines(self) -> Iterator[dict[str, Any]]:
        with self._file.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # still being written, or cut when the server was killed
                self._offset += len(line)
                try:
                    yield json.loads(line)
                except ValueError:
                    continue  # two halves: the server was killed in the middle of a line


def _write(line: dict[str, Any]) -> Write | None:
    if "dryRun=All" in line["requestURI"]:
        return None  # changes nothing

    reference = line.get("objectRef") or {}
    resource = reference.get("resource", "")
    if "subresource" in reference:
        resource += f"/{reference['subresource']}"

    user = line["user"]
    extra = user.get("extra") or {}
    pods = extra.get(_POD) or [""]
    return Write(
        pods[0],
        user["username"],
        line["verb"],
        reference.get("apiGroup", ""),
        resource,
        reference.get("name", ""),
        line["requestReceivedTimestamp"],
        line["stageTimestamp"],
        line.get("requestObject") or {},
    )


def _is_claim(write: Write) -> bool:
    """Whether it takes or renews the Lease."""
    if (write.resource, write.name) != ("leases", _LEASE):
        return False
    spec = write.body.get("spec") or {}
    return bool(spec.get("holderIdentity"))


class Turns:
    """Whose turn it is, by the claims of the Lease that the server stored.

    A controller may write for a while after each claim of its own, and no longer once another has
    written since. A claim by another alone ends nothing: who makes a new Lease has to wait for the
    old leader before it writes.
    """

    def __init__(self, findings: Findings, term: float) -> None:
        self._findings = findings
        self._term = timedelta(seconds=term)
        self._claims: defaultdict[str, list[str]] = defaultdict(list)
        """By pod: when a claim of it was stored, or may have been, in order."""
        self._last: tuple[str, str] = ("", "")
        """When a controller wrote last, and which."""
        self._other_contender: dict[str, str] = {}
        """When somebody else than a pod wrote last."""
        self._stops: list[tuple[datetime, datetime | None]] = []
        """When the server stood still, and until when."""

    def server_stops(self, now: datetime) -> None:
        """Record that the server stands still from now on.

        It reads what was sent before when it continues, and nobody claims the Lease.
        """
        if not self._stops or self._stops[-1][1] is not None:
            self._stops.append((now, None))

    def server_goes_on(self, now: datetime) -> None:
        """It reads what is waiting for it; of no account where it did not stand still."""
        if not self._stops:
            return
        since, until = self._stops[-1]
        if until is None:
            self._stops[-1] = since, now

    def judge(self, done: list[Write], lost: list[Write]) -> None:
        """Judge writes of controllers; `lost` are those that may have been carried out or not."""
        own = [write for write in done if write.user == _CONTROLLER]
        for write in own:
            if _is_claim(write):
                insort(self._claims[write.pod], write.done)
        for write in lost:
            if write.resource == "leases":
                insort(self._claims[write.pod], write.came)
        own.sort(key=lambda write: write.came)
        for write in own:
            if write.resource != "leases":
                self._findings.checked("writer")
                self._judge(write)

    def _judge(self, write: Write) -> None:
        pod = write.pod
        when, last_pod = self._last
        if last_pod and last_pod != pod:
            self._other_contender[pod] = when
        self._last = (write.came, pod)

        did = f"{pod} did {write.what}"
        claimed = self._last_claim(write)
        if not claimed:
            self._findings.add("writer", f"{did} and had never claimed the Lease")
            return

        claim_time = datetime.fromisoformat(claimed)
        write_time = datetime.fromisoformat(write.came)
        other_wrote = self._other_contender.get(pod, "")
        lasted = self._served(claim_time, write_time)
        if lasted > self._term:
            self._findings.add("writer", f"{did}; its last claim was at {claimed}")
        elif claimed < other_wrote:
            self._findings.add("writer", f"{did} after another wrote; it had claimed at {claimed}")

    def _last_claim(self, write: Write) -> str:
        """When its pod had claimed the Lease last before it; empty when never."""
        claims = self._claims[write.pod]
        before = bisect_right(claims, write.came)
        if before == 0:
            return ""
        return claims[before - 1]

    def _served(self, began: datetime, ended: datetime) -> timedelta:
        """How much of the time between the server did not stand still."""
        served = ended - began
        for since, until in self._stops:
            first = max(since, began)
            last = min(until or ended, ended)
            if last > first:
                served -= last - first
        return served


class PublishedWrites:
    """Judges writes to published objects: only ours, only what is desired, never without cause."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self.levels: dict[tuple[str, str], Any] = {}
        """(API group, name) of each object that is ours to write, to its desired levels."""
        self.may_lack: Callable[[str], set[str]] = lambda _name: set()
        """As in `TopologyRules`."""
        self.is_deletion_expected = False
        """Whether something was done to published objects that is a cause to delete them."""
        self.free: set[str] = set()
        """API groups in which every name was free for a while, as nothing of others was there."""
        self.allowed: set[tuple[str, str]] = set()
        """(API group, name) of objects that Toposcope makes while something else is not served."""
        self.has_late_grove = False
        """Whether Grove has been away so far, even if only for a while."""

    def judge(self, done: list[Write]) -> None:
        """Judge successful writes."""
        for write in done:
            if write.group in ("grove.io", "kai.scheduler", "kueue.x-k8s.io"):
                self._findings.checked("levels")
                self._published(write)
            elif (
                write.user == _AGENT
                and write.resource == "nodes"
                and write.name != write.pod.removeprefix("agent-")
            ):
                self._findings.add("foreign", f"{write.pod} did {write.what}: not its own Node")

    def _published(self, write: Write) -> None:
        wanted = self.levels.get((write.group, write.name))
        if wanted is None:
            self._foreign(write)
        elif write.verb in ("delete", "deletecollection"):
            if not self.is_deletion_expected:
                self._findings.add("levels", f"{write.pod} did {write.what} without a cause")
        else:
            self._levels(write, wanted)

    def _foreign(self, write: Write) -> None:
        if write.group in self.free:
            return
        if (write.group, write.name) in self.allowed:
            return
        self._findings.add("foreign", f"{write.pod} did {write.what}: not ours")

    def _levels(self, write: Write, wanted: Any) -> None:
        """Whether the levels are those that are wanted, but for those that may be missing."""
        spec = write.body.get("spec") or {}
        levels = spec.get("levels") or []
        may_lack = self.may_lack(write.name)

        expected = []
        for level in wanted:
            is_excused = not may_lack.isdisjoint(level.values())
            if level in levels or not is_excused:
                expected.append(level)

        if levels != expected:
            did = f"{write.pod} did {write.what}"
            finding = f"{did} with levels {levels}, should be {wanted}"
            self._findings.add("levels", finding)
