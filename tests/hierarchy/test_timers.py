"""How long something has been so."""

from toposcope.hierarchy.timers import Timers

GRACE_SECONDS = 60.0


def test_timer_runs_from_the_first_call_until_it_is_stopped() -> None:
    timers: Timers[str] = Timers()
    assert not timers.overdue("rack", 0.0, GRACE_SECONDS)
    assert not timers.overdue("rack", 60.0, GRACE_SECONDS)
    assert timers.overdue("rack", 61.0, GRACE_SECONDS)

    assert not timers.overdue("rack", 62.0, GRACE_SECONDS, running=False)
    assert not timers.overdue("rack", 63.0, GRACE_SECONDS)
    assert timers.next_deadline(GRACE_SECONDS, 63.0) == 60.0


def test_timer_without_a_grace_period_is_overdue_at_once() -> None:
    timers: Timers[str] = Timers()
    assert timers.overdue("rack", 5.0, 0.0)


def test_timers_of_other_keys_are_dropped() -> None:
    timers: Timers[str] = Timers()
    for key in ("zone", "rack"):
        timers.overdue(key, 0.0, GRACE_SECONDS)

    timers.keep_only(["rack", "row"])

    assert not timers.overdue("zone", 61.0, GRACE_SECONDS)
    assert timers.overdue("rack", 61.0, GRACE_SECONDS)


def test_cleared_timers_have_no_deadline() -> None:
    timers: Timers[str] = Timers()
    timers.overdue("rack", 0.0, GRACE_SECONDS)
    timers.clear()
    assert timers.next_deadline(GRACE_SECONDS, 1.0) is None


def test_timer_that_is_overdue_has_no_deadline() -> None:
    timers: Timers[str] = Timers()
    timers.overdue("rack", 0.0, GRACE_SECONDS)
    assert timers.next_deadline(GRACE_SECONDS, 61.0) is None
