"""How long something has been so."""

from toposcope.hierarchy.timers import Timers


def test_a_timer_runs_from_the_first_call_until_it_is_stopped() -> None:
    timers: Timers[str] = Timers()
    assert [timers.overdue("rack", now, 60.0) for now in (0.0, 60.0, 61.0)] == [False, False, True]
    assert not timers.overdue("rack", 62.0, 60.0, running=False)
    assert not timers.overdue("rack", 63.0, 60.0)
    assert timers.next_deadline(60.0, 63.0) == 60.0


def test_without_a_grace_period_it_is_overdue_at_once() -> None:
    assert Timers[str]().overdue("rack", 5.0, 0.0)


def test_only_some_keys_are_kept() -> None:
    timers: Timers[str] = Timers()
    for key in ("zone", "rack"):
        timers.overdue(key, 0.0, 60.0)
    timers.keep_only(["rack", "row"])
    assert (timers.overdue("zone", 61.0, 60.0), timers.overdue("rack", 61.0, 60.0)) == (False, True)
    timers.clear()
    assert timers.next_deadline(60.0, 61.0) is None


def test_what_is_overdue_has_no_deadline() -> None:
    timers: Timers[str] = Timers()
    timers.overdue("rack", 0.0, 60.0)
    assert timers.next_deadline(60.0, 61.0) is None
