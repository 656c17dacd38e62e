"""What a namespace's LimitRanges add to containers that say too little, before Kueue counts them.

Source: Kueue 0.19 (pkg/workload/resources.go, pkg/util/limitrange): of several ranges the first
that names a resource counts; and the API server's defaults of a LimitRange itself (`default` from
`max`, `defaultRequest` from `default`).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from toposcope.integrations.framework.document import Field, namespace_of
from toposcope.integrations.framework.pods import PodSet, Structure, pods_of
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.kueue.api import LIMIT_RANGE

_Quantities = Mapping[str, Any]


def with_defaults(structure: Structure, cluster: ClusterFacts, namespace: str) -> Structure:
    """The same pods with the defaults for their containers."""
    limits: dict[str, Any] = {}
    requests: dict[str, Any] = {}
    for written in map(Field, cluster.objects.get(LIMIT_RANGE.key, ())):
        if namespace_of(written) != namespace:
            continue
        for entry in (written / "spec" / "limits").items():
            if (entry / "type").text() == "Container":
                default = _quantities(entry / "max") | _quantities(entry / "default")
                limits = default | limits
                requests = (
                    _quantities(entry / "min")
                    | default
                    | _quantities(entry / "defaultRequest")
                    | requests
                )
    if not limits and not requests:
        return structure
    return replace(
        structure, sets=tuple(_with(pod_set, limits, requests) for pod_set in structure.sets)
    )


def _quantities(field: Field) -> dict[str, Any]:
    return dict(field.value) if isinstance(field.value, dict) else {}


def _with(pod_set: PodSet, limits: _Quantities, requests: _Quantities) -> PodSet:
    spec = pod_set.template / "spec"
    if not isinstance(spec.value, dict):
        return pod_set
    changed = dict(spec.value)
    for name in ("containers", "initContainers"):
        if isinstance(changed.get(name), list):
            changed[name] = [_container(container, limits, requests) for container in changed[name]]
    pods = pods_of(pod_set.pods.name, pod_set.pods.count, Field(changed, spec.path, spec.findings))
    return replace(pod_set, pods=pods)


def _container(written: Any, limits: _Quantities, requests: _Quantities) -> Any:
    resources = written.get("resources") if isinstance(written, dict) else None
    if not isinstance(written, dict) or not isinstance(resources, dict | None):
        return written
    own = Field(resources or {})
    both = {
        "limits": {**limits, **_quantities(own / "limits")},
        "requests": {**requests, **_quantities(own / "requests")},
    }
    return {**written, "resources": {**(resources or {}), **both}}
