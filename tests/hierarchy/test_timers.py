"""How long something has been so."""

from toposcope.hierarchy.timers import Timers

GRACE_SECONDS = 60.0


class Rack:
    """Times how long a rack has been missing."""

    def __init__(self) -> None:
        self.timers: Timers[str] = Timers()

    def is_overdue(self, *, at: float, missing: bool = True) -> bool:
        """Whether it has been missing for longer than the grace period, as the timers know by now."""
        return self.timers.is_overdue("rack", at, GRACE_SECONDS, is_running=missing)

    def next_deadline(self, *, at: float) -> float | None:
        """In how many seconds it is overdue; None: no timer runs, or it is overdue already."""
        return self.timers.next_deadline(GRACE_SECONDS, at)


def test_timer_runs_from_the_first_call_until_it_is_stopped() -> None:
    rack = Rack()
    assert not rack.is_overdue(at=0.0)
    assert not rack.is_overdue(at=60.0)
    assert rack.is_overdue(at=61.0)

    assert not rack.is_overdue(at=62.0, missing=False)
    assert not rack.is_overdue(at=63.0)
    assert rack.next_deadline(at=63.0) == 60.0


def test_timer_without_a_grace_period_is_overdue_at_once() -> None:
    timers: Timers[str] = Timers()
    assert timers.is_overdue("rack", 5.0, 0.0)


def test_timers_of_other_keys_are_dropped() -> None:
    timers: Timers[str] = Timers()
    for key in ("zone", "rack"):
        timers.is_overdue(key, 0.0, GRACE_SECONDS)

    timers.keep_only(["rack", "row"])

    assert not timers.is_overdue("zone", 61.0, GRACE_SECONDS)
    assert timers.is_overdue("rack", 61.0, GRACE_SECONDS)


def test_cleared_timers_have_no_deadline() -> None:
    rack = Rack()
    rack.is_overdue(at=0.0)
    rack.timers.clear()
    assert rack.next_deadline(at=1.0) is None


def test_timer_that_is_overdue_has_no_deadline() -> None:
    rack = Rack()
    rack.is_overdue(at=0.0)
    assert rack.next_deadline(at=61.0) is None
