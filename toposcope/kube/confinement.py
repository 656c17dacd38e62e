"""Whether admission policies and RBAC confine this program, now and once an hour.

Each kind of write that a policy must refuse is tried by a dry run: RBAC cannot express what the
policies do, and they fail silently, by a deleted binding or another name of the ServiceAccount.
What RBAC grants beyond need is asked for.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from toposcope.kube.account_rights import AccountRights
from toposcope.kube.backoff import Backoff, Schedule
from toposcope.kube.client import Caller, Request
from toposcope.kube.errors import ApiError, KubeError
from toposcope.kube.runtime import REAL, Runtime

log = logging.getLogger(__name__)

NOBODY: Final = "toposcope.invalid"
"""No object has this name, and no label this prefix."""
FOREIGN_NODE_WRITES: Final[Mapping[str, Any]] = {
    "a taint": {
        "spec": {"taints": [{"key": f"{NOBODY}/unconfined", "effect": "PreferNoSchedule"}]}
    },
    "a finalizer": {"metadata": {"finalizers": [f"{NOBODY}/unconfined"]}},
    "other metadata": {"metadata": {"generateName": NOBODY}},
    "managedFields of another manager": {
        "metadata": {
            "managedFields": [
                {
                    "manager": NOBODY,
                    "operation": "Apply",
                    "apiVersion": "v1",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:spec": {"f:taints": {}}},
                }
            ]
        }
    },
}
"""Writes to a Node that no program of ours may make, its own Node included.

They are bodies of merge patches by what they would do.
"""
_CHECK_SECONDS: Final = 3600.0
_FACTOR: Final = (0.9, 1.1)
_RETRIES: Final = Schedule(first_seconds=2.0, longest_seconds=60.0, jitter=_FACTOR)
"""While the last attempt was not refused, or not answered."""
_ALARM_SECONDS: Final = 54.0
"""No earlier is a program that is not confined worth an Event: policies take a moment to come into
force, and an installation is not yet an alarm."""


class ConfinementEvent(NamedTuple):
    """An Event to record about this program."""

    kind: str
    reason: str
    note: str


class _Lacks(NamedTuple):
    """Why a program is not confined."""

    accepted: Sequence[str]
    """Writes that the policies would let through."""
    excess: Sequence[str]
    """Rights that RBAC grants beyond need."""

    def __bool__(self) -> bool:
        return bool(self.accepted or self.excess)

    def text(self) -> str:
        """What is wrong, and what to do; empty if nothing is."""
        problems = []
        if self.accepted:
            problems.append(
                "the admission policies do not confine this program: "
                f"the API server would accept {', '.join(self.accepted)}; "
                "are they bound, and does the name of this ServiceAccount contain the one that "
                "they look for?"
            )
        if self.excess:
            problems.append(
                "this ServiceAccount may do more than the program needs: "
                f"{', '.join(self.excess)}; remove what grants it: "
                "see `kubectl get rolebindings,clusterrolebindings -A -o wide`"
            )
        return "; ".join(problems)


class Confinement:
    """Tries `writes` (what each would do, and its request) and asks for `rights`.

    `check` does both when it is time.
    """

    def __init__(
        self,
        client: Caller,
        writes: Callable[[], Mapping[str, Request]],
        rights: AccountRights | None = None,
        runtime: Runtime = REAL,
    ) -> None:
        self._client = client
        self._writes = writes
        self._rights = rights
        self._runtime = runtime
        self._rng = runtime.rng()
        self._due = runtime.monotonic()
        self._backoff = Backoff(_RETRIES, self._rng)
        self._since: float | None = None
        """The time since which it is not confined."""
        self._problem = ""
        self._error = ""
        self._has_alarmed = False
        self.is_confined: bool | None = None
        """Whether all writes were refused and no right is too much; None until that is known.

        The answer stays the same while the server does not answer.
        """

    def seconds_until_due(self) -> float:
        """Seconds until `check` does something."""
        return max(0.0, self._due - self._runtime.monotonic())

    def check(self) -> ConfinementEvent | None:
        """Try the writes if it is time; the Event to record, if any."""
        if self.seconds_until_due() > 0:
            return None
        now = self._runtime.monotonic()
        self._due = now + self._backoff.failed()  # until the opposite is shown
        try:
            lacks = self._find_lacks()
        except KubeError as error:
            if str(error) != self._error:
                log.warning(
                    "cannot check whether the admission policies confine this program: %s", error
                )
            self._error = str(error)
            return None
        self._error = ""
        self.is_confined = not lacks
        self._problem = lacks.text()
        if self.is_confined:
            return self._confined(now)
        return self._unconfined(now)

    def _confined(self, now: float) -> ConfinementEvent | None:
        self._due = now + _CHECK_SECONDS * self._rng.uniform(*_FACTOR)
        self._backoff.reset()
        self._since = None
        if not self._has_alarmed:
            return None
        self._has_alarmed = False
        return ConfinementEvent(
            "Normal", "Confined", "the admission policies confine this program again"
        )

    def _unconfined(self, now: float) -> ConfinementEvent | None:
        if self._since is None:
            self._since = now
            log.warning("%s", self.ready())
            return None
        if self._has_alarmed or now - self._since < _ALARM_SECONDS:
            return None
        self._has_alarmed = True
        return ConfinementEvent("Warning", "Unconfined", self.ready())

    def ready(self) -> str:
        """Why the program must not count as ready; empty while it is confined."""
        if self.is_confined is None:
            why = f": {self._error}" if self._error else ""
            return f"it is not known yet whether the admission policies confine this program{why}"
        return self._problem

    def _find_lacks(self) -> "_Lacks":
        """Why the program is not confined.

        Raises KubeError.
        """
        accepted = []
        for what, request in self._writes().items():
            if not self._is_refused(request):
                accepted.append(what)
        excess: Sequence[str] = ()
        if self._rights:
            excess = self._rights.excess(self._client)
        return _Lacks(accepted, excess)

    def _is_refused(self, request: Request) -> bool:
        """Whether a dry run is refused as forbidden.

        Raises KubeError if it is neither that nor accepted.
        """
        try:
            self._client.call(request._replace(query={**request.query, "dryRun": "All"}))
        except ApiError as error:
            if not error.is_forbidden:
                raise
            return True
        return False
