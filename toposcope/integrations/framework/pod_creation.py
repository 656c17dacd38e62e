"""What the API server adds to a pod spec, or rejects, before a scheduler sees the pod.

In the order of its admission: PriorityClass, RuntimeClass, LimitRanges; then its validation.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from toposcope.integrations.framework.constraints import Creation, Hold, Resources
from toposcope.integrations.framework.containers import (
    Container,
    amounts_of,
    check_defaulted,
    check_resources,
    containers_of,
    requests_of,
    total_of,
)
from toposcope.integrations.framework.document import Field, namespace_of
from toposcope.integrations.framework.host_ports import check_host_ports
from toposcope.integrations.framework.limit_ranges import bounds_for, violations, with_defaults
from toposcope.integrations.framework.node_affinity import NodeFilter, VolumePlace
from toposcope.integrations.framework.node_terms import node_filter_of, toleration_of
from toposcope.integrations.framework.priorities import priority_of
from toposcope.integrations.framework.runtime_classes import RuntimeEffect, runtime_of
from toposcope.integrations.framework.volumes import volumes_of
from toposcope.kube.pod_resources import Requests

DEFAULT_SCHEDULER: Final = "default-scheduler"
"""The `schedulerName` of pods that set none: the API server's default, which is kube-scheduler."""

_REFUSED = Hold("never", "the API server rejects its pods")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_COUNTED = ("cpu", "memory")
"""The resources that a quota may require each container to set."""


@dataclass(frozen=True, slots=True)
class Created:
    """A pod as the API server creates it."""

    requests: Resources
    node_filter: NodeFilter
    creation: Creation


def created_of(spec: Field, count: int, added: Iterable[Requests]) -> Created:
    """The result of creating `count` pods of a spec, with the containers that an operator adds.

    Records what is malformed or rejected as findings.
    """
    holds: list[Hold] = []
    written = containers_of(spec)
    of_pod = _whole(spec)
    if check_resources([*written, of_pod]):
        holds.append(_REFUSED)
    if check_host_ports(spec):
        holds.append(_REFUSED)
    for requests in added:
        written.append(Container("", spec, requests, {}, has_known_limits=False))

    priority = priority_of(spec)
    runtime = runtime_of(spec)
    for hold in (priority.hold, runtime.hold):
        if hold:
            holds.append(hold)
    containers = _in_bounds(spec, written, of_pod, holds)
    places = _volume_places(spec, count, holds)

    requested = total_of(containers, overhead=runtime.overhead, of_pod=of_pod.requests)
    limits = _with_overhead(containers, of_pod, runtime.overhead)
    creation = Creation(
        namespace=namespace_of(spec.root),
        scheduler=(spec / "schedulerName").text() or "",
        gates=_gates(spec),
        priority=priority.priority,
        limits=_pairs(limits),
        unset=_unset(containers, of_pod),
        has_deadline=bool(spec / "activeDeadlineSeconds"),
        is_best_effort=_is_best_effort([*containers, of_pod]),
        has_cross_namespace_terms=_crosses_namespaces(spec / "affinity"),
        holds=tuple(holds),
    )
    return Created(_pairs(requested), _filter(spec, runtime, places), creation)


def _whole(spec: Field) -> Container:
    """The resources of the pod as a whole."""
    resources = spec / "resources"
    return Container("", resources, requests_of(resources), amounts_of(resources / "limits"))


def _in_bounds(
    spec: Field, written: Sequence[Container], of_pod: Container, holds: list[Hold]
) -> list[Container]:
    """The containers with the defaults of LimitRanges. Records what these reject as findings."""
    bounds = bounds_for(spec.root)
    containers = with_defaults(written, bounds)
    with_limits = [container for container in containers if container.has_known_limits]
    is_refused = check_defaulted(with_limits)
    for violation in violations(spec, containers, of_pod, bounds):
        fix = (
            f"LimitRange {violation.range_name} of namespace {namespace_of(spec.root)} requires "
            "this"
        )
        violation.where.error("pods/limit-range", violation.message, fix)
        is_refused = True
    if is_refused:
        holds.append(_REFUSED)
    return containers


def _volume_places(spec: Field, count: int, holds: list[Hold]) -> tuple[VolumePlace, ...]:
    places = []
    for volume in volumes_of(spec, count):
        if volume.hold:
            holds.append(volume.hold)
        if volume.place:
            places.append(volume.place)
    return tuple(places)


def _filter(spec: Field, runtime: RuntimeEffect, places: tuple[VolumePlace, ...]) -> NodeFilter:
    """The nodes that the pod may use."""
    own = node_filter_of(spec)
    selector = {**dict(own.selector), **runtime.selector}
    tolerations = list(own.tolerations)
    for toleration in runtime.tolerations.items():
        tolerations.append(toleration_of(toleration))
    return replace(
        own,
        selector=tuple(sorted(selector.items())),
        tolerations=tuple(tolerations),
        volumes=places,
    )


def _gates(spec: Field) -> tuple[str, ...]:
    gates = []
    for gate in (spec / "schedulingGates").items():
        gates.append((gate / "name").text() or "")
    return tuple(gates)


def _unset(containers: Iterable[Container], of_pod: Container) -> tuple[tuple[str, str], ...]:
    """The CPU and memory fields that containers leave unset, if the pod leaves them unset too."""
    if of_pod.requests or of_pod.limits:
        return ()
    unset = []
    for container in containers:
        for resource in _COUNTED:
            if resource not in container.requests:
                unset.append((f"requests.{resource}", container.name))
            if resource not in container.limits:
                unset.append((f"limits.{resource}", container.name))
    return tuple(unset)


def _with_overhead(
    containers: Sequence[Container], of_pod: Container, overhead: Requests
) -> dict[str, int]:
    """The limits of the pod: overhead counts only where there is a limit."""
    limits = total_of(containers, limits=True, of_pod=of_pod.limits)
    for resource in limits:
        limits[resource] += overhead.get(resource, 0)
    return limits


def _is_best_effort(containers: Iterable[Container]) -> bool:
    for container in containers:
        for resource in _COUNTED:
            if container.requests.get(resource) or container.limits.get(resource):
                return False
    return True


def _crosses_namespaces(affinity: Field) -> bool:
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = list((affinity / kind / _REQUIRED).items())
        for weighted in (affinity / kind / _PREFERRED).items():
            terms.append(weighted / "podAffinityTerm")
        for term in terms:
            if (term / "namespaces").value or term / "namespaceSelector":
                return True
    return False


def _pairs(amounts: Mapping[str, int]) -> Resources:
    """The amounts that are not 0, sorted."""
    pairs = []
    for resource, amount in sorted(amounts.items()):
        if amount:
            pairs.append((resource, amount))
    return tuple(pairs)
