"""KAI's and Kueue's `Topology`: one schema, and levels that are immutable in most versions.

There a change is a deletion and a creation, and in between workloads find no topology. So it waits
until the same levels have been wanted for a while, is tried as a dry run first, and is not made
while somebody holds the old object. Whether levels are immutable is found out by trying, not from a
table of versions.

KAI's (KAI v0.12 and later) is published unless Grove makes it from a binding; one of ours that
exists when Grove is installed stays ours, and Grove's publisher names it. Kueue's (v0.9 and later)
has the newest version that is served.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.levels import Level, level_problems
from toposcope.controller.publishers import objects
from toposcope.integrations.framework.published import (
    MANAGER,
    Published,
    Target,
    finalizers,
    is_ours,
)
from toposcope.integrations.grove.api import BINDINGS
from toposcope.integrations.grove.kai_reference import made_by_grove, made_from, names_kai_topology
from toposcope.integrations.grove.topology import target as grove_target
from toposcope.integrations.kai import api as kai_api
from toposcope.integrations.kueue import api as kueue_api
from toposcope.kube.client import Caller, find
from toposcope.kube.errors import ApiError
from toposcope.kube.requests import apply

DELAY_SECONDS: Final = 30.0
"""How long the same levels must have been wanted before an existing object is changed."""
_SOONEST: Final = 1.0
_RAREST: Final = 60.0
_INVALID: Final = 422


class Patience:
    """How soon to look again at what somebody else has to do: in as long as it has taken so far, within limits."""

    def __init__(self, monotonic: objects.Clock) -> None:
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

    `holders` names what must let go of an object before it can be deleted. The state, by name, only
    saves requests: losing it costs a delay.
    """

    def __init__(
        self,
        client: Caller,
        monotonic: objects.Clock,
        delay: float,
        holders: objects.Holders = finalizers,
    ) -> None:
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
        self,
        target: Target,
        topology: Topology,
        levels: Sequence[Level],
        existing: Mapping[str, Any] | None,
    ) -> Published:
        """Make the object, which is `existing` now, have `levels`.

        Raises KubeError, ApiError only from reading.
        """
        wanted = tuple(level.key for level in levels)
        if self._wanted.get(target.name, ((),))[0] != wanted:
            self._wanted[target.name] = wanted, self._monotonic()
        problems = level_problems(levels)
        if problems:
            return self._settled(target.not_in_sync("Rejected", "; ".join(problems)))
        if existing is not None:
            if not is_ours(existing, topology):
                return self._settled(target.conflict())
            if objects.is_terminating(existing):
                return objects.terminating(
                    target, existing, self._holders(existing), self._patience.again_in(target.name)
                )
            if level_keys(existing) == wanted:
                return self._settled(target.in_sync())
        self._patience.over(target.name)
        return self._pursue(target, topology, wanted, existing)

    def retract(self, target: Target, topology: Topology) -> Published | None:
        """Delete the object if it is ours; None when nothing of ours is left.

        Raises KubeError without an answer.
        """
        self._wanted.pop(target.name, None)
        try:
            return objects.retract(self._client, target, topology, self._holders)
        except ApiError as error:
            return target.failed(error)

    def _settled(self, answer: Published) -> Published:
        self._patience.over(answer.name)
        return answer

    def _pursue(
        self,
        target: Target,
        topology: Topology,
        wanted: tuple[str, ...],
        existing: Mapping[str, Any] | None,
    ) -> Published:
        """Write when it is time; else report what it waits for."""
        # A new object disturbs nobody; a manual edit is reverted as soon as it is seen.
        left = (
            0.0
            if existing is None
            else self._wanted[target.name][1] + self._delay - self._monotonic()
        )
        if left > 0:
            text = f"gets the levels {' > '.join(wanted)} once they have been wanted for {self._delay:g} s"
            return target.not_in_sync("Waiting", text, left)
        return self._write(target, topology, wanted, existing)

    def _write(
        self,
        target: Target,
        topology: Topology,
        wanted: tuple[str, ...],
        existing: Mapping[str, Any] | None,
    ) -> Published:
        body = target.body(topology, {"levels": [{"nodeLabel": key} for key in wanted]})
        try:
            if existing is not None:
                if self._changed_in_place(target, body, existing):
                    return target.in_sync()
                holders = self._holders(existing)
                if not holders:
                    # Either levels are immutable, or these levels are refused: that must not cost
                    # the old object.
                    objects.try_create(self._client, target, body)
                why = f"to get the levels {' > '.join(wanted)}"
                lost = ", ".join(key for key in level_keys(existing) if key not in wanted)
                why += (
                    f" (until then schedulers leave out nodes without {lost}, at every level)"
                    if lost
                    else ""
                )
                waiting = objects.remove(self._client, target, existing, why, holders)
                if waiting:
                    return waiting
            objects.create_by_apply(self._client, target, body)
        except ApiError as error:
            return target.failed(error)
        return target.in_sync()

    def _changed_in_place(
        self, target: Target, body: Mapping[str, Any], existing: Mapping[str, Any]
    ) -> bool:
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


