"""Grove's `ClusterTopologyBinding` (v0.1.0-alpha.9 and later) in the cluster.

Grove's operator reads every binding when it starts and exits on the first bad one, long after the
write, so everything that schedulers reject is checked before anything is written. Development
versions before alpha.9 call the same resource `ClusterTopology`. The ClusterTopology of alpha.4 to
alpha.8 is a different one: its operator writes `grove-topology` from its own configuration and
overwrites every edit, so it is only compared with the nodes' levels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from toposcope.integrations.framework.publishing.immutable_topology import Patience
from toposcope.integrations.framework.publishing.publisher import SystemPublishing
from toposcope.integrations.grove import backend, topology_reference
from toposcope.integrations.grove.api import BINDINGS, OLDER_TOPOLOGIES, OPERATORS_TOPOLOGY
from toposcope.integrations.grove.named_backend import QUEUES, USUAL, NamedBackend
from toposcope.integrations.grove.topology import differences
from toposcope.integrations.grove.topology import target as grove_target
from toposcope.kube.client import Caller, find
from toposcope.kube.errors import ApiError
from toposcope.kube.requests import apply
from toposcope.kube.runtime import REAL, Runtime

_SOON_SECONDS: Final = 5.0
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_UPGRADE: Final = "upgrade Grove to v0.1.0-alpha.9 or later, or set spec.publish.grove to Never"
_NOT_KNOWN: Final = (
    f"names no Topology of {QUEUES.title}: spec.bindingSchedulers does not list "
    f"{QUEUES.scheduler}; list it there if Grove's operator has a profile of that name"
)

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The existing objects with the name of a ClusterTopology."""

    target: Target
    """The binding to write."""
    topology: Topology
    binding: Document | None
    obstacle: Document | None
    """A Topology of this name that the binding does not name and that Grove may not have created.
    """
    note: str = ""
    """What is unknown about Grove's schedulers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """Whether the binding names a backend's Topology."""

    is_named: bool = False
    note: str = ""
    """Why it does not, if that may be wrong."""
    obstacle: Document | None = None
    """The existing Topology that the binding does not name."""
    is_missing: bool = False
    """Whether the cluster does not serve the kind."""


