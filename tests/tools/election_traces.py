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

TIMING: Final = Timing(lease=3, renew=2, retry=0.5)
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
        self.contenders[name] = Contender(identity, Election(identity, TIMING, new_lease("system", "lease")))

    def _wall(self) -> datetime:
        return _START + timedelta(seconds=self.now)

    def _store(self, claim: Lease) -> Lease | None:
        """Store a claim as an API server does; None: it is refused."""
        creates = "resourceVersion" not in claim.metadata
        if (self.lease is not None) if creates else (self.lease is None or self.lease.metadata != claim.metadata):
            return None
        self.version += 1
        metadata = {"uid": f"uid-{self.version}", **claim.metadata, "resourceVersion": str(self.version)}
        self.lease = replace(claim, metadata=metadata)
        return self.lease

    def steps(self) -> Iterator[tuple[str, str, Callable[[], None]]]:
        """What may happen next: the model's name of it, who does it, and how."""
        yield "Tick", "", self._tick
        if self.lease is not None:
            yield "Delete", "", self._delete
        for name, one in self.contenders.items():
            yield from ((action, name, partial(do, one)) for action, do in self._of(one))
            yield "Crash", name, partial(self._crash, name)
            if self._may_release(one):
                yield "Release", name, partial(self._release, name)
        for name in self.late:
            yield "TakeLateClaim", name, partial(self._take_late, name)

    def _of(self, one: Contender) -> Iterator[tuple[str, Callable[[Contender], None]]]:
        if not one.waits and one.election.must_look:
            yield "Look", self._look
        if one.waits == "wants" or (not one.waits and not one.election.must_look and one.election.wants(self.now)):
            yield "Claim", self._claim
        if one.waits == "look":
            yield "Looked", self._looked
        if one.waits == "claim":
            yield "TakeClaim", self._take
        if one.waits == "stored":
            yield "Claimed", self._claimed
        if one.waits in {"look", "claim", "stored", "refused", "wants"}:
            yield "Doubt", self._doubt

    def _tick(self) -> None:
        self.now += 1

    def _delete(self) -> None:
        self.lease = None

    def _look(self, one: Contender) -> None:
        one.waits, one.lease = "look", self.lease

    def _looked(self, one: Contender) -> None:
        one.election.looked(self.now, one.lease)
        one.waits = "wants" if one.election.wants(self.now) else ""

    def _claim(self, one: Contender) -> None:
        one.waits, one.lease, one.sent = "claim", one.election.claim(self._wall()), self.now

    def _take(self, one: Contender) -> None:
        assert one.lease is not None
        stored = self._store(one.lease)
        one.waits, one.lease = ("stored", stored) if stored else ("refused", None)

    def _claimed(self, one: Contender) -> None:
        assert one.lease is not None
        one.election.claimed(one.sent, self.now, one.lease)
        one.waits = ""

    def _doubt(self, one: Contender) -> None:
        if one.waits == "claim" and self.rng.random() < 0.5:  # it is still on its way
            assert one.lease is not None
            self.late[one.identity[0]] = one.identity, one.lease
        one.election.doubt()
        one.waits = ""

    def _take_late(self, name: str) -> None:
        self._store(self.late.pop(name)[1])

    def _crash(self, name: str) -> None:
        one = self.contenders[name]
        claim = self.late.pop(name, None)
        if one.waits == "claim":
            assert one.lease is not None
            claim = one.identity, one.lease
        if claim:
            self.late["former"] = claim
        self._begin(name)

    def _may_release(self, one: Contender) -> bool:
        """Whether it leads, waits for nothing, and knows the Lease as the server has it."""
        holder = self.lease.holder if self.lease else ""
        return not (one.waits or one.election.must_look) and one.identity == holder and one.election.may_write(self.now)

    def _release(self, name: str) -> None:
        given_back = self.contenders[name].election.resign(self.now, self._wall())
        assert given_back is not None
        assert self._store(given_back) is not None
        self.late.pop(name, None)
        self._begin(name)

    def holder(self) -> str:
        """Who holds the Lease, as the model calls it."""
        if self.lease is None:
            return "absent"
        if self.lease.released:
            return "released"
        names = {one.identity: name for name, one in self.contenders.items()}
        return names.get(self.lease.holder, "former")

    def seen(self, action: str, who: str) -> str:
        """The step as a record of TLA+."""
        leading = {name for name, one in self.contenders.items() if one.election.may_write(self.now)}
        assert len(leading) <= 1
        looking = {name for name, one in self.contenders.items() if one.election.must_look}
        seen = {"holder": self.holder(), "leading": leading, "looking": looking, "over": set()}
        return tla({"action": action, "who": who, **seen})


def tla(value: Any) -> str:
    """A value of TLA+: a text, a number, a set of texts, or a record."""
    if isinstance(value, dict):
        fields = [f"{name} |-> {tla(part)}" for name, part in value.items()]
        return f"[{', '.join(fields)}]"
    if isinstance(value, set):
        return "{" + ", ".join(map(tla, sorted(value))) + "}"
    return json.dumps(value) if isinstance(value, str) else str(value).upper()


_RARE: Final = {"Tick": 0.4, "Crash": 0.05, "Delete": 0.05, "Release": 0.2, "Doubt": 0.1}


def trace(seed: int, steps: int) -> list[str]:
    """The steps of one run, each as a record of TLA+."""
    rng = random.Random(seed)
    run = Run(rng)
    records = [run.seen("Start", "")]
    while len(records) < steps:
        possible = [*run.steps()]
        action, who, do = rng.choices(possible, [_RARE.get(action, 1.0) for action, _, _ in possible])[0]
        if action == "TakeLateClaim" or not (action == "Crash" and "former" in run.late):
            do()
            records.append(run.seen(action, who))
    return records


def module(records: list[str]) -> str:
    """The module `Trace` with these steps."""
    return "---- MODULE Trace ----\nSteps == <<\n" + ",\n".join(records) + "\n>>\n====\n"
