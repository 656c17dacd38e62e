"""`Topology` objects that list node labels, and whose levels are immutable in most versions.

A change is then a deletion and a creation, and in between workloads find no topology. So it waits
until the levels have been stable for a while, is tried as a dry run first, and is postponed while
another object uses the old one. Whether levels are immutable is tried, not looked up by version.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.levels import Level, level_problems
from toposcope.integrations.framework.published import (
    MANAGER,
    Published,
    Target,
    finalizers,
    is_ours,
)
from toposcope.integrations.framework.publishing import objects
from toposcope.kube.client import Caller, find
from toposcope.kube.errors import ApiError
from toposcope.kube.requests import apply
from toposcope.kube.runtime import Runtime

_SOONEST_SECONDS: Final = 1.0
_RAREST_SECONDS: Final = 60.0
_UNPROCESSABLE: Final = 422

Document = Mapping[str, Any]


class Patience:
    """How long to wait before the next look at something that others must do.

    The pause equals the time that it has taken so far, within limits.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._since: dict[str, float] = {}

    def again_in(self, name: str) -> float:
        """Seconds until the next look."""
        now = self._runtime.monotonic()
        since = self._since.setdefault(name, now)
        pause = max(now - since, _SOONEST_SECONDS)
        return min(pause, _RAREST_SECONDS)

    def over(self, name: str) -> None:
        """Forget the wait: nothing is pending any more."""
        self._since.pop(name, None)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The levels that an object should have, and since when."""

    keys: tuple[str, ...]
    since: float


class ImmutableTopologyPublisher:
    """Keeps `Topology` objects of one API equal to levels.

    `holders` lists what must release an object before it can be deleted. The state, by name, only
    saves requests: losing it costs a delay.
    """

    def __init__(
        self,
        client: Caller,
        runtime: Runtime,
        delay: float,
        holders: objects.Holders = finalizers,
    ) -> None:
        self._client = client
        self._runtime = runtime
        self._delay = delay
        self._holders = holders
        self._patience = Patience(runtime)
        self._wanted: dict[str, _Wanted] = {}

    def publish(self, target: Target, topology: Topology, levels: Sequence[Level]) -> Published:
        """Give the object these levels. Raises KubeError if the server does not answer."""
        try:
            existing = find(self._client, target.path)
            return self.keep(target, topology, levels, existing)
        except ApiError as error:
            return target.failed(error)

    def keep(
        self,
        target: Target,
        topology: Topology,
        levels: Sequence[Level],
        existing: Document | None,
    ) -> Published:
        """Give the object, now `existing`, these levels.

        Raises KubeError, ApiError only from reading.
        """
        wanted = self._note(target.name, levels)
        problems = level_problems(levels)
        if problems:
            rejected = target.not_in_sync("Rejected", "; ".join(problems))
            return self._settled(rejected)

        if existing is not None:
            if not is_ours(existing, topology):
                return self._settled(target.conflict())
            if objects.is_terminating(existing):
                holders = self._holders(existing)
                again_in = self._patience.again_in(target.name)
                return objects.terminating(target, existing, holders, again_in)
            if level_keys(existing) == wanted.keys:
                return self._settled(target.in_sync())

        self._patience.over(target.name)
        return self._pursue(target, topology, wanted, existing)

    def retract(self, target: Target, topology: Topology) -> Published | None:
        """Delete the object if Toposcope manages it.

        Returns None once it is gone. Raises KubeError.
        """
        self._wanted.pop(target.name, None)
        try:
            return objects.retract(self._client, target, topology, self._holders)
        except ApiError as error:
            return target.failed(error)

    def _note(self, name: str, levels: Sequence[Level]) -> _Wanted:
        """Record the wanted levels of an object, and since when they have been the same."""
        keys = tuple(level.key for level in levels)
        before = self._wanted.get(name)
        if before is not None and before.keys == keys:
            return before
        wanted = _Wanted(keys, self._runtime.monotonic())
        self._wanted[name] = wanted
        return wanted

    def _settled(self, answer: Published) -> Published:
        self._patience.over(answer.name)
        return answer

    def _pursue(
        self, target: Target, topology: Topology, wanted: _Wanted, existing: Document | None
    ) -> Published:
        """Write if it is time; otherwise report what it waits for."""
        # A new object disturbs nobody; a manual edit is reverted as soon as it is seen.
        if existing is not None:
            seconds_left = wanted.since + self._delay - self._runtime.monotonic()
            if seconds_left > 0:
                text = (
                    f"gets the levels {' > '.join(wanted.keys)} once they have been wanted "
                    f"for {self._delay:g} s"
                )
                return target.not_in_sync("Waiting", text, seconds_left)
        return self._write(target, topology, wanted.keys, existing)

    def _write(
        self,
        target: Target,
        topology: Topology,
        wanted: tuple[str, ...],
        existing: Document | None,
    ) -> Published:
        entries = [{"nodeLabel": key} for key in wanted]
        body = target.body(topology, {"levels": entries})
        try:
            if existing is not None:
                if self._changed_in_place(target, body, existing):
                    return target.in_sync()
                waiting = self._remove(target, body, existing, wanted)
                if waiting:
                    return waiting
            objects.create_by_apply(self._client, target, body)
        except ApiError as error:
            return target.failed(error)
        return target.in_sync()

    def _changed_in_place(self, target: Target, body: Document, existing: Document) -> bool:
        """Change the existing object; False if its levels are immutable. Raises KubeError."""
        metadata = dict(body["metadata"])
        # The uid ties the force to the object that was read.
        metadata["uid"] = existing["metadata"]["uid"]
        changed = {**body, "metadata": metadata}
        try:
            self._client.call(apply(target.path, changed, MANAGER, force=True))
        except ApiError as error:
            if error.status != _UNPROCESSABLE:
                raise
            return False
        return True

    def _remove(
        self, target: Target, body: Document, existing: Document, wanted: tuple[str, ...]
    ) -> Published | None:
        """Delete the existing object. Returns what that waits for. Raises KubeError."""
        holders = self._holders(existing)
        if not holders:
            # Either levels are immutable, or these levels are refused: that must not cost the old
            # object.
            objects.try_create(self._client, target, body)

        levels = " > ".join(wanted)
        why = f"to get the levels {levels}"
        lost = [key for key in level_keys(existing) if key not in wanted]
        if lost:
            without = ", ".join(lost)
            why += f" (until then schedulers ignore nodes without {without}, at every level)"
        return objects.remove(self._client, target, existing, why, holders)


def level_keys(document: Document) -> tuple[str, ...]:
    """The node labels of a Topology, without the aliases that an administrator may have added."""
    spec = document.get("spec") or {}
    levels = spec.get("levels") or ()
    keys = [level["nodeLabel"] for level in levels]
    return tuple(keys)
