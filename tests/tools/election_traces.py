"""Runs of the controller's own `Election`, written down step by step as the model `Leadership` names them."""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from toposcope.controller.election import Election, Timing
from toposcope.kube.lease import Lease, new_lease

TIMING: Final = Timing(lease_seconds=3, renew_seconds=2, retry_seconds=0.5)
_START: Final = datetime(2026, 1, 1, tzinfo=UTC)
NAMES: Final = ("a", "b")


@dataclass
class Contender:
    """One process after another under the same name, and what it waits for."""

    identity: str
    election: Election
    waits: str = ""
    """`look`, `wants`, `claim`, `stored` or `refused`; empty: nothing."""
    lease: Lease | None = None
    """Of a look: what the server answered; of a claim: what was sent, or stored."""
    sent: int = 0


@dataclass
class Run:
    """An API server with one Lease, two contenders and a clock, all moved by `rng`."""

    rng: random.Random
    now: int = 0
    lease: Lease | None = None
    version: int = 0
    late: dict[str, tuple[str, Lease]] = field(default_factory=dict)
    """Claims whose sender no longer waits: the model's name of it, to its identity and the claim."""
    born: int = 0
    contenders: dict[str, Contender] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in NAMES:
            self._begin(name)

    def _begin(self, name: str) -> None:
        self.born += 1
        identity = f"{name}-{self.born}"
        election = Election(identity, TIMING, new_lease("system", "lease"))
        self.contenders[name] = Contender(identity, election)

    def _wall(self) -> datetime:
        return _START + timedelta(seconds=self.now)

    def _store(self, claim: Lease) -> Lease | None:
        """Store a claim as an API server does; None: it is refused."""
        if not self._fits(claim):
            return None
        self.version += 1
        metadata = {
            "uid": f"uid-{self.version}",
            **claim.metadata,
            "resourceVersion": str(self.version),
        }
        self.lease = replace(claim, metadata=metadata)
        return self.lease

    def _fits(self, claim: Lease) -> bool:
        """Whether a claim creates the Lease that is not there, or changes the one that is."""
        is_new = "resourceVersion" not in claim.metadata
        if is_new or self.lease is None:
            return is_new and self.lease is None
        return self.lease.metadata == claim.metadata

    def steps(self) -> Iterator[tuple[str, str, Callable[[], None]]]:
        """What may happen next: the model's name of it, who does it, and how."""
        yield "Tick", "", self._tick
        if self.lease is not None:
            yield "Delete", "", self._delete
        for name, contender in self.contenders.items():
            for action, do in self._steps_of(contender):
                yield action, name, partial(do, contender)
            yield "Crash", name, partial(self._crash, name)
            if self._may_release(contender):
                yield "Release", name, partial(self._release, name)
        for name in self.late:
            yield "TakeLateClaim", name, partial(self._take_late, name)

    def _steps_of(self, contender: Contender) -> Iterator[tuple[str, Callable[[Contender], None]]]:
        waits = contender.waits
        if not waits and contender.election.has_to_look:
            yield "Look", self._look
        if self._may_claim(contender):
            yield "Claim", self._claim
        if waits == "look":
            yield "Looked", self._looked
        if waits == "claim":
            yield "TakeClaim", self._take
        if waits == "stored":
            yield "Claimed", self._claimed
        if waits in {"look", "claim", "stored", "refused", "wants"}:
            yield "Doubt", self._doubt

    def _may_claim(self, contender: Contender) -> bool:
        if contender.waits:
            return contender.waits == "wants"
        election = contender.election
        return not election.has_to_look and election.wants(self.now)

    def _tick(self) -> None:
        self.now += 1

    def _delete(self) -> None:
        self.lease = None

    def _look(self, contender: Contender) -> None:
        contender.waits = "look"
        contender.lease = self.lease

    def _looked(self, contender: Contender) -> None:
        election = contender.election
        election.looked(self.now, contender.lease)
        contender.waits = "wants" if election.wants(self.now) else ""

    def _claim(self, contender: Contender) -> None:
        contender.waits = "claim"
        contender.lease = contender.election.claim(self._wall())
        contender.sent = self.now

    def _take(self, contender: Contender) -> None:
        assert contender.lease is not None
        contender.lease = self._store(contender.lease)
        contender.waits = "stored" if contender.lease else "refused"

    def _claimed(self, contender: Contender) -> None:
        assert contender.lease is not None
        contender.election.claimed(contender.sent, self.now, contender.lease)
        contender.waits = ""

    def _doubt(self, contender: Contender) -> None:
        if contender.waits == "claim" and self.rng.random() < 0.5:  # it is still on its way
            assert contender.lease is not None
            name, _, _ = contender.identity.partition("-")
            self.late[name] = contender.identity, contender.lease
        contender.election.doubt()
        contender.waits = ""

    def _take_late(self, name: str) -> None:
        _, claim = self.late.pop(name)
        self._store(claim)

    def _crash(self, name: str) -> None:
        contender = self.contenders[name]
        late = self.late.pop(name, None)
        if contender.waits == "claim":
            assert contender.lease is not None
            late = contender.identity, contender.lease
        if late:
            self.late["former"] = late
        self._begin(name)

    def _may_release(self, contender: Contender) -> bool:
        """Whether it leads, waits for nothing, and knows the Lease as the server has it."""
        election = contender.election
        if contender.waits or election.has_to_look:
            return False
        if self.lease is None or self.lease.holder != contender.identity:
            return False
        return election.can_write(self.now)

    def _release(self, name: str) -> None:
        election = self.contenders[name].election
        given_back = election.resign(self.now, self._wall())
        assert given_back is not None
        stored = self._store(given_back)
        assert stored is not None
        self.late.pop(name, None)
        self._begin(name)

    def holder(self) -> str:
        """Who holds the Lease, as the model calls it."""
        if self.lease is None:
            return "absent"
        if self.lease.is_released:
            return "released"
        for name, contender in self.contenders.items():
            if contender.identity == self.lease.holder:
                return name
        return "former"

    def seen(self, action: str, who: str) -> str:
        """The step as a record of TLA+."""
        leading = set()
        looking = set()
        for name, contender in self.contenders.items():
            if contender.election.can_write(self.now):
                leading.add(name)
            if contender.election.has_to_look:
                looking.add(name)
        assert len(leading) <= 1
        record = {
            "action": action,
            "who": who,
            "holder": self.holder(),
            "leading": leading,
            "looking": looking,
            "over": set(),
        }
        return tla(record)


