"""KAI's and Kueue's `Topology`: one schema, and levels that are immutable in most versions.

There a change is a deletion and a creation, and in between workloads find no topology. So it waits until the same
levels have been wanted for a while, is tried as a dry run first, and is not made while somebody holds the old object.
Whether levels are immutable is found out by trying, not from a table of versions.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from toposcope.api.cluster_topology import Topology
from toposcope.controller.publishers.objects import (
    Clock,
    Holders,
    create_by_apply,
    is_terminating,
    remove,
    retract,
    terminating,
    try_create,
)
from toposcope.integrations.framework.published import MANAGER, Published, Target, finalizers, is_ours
from toposcope.kube.client import Caller, find
from toposcope.kube.errors import ApiError
from toposcope.kube.requests import apply
from toposcope.topology.levels import Level, level_problems

DELAY_SECONDS: Final = 30.0
"""How long the same levels must have been wanted before an existing object is changed."""
_SOONEST: Final = 1.0
_RAREST: Final = 60.0
_INVALID: Final = 422


class Patience:
    """How soon to look again at what somebody else has to do: in as long as it has taken so far, within limits."""

    def __init__(self, monotonic: Clock) -> None:
        self._monotonic = monotonic
        self._since: dict[str, float] = {}

    def again_in(self, name: str) -> float:
        """Seconds until the next look."""
        now = self._monotonic()
        return min(max(now - self._since.setdefault(name, now), _SOONEST), _RAREST)

    def over(self, name: str) -> None:
        """Nothing is waited for any more."""
        self._since.pop(name, None)


class ImmutableTopologyPublisher:
    """Keeps `Topology` objects of one API equal to levels.

    `holders` names what must let go of an object before it can be deleted. The state, by name, only saves requests:
    losing it costs a delay.
    """

    def __init__(self, client: Caller, monotonic: Clock, delay: float, holders: Holders = finalizers) -> None:
        self._client = client
        self._monotonic = monotonic
        self._delay = delay
        self._holders = holders
        self._patience = Patience(monotonic)
        self._wanted: dict[str, tuple[tuple[str, ...], float]] = {}
        """The levels that each object should have, and since when."""

    def publish(self, target: Target, topology: Topology, levels: Sequence[Level]) -> Published:
        """Make the object have `levels`. Raises KubeError when the server does not answer."""
        try:
            return self.keep(target, topology, levels, find(self._client, target.path))
        except ApiError as error:
            return target.failed(error)

    def keep(
        self, target: Target, topology: Topology, levels: Sequence[Level], existing: Mapping[str, Any] | None
    ) -> Published:
        """Make the object, which is `existing` now, have `levels`. Raises KubeError, ApiError only from reading."""
        wanted = tuple(level.key for level in levels)
        if self._wanted.get(target.name, ((),))[0] != wanted:
            self._wanted[target.name] = wanted, self._monotonic()
        problems = level_problems(levels)
        if problems:
            return self._settled(target.not_in_sync("Rejected", "; ".join(problems)))
        if existing is not None:
            if not is_ours(existing, topology):
                return self._settled(target.conflict())
            if is_terminating(existing):
                return terminating(target, existing, self._holders(existing), self._patience.again_in(target.name))
            if level_keys(existing) == wanted:
                return self._settled(target.in_sync())
        self._patience.over(target.name)
        return self._pursue(target, topology, wanted, existing)

    def retract(self, target: Target, topology: Topology) -> Published | None:
        """Delete the object if it is ours; None when nothing of ours is left. Raises KubeError without an answer."""
        self._wanted.pop(target.name, None)
        try:
            return retract(self._client, target, topology, self._holders)
        except ApiError as error:
            return target.failed(error)

    def _settled(self, answer: Published) -> Published:
        self._patience.over(answer.name)
        return answer

    def _pursue(
        self, target: Target, topology: Topology, wanted: tuple[str, ...], existing: Mapping[str, Any] | None
    ) -> Published:
        """Write when it is time; else report what it waits for."""
        # A new object disturbs nobody; a manual edit is reverted as soon as it is seen.
        left = 0.0 if existing is None else self._wanted[target.name][1] + self._delay - self._monotonic()
        if left > 0:
            text = f"gets the levels {' > '.join(wanted)} once they have been wanted for {self._delay:g} s"
            return target.not_in_sync("Waiting", text, left)
        return self._write(target, topology, wanted, existing)

    def _write(
        self, target: Target, topology: Topology, wanted: tuple[str, ...], existing: Mapping[str, Any] | None
    ) -> Published:
        body = target.body(topology, {"levels": [{"nodeLabel": key} for key in wanted]})
        try:
            if existing is not None:
                if self._changed_in_place(target, body, existing):
                    return target.in_sync()
                holders = self._holders(existing)
                if not holders:
                    # Either levels are immutable, or these levels are refused: that must not cost the old object.
                    try_create(self._client, target, body)
                why = f"to get the levels {' > '.join(wanted)}"
                lost = ", ".join(key for key in level_keys(existing) if key not in wanted)
                why += f" (until then schedulers leave out nodes without {lost}, at every level)" if lost else ""
                waiting = remove(self._client, target, existing, why, holders)
                if waiting:
                    return waiting
            create_by_apply(self._client, target, body)
        except ApiError as error:
            return target.failed(error)
        return target.in_sync()

    def _changed_in_place(self, target: Target, body: Mapping[str, Any], existing: Mapping[str, Any]) -> bool:
        """Change the existing object; False where levels are immutable. Raises KubeError."""
        # The uid ties the force to the object that was read.
        known = {**body, "metadata": {**body["metadata"], "uid": existing["metadata"]["uid"]}}
        try:
            self._client.call(apply(target.path, known, MANAGER, force=True))
        except ApiError as error:
            if error.status != _INVALID:
                raise
            return False
        return True


def level_keys(document: Mapping[str, Any]) -> tuple[str, ...]:
    """The node labels of a Topology; aliases that an administrator added (KAI v0.17) are left alone."""
    return tuple(level["nodeLabel"] for level in (document.get("spec") or {}).get("levels") or ())
