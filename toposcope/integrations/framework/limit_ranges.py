"""What the LimitRanges of a namespace add to containers, and which pods they reject.

Source: Kubernetes 1.36 (plugin/pkg/admission/limitranger; the defaults of a LimitRange itself:
`default` from `max`, `defaultRequest` from `default`, then from `min`). Of several ranges the first
one that names a resource counts. Messages are the API server's.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from toposcope.integrations.framework.containers import (
    Container,
    quantity_text,
    total_of,
    written_amounts,
)
from toposcope.integrations.framework.document import Field, name_of, namespace_of
from toposcope.integrations.framework.pod_kinds import LIMIT_RANGES
from toposcope.kube.pod_resources import Requests

_OF_POD: Final = "Pod"
_OF_CONTAINER: Final = "Container"


@dataclass(frozen=True, slots=True)
class LimitBounds:
    """One entry of a LimitRange: its defaults and bounds for each container, or for each pod."""

    name: str
    """That of the LimitRange."""
    kind: str
    """`Container` or `Pod`."""
    limits: Requests
    """The defaults."""
    requests: Requests
    least: Requests
    most: Requests
    ratios: Mapping[str, float]
    """The largest ratio of a limit to its request."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A pod's violation of a LimitRange."""

    where: Field
    range_name: str
    message: str


def bounds_for(root: Field) -> tuple[LimitBounds, ...]:
    """The entries of the LimitRanges in the document's namespace, as far as they are known."""
    bounds = []
    namespace = namespace_of(root)
    for document in root.surroundings.each(LIMIT_RANGES):
        written = Field(document)
        if namespace_of(written) != namespace:
            continue
        for entry in (written / "spec" / "limits").items():
            kind = (entry / "type").text()
            if kind in (_OF_CONTAINER, _OF_POD):
                bounds.append(_bounds(name_of(written), kind, entry))
    return tuple(bounds)


def _bounds(name: str, kind: str, entry: Field) -> LimitBounds:
    most = written_amounts((entry / "max").value)
    least = written_amounts((entry / "min").value)
    default = written_amounts((entry / "default").value)
    default_request = written_amounts((entry / "defaultRequest").value)
    limits: Requests = {}
    requests: Requests = {}
    if kind == _OF_CONTAINER:
        limits = {**most, **default}
        requests = {**least, **limits, **default_request}
    return LimitBounds(
        name=name,
        kind=kind,
        limits=limits,
        requests=requests,
        least=least,
        most=most,
        ratios=_ratios((entry / "maxLimitRequestRatio").value),
    )


def _ratios(written: Any) -> dict[str, float]:
    """By resource. Those of CPU are read in thousandths, which keeps fractions such as `1.5`."""
    if not isinstance(written, dict):
        return {}
    ratios = {}
    for resource, ratio in written.items():
        in_thousandths = written_amounts({"cpu": ratio}).get("cpu")
        if in_thousandths is not None:
            ratios[str(resource)] = in_thousandths / 1000
    return ratios


def with_defaults(
    containers: Sequence[Container], bounds: Sequence[LimitBounds]
) -> list[Container]:
    """The containers with the ranges' defaults for what they leave unset."""
    if not bounds:
        return list(containers)
    limits: dict[str, int] = {}
    requests: dict[str, int] = {}
    for entry in bounds:
        limits = {**entry.limits, **limits}
        requests = {**entry.requests, **requests}

    completed = []
    for container in containers:
        with_those = replace(
            container,
            limits={**limits, **container.limits},
            requests={**requests, **container.requests},
        )
        completed.append(with_those)
    return completed


def violations(
    spec: Field, containers: Sequence[Container], of_pod: Container, bounds: Sequence[LimitBounds]
) -> Iterator[Violation]:
    """Why the API server rejects the pod; `of_pod` has the resources of the pod as a whole."""
    for entry in bounds:
        if entry.kind == _OF_CONTAINER:
            for container in containers:
                yield from _against(entry, container.where, container.requests, container.limits)
            continue
        requests = total_of(containers, of_pod=of_pod.requests)
        limits = total_of(containers, limits=True, of_pod=of_pod.limits)
        yield from _against(entry, spec, requests, limits)


def _against(
    entry: LimitBounds, where: Field, requests: Requests, limits: Requests
) -> Iterator[Violation]:
    for bounds, check in (
        (entry.least, _below),
        (entry.most, _above),
        (entry.ratios, _out_of_ratio),
    ):
        for resource, bound in bounds.items():
            usage = _Asked(entry.kind, resource, requests.get(resource), limits.get(resource))
            problem = check(usage, bound)
            if problem:
                yield Violation(where, entry.name, problem)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The request and limit of one resource in a container or pod."""

    kind: str
    resource: str
    request: int | None
    limit: int | None

    def text(self, value: float | None) -> str:
        """A value as Kubernetes writes it."""
        return quantity_text(self.resource, int(value or 0))


def _below(usage: _Asked, bound: float) -> str:
    rule = f"minimum {usage.resource} usage per {usage.kind} is {usage.text(bound)}"
    if usage.request is None:
        return f"{rule}.  No request is specified"
    if usage.request < bound:
        return f"{rule}, but request is {usage.text(usage.request)}"
    if usage.limit is not None and usage.limit < bound:
        return f"{rule}, but limit is {usage.text(usage.limit)}"
    return ""


def _above(usage: _Asked, bound: float) -> str:
    rule = f"maximum {usage.resource} usage per {usage.kind} is {usage.text(bound)}"
    if usage.limit is None:
        return f"{rule}.  No limit is specified"
    if usage.limit > bound:
        return f"{rule}, but limit is {usage.text(usage.limit)}"
    if usage.request is not None and usage.request > bound:
        return f"{rule}, but request is {usage.text(usage.request)}"
    return ""


def _out_of_ratio(usage: _Asked, bound: float) -> str:
    rule = f"{usage.resource} max limit to request ratio per {usage.kind} is {bound:g}"
    if not usage.request:
        return f"{rule}, but no request is specified or request is 0"
    if not usage.limit:
        return f"{rule}, but no limit is specified or limit is 0"
    ratio = usage.limit / usage.request
    if ratio > bound:
        return f"{rule}, but provided ratio is {ratio:f}"
    return ""
