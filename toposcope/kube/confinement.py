"""Whether admission policies confine this program: dry runs of writes that they must refuse, now and once an hour.

RBAC cannot express what the policies do, and they fail silently: a deleted binding, another name of the
ServiceAccount.
"""

import logging
import random
from collections.abc import Callable, Mapping
from typing import Final

from toposcope.kube.client import Caller, Request
from toposcope.kube.errors import ApiError, KubeError

log = logging.getLogger(__name__)

NOBODY: Final = "toposcope.invalid"
"""No object has this name, and no label this prefix."""
_EVERY: Final = 3600.0
_FACTOR: Final = (0.9, 1.1)
_SOON: Final = 2.0
_AGAIN: Final = 60.0
"""Seconds to the next attempt while the last was not refused, or not answered: from 2 on twice as many, up to 60."""

News = tuple[str, str, str]
"""Type, reason and note of an Event."""


class Confinement:
    """Tries `writes` (what each would do, and its request) when `check` is called and it is time."""

    def __init__(
        self,
        client: Caller,
        writes: Callable[[], Mapping[str, Request]],
        monotonic: Callable[[], float],
        rng: random.Random,
    ) -> None:
        self._client = client
        self._writes = writes
        self._monotonic = monotonic
        self._rng = rng
        self._due = monotonic()
        self._wait = _SOON
        self._since: float | None = None
        """When the first of the writes was accepted that still are."""
        self._accepted = ""
        self._error = ""
        self._told = False
        self.confined: bool | None = None
        """Whether all writes were refused; None until that is known. Stays while the server does not answer."""

    def seconds_until_due(self) -> float:
        """Seconds until `check` does something."""
        return max(0.0, self._due - self._monotonic())

    def check(self) -> News | None:
        """Try the writes if it is time; the Event to record, if any: no earlier than after a minute of acceptance.

        Policies take a moment to come into force: an installation is not yet an alarm.
        """
        if self.seconds_until_due() > 0:
            return None
        now = self._monotonic()
        self._due = now + self._wait * self._rng.uniform(*_FACTOR)
        self._wait = min(2 * self._wait, _AGAIN)
        try:
            accepted = ", ".join(what for what, request in self._writes().items() if not self._refused(request))
        except KubeError as error:
            if str(error) != self._error:
                log.warning("cannot check whether the admission policies confine this program: %s", error)
            self._error = str(error)
            return None
        self._accepted, self._error = accepted, ""
        self.confined = not accepted
        if not accepted:
            self._due, self._wait, self._since = now + _EVERY * self._rng.uniform(*_FACTOR), _SOON, None
            told, self._told = self._told, False
            return ("Normal", "Confined", "the admission policies confine this program again") if told else None
        if self._since is None:
            self._since = now
            log.warning("%s", self.ready())
        elif not self._told and now - self._since >= _AGAIN * _FACTOR[0]:
            self._told = True
            return "Warning", "Unconfined", self.ready()
        return None

    def ready(self) -> str:
        """Why the program must not count as ready; empty while it is confined."""
        if self.confined is None:
            why = f": {self._error}" if self._error else ""
            return f"it is not known yet whether the admission policies confine this program{why}"
        return self._accepted and (
            f"the admission policies do not confine this program: the API server would accept {self._accepted}; are "
            "they bound, and does the name of this ServiceAccount contain the one that they look for?"
        )

    def _refused(self, request: Request) -> bool:
        """Whether a dry run is refused as forbidden. Raises KubeError if it is neither that nor accepted."""
        try:
            self._client.call(request._replace(query={**request.query, "dryRun": "All"}))
        except ApiError as error:
            if not error.forbidden:
                raise
            return True
        return False
