"""How often something that was refused is tried."""

from tests.support.publishing import Time
from toposcope.controller.publishers.objects import Backoff
from toposcope.integrations.framework.published import Published

REFUSED = Published("a/v1", "A", "cluster", "Rejected", "no")
BUSY = Published("a/v1", "A", "cluster", "Waiting", "later", 7.0)
DONE = Published("a/v1", "A", "cluster")


def attempts(backoff: Backoff, time: Time, until: float, answer: Published, wish: str = "this") -> list[float]:
    """When it was tried, asked every second."""
    tried = []
    while time.seconds < until:
        if not backoff.standing("cluster", wish):
            tried.append(time.seconds)
            backoff.note("cluster", wish, answer)
        time.seconds += 1
    return tried


def test_the_pause_doubles_up_to_ten_minutes_and_the_answer_says_how_long_it_still_is() -> None:
    time = Time()
    backoff = Backoff(time)
    assert attempts(backoff, time, 3000, REFUSED) == [0, 30, 90, 210, 450, 930, 1530, 2130, 2730]
    standing = backoff.standing("cluster", "this")
    assert standing is not None
    assert (standing.message, standing.again_in) == ("no", 330)


def test_another_wish_is_tried_at_once_and_begins_anew() -> None:
    time = Time()
    backoff = Backoff(time)
    attempts(backoff, time, 100, REFUSED)
    assert attempts(backoff, time, 200, REFUSED, "that") == [100, 130, 190]
    assert backoff.standing("other", "that") is None


def test_success_forgets_and_waiting_names_its_own_time() -> None:
    time = Time()
    backoff = Backoff(time)
    attempts(backoff, time, 100, REFUSED)
    assert backoff.note("cluster", "this", DONE) is DONE
    assert backoff.standing("cluster", "this") is None
    assert attempts(backoff, time, 120, BUSY) == [100, 107, 114]
