"""Whether a controller leads, by a Lease that is read at some times of a clock that tests move."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from toposcope.cli.leader import Leader, leader_of

START = datetime(2026, 1, 1, tzinfo=UTC)

pytestmark = pytest.mark.regression


def lease(renewed: float, holder: str = "c-0") -> dict[str, Any]:
    """The controller's Lease, with a renewTime this many seconds after START."""
    moment = START + timedelta(seconds=renewed)
    return {"spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": moment.isoformat()}}


def judged(*leases: dict[str, Any] | None, now: float) -> tuple[Leader, float]:
    """The verdict at a time, and how long it took; each read finds the next Lease, then the last one again."""
    clock = [now]
    left = list(leases)

    def read() -> dict[str, Any] | None:
        return left.pop(0) if len(left) > 1 else left[0]

    def wait(seconds: float) -> None:
        clock[0] += seconds

    found = leader_of(read, lambda: START + timedelta(seconds=clock[0]), wait)
    return found, clock[0] - now


@pytest.mark.parametrize(
    ("leases", "words"),
    [
        pytest.param([None], "there is no Lease toposcope-controller", id="none"),
        pytest.param([{"spec": {}}], "no controller holds the Lease toposcope-controller", id="never-held"),
        pytest.param([lease(0, holder="")], "no controller holds the Lease toposcope-controller", id="released"),
    ],
)
def test_lease_that_nobody_holds_is_known_at_once(leases: Sequence[dict[str, Any] | None], words: str) -> None:
    assert judged(*leases, now=0) == (Leader(words, is_lost=True), 0)


@pytest.mark.parametrize("renewed", ["yesterday", "2026-01-01T00:00:00", "9" * 5000], ids=["word", "no-zone", "huge"])
def test_lease_without_a_time_leaves_the_leader_unknown(renewed: str) -> None:
    malformed = {"spec": {"holderIdentity": "c-0", "renewTime": renewed}}
    words = f"not known: spec.renewTime of the Lease toposcope-controller is not a time: {renewed[:40]!r}"
    assert judged(malformed, now=0) == (Leader(words), 0)


def test_renewed_lease_says_how_old_the_renewal_is() -> None:
    assert judged(lease(0), now=1) == (Leader("c-0 holds the Lease, renewed 1 second ago"), 0)


def test_killed_controller_is_known_after_ten_seconds() -> None:
    found, took = judged(lease(0), now=5)
    words = "c-0 does not renew its Lease: the last time was 10 seconds ago, at 2026-01-01T00:00:00Z"
    assert found == Leader(words, is_lost=True)
    assert took == 5


@pytest.mark.parametrize("now", [5, 20, -300])
def test_renewal_proves_a_controller_whatever_the_clock_says(now: float) -> None:
    found, took = judged(lease(0), lease(0), lease(2), now=now)
    assert not found.is_lost
    assert took == 2


def test_lease_that_expired_long_ago_needs_no_watching() -> None:
    found, took = judged(lease(0), now=3700)
    words = "c-0 does not renew its Lease: the last time was 3,700 seconds ago, at 2026-01-01T00:00:00Z"
    assert (found, took) == (Leader(words, is_lost=True), 0)