Document = Mapping[str, Any]


class KaiPublisher:
    """Keeps the Topology named like its ClusterTopology equal to it; runs after Grove's publisher."""

    name = kai_api.TOPOLOGIES.option
    group = kai_api.TOPOLOGIES.group

    def __init__(
        self, client: Caller, monotonic: objects.Clock, delay: float = DELAY_SECONDS
    ) -> None:
        self._client = client
        self._keeper = ImmutableTopologyPublisher(client, monotonic, delay)
        self._patience = Patience(monotonic)

    def served(self) -> bool:
        """Whether the API server serves the kind now. Raises KubeError."""
        return kai_api.TOPOLOGIES.plural in objects.served_resources(
            self._client, kai_api.TOPOLOGIES.api_version()
        )

    def publish(self, topology: Topology, levels: Sequence[Level]) -> Published:
        """Make the Topology have `levels`, or report how far Grove is.

        Raises KubeError without an answer.
        """
        target = kai_api.TOPOLOGIES.target(topology.name)
        try:
            groves = grove_target(
                objects.served_resources(self._client, BINDINGS.api_version()), topology.name
            )
            binding = find(self._client, groves.path) if groves else None
            existing = find(self._client, target.path)
            if groves and _is_left_to_grove(topology, binding):
                if existing is not None and is_ours(existing, topology):
                    answer = self._not_named(target, topology, levels, binding, existing)
                else:
                    answer = self._groves(target, topology, levels, binding, existing)
            elif (
                existing
                and made_by_grove(existing, topology.name)
                and not made_from(existing, binding)
            ):
                text = "is still the one that Grove made from a ClusterTopologyBinding that is gone; it goes with it"
                answer = target.not_in_sync("Waiting", text, self._patience.again_in(topology.name))
            else:
                answer = self._keeper.keep(target, topology, levels, existing)
        except ApiError as error:
            return target.failed(error)
        if answer.reason != "Waiting":
            self._patience.over(topology.name)
        return answer

    def retract(self, topology: Topology) -> Published | None:
        """Delete the Topology if it is ours; None when nothing of ours is left.

        Raises KubeError.
        """
        return self._keeper.retract(kai_api.TOPOLOGIES.target(topology.name), topology)

    def _not_named(
        self,
        target: Target,
        topology: Topology,
        levels: Sequence[Level],
        binding: Document | None,
        ours: Document,
    ) -> Published:
        """What becomes of ours where Grove is installed, and no binding names it."""
        if binding is None:  # it will be created with the entry
            return self._keeper.keep(target, topology, levels, ours)
        if is_ours(binding, topology):
            # Grove may refuse the entry. Created again, ours could meet one that Grove has made in
            # the meantime.
            text = "stays as it is until Grove's ClusterTopologyBinding names it"
            return target.not_in_sync("Waiting", text, self._patience.again_in(target.name))
        # Grove's operator would not start with ours in the way of a binding that somebody else
        # created.
        waiting = objects.remove(
            self._client, target, ours, "so that Grove can make its own", finalizers(ours)
        )
        return waiting or self._not_made_yet(target)

    def _groves(
        self,
        target: Target,
        topology: Topology,
        levels: Sequence[Level],
        binding: Document | None,
        existing: Document | None,
    ) -> Published:
        """How far Grove is with the Topology that it makes from the binding."""
        if existing is None:
            return self._not_made_yet(target)
        if not made_by_grove(existing, topology.name):
            return target.conflict()
        if made_from(existing, binding) and level_keys(existing) == tuple(
            level.key for level in levels
        ):
            return target.in_sync("made by Grove from its ClusterTopologyBinding")
        if binding is not None and not is_ours(binding, topology):
            text = "Grove makes it from a ClusterTopologyBinding of this name that Toposcope did not write"
            return target.not_in_sync("Conflict", f"{text}; give the ClusterTopology another name")
        text = "Grove has not brought it in line with its ClusterTopologyBinding yet"
        return target.not_in_sync("Waiting", text, self._patience.again_in(topology.name))

    def _not_made_yet(self, target: Target) -> Published:
        text = (
            "Grove makes it from its ClusterTopologyBinding and has not yet; is Grove's operator running, with "
            "kai-scheduler enabled? If KAI is used without Grove, set spec.publish.grove to Never; if it is not used, "
            "spec.publish.kai"
        )
        return target.not_in_sync("Waiting", text, self._patience.again_in(target.name))


