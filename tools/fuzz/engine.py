"""Cases of one subject for a while: drawn from a seed, and made as small as they get where one fails."""

import contextlib
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis.errors import HypothesisWarning

from tools.fuzz.subject import Subject

_BATCH: Final = 100
_PATIENCE: Final = 10.0
"""Seconds of one attempt after which it counts as hung: each takes milliseconds."""
_SHOWN: Final = 2000


class HungError(Exception):
    """An attempt that did not end."""


@dataclass(slots=True)
class Result:
    """What came of one subject."""

    subject: str
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    """Seconds."""
    seconds: float = 0.0
    finding: str = ""
    """The smallest case that fails, and how; empty when none does."""
    seed: int = 0
    """That of the batch which failed."""

    @property
    def cases(self) -> int:
        """How many were tried."""
        return sum(self.outcomes.values())


def fuzz(
    subject: Subject,
    seconds: float,
    first_seed: int,
    batches: int | None = None,
    clock: Callable[[], float] = time.monotonic,
    about: Callable[[Any], None] = lambda _: None,
    batch: int = _BATCH,
    *,
    shrink: bool = True,
) -> Result:
    """Try batch after batch, each from the next seed, until time is over, so many are done, or a case fails.

    `about` is told each case before it is tried; `batch` is how many cases a batch has. Without `shrink` a case that
    fails is told as it was drawn.
    """
    result = Result(subject.name)
    began = clock()
    number = 0
    while (batches is None or number < batches) and (number == 0 or clock() - began < seconds):
        result.seed = first_seed + number
        failure = _batch(subject, result, clock, about, batch, shrink=shrink)
        number += 1
        if failure:
            result.finding = failure
            break
    result.seconds = clock() - began
    return result


def _batch(
    subject: Subject,
    result: Result,
    clock: Callable[[], float],
    about: Callable[[Any], None],
    cases: int,
    *,
    shrink: bool,
) -> str:
    """One batch; the finding in words, or nothing."""
    smallest: list[Any] = []
    hung: dict[str, HungError] = {}

    @seed(result.seed)
    @settings(
        max_examples=cases,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        print_blob=False,
        report_multiple_bugs=False,
    )
    @given(subject.cases)
    def attempt(case: Any) -> None:
        if hung:  # to make it small would take as long for each attempt: it is told as it is
            if (known := hung.get(repr(case))) is not None:
                smallest[:] = [case]
                raise known
            return
        about(case)
        smallest[:] = [case]
        began = clock()
        try:
            with patience():
                outcome = subject.attempt(case)
        except HungError as error:
            hung[repr(case)] = error
            raise
        result.slowest = max(result.slowest, clock() - began)
        result.outcomes[outcome] += 1

    try:
        with warnings.catch_warnings():
            # Hypothesis describes cases to itself; large ones are wanted here.
            warnings.filterwarnings("ignore", "Generating overly large repr", HypothesisWarning)
            attempt()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what we look for
        return describe(smallest[0] if smallest else None, error)
    return ""


def describe(case: Any, error: BaseException) -> str:
    """A case and what came of it, for a person."""
    shown = repr(case)
    where = "".join(traceback.format_exception(error)[-6:])
    return f"case: {shown[:_SHOWN]}{'...' if len(shown) > _SHOWN else ''}\n{where.rstrip()}"


@contextlib.contextmanager
def patience(seconds: float = _PATIENCE) -> Iterator[None]:
    """Raise Hung in whatever runs longer than this, in the main thread."""

    def lost(_number: int, _frame: object) -> None:
        raise HungError(f"still at it after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, lost)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
