"""Containers of a pod spec: what they request, and what the API server rejects.

Source: Kubernetes 1.36 (pkg/apis/core/validation: validateResourceRequirements; k8s.io/api's
defaults). Messages are the API server's.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from toposcope.integrations.framework.document import Field
from toposcope.kube.pod_resources import (
    ContainerRequests,
    QuantityError,
    amount,
    is_whole,
    pod_requests,
)

_OF_CONTAINERS: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
"""Resources without a domain that a container may request, besides huge pages."""
_HUGE_PAGES: Final = "hugepages-"
_BINARY_UNITS: Final = {"Ti": 1 << 40, "Gi": 1 << 30, "Mi": 1 << 20, "Ki": 1 << 10}
"""The largest first."""
_NATIVE_DOMAIN: Final = "kubernetes.io/"


@dataclass(frozen=True, slots=True)
class Container:
    """The resources of one container, in the units of `amount`."""

    name: str
    where: Field
    """Its resources, or what adds the container."""
    requests: Mapping[str, int]
    limits: Mapping[str, int]
    is_init_container: bool = False
    """Whether it is an init container."""
    is_sidecar: bool = False
    """Whether it is one that keeps running (restartPolicy Always)."""
    has_known_limits: bool = True
    """False for a container that an operator adds, whose limits are unknown."""


def containers_of(spec: Field) -> list[Container]:
    """The containers and init containers of a pod spec. Records a finding for each error."""
    containers = []
    for written in (spec / "containers").items():
        containers.append(_container(written))
    for written in (spec / "initContainers").items():
        restart_policy = (written / "restartPolicy").text()
        is_sidecar = restart_policy == "Always"
        containers.append(_container(written, starts_before=True, is_sidecar=is_sidecar))
    return containers


def _container(
    written: Field, *, starts_before: bool = False, is_sidecar: bool = False
) -> Container:
    resources = written / "resources"
    limits = amounts_of(resources / "limits")
    requests = amounts_of(resources / "requests")
    return Container(
        name=(written / "name").text() or "",
        where=resources,
        requests=limits | requests,
        limits=limits,
        is_init_container=starts_before,
        is_sidecar=is_sidecar,
    )


def requests_of(resources: Field) -> dict[str, int]:
    """A container's requests.

    A resource that only `limits` names is requested too, as the API server defaults it.
    """
    limits = amounts_of(resources / "limits")
    requests = amounts_of(resources / "requests")
    return limits | requests


def amounts_of(quantities: Field) -> dict[str, int]:
    """An object of quantities by resource. Invalid ones are recorded as findings and left out."""
    amounts = {}
    for resource, quantity in quantities.properties():
        value = _amount(resource, quantity)
        if value is not None:
            amounts[resource] = value
    return amounts


def _amount(resource: str, quantity: Field) -> int | None:
    """A quantity in the unit of its resource; None if missing or invalid."""
    written = quantity.value
    if written is None:
        return None
    if isinstance(written, bool) or not isinstance(written, str | int | float):
        quantity.wrong("a quantity such as 8, 500m or 2Gi")
        return None
    try:
        value = amount(resource, written)
    except QuantityError as error:
        quantity.error("pods/quantity", error.problem, error.fix)
        return None
    if value < 0:
        quantity.error("pods/quantity", f"{written!r} is negative", "write 0 or more")
        return None
    return value


def total_of(
    containers: Iterable[Container],
    *,
    limits: bool = False,
    overhead: Mapping[str, int] | None = None,
    of_pod: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """What the pod requests in all, or its `limits`; `of_pod` are those of the pod as a whole."""
    main = []
    init = []
    for container in containers:
        amounts = container.limits if limits else container.requests
        if container.is_init_container:
            init.append(ContainerRequests(amounts, container.is_sidecar))
        else:
            main.append(amounts)
    return pod_requests(main, init, overhead, of_pod)


def check_resources(containers: Iterable[Container]) -> bool:
    """Note what the API server rejects in resources as written. Returns whether there is any."""
    is_refused = False
    for container in containers:
        for problem in _problems(container.where):
            problem.where.error(problem.rule, problem.message, problem.fix)
            is_refused = True
    return is_refused


def check_defaulted(containers: Iterable[Container]) -> bool:
    """Note requests above a limit that comes from a default. Returns whether there are any."""
    is_refused = False
    for container in containers:
        written = container.where / "limits"
        for resource, requested in container.requests.items():
            limit = container.limits.get(resource)
            if limit is None or requested <= limit or (written / resource):
                continue
            most = quantity_text(resource, limit)
            message = f"must be less than or equal to {resource} limit of {most}"
            fix = "a LimitRange sets that limit; set your own"
            (container.where / "requests").error("pods/request-over-limit", message, fix)
            is_refused = True
    return is_refused


@dataclass(frozen=True, slots=True)
class _Problem:
    """What the API server says of a field."""

    where: Field
    rule: str
    message: str
    fix: str


def _problems(resources: Field) -> Iterator[_Problem]:
    if not isinstance(resources.value, dict):
        return
    for name in ("limits", "requests"):
        for resource, quantity in _properties(resources / name):
            yield from _problems_of_quantity(resource, quantity)
    yield from _problems_of_pairs(resources)
    yield from _huge_pages_alone(resources)


def _properties(quantities: Field) -> Iterator[tuple[str, Field]]:
    """The quantities of an object; malformed ones were noted when they were read."""
    if not isinstance(quantities.value, dict):
        return
    for resource in quantities.value:
        if not isinstance(resource, str):
            continue
        quantity = quantities / resource
        if _exact(resource, quantity) is not None:
            yield resource, quantity


def _exact(resource: str, quantity: Field) -> int | None:
    written = quantity.value
    if isinstance(written, bool) or not isinstance(written, str | int | float):
        return None
    try:
        return amount(resource, written)
    except QuantityError:
        return None


def _problems_of_quantity(resource: str, quantity: Field) -> Iterator[_Problem]:
    if "/" not in resource and not _is_standard(resource):
        message = "must be a standard resource for containers"
        fix = f"add its domain, as in nvidia.com/{resource}"
        yield _Problem(quantity, "pods/resource-name", message, fix)
    elif is_extended(resource) and not is_whole(quantity.value):
        message = "must be an integer"
        fix = f"write a whole number: {resource} comes only in whole numbers, not {quantity.value}"
        yield _Problem(quantity, "pods/integer", message, fix)


def _is_standard(resource: str) -> bool:
    return resource in _OF_CONTAINERS or resource.startswith(_HUGE_PAGES)


def is_extended(resource: str) -> bool:
    """Whether it belongs to a device plugin or operator, not to Kubernetes itself."""
    return "/" in resource and _NATIVE_DOMAIN not in resource


def _problems_of_pairs(resources: Field) -> Iterator[_Problem]:
    """Requests and limits that contradict each other."""
    limits = dict(_properties(resources / "limits"))
    for resource, request in _properties(resources / "requests"):
        can_overcommit = not is_extended(resource) and not resource.startswith(_HUGE_PAGES)
        limit = limits.get(resource)
        if limit is None:
            if not can_overcommit:
                message = "Limit must be set for non overcommitable resources"
                fix = f"add limits.{resource}: {request.value}, equal to the request"
                yield _Problem(resources / "limits", "pods/limit-required", message, fix)
            continue

        requested = _exact(resource, request) or 0
        most = _exact(resource, limit) or 0
        if requested != most and not can_overcommit:
            message = f"must be equal to {resource} limit of {limit.value}"
            fix = f"write {limit.value} in requests, or {request.value} in limits"
            yield _Problem(request, "pods/limit-equal", message, fix)
        elif requested > most:
            message = f"must be less than or equal to {resource} limit of {limit.value}"
            fix = f"raise the limit to {request.value}, or lower the request"
            yield _Problem(request, "pods/request-over-limit", message, fix)


def _huge_pages_alone(resources: Field) -> Iterator[_Problem]:
    """Huge pages without CPU and memory."""
    names: set[str] = set()
    for name in ("limits", "requests"):
        for resource, _ in _properties(resources / name):
            names.add(resource)
    has_huge_pages = any(name.startswith(_HUGE_PAGES) for name in names)
    if has_huge_pages and names.isdisjoint({"cpu", "memory"}):
        message = "HugePages require cpu or memory"
        fix = "request CPU or memory in the same container"
        yield _Problem(resources, "pods/hugepages", message, fix)


def quantity_text(resource: str, value: int) -> str:
    """An amount as Kubernetes writes it: `500m`, `2`, `64Gi`."""
    if resource == "cpu":
        cores, thousandths = divmod(value, 1000)
        return f"{value}m" if thousandths else str(cores)
    for unit, size in _BINARY_UNITS.items():
        if value and value % size == 0:
            return f"{value // size}{unit}"
    return str(value)


def written_amounts(quantities: Any) -> dict[str, int]:
    """The valid quantities of an object of the cluster, in the units of `amount`."""
    amounts = {}
    for resource, quantity in _properties(Field(quantities)):
        value = _exact(resource, quantity)
        if value is not None:
            amounts[resource] = value
    return amounts
