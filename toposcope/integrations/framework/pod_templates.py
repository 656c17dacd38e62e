"""Pod templates: what each pod takes of a node, and which nodes it may use."""

from typing import Final

from toposcope.integrations.framework.constraints import Pods
from toposcope.integrations.framework.document import Part
from toposcope.integrations.framework.node_affinity import OPERATORS, Choice, Expression, Toleration
from toposcope.kube.pod_resources import ContainerRequests, Requests, pod_requests
from toposcope.kube.quantities import amount

_DRA: Final = "pods/resource-claims"


def pods_of(name: str, count: int, spec: Part, *beside: Requests) -> Pods:
    """`count` pods with the pod spec at `spec`; what is wrong in it is noted there and left out.

    `beside` is what containers ask for that an operator adds to those of the spec.
    """
    containers = [*beside, *(requests_of(container / "resources") for container in (spec / "containers").items())]
    init = [
        ContainerRequests(
            requests_of(container / "resources"), sidecar=(container / "restartPolicy").text() == "Always"
        )
        for container in (spec / "initContainers").items()
    ]
    if spec / "resourceClaims":
        (spec / "resourceClaims").warn(
            _DRA,
            "devices that come from resource claims are not counted",
            "compare the claims' device requests with `kubectl get resourceslices` by hand",
        )
    whole = pod_requests(containers, init, amounts_of(spec / "overhead"), requests_of(spec / "resources"))
    return Pods(name, count, tuple(sorted((key, value) for key, value in whole.items() if value)), choice_of(spec))


def requests_of(resources: Part) -> dict[str, int]:
    """A container's requests; what only `limits` names is requested as much (as the API server fills it in)."""
    return amounts_of(resources / "limits") | amounts_of(resources / "requests")


def amounts_of(quantities: Part) -> dict[str, int]:
    """An object of quantities by resource; what is none is noted and left out."""
    found = {}
    for resource, part in quantities.members():
        if isinstance(part.value, str | int | float) and not isinstance(part.value, bool):
            try:
                value = amount(resource, part.value)
            except ValueError as error:
                part.error("pods/quantity", str(error))
                continue
            if value < 0:
                part.error("pods/quantity", f"{part.value!r} is below zero")
                continue
            found[resource] = value
        elif part:
            part.wrong("a quantity such as 8, 500m or 2Gi")
    return found


def choice_of(spec: Part) -> Choice:
    """What a pod spec says about nodes."""
    affinity = spec / "affinity" / "nodeAffinity" / "requiredDuringSchedulingIgnoredDuringExecution"
    return Choice(
        selector=tuple(sorted((spec / "nodeSelector").texts().items())),
        terms=tuple(_term(term) for term in (affinity / "nodeSelectorTerms").items()),
        tolerations=tuple(_toleration(toleration) for toleration in (spec / "tolerations").items()),
    )


def _term(term: Part) -> tuple[Expression, ...]:
    found = []
    for member, field in (("matchExpressions", False), ("matchFields", True)):
        for each in (term / member).items():
            key, operator = (each / "key").text() or "", (each / "operator").text()
            known = next((name for name in OPERATORS if name == operator), None)
            if known is None:
                (each / "operator").error("pods/operator", f"{operator!r} is none of {', '.join(OPERATORS)}")
                continue
            values = tuple(text for value in (each / "values").items() if (text := value.text()) is not None)
            found.append(Expression(key, known, values, field))
    return tuple(found)


def _toleration(each: Part) -> Toleration:
    return Toleration(
        key=(each / "key").text() or "",
        operator=(each / "operator").text() or "Equal",
        value=(each / "value").text() or "",
        effect=(each / "effect").text() or "",
    )
