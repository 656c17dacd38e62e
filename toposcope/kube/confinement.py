"""Whether admission policies and RBAC confine this program, now and once an hour.

Each kind of write that a policy must refuse is tried by a dry run: RBAC cannot express what the
policies do, and they fail silently, by a deleted binding or another name of the ServiceAccount.
What RBAC grants beyond need is asked for.
"""

import logging
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from toposcope.kube.account_rights import AccountRights
from toposcope.kube.client import Caller, Request
from toposcope.kube.errors import ApiError, KubeError

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
"""What no program of ours may write to a Node, its own included, by what it is: bodies of merge patches."""
_EVERY: Final = 3600.0
_FACTOR: Final = (0.9, 1.1)
_SOON: Final = 2.0
_AGAIN: Final = 60.0
"""Seconds to the next attempt while the last was not refused, or not answered: from 2 on twice as many, up to 60."""

News = tuple[str, str, str]
"""Type, reason and note of an Event."""


class Confinement:
    """Tries `writes` (what each would do, and its request) and asks for `rights`; `check` does so if it is time."""

    def __init__(
        self,
        client: Caller,
        writes: Callable[[], Mapping[str, Request]],
        monotonic: Callable[[], float],
        rng: random.Random,
        rights: AccountRights | None = None,
    ) -> None:
        self._client = client
        self._writes = writes
        self._monotonic = monotonic
        self._rng = rng
        self._rights = rights
        self._due = monotonic()
        self._wait = _SOON
        self._since: float | None = None
        """Since when it is not confined."""
        self._problem = ""
        self._error = ""
        self._told = False
        self.confined: bool | None = None
        """Whether all writes were refused and no right is too much; None until that is known.

        Stays while the server does not answer.
        """

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
            problem = self._find_problem()
        except KubeError as error:
            if str(error) != self._error:
                log.warning(
                    "cannot check whether the admission policies confine this program: %s", error
                )
            self._error = str(error)
            return None
        self._problem, self._error = problem, ""
        self.confined = not problem
        if not problem:
            self._due, self._wait, self._since = (
                now + _EVERY * self._rng.uniform(*_FACTOR),
                _SOON,
                None,
            )
            told, self._told = self._told, False
            return (
                ("Normal", "Confined", "the admission policies confine this program again")
                if told
                else None
            )
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
        return self._problem

    def _find_problem(self) -> str:
        """What does not confine the program, and what to do; empty if all does.

        Raises KubeError.
        """
        accepted = [what for what, request in self._writes().items() if not self._refused(request)]
        excess = self._rights.excess(self._client) if self._rights else []
        problems = []
        if accepted:
            problems.append(
                "the admission policies do not confine this program: the API server would accept "
                f"{', '.join(accepted)}; are they bound, and does the name of this ServiceAccount contain the one that "
                "they look for?"
            )
        if excess:
            problems.append(
                f"this ServiceAccount may do more than the program needs: {', '.join(excess)}; remove what grants it: "
                "see `kubectl get rolebindings,clusterrolebindings -A -o wide`"
            )
        return "; ".join(problems)

    def _refused(self, request: Request) -> bool:
        """Whether a dry run is refused as forbidden.

        Raises KubeError if it is neither that nor accepted.
        """
        try:
            self._client.call(request._replace(query={**request.query, "dryRun": "All"}))
        except ApiError as error:
            if not error.forbidden:
                raise
            return True
        return False
