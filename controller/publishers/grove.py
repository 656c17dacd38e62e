"""Grove's `ClusterTopologyBinding` (grove.io/v1alpha1, Grove v0.1.0-alpha.9 and later).

Grove's operator reads every binding when it starts and exits on the first bad one, long after the write, so everything
that Grove, KAI and Kueue refuse is looked for before anything is written. The older `ClusterTopology` is reported and
not written: the operator of v0.1.0-alpha.4 to alpha.8 overwrites it from its own configuration, and the shape that
followed was never released.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from controller.publishers.objects import (
    finalizers,
    find,
    going,
    is_terminating,
    rehearse,
    remove,
    retract,
    served_resources,
)
from controller.publishers.sharing import (
    BINDINGS,
    GROVE_API,
    KAI_API,
    TOPOLOGIES,
    binding_target,
    is_groves,
    is_made_from,
    kai_target,
    names_kai_topology,
)
from controller.publishers.target import MANAGER, Published, Target, is_ours
from controller.spec import Topology
from kube.apply import apply
from kube.client import ApiClient
from kube.errors import ApiError
from topology.levels import Level, level_problems

_OLDER: Final = "clustertopologies"
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_FORBIDDEN: Final = 403
_SOON: Final = 5.0


class GrovePublisher:
    """Keeps the binding named like its ClusterTopology equal to it."""

    name = "grove"
    group = "grove.io"

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    def served(self) -> bool:
        """Whether the API server serves the binding, or the kind that came before it. Raises KubeError."""
        return not served_resources(self._client, GROVE_API).isdisjoint((BINDINGS, _OLDER))

    def publish(self, topology: Topology, levels: Sequence[Level]) -> Published:
        """Make the binding say `levels`. Raises KubeError when the server does not answer."""
        target = binding_target(topology.name)
        problems = level_problems(levels)
        if problems:
            return target.not_in_sync("Rejected", "; ".join(problems))
        try:
            return self._publish(target, topology, levels)
        except ApiError as error:
            return target.failed(error)

    def retract(self, topology: Topology) -> Published | None:
        """Delete the binding if it is ours; None when nothing of ours is left. Raises KubeError.

        The KAI Topology that Grove made from it goes with it.
        """
        target = binding_target(topology.name)
        try:
            return retract(self._client, target, topology, finalizers)
        except ApiError as error:
            return target.failed(error)

    def _publish(self, target: Target, topology: Topology, levels: Sequence[Level]) -> Published:
        there = find(self._client, target.path)
        if there is None:
            resources = served_resources(self._client, GROVE_API)
            if BINDINGS not in resources:
                return self._outdated(target, released=f"{_OLDER}/status" not in resources)
        elif not is_ours(there, topology):
            return target.taken()
        elif is_terminating(there):
            return going(target, there, (), _SOON)
        wanted = [{"domain": level.domain, "key": level.key} for level in levels]
        body = target.body(topology, {"levels": wanted})
        differs = there is None or (there.get("spec") or {}).get("levels") != wanted
        if there is None or not names_kai_topology(there):
            obstacle = self._clear_the_way(target, topology, there, body if differs else None)
            if obstacle:
                return obstacle
        if differs:
            # Force only on what is ours: an object that somebody made since we looked is theirs.
            self._client.call(apply(target.path, body, MANAGER, force=there is not None))
        return target.in_sync()

    def _clear_the_way(
        self, target: Target, topology: Topology, there: Mapping[str, Any] | None, body: Mapping[str, Any] | None
    ) -> Published | None:
        """See to it that Grove can make the KAI Topology of the binding; what is in its way, if anything is.

        `body` is what is about to be written, None when nothing is.
        """
        kai = kai_target(target.name)
        found = find(self._client, kai.path)
        if found is None:
            return self._without_kai(target)
        if is_made_from(found, there):
            return None
        if is_ours(found, topology):
            # Published while Grove was not there. It goes once it is sure that Grove takes the binding.
            if body is not None:
                rehearse(self._client, target, body)
            waiting = remove(self._client, kai, found, "so that Grove can make its own", finalizers(found))
            return waiting and target.not_in_sync("Waiting", f"{waiting.handle} {waiting.message}", waiting.again_in)
        if is_groves(found, target.name):
            text = "the KAI Topology of an earlier binding of this name is not gone yet"
            return target.not_in_sync("Waiting", text, _SOON)
        text = (
            f"a KAI Topology named {target.name} exists that neither Grove nor Toposcope made, and Grove's operator "
            "does not start while a binding has that name; delete the Topology, or give the ClusterTopology another "
            "name, or set spec.publish.grove to Never"
        )
        return target.not_in_sync("Conflict", text)

    def _without_kai(self, target: Target) -> Published | None:
        """Hold the binding back where Grove could not make a KAI Topology of it, and would not start for that."""
        if TOPOLOGIES in served_resources(self._client, KAI_API):
            return None
        text = (
            "this cluster does not serve KAI's Topology, and Grove's operator, whose chart enables kai-scheduler, does "
            "not start while there is a ClusterTopologyBinding and no such kind; install KAI v0.12 or later, or set "
            "spec.publish.grove to Never"
        )
        return target.not_in_sync("NotServed", text)

    def _outdated(self, target: Target, *, released: bool) -> Published:
        """Say which older kind is served in the binding's place, and what to do about it."""
        refusal = self._name_conflict()
        if refusal:
            text = (
                f"the CRD {BINDINGS}.grove.io is not served, because {_OLDER}.grove.io of an older Grove has its short "
                f"name ({refusal}); delete the CRD {_OLDER}.grove.io with its objects"
            )
            return target.not_in_sync("Conflict", text)
        which = (
            "of v0.1.0-alpha.4 to alpha.8, which Grove's operator writes from its own configuration"
            if released
            else "of a development version between v0.1.0-alpha.8 and alpha.9"
        )
        text = (
            f"Grove serves the older ClusterTopology {which}, and no {target.kind}; "
            "upgrade Grove to v0.1.0-alpha.9 or later, or set spec.publish.grove to Never"
        )
        return target.not_in_sync("NotServed", text)

    def _name_conflict(self) -> str:
        """Why the API server does not accept the names of the binding's CRD; empty when that is not so, or not told."""
        try:
            crd = find(self._client, f"{_CRDS}/{BINDINGS}.grove.io") or {}
        except ApiError as error:
            if error.status == _FORBIDDEN:  # only the words are worse without it
                return ""
            raise
        conditions = (crd.get("status") or {}).get("conditions") or ()
        return next(
            (str(c.get("message")) for c in conditions if (c["type"], c["status"]) == ("NamesAccepted", "False")), ""
        )
