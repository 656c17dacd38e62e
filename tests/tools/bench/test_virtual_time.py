import threading
import time

import pytest

from tools.bench.virtual_time import VirtualEvent, VirtualTime


def waiting(clock: VirtualTime, event: VirtualEvent, timeout: float | None) -> tuple[threading.Thread, list[bool]]:
    """A thread that waits, once it does."""
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(event.wait(timeout)))
    thread.start()
    assert clock.settled(thread.ident or 0, 30.0, time.monotonic, time.sleep)
    return thread, answers


def test_who_waits_wakes_when_its_time_has_come_or_when_it_happens() -> None:
    clock = VirtualTime(start=100.0)
    thread, answers = waiting(clock, VirtualEvent(clock), 60.0)
    clock.advance(59.0)
    assert clock.settled(thread.ident or 0, 30.0, time.monotonic, time.sleep)
    clock.advance(1.0)
    thread.join()
    assert answers == [False]
    assert clock.now() == 160.0
    event = VirtualEvent(clock)
    thread, answers = waiting(clock, event, None)
    event.set()
    thread.join()
    assert answers == [True]
    event.clear()
    assert not event.wait(0.0)


def test_who_works_does_not_rest() -> None:
    clock = VirtualTime()
    real = iter(range(100))
    assert not clock.settled(threading.get_ident(), 10.0, lambda: float(next(real)), lambda _seconds: None)


def test_it_takes_the_place_of_the_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((time, "monotonic"), (time, "time"), (time, "clock_gettime"), (threading, "Event")):
        monkeypatch.setattr(module, name, getattr(module, name))  # so that they come back
    clock = VirtualTime(start=5.0)
    clock.install()
    clock.advance(2.0)
    assert time.monotonic() == time.time() == time.clock_gettime(time.CLOCK_BOOTTIME) == 7.0
    assert time.clock_gettime(time.CLOCK_MONOTONIC) != 7.0
    assert isinstance(threading.Event(), VirtualEvent)
