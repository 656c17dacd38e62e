"""At most one may write, whatever happens, and exactly one once faults end."""

import itertools
import logging
import threading
from datetime import timedelta
from typing import Any

import pytest
from tests.support.api import ApiUnderTest, Clients
from tests.support.cluster import START
from tests.support.publishing import Time
from toposcope.controller.election import MARGIN_SECONDS, Election, LeaderElector, Timing
from toposcope.kube.client import ApiClient
from toposcope.kube.lease import Lease, new_lease
from toposcope.kube.runtime import REAL
from toposcope.simulator.apiserver.server import ServerFaults

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
LEASE = f"{LEASES}/leader"
ABSENT = new_lease("default", "leader")
TIMING = Timing()
FAULTS = pytest.mark.embedded_api("fails on demand and counts requests")


@pytest.mark.parametrize(
    ("timing", "message"),
    [
        pytest.param({"retry_seconds": 0}, "retry 0: must be more than 0 seconds", id="no-retry"),
        pytest.param(
            {"renew_seconds": 4},
            r"renew 4: must be more than twice retry \(2\), so that a failed renewal",
            id="short-renewal",
        ),
        pytest.param(
            {"lease_seconds": 10},
            r"lease 10: must be longer than renew \(10\), otherwise two controllers lead",
            id="short-lease",
        ),
    ],
)
def test_times_that_do_not_fit_together_are_refused(timing: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Timing(**timing)


def test_the_proportions_of_other_leases_are_the_usual_ones() -> None:
    assert Timing.lasting(15) == Timing()
    assert Timing.lasting(30) == Timing(30, 20.0, 4.0)
    assert Timing.lasting(3).request_seconds == 1.0
    assert Timing(renew_seconds=5).request_seconds == 2.5


class Store:
    """One Lease as an API server holds it: versions, uids, and no new version for a write that changes nothing."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.numbers = itertools.count(1)

    def write(self, lease: Lease) -> Lease | None:
        """What is stored now, or None for a conflict."""
        mine, here = lease.metadata, self.lease and self.lease.metadata
        if "resourceVersion" not in mine:
            if here:
                return None
            uid = f"uid-{next(self.numbers)}"
        else:
            if not here or any(mine[key] != here[key] for key in ("uid", "resourceVersion")):
                return None
            if self.lease and lease.spec == self.lease.spec:
                return self.lease
            uid = here["uid"]
        return self.put({**mine, "uid": uid}, lease.spec)

    def put(self, metadata: Any, spec: Any) -> Lease:
        self.lease = Lease({**metadata, "resourceVersion": str(next(self.numbers))}, spec)
        return self.lease

    def edit(self, **spec: Any) -> None:
        assert self.lease
        self.put(self.lease.metadata, spec)

    def delete(self) -> None:
        self.lease = None

    @property
    def holder(self) -> str:
        assert self.lease
        return self.lease.holder


class Contender:
    """An election whose requests arrive at once."""

    def __init__(self, store: Store, identity: str) -> None:
        self.store = store
        self.election = Election(identity, TIMING, ABSENT)

    def turn(self, now: float) -> bool:
        """Look and claim at `now`; whether it may write then."""
        election = self.election
        if election.has_to_look:
            election.looked(now, self.store.lease)
        if election.wants(now):
            stored = self.store.write(election.claim(START + timedelta(seconds=now)))
            if stored:
                election.claimed(now, now, stored)
            else:
                election.doubt()
        return election.can_write(now)

    def claim_unanswered(self, now: float) -> None:
        self.election.looked(now, self.store.lease)
        assert self.store.write(self.election.claim(START))
        self.election.doubt()


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def leader(store: Store) -> Contender:
    """Leads since time 0."""
    leader = Contender(store, "a")
    assert not leader.turn(-16.0)
    assert leader.turn(0.0)
    return leader


@pytest.fixture
def follower(store: Store) -> Contender:
    return Contender(store, "b")


@pytest.mark.regression
class TestWhoLeads:
    """Of contenders whose turns come at these seconds."""

    def test_new_lease_is_waited_for(self, store: Store, follower: Contender) -> None:
        """The leader of a lost one may still write."""
        first = Contender(store, "a")
        assert not first.turn(0)
        assert not follower.turn(0)
        assert store.holder == "a"
        assert not first.turn(6)
        assert not follower.turn(6)
        assert not first.turn(15)
        assert not follower.turn(15)
        assert store.holder == "a"
        assert first.turn(15.1)

    def test_new_lease_whose_answer_was_lost_is_waited_for(self, store: Store) -> None:
        first = Contender(store, "a")
        first.claim_unanswered(0)
        assert not first.turn(3)
        assert not first.turn(18)
        assert first.turn(18.1)

    def test_leadership_ends_10_s_after_a_renewal_and_the_lease_after_15(
        self, store: Store, leader: Contender, follower: Contender
    ) -> None:
        assert leader.turn(2)
        assert not follower.turn(2.5)
        assert leader.election.can_write(11.9)
        assert not leader.election.can_write(12)
        assert not follower.turn(17.5)
        assert follower.turn(17.6)
        assert not leader.turn(17.7)
        assert not leader.turn(19.7)
        assert store.holder == "b"

    def test_leader_that_was_stopped_finds_out_without_a_request(self, leader: Contender) -> None:
        assert leader.turn(2)
        assert not leader.election.can_write(60)
        # It resumes, because nobody took over.
        assert leader.turn(60)

    def test_leader_whose_lease_is_deleted_writes_as_long_as_is_certain(
        self, store: Store, leader: Contender, follower: Contender
    ) -> None:
        store.delete()
        assert not follower.turn(1)
        assert leader.turn(2)
        assert not leader.turn(4)
        assert not follower.turn(9)
        assert follower.turn(16.1)

    def test_emptied_lease_is_taken_back_by_the_leader(
        self, store: Store, leader: Contender, follower: Contender
    ) -> None:
        store.edit()
        assert not follower.turn(1)
        assert leader.turn(2)
        assert leader.turn(4)
        assert store.holder == "a"
        assert not follower.turn(16.1)

    def test_leader_steps_down_for_another_holder(self, store: Store, leader: Contender) -> None:
        store.edit(holderIdentity="somebody", leaseDurationSeconds=15)
        assert leader.turn(2)
        assert not leader.turn(4)
        assert not leader.turn(19)
        assert leader.turn(19.1)

    def test_lease_that_is_ours_again_without_a_claim_is_waited_for(
        self, store: Store, leader: Contender, follower: Contender
    ) -> None:
        """As after a restore of etcd: the holder since then has not heard of it yet."""
        saved = store.lease
        assert not follower.turn(1)
        assert follower.turn(16.1)
        assert not leader.turn(17)
        assert not leader.turn(17.5)
        store.lease = saved
        assert not leader.turn(18)
        assert follower.election.can_write(26)
        assert not follower.turn(26.1)
        assert not leader.turn(32.9)
        assert leader.turn(33.1)

    def test_renewal_after_a_restore_may_have_the_version_of_a_lost_one(
        self, store: Store, leader: Contender, follower: Contender
    ) -> None:
        saved = store.lease
        assert saved
        assert leader.turn(2)
        assert not follower.turn(3)
        store.lease = saved
        store.numbers = itertools.count(int(saved.metadata["resourceVersion"]) + 1)
        assert leader.turn(10)
        assert leader.turn(11)
        assert not follower.turn(18.1)
        assert leader.election.can_write(18.2)
        assert not follower.turn(33)
        assert follower.turn(33.2)

    def test_claim_whose_answer_was_lost_counts(self, leader: Contender, follower: Contender) -> None:
        assert leader.election.can_write(0)
        assert not follower.turn(1)
        follower.claim_unanswered(16.1)
        assert follower.turn(18)

    def test_lease_of_another_length_is_respected(self, store: Store, leader: Contender, follower: Contender) -> None:
        store.edit(holderIdentity="somebody", leaseDurationSeconds=60)
        third = Contender(store, "c")
        assert not follower.turn(0)
        assert not third.turn(1)
        assert not third.turn(61)
        assert third.turn(61.1)
        assert not leader.turn(62)

    def test_any_change_of_the_lease_is_a_sign_of_life(
        self, store: Store, leader: Contender, follower: Contender
    ) -> None:
        assert leader.election.can_write(0)
        assert not follower.turn(0)
        assert store.lease
        store.put({**store.lease.metadata, "labels": {"x": "y"}}, store.lease.spec)
        assert not follower.turn(14)
        assert not follower.turn(29)
        assert follower.turn(29.1)


def test_a_contender_that_has_not_led_has_nothing_to_release(store: Store) -> None:
    """A successor would not wait, and a leader that lost an older Lease may still be there."""
    contender = Contender(store, "a")
    assert not contender.turn(0.0)
    assert contender.election.resign(15.0, START) is None


def test_who_gave_the_lease_back_does_not_take_it_again(leader: Contender) -> None:
    assert leader.election.resign(1.0, START)
    assert not leader.election.wants(100.0)
    assert not any(leader.turn(now) for now in (100.0, 110.0, 120.0))


def test_a_term_is_another_one_after_any_time_without_leadership(leader: Contender) -> None:
    assert leader.turn(2.0)
    first = leader.election.term
    assert leader.turn(4.0)
    assert leader.election.term == first
    assert leader.turn(60.0)
    assert leader.election.term > first, "another one may have led, or the clock of absences has run on unwatched"


def test_time_counts_from_when_a_renewal_was_sent_not_from_its_answer(store: Store, leader: Contender) -> None:
    stored = store.write(leader.election.claim(START))
    assert stored
    assert stored.seconds == TIMING.lease_seconds
    leader.election.claimed(2.0, 6.0, stored)
    assert not leader.election.can_write(12.0)


class Process:
    """An elector on an API server; time is the test's."""

    def __init__(self, client: ApiClient, identity: str, clock: Time) -> None:
        self.stop = threading.Event()
        self.news: list[bool] = []
        self.clock = clock
        self.elector = LeaderElector(
            client,
            namespace="default",
            name="leader",
            identity=identity,
            stop=self.stop,
            changed=self.news.append,
            runtime=clock,
        )

    def tick(self, after: float = 0.0) -> bool:
        self.clock.seconds += after
        self.elector.tick()
        return self.elector.can_write()


@pytest.fixture
def clock() -> Time:
    clock = Time()
    clock.seconds = 1000.0
    return clock


@pytest.fixture
def pair(clients: Clients, clock: Time) -> tuple[Process, Process]:
    """Two electors; the first leads."""
    a, b = Process(clients(), "a", clock), Process(clients(), "b", clock)
    assert not a.tick()
    assert a.tick(after=15.1)
    assert not b.tick()
    return a, b


def test_one_of_two_leads_and_the_other_takes_over_what_is_given_back(pair: tuple[Process, Process]) -> None:
    a, b = pair
    for _ in range(20):
        assert a.tick(after=2.0)
        assert not b.tick()
    a.stop.set()
    a.elector.release()
    assert not a.elector.can_write()
    assert b.tick()
    assert not a.tick()
    assert (a.news, b.news) == ([True, False], [True])


def test_a_deleted_lease_does_not_make_a_second_leader(pair: tuple[Process, Process], api: ApiUnderTest) -> None:
    a, b = pair
    api.request("DELETE", LEASE)
    assert not b.tick()
    assert api.get(LEASE)["spec"]["holderIdentity"] == "b"
    assert a.tick(after=2.0)
    assert not a.tick(after=2.0)
    assert not b.tick(after=11.0)
    assert b.tick(after=0.1)
    assert (a.news, b.news) == ([True, False], [True])


def time_until_it_leads(follower: Process) -> float:
    """How long a follower waits by itself, from when it has seen the leader's last renewal."""
    began = follower.clock.seconds
    pause = follower.elector.tick()
    while not follower.elector.can_write():
        follower.clock.seconds += pause
        pause = follower.elector.tick()
        assert follower.clock.seconds < began + 60
    return follower.clock.seconds - began


@pytest.mark.regression
def test_dead_leader_is_followed_as_soon_as_its_lease_ends(pair: tuple[Process, Process]) -> None:
    dead, follower = pair
    for _ in range(20):
        assert time_until_it_leads(follower) <= TIMING.lease_seconds + 2 * MARGIN_SECONDS
        dead.tick()  # it starts again, and notices that it was replaced
        dead, follower = follower, dead


@pytest.mark.regression
def test_new_lease_is_led_as_soon_as_an_old_one_had_ended(clients: Clients, clock: Time) -> None:
    assert time_until_it_leads(Process(clients(), "a", clock)) <= TIMING.lease_seconds + 2 * MARGIN_SECONDS


@pytest.fixture
def leading(clients: Clients, clock: Time) -> Process:
    process = Process(clients(), "a", clock)
    process.tick()
    assert process.tick(after=15.1)
    return process


@FAULTS
def test_api_server_when_away_then_leadership_ends_and_is_reported_once(
    faults: ServerFaults, leading: Process, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    faults.reject(503, times=8)
    assert [leading.tick(after=2.0) for _ in range(8)] == [True] * 4 + [False] * 4
    assert leading.tick(after=2.0)
    assert leading.news == [True, False, True]
    assert caplog.text.count("cannot be read or written") == 1
    assert caplog.text.count("can be read and written again") == 1


@FAULTS
def test_a_busy_server_is_asked_less_but_often_enough(faults: ServerFaults, leading: Process) -> None:
    assert leading.elector.tick() == TIMING.retry_seconds
    faults.reject(429, retry_after=3)
    assert leading.elector.tick() == 3.0
    faults.reject(429, retry_after=300)
    assert leading.elector.tick() == TIMING.request_seconds


def test_followers_ask_at_different_times(clients: Clients, clock: Time) -> None:
    follower = Process(clients(), "b", clock)
    waits = {follower.elector.tick() for _ in range(20)}
    assert len(waits) == 20
    assert TIMING.retry_seconds <= min(waits) < TIMING.retry_seconds * 1.8
    assert max(waits) <= TIMING.retry_seconds * 2.2


@FAULTS
def test_a_lease_that_cannot_be_given_back_keeps_no_program_from_ending(faults: ServerFaults, leading: Process) -> None:
    faults.reject(500)
    leading.elector.release()
    assert not leading.elector.can_write()
    assert leading.news == [True, False]


@FAULTS
def test_who_never_led_gives_nothing_back(faults: ServerFaults, clients: Clients, clock: Time) -> None:
    elector = Process(clients(), "b", clock).elector
    assert elector.healthy() == ""
    elector.release()
    assert not faults.requests


def test_a_lapse_that_ends_within_one_turn_is_reported(leading: Process) -> None:
    assert leading.tick(after=60.0)
    assert leading.news == [True, False, True]


def test_an_elector_that_hangs_is_reported(leading: Process, clock: Time) -> None:
    clock.seconds += 60.0
    assert leading.elector.healthy() == ""
    clock.seconds += 1.0
    assert leading.elector.healthy() == "the election has been stuck for 61 s"


@FAULTS
def test_a_thread_leads_and_gives_back(clients: Clients, faults: ServerFaults, leading: Process) -> None:
    leading.elector.release()
    stop, led = threading.Event(), threading.Event()
    news: list[bool] = []

    def changed(is_leader: bool) -> None:
        news.append(is_leader)
        led.set()

    elector = LeaderElector(clients(), namespace="default", name="leader", identity="b", stop=stop, changed=changed)
    elector.start()
    assert led.wait(30.0)
    assert elector.can_write()
    stop.set()
    elector.release()
    assert news == [True, False]
    puts = faults.requests["PUT", LEASE]
    assert puts == 4  # renewed and given back by one, taken and given back by the other


def test_the_default_clock_goes_on() -> None:
    assert 0 < REAL.boot_time() <= REAL.boot_time()