def tla(value: Any) -> str:
    """A value of TLA+: a text, a number, a set of texts, or a record."""
    if isinstance(value, dict):
        fields = [f"{name} |-> {tla(part)}" for name, part in value.items()]
        return f"[{', '.join(fields)}]"
    if isinstance(value, set):
        members = [tla(member) for member in sorted(value)]
        return f"{{{', '.join(members)}}}"
    if isinstance(value, str):
        return json.dumps(value)
    return str(value).upper()


_RARE: Final = {"Tick": 0.4, "Crash": 0.05, "Delete": 0.05, "Release": 0.2, "Doubt": 0.1}


def trace(seed: int, steps: int) -> list[str]:
    """The steps of one run, each as a record of TLA+."""
    rng = random.Random(seed)
    run = Run(rng)
    records = [run.seen("Start", "")]
    while len(records) < steps:
        possible = list(run.steps())
        weights = [_RARE.get(action, 1.0) for action, _, _ in possible]
        ((action, who, do),) = rng.choices(possible, weights)
        if action == "Crash" and "former" in run.late:
            continue
        do()
        records.append(run.seen(action, who))
    return records


def module(records: list[str]) -> str:
    """The module `Trace` with these steps."""
    return "---- MODULE Trace ----\nSteps == <<\n" + ",\n".join(records) + "\n>>\n====\n"