class GrovePublisher:
    """Keeps the binding named like its ClusterTopology equal to it."""

    name = BINDINGS.option
    group = BINDINGS.group
    keeps_retained_levels = True

    def __init__(self, client: Caller, runtime: Runtime = REAL) -> None:
        self._client = client
        self._patience = Patience(runtime)

    def served(self) -> bool:
        """Whether the API server serves the binding, or a kind that preceded it.

        Raises KubeError.
        """
        return not self._resources().isdisjoint((BINDINGS.plural, OLDER_TOPOLOGIES.plural))

    def publish(self, topology: Topology, levels: Sequence[Level]) -> Published:
        """Give the binding these levels. Raises KubeError if the server does not answer."""
        target = grove_target(self._resources(), topology.name)
        try:
            if target is None:
                return self._report_older(topology.name, levels)
            problems = level_problems(levels)
            if problems:
                return target.not_in_sync("Rejected", "; ".join(problems))
            return self._publish(target, topology, levels)
        except ApiError as error:
            return (target or BINDINGS.target(topology.name)).failed(error)

    def retract(self, topology: Topology) -> Published | None:
        """Delete the binding if Toposcope manages it.

        Returns None once it is gone. Raises KubeError. The Topology that Grove created from it is
        deleted with it; one of Toposcope's, which it names, stays.
        """
        target = grove_target(self._resources(), topology.name)
        if target is None:
            return None
        try:
            return objects.retract(self._client, target, topology, finalizers)
        except ApiError as error:
            return target.failed(error)

    def _resources(self) -> frozenset[str]:
        return objects.served_resources(self._client, BINDINGS.api_version())

    def _publish(self, target: Target, topology: Topology, levels: Sequence[Level]) -> Published:
        binding = find(self._client, target.path)
        if binding is not None and not is_ours(binding, topology):
            return target.conflict()
        if binding is not None and objects.is_terminating(binding):
            return objects.terminating(target, binding, (), _SOON_SECONDS)

        usual = self._usual(topology, binding)
        if usual.is_missing and not topology.binding_schedulers:
            return _without_backend(target)
        queues = self._queues(topology, binding)
        named = []
        for of, answer in ((USUAL, usual), (QUEUES, queues)):
            if answer.is_named:
                named.append(of)

        existing = _Found(
            target=target,
            topology=topology,
            binding=binding,
            obstacle=usual.obstacle,
            note=queues.note,
        )
        return self._keep(existing, levels, named)

    def _usual(self, topology: Topology, binding: Document | None) -> _Named:
        """Whether the binding names the Topology of the usual backend."""
        if topology_reference.is_named_by_others(binding):
            return _Named()
        existing = find(self._client, USUAL.topologies.target(topology.name).path)
        served = existing is not None or self._served_target(USUAL, topology.name) is not None
        if topology_reference.is_listed(topology, USUAL):
            is_named = topology_reference.should_name_listed(
                topology, USUAL, existing, is_served=served
            )
        else:
            is_named = topology_reference.should_name(topology, binding, existing, is_served=served)
        if is_named:
            return _Named(is_named=True)
        return _Named(obstacle=existing, is_missing=not served)

    def _queues(self, topology: Topology, binding: Document | None) -> _Named:
        """Whether the binding names the Topology of the backend that admits by queues."""
        if topology_reference.is_named_by_others(binding, QUEUES):
            return _Named()
        target = self._served_target(QUEUES, topology.name)
        existing = find(self._client, target.path) if target else None
        if topology_reference.is_listed(topology, QUEUES):
            is_named = topology_reference.should_name_listed(
                topology, QUEUES, existing, is_served=target is not None
            )
            return _Named(is_named=is_named)
        if topology.binding_schedulers is not None or existing is None:
            return _Named()
        if binding is not None and topology_reference.names_topology(binding, QUEUES):
            return _Named(is_named=True)
        return _Named(note=_NOT_KNOWN)

    def _served_target(self, of: NamedBackend, name: str) -> Target | None:
        """The Topology of a name, in the newest served version; None if none is served."""
        for version in of.topologies.versions:
            resources = objects.served_resources(self._client, of.topologies.api_version(version))
            if of.topologies.plural in resources:
                return of.topologies.target(name, version)
        return None

    def _keep(
        self, existing: _Found, levels: Sequence[Level], named: Sequence[NamedBackend]
    ) -> Published:
        """Give the binding these levels, and let it name only the Topologies of these backends."""
        target, binding = existing.target, existing.binding
        body = topology_reference.body_of(target, existing.topology, levels, binding, named=named)
        if binding is not None and topology_reference.matches(binding, body):
            waiting = self._clear(existing, None)
            return waiting or self._in_sync(existing, binding)
        try:
            return self._write(existing, body)
        except ApiError as error:
            return _refused(target, error, named)

    def _in_sync(self, existing: _Found, binding: Document) -> Published:
        """The result for a correct binding; `Waiting` while Grove reports a different Topology."""
        target = existing.target
        drift = topology_reference.reported_drift(binding)
        if topology_reference.is_named_by_others(binding):
            return target.in_sync(drift or existing.note)
        if drift:
            return target.not_in_sync("Waiting", drift, self._patience.again_in(target.name))
        self._patience.over(target.name)
        return target.in_sync(existing.note)

    def _write(self, existing: _Found, body: Document) -> Published:
        waiting = self._clear(existing, body)
        if waiting:
            return waiting
        if existing.binding is None:
            objects.create_by_apply(self._client, existing.target, body)
        else:
            self._client.call(apply(existing.target.path, body, MANAGER, force=True))
        return existing.target.in_sync(existing.note)

    def _clear(self, existing: _Found, body: Document | None) -> Published | None:
        """Make way for the Topology that Grove creates from the binding.

        Returns what is still in its way. `body` is what is about to be written, None if nothing is.
        """
        target, obstacle = existing.target, existing.obstacle
        if obstacle is None or topology_reference.made_from(obstacle, existing.binding):
            return None
        if is_ours(obstacle, existing.topology):
            return self._remove_ours(target, obstacle, body)
        if topology_reference.made_by_grove(obstacle, target.name):
            text = (
                f"the {backend.TITLE} Topology of an earlier binding of this name is still being "
                "deleted"
            )
            return target.not_in_sync("Waiting", text, _SOON_SECONDS)
        text = (
            f"a {backend.TITLE} Topology named {target.name} exists "
            "that neither Grove nor Toposcope created, "
            "and Grove's operator does not start while a binding has that name; delete the "
            "Topology, rename the ClusterTopology, or set spec.publish.grove to Never"
        )
        return target.not_in_sync("Conflict", text)

    def _remove_ours(
        self, target: Target, existing: Document, body: Document | None
    ) -> Published | None:
        """Delete our Topology, which is no longer published.

        Returns what that waits for. It is deleted once Grove surely accepts the binding without it.
        """
        if body is not None and not finalizers(existing):
            objects.try_create(self._client, target, body)
        ours = backend.TOPOLOGIES.target(target.name)
        why = "so that Grove can create its own"
        holders = finalizers(existing)
        waiting = objects.remove(self._client, ours, existing, why, holders)
        if waiting is None:
            return None
        text = f"{waiting.handle} {waiting.message}"
        return target.not_in_sync("Waiting", text, waiting.again_in)

    def _report_older(self, name: str, levels: Sequence[Level]) -> Published:
        """The older resource in place of a binding, compared with `levels`. Raises KubeError."""
        refusal = self._names_refused(BINDINGS.name)
        if refusal:
            text = (
                f"the CRD {BINDINGS.name} is not served, because {OLDER_TOPOLOGIES.name} of an "
                f"older Grove has its short name ({refusal}); delete the CRD "
                f"{OLDER_TOPOLOGIES.name} with its objects"
            )
            return BINDINGS.target(name).not_in_sync("Conflict", text)
        operators = OLDER_TOPOLOGIES.target(OPERATORS_TOPOLOGY)
        existing = find(self._client, operators.path)
        if existing is None:
            text = (
                "Grove serves the older ClusterTopology of v0.1.0-alpha.4 to alpha.8, which "
                "Grove's operator writes from its own configuration, and no "
                f"{BINDINGS.kind}; {_UPGRADE}"
            )
            return BINDINGS.target(name).not_in_sync("NotServed", text)
        wrong = differences(existing, levels)
        if not wrong:
            text = "written by Grove's operator; its levels match the nodes"
            return operators.in_sync(text)
        text = (
            f"{'; '.join(wrong)}; Grove's operator writes it from its own configuration: correct "
            f"config.topologyAwareScheduling there, or {_UPGRADE}"
        )
        return operators.not_in_sync("Conflict", text)

    def _names_refused(self, name: str) -> str:
        """Why the API server rejects the names of the CRD; empty if it does not, or is unknown."""
        try:
            crd = find(self._client, f"{_CRDS}/{name}")
        except ApiError as error:
            if error.is_forbidden:  # only the message is less precise without it
                return ""
            raise
        if crd is None:
            return ""

        status = crd.get("status") or {}
        for condition in status.get("conditions") or ():
            if condition["type"] != "NamesAccepted":
                continue
            if condition["status"] == "False":
                return str(condition.get("message"))
        return ""


def _without_backend(target: Target) -> Published:
    """Hold the binding back: Grove could not create a Topology from it, and would not start."""
    text = (
        f"this cluster does not serve {backend.TITLE}'s Topology, "
        "and Grove's operator, whose chart enables "
        f"{backend.SCHEDULER}, does not start while a ClusterTopologyBinding exists without this "
        f"kind; install {backend.TITLE} v0.12 or later, or set spec.publish.grove to Never"
    )
    return target.not_in_sync("NotServed", text)


def _refused(target: Target, error: ApiError, named: Sequence[NamedBackend]) -> Published:
    """The result of a failed write, with the fix if Grove rejects an entry."""
    answer = target.failed(error)
    if named and answer.reason == "Rejected":
        fix = topology_reference.refusal_fix(target, error, named)
        if fix:
            return replace(answer, message=f"{error.message}; {fix}")
    return answer


class _GrovePublishing(SystemPublishing):
    """Grove's binding."""

    def publisher(self, client: Caller, delay: float) -> GrovePublisher:
        del delay  # a binding is changed in place
        return GrovePublisher(client, self.settings.runtime)


PUBLISHING: Final = _GrovePublishing