def _is_left_to_grove(topology: Topology, binding: Document | None) -> bool:
    """Whether Grove, which is installed, makes the Topology of this name, or will once its binding is written."""
    if binding is not None:
        return not names_kai_topology(binding)
    return topology.publish.get("grove", "Auto") == "Auto"


_IN_USE: Final = f"finalizer {kueue_api.TOPOLOGIES.group}/resource-in-use"


class KueuePublisher:
    """Keeps the Topology named like its ClusterTopology equal to it."""

    name = kueue_api.TOPOLOGIES.option
    group = kueue_api.TOPOLOGIES.group

    def __init__(
        self, client: Caller, monotonic: objects.Clock, delay: float = DELAY_SECONDS
    ) -> None:
        self._client = client
        self._keeper = ImmutableTopologyPublisher(
            client, monotonic, delay, functools.partial(holders, client)
        )
        self._version = kueue_api.TOPOLOGIES.versions[0]

    def served(self) -> bool:
        """Whether the API server serves the kind now; `publish` uses the version found.

        Raises KubeError.
        """
        group = find(self._client, f"/apis/{self.group}") or {"versions": ()}
        served = {entry["version"] for entry in group["versions"]}
        for version in kueue_api.TOPOLOGIES.versions:
            if version in served and kueue_api.TOPOLOGIES.plural in objects.served_resources(
                self._client, f"{self.group}/{version}"
            ):
                self._version = version
                return True
        return False

    def publish(self, topology: Topology, levels: Sequence[Level]) -> Published:
        """Make the Topology have `levels`. Raises KubeError when the server does not answer."""
        return self._keeper.publish(self._target(topology), topology, levels)

    def retract(self, topology: Topology) -> Published | None:
        """Delete the Topology if it is ours; None when nothing of ours is left.

        Raises KubeError.
        """
        return self._keeper.retract(self._target(topology), topology)

    def _target(self, topology: Topology) -> Target:
        return kueue_api.TOPOLOGIES.target(topology.name, self._version)


def holders(client: Caller, document: Mapping[str, Any]) -> list[str]:
    """What must let go of a Topology before Kueue does: ResourceFlavors that name it, and others' finalizers.

    Kueue adds its own finalizer to every Topology, used or not, and removes it from a deleted one once no flavor names
    it (its topology controller): it holds nothing by itself. Raises KubeError.
    """
    name = document["metadata"]["name"]
    paths = (
        kueue_api.FLAVORS.target("", version).collection for version in kueue_api.FLAVORS.versions
    )
    flavors = next(
        (served.get("items") or () for path in paths if (served := find(client, path)) is not None),
        (),
    )
    users = [
        f["metadata"]["name"] for f in flavors if (f.get("spec") or {}).get("topologyName") == name
    ]
    return [
        *(f"ResourceFlavor {user}" for user in users),
        *(f for f in finalizers(document) if f != _IN_USE),
    ]
