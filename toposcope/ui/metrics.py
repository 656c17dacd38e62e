"""How well gangs are placed and what still fits, as metrics; docs/metrics.md explains each.

A scrape gets the last count and starts the next one in a thread, because a large cluster takes
longer than Prometheus waits. Without scrapes nothing is counted.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final

import msgspec

from toposcope.errors import ToposcopeError
from toposcope.kube.runtime import REAL, Runtime
from toposcope.telemetry.families import CONTENT_TYPE, exposition
from toposcope.telemetry.handler import Page
from toposcope.ui.computing import Answerer
from toposcope.ui.planning_count import Counted, of_the_count
from toposcope.ui.questions import Metrics

log = logging.getLogger(__name__)

_PAUSE_SECONDS: Final = 25.0
"""From one count to the next, at least."""
_PAUSE_FACTOR: Final = 10.0
"""The pause after a count is at least this many times as long as the count took."""
_COUNT_SECONDS: Final = 60.0
"""How long a count may take: no scrape waits for it."""


class PlanningMetrics:
    """The metrics of a cluster; `worst` gangs are named."""

    def __init__(
        self,
        computing: Answerer,
        worst: int = 0,
        is_ready: Callable[[], bool] = lambda: True,
        runtime: Runtime = REAL,
    ) -> None:
        self._computing = computing
        self._worst = worst
        self._is_ready = is_ready
        self._runtime = runtime
        self._since: dict[tuple[str, str, str], float] = {}
        """When each gang of a topology was first seen misplaced, in Unix time."""
        self._text = b""
        self._next_count_at = 0.0
        self._counting = threading.Lock()

    def page(self) -> Page:
        """The answer to a scrape."""
        is_due = self._runtime.monotonic() >= self._next_count_at
        if self._is_ready() and is_due and self._counting.acquire(blocking=False):
            thread = threading.Thread(
                target=self._count_again,
                name="planning metrics",
                daemon=True,
            )
            thread.start()
        return self._text, CONTENT_TYPE

    def _count_again(self) -> None:
        try:
            self.count()
        except Exception as error:
            self._text = b""
            log.warning(
                "cannot count planning metrics: %s",
                error,
                exc_info=not isinstance(error, ToposcopeError),
            )
        finally:
            self._counting.release()

    def count(self) -> None:
        """Count everything again, for the next scrape. Raises NoPlanError, and ComputingError."""
        began = self._runtime.monotonic()
        now = self._runtime.now()
        question = Metrics(self._worst, now.timestamp(), self._since)
        future = self._computing.submit(question, _COUNT_SECONDS)
        counted = msgspec.json.decode(future.result(), type=Counted)
        since = {}
        for gang in counted.misplaced:
            since[gang.topology, gang.kind, gang.handle] = gang.since
        self._since = since

        ended = self._runtime.monotonic()
        seconds = ended - began
        self._next_count_at = ended + max(_PAUSE_SECONDS, _PAUSE_FACTOR * seconds)
        at = self._runtime.now().timestamp()
        about_the_count = exposition(of_the_count(at, seconds))
        self._text = counted.text.encode() + about_the_count
