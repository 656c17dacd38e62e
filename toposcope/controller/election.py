"""Leader election among the controllers of a cluster, by a Lease.

Why there are never two writers: a leader counts its time from the moment it *sent* a renewal that
succeeded, and may write for `Timing.renew`; everybody else counts from the moment they *received*
the last change, and leaves the Lease alone for `Timing.lease`, which is longer. Each by a clock of
its own that never jumps and that goes on while the process or the machine is stopped; the times in
the Lease are for people. Every change counts, labels too.

A missing Lease may have been deleted under a leader. A contender that creates a new one therefore
holds it for `Timing.lease` before it writes anything: by then the leader of the old one has given
up.

No Lease can call back a request that is on its way. `lease - renew` is how long one may take; the
clients of a leader time out before that.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import Any, Final

from toposcope.kube.client import ApiClient
from toposcope.kube.errors import ApiError, KubeError
from toposcope.kube.lease import Lease, new_lease, read, write
from toposcope.kube.reflector import Stop
from toposcope.kube.runtime import REAL, Runtime, Thread

log = logging.getLogger(__name__)

SPREAD_PERIODS: Final = 1.2
"""How many retry periods more a follower may wait, at random, so that not all of them ask at once
(as client-go)."""
MARGIN_SECONDS: Final = 0.1
"""How long after a Lease has expired a follower tries to take it."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds, with the defaults of the Kubernetes control plane.

    Raises ValueError where they do not fit together.
    """

    lease_seconds: int = 15
    """How long a Lease that does not change is left alone."""
    renew_seconds: float = 10.0
    """How long the leader may write without another renewal."""
    retry_seconds: float = 2.0
    """Between two renewals, or two tries."""

    def __post_init__(self) -> None:
        if self.retry_seconds <= 0:
            raise ValueError(f"retry {self.retry_seconds:g}: must be more than 0 seconds")
        if self.renew_seconds <= 2 * self.retry_seconds:
            raise ValueError(
                f"renew {self.renew_seconds:g}: must be more than twice retry "
                f"({self.retry_seconds:g}), so that a failed renewal can be retried"
            )
        if self.lease_seconds <= self.renew_seconds:
            raise ValueError(
                f"lease {self.lease_seconds}: must be longer than renew ({self.renew_seconds:g}), "
                "otherwise two controllers lead at the same time"
            )

    @classmethod
    def lasting(cls, seconds: int) -> "Timing":
        """The default proportions, for a Lease of `seconds`."""
        usual = cls()
        return cls(
            seconds,
            seconds * usual.renew_seconds / usual.lease_seconds,
            seconds * usual.retry_seconds / usual.lease_seconds,
        )

    @property
    def request_seconds(self) -> float:
        """How long one request of a leader may take."""
        return min(self.renew_seconds / 2, self.lease_seconds - self.renew_seconds)


class Election:
    """The state machine of one contender.

    No I/O and no clock: `now` is in seconds of the contender's own clock.

    `looked`, if it `has_to_look`; then `claim` and `claimed`, if it `wants` the Lease; `doubt`
    after a failed request.
    """

    def __init__(self, identity: str, timing: Timing, absent: Lease) -> None:
        self._identity = identity
        self._timing = timing
        self._absent = absent
        self.term = 0
        """Grows with each claim that is stored while this contender does not lead."""
        self._lease: Lease | None = None
        self._is_certain = False
        self._unchanged_since = inf
        self._from = -inf
        self._until = -inf
        self._is_over = False
        self._is_claiming = False
        """Whether a claim was sent since the Lease was last looked at."""

    @property
    def holder(self) -> str:
        """Who held the Lease when it was last seen."""
        return self._lease.holder if self._lease else ""

    @property
    def has_to_look(self) -> bool:
        """Whether the Lease must be read first: only its holder knows its content."""
        return not self._is_certain or self.holder != self._identity

    def can_write(self, now: float) -> bool:
        """Whether no other process can lead at `now`."""
        return self._from < now < self._until

    def looked(self, now: float, lease: Lease | None) -> None:
        """Take in the Lease as it was read; `now` is when the answer had come."""
        before, self._lease = self._lease, lease
        self._is_certain = True
        # not the version alone: after a restore of etcd another content may have it
        if lease != before:
            self._unchanged_since = now
        if self.holder not in ("", self._identity):
            self._until = -inf
        elif self.holder and _uid(lease) != _uid(before):
            self._from = now + self._timing.lease_seconds  # we made it, though the answer was lost
        elif (
            self.holder
            and before is not None
            and before.holder != self._identity
            and not self._is_claiming
        ):
            # Another process held it, and it is ours again without our doing: the cluster was
            # restored to an older state, and the last holder has not noticed yet.
            self._from = now + self._timing.lease_seconds
        self._is_claiming = False

    def wants(self, now: float) -> bool:
        """Whether to write the Lease at `now`: to renew it, or because no process can lead."""
        if self._is_over:
            return False
        if (
            self._lease is None
            or self._lease.is_released
            or self.holder == self._identity
            or self.can_write(now)
        ):
            return True
        return now > self._free_from

    def due_in(self, now: float) -> float:
        """Seconds until this contender may take the Lease, or write under the one that it holds.

        Infinite where no waiting brings that about.
        """
        due = self._from if self.holder == self._identity else self._free_from
        return due - now if due > now else inf

    @property
    def _free_from(self) -> float:
        """After which time the holder of the Lease, as it was last seen, cannot lead any more."""
        # The holder's word counts too: it may have been started with a longer one.
        promised = self._lease.seconds if self._lease else 0
        return self._unchanged_since + max(self._timing.lease_seconds, promised)

    def claim(self, wall: datetime) -> Lease:
        """The Lease to be written; `wall` goes into it for people."""
        self._is_claiming = True
        return (self._lease or self._absent).claimed(
            self._identity, self._timing.lease_seconds, wall
        )

    def claimed(self, sent: float, now: float, lease: Lease) -> None:
        """Take in what was stored of a claim.

        `sent` is when it was sent, or before, `now` when the answer had come.
        """
        if not self.can_write(sent):
            self.term += 1
        if self._lease is None:
            self._from = now + self._timing.lease_seconds
        self._lease = lease
        if not self._is_over:
            self._until = sent + self._timing.renew_seconds

    def doubt(self) -> None:
        """A request failed: it may have been carried out or not, or another process was faster."""
        self._is_certain = False

    def resign(self, now: float, wall: datetime) -> Lease | None:
        """Never lead again; the Lease to be written, if it is ours to give back."""
        self._is_over = True
        self._until = -inf
        lease, self._lease = self._lease, None
        return (
            lease.given_back(wall)
            if lease and lease.holder == self._identity and now > self._from
            else None
        )


def _uid(lease: Lease | None) -> Any:
    return lease and lease.metadata["uid"]


class LeaderElector:
    """Takes and keeps the Lease `namespace/name` in a thread, until `stop` is set.

    `release` gives it back afterwards.

    `client` must be the elector's own, with `Timing.request` as its timeout: requests of one client
    take turns, and a renewal must not wait behind a long list. `identity` must be this process's
    alone: a host name and something random. `changed` is called whenever this process begins (True)
    or ceases (False) to lead, from the elector's thread and possibly late; `can_write` is never
    late.
    """

    def __init__(
        self,
        client: ApiClient,
        *,
        namespace: str,
        name: str,
        identity: str,
        stop: Stop,
        changed: Callable[[bool], None],
        timing: Timing = Timing(),
        runtime: Runtime = REAL,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._stop = stop
        self._changed = changed
        self._timing = timing
        self._runtime = runtime
        self._clock = runtime.boot_time
        self._rng = runtime.rng()
        self._election = Election(identity, timing, new_lease(namespace, name))
        self._thread: Thread | None = None
        self._term = 0
        self._holder = ""
        self._trouble = ""
        self._turned = self._clock()

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread = self._runtime.thread("election", self.run)

    def run(self) -> None:
        """Contend until `stop` is set."""
        while not self._stop.is_set():
            self._stop.wait(self.tick())

    def can_write(self) -> bool:
        """Whether this process leads right now.

        Check it before each write, from any thread.
        """
        return self._election.can_write(self._clock())

    @property
    def term(self) -> int:
        """Another one in each stretch of leadership, however short the time between them was."""
        return self._election.term

    def healthy(self) -> str:
        """What is wrong if only a restart helps: the election thread is stuck."""
        silent = self._clock() - self._turned
        return (
            f"the election has been stuck for {silent:.0f} s"
            if silent > 4 * self._timing.lease_seconds
            else ""
        )

    def tick(self) -> float:
        """Do what is due now; seconds until the next tick. Never raises KubeError."""
        self._turned = self._clock()
        least_pause = 0.0
        try:
            self._turn()
            self._tell("")
        except KubeError as error:
            self._election.doubt()
            if isinstance(error, ApiError):
                least_pause = min(error.retry_after or 0.0, self._timing.request_seconds)
            # then another process was faster
            if not (isinstance(error, ApiError) and error.is_conflict):
                self._tell(str(error))
        self._announce()
        pause = self._timing.retry_seconds
        if not self._term:
            pause *= self._rng.uniform(1, 1 + SPREAD_PERIODS)
        # Nobody writes until the Lease has expired: a follower does not oversleep that.
        expired = self._election.due_in(self._clock()) + MARGIN_SECONDS
        return max(least_pause, min(pause, expired))

    def _turn(self) -> None:
        election = self._election
        if election.has_to_look:
            lease = read(self._client, self._namespace, self._name)
            election.looked(self._clock(), lease)
        sent = self._clock()
        if election.wants(sent):
            lease = write(self._client, election.claim(self._runtime.now()))
            election.claimed(sent, self._clock(), lease)

    def release(self) -> None:
        """Let a follower take over at once.

        Call it when nothing more will be written and `stop` is set.
        """
        if self._thread and self._thread.is_alive():
            self._thread.join(2 * self._timing.request_seconds)
        lease = self._election.resign(self._clock(), self._runtime.now())
        self._announce(logging.INFO)
        if lease is None:
            return
        try:
            write(self._client, lease)
        except KubeError as error:
            log.info(
                "cannot release the Lease %s/%s, it will expire: %s",
                self._namespace,
                self._name,
                error,
            )

    def _announce(self, severity: int = logging.WARNING) -> None:
        term = self._election.term if self.can_write() else 0
        before, self._term = self._term, term
        if before and term != before:
            log.log(severity, "no longer leading")
            self._changed(False)
        if term and term != before:
            log.info("leading")
            self._changed(True)
        if self._holder != self._election.holder:
            self._holder = self._election.holder
            log.info(
                "the Lease %s/%s is held by %s",
                self._namespace,
                self._name,
                self._holder or "nobody",
            )

    def _tell(self, trouble: str) -> None:
        """Log a problem once, and once that it is over."""
        if trouble and trouble != self._trouble:
            log.warning(
                "the Lease %s/%s cannot be read or written: %s",
                self._namespace,
                self._name,
                trouble,
            )
        elif self._trouble and not trouble:
            log.info("the Lease %s/%s can be read and written again", self._namespace, self._name)
        self._trouble = trouble
