"""How well gangs are placed and what still fits, as metrics; docs/metrics.md explains each.

A scrape gets what was counted last and has it counted again, in a thread: a large cluster takes
longer than Prometheus waits. So nothing is counted for nobody.
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
from toposcope.ui.planning_metrics import Counted, of_the_count
from toposcope.ui.questions import Metrics

log = logging.getLogger(__name__)

_PAUSE: Final = 25.0
_PAUSE_FACTOR: Final = 10.0
"""Seconds from one count to the next: at least so many, and so many times as long as it takes."""
_SECONDS: Final = 60.0
"""How long a count may take: nobody waits for it."""


class PlanningMetrics:
    """The metrics of a cluster; `worst` gangs are named."""

    def __init__(
        self,
        computing: Answerer,
        worst: int = 0,
        ready: Callable[[], bool] = lambda: True,
        runtime: Runtime = REAL,
    ) -> None:
        self._computing = computing
        self._worst = worst
        self._ready = ready
        self._runtime = runtime
        self._since: dict[tuple[str, str, str], float] = {}
        """Since when each misplaced gang of a topology is known to be, in Unix time."""
        self._text = b""
        self._next = 0.0
        self._counting = threading.Lock()

    def page(self) -> Page:
        """The answer to a scrape."""
        if (
            self._ready()
            and self._runtime.monotonic() >= self._next
            and self._counting.acquire(blocking=False)
        ):
            threading.Thread(target=self._count_again, name="planning metrics", daemon=True).start()
        return self._text, CONTENT_TYPE

    def _count_again(self) -> None:
        try:
            self.count()
        except Exception as error:
            self._text = b""
            log.warning(
                "no metrics of planning: %s", error, exc_info=not isinstance(error, ToposcopeError)
            )
        finally:
            self._counting.release()

    def count(self) -> None:
        """Count everything again, for the next scrape. Raises NoPlanError, and ComputingError."""
        began = self._runtime.monotonic()
        question = Metrics(self._worst, self._runtime.now().timestamp(), self._since)
        counted = msgspec.json.decode(
            self._computing.submit(question, _SECONDS).result(), type=Counted
        )
        self._since = {
            (gang.topology, gang.kind, gang.handle): gang.since for gang in counted.misplaced
        }
        seconds = self._runtime.monotonic() - began
        self._next = self._runtime.monotonic() + max(_PAUSE, _PAUSE_FACTOR * seconds)
        at = self._runtime.now().timestamp()
        self._text = counted.text.encode() + exposition(of_the_count(at, seconds))
