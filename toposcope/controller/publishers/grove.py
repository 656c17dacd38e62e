"""Grove's `ClusterTopologyBinding` (grove.io/v1alpha1, Grove v0.1.0-alpha.9 and later).

Grove's operator reads every binding when it starts and exits on the first bad one, long after the write, so everything
that Grove, KAI and Kueue refuse is looked for before anything is written. Development versions before alpha.9 call the
same thing `ClusterTopology`; that of alpha.4 to alpha.8 is another and its operator's (see `grove_older`).
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from toposcope.api.cluster_topology import Topology
from toposcope.controller.publishers import grove_older
from toposcope.controller.publishers.backoff import Backoff, Clock
from toposcope.controller.publishers.immutable_topology import Patience
from toposcope.controller.publishers.objects import going, is_terminating, rehearse, remove, retract, served_resources
from toposcope.integrations.framework.published import MANAGER, Published, Target, finalizers, is_ours
from toposcope.integrations.grove.kai_reference import (
    BINDINGS,
    GROVE_API,
    KAI_API,
    OLDER_ONES,
    TOPOLOGIES,
    binding_target,
    body_of,
    grove_target,
    groves_complaint,
    is_groves,
    is_made_from,
    is_named_by_others,
    is_to_be_named,
    kai_target,
    refusal,
    says,
)
from toposcope.kube.client import Caller, find
from toposcope.kube.errors import ApiError
from toposcope.kube.requests import apply
from toposcope.topology.levels import Level, level_problems
from toposcope.topology.text import compact

_SOON: Final = 5.0


class GrovePublisher:
    """Keeps the binding named like its ClusterTopology equal to it."""

    name = "grove"
    group = "grove.io"

    def __init__(self, client: Caller, monotonic: Clock = time.monotonic) -> None:
        self._client = client
        self._backoff = Backoff(monotonic)
        self._patience = Patience(monotonic)

    def served(self) -> bool:
        """Whether the API server serves the binding, or a kind that came before it. Raises KubeError."""
        return not served_resources(self._client, GROVE_API).isdisjoint((BINDINGS, OLDER_ONES))

    def publish(self, topology: Topology, levels: Sequence[Level]) -> Published:
        """Make the binding say `levels`. Raises KubeError when the server does not answer."""
        target = grove_target(served_resources(self._client, GROVE_API), topology.name)
        try:
            if target is None:
                return grove_older.report(self._client, topology.name, levels)
            problems = level_problems(levels)
            if problems:
                return target.not_in_sync("Rejected", "; ".join(problems))
            return self._publish(target, topology, levels)
        except ApiError as error:
            return (target or binding_target(topology.name)).failed(error)

    def retract(self, topology: Topology) -> Published | None:
        """Delete the binding if it is ours; None when nothing of ours is left. Raises KubeError.

        The KAI Topology that Grove made from it goes with it; one of ours, which it names, stays.
        """
        target = grove_target(served_resources(self._client, GROVE_API), topology.name)
        if target is None:
            return None
        try:
            return retract(self._client, target, topology, finalizers, self._backoff)
        except ApiError as error:
            return target.failed(error)

    def _publish(self, target: Target, topology: Topology, levels: Sequence[Level]) -> Published:
        there = find(self._client, target.path)
        if there is not None and not is_ours(there, topology):
            return target.taken()
        if there is not None and is_terminating(there):
            return going(target, there, (), _SOON)
        named, kai = False, None
        if not is_named_by_others(there):
            kai = find(self._client, kai_target(target.name).path)
            served = kai is not None or TOPOLOGIES in served_resources(self._client, KAI_API)
            named = is_to_be_named(topology, there, kai, served=served)
            if not (named or served):
                return _without_kai(target)
        body = body_of(target, topology, levels, there, named=named)
        in_the_way = None if named else kai
        if there is not None and says(there, body):
            return self._clear_the_way(target, topology, there, in_the_way, None) or self._in_sync(target, there)
        wish = (compact(body), topology.generation, *(each and each["metadata"]["uid"] for each in (there, kai)))
        standing = self._backoff.standing(target.name, wish)
        if standing:
            return standing
        try:
            answer = self._write(target, topology, there, in_the_way, body)
        except ApiError as error:
            answer = target.failed(error)
            advice = refusal(target, error) if named and answer.reason == "Rejected" else ""
            if advice:
                answer = target.not_in_sync("Rejected", f"{error.message}; {advice}")
        return self._backoff.note(target.name, wish, answer)

    def _in_sync(self, target: Target, there: Mapping[str, Any]) -> Published:
        """Say that the binding is as it should be, unless Grove finds that the KAI Topology that it names is not."""
        complaint = groves_complaint(there)
        if is_named_by_others(there):
            return target.in_sync(complaint)
        if complaint:
            return target.not_in_sync("Waiting", complaint, self._patience.again_in(target.name))
        self._patience.over(target.name)
        return target.in_sync()

    def _write(
        self,
        target: Target,
        topology: Topology,
        there: Mapping[str, Any] | None,
        in_the_way: Mapping[str, Any] | None,
        body: Mapping[str, Any],
    ) -> Published:
        obstacle = self._clear_the_way(target, topology, there, in_the_way, body)
        if obstacle:
            return obstacle
        # Force only on what is ours: an object that somebody made since we looked is theirs.
        self._client.call(apply(target.path, body, MANAGER, force=there is not None))
        return target.in_sync()

    def _clear_the_way(
        self,
        target: Target,
        topology: Topology,
        there: Mapping[str, Any] | None,
        kai: Mapping[str, Any] | None,
        body: Mapping[str, Any] | None,
    ) -> Published | None:
        """See to it that Grove can make the KAI Topology of the binding; what is in its way, if anything is.

        `kai` is the one that is there; `body` is what is about to be written, None when nothing is.
        """
        if kai is None or is_made_from(kai, there):
            return None
        if is_ours(kai, topology):
            # It shall not be published any more. It goes once it is sure that Grove takes the binding without it.
            if body is not None:
                rehearse(self._client, target, body)
            ours = kai_target(target.name)
            waiting = remove(self._client, ours, kai, "so that Grove can make its own", finalizers(kai))
            return waiting and target.not_in_sync("Waiting", f"{waiting.handle} {waiting.message}", waiting.again_in)
        if is_groves(kai, target.name):
            text = "the KAI Topology of an earlier binding of this name is not gone yet"
            return target.not_in_sync("Waiting", text, _SOON)
        text = (
            f"a KAI Topology named {target.name} exists that neither Grove nor Toposcope made, and Grove's operator "
            "does not start while a binding has that name; delete the Topology, or give the ClusterTopology another "
            "name, or set spec.publish.grove to Never"
        )
        return target.not_in_sync("Conflict", text)


def _without_kai(target: Target) -> Published:
    """Hold the binding back where Grove could not make a KAI Topology of it, and would not start for that."""
    text = (
        "this cluster does not serve KAI's Topology, and Grove's operator, whose chart enables kai-scheduler, does "
        "not start while there is a ClusterTopologyBinding and no such kind; install KAI v0.12 or later, or set "
        "spec.publish.grove to Never"
    )
    return target.not_in_sync("NotServed", text)
