"""What a namespace's LimitRanges add to containers that say too little, before Kueue counts them.

Source: Kueue 0.19 (pkg/workload/resources.go, pkg/util/limitrange): of several ranges the first
that names a resource counts; and the API server's defaults of a LimitRange itself (`default` from
`max`, `defaultRequest` from `default`).
"""

from dataclasses import dataclass, field, replace
from typing import Any

from toposcope.integrations.framework.document import Field, namespace_of
from toposcope.integrations.framework.pods import PodSet, Structure, pods_of
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.kueue.api import LIMIT_RANGE


@dataclass(slots=True)
class _Defaults:
    """What containers get that do not say it themselves."""

    limits: dict[str, Any] = field(default_factory=dict)
    requests: dict[str, Any] = field(default_factory=dict)

    def add(self, entry: Field) -> None:
        """Add those of an entry; what an earlier one says comes first."""
        most = _quantities(entry / "max")
        least = _quantities(entry / "min")
        default = _quantities(entry / "default")
        default_request = _quantities(entry / "defaultRequest")
        self.limits = {**most, **default, **self.limits}
        self.requests = {
            **least,
            **most,
            **default,
            **default_request,
            **self.requests,
        }


def with_defaults(structure: Structure, cluster: ClusterFacts, namespace: str) -> Structure:
    """The pods with the defaults for their containers."""
    defaults = _defaults(cluster, namespace)
    if not defaults.limits and not defaults.requests:
        return structure
    pod_sets = [_with(pod_set, defaults) for pod_set in structure.sets]
    return replace(structure, sets=tuple(pod_sets))


def _defaults(cluster: ClusterFacts, namespace: str) -> _Defaults:
    defaults = _Defaults()
    for document in cluster.objects.get(LIMIT_RANGE.key, ()):
        written = Field(document)
        if namespace_of(written) != namespace:
            continue
        for entry in (written / "spec" / "limits").items():
            if (entry / "type").text() == "Container":
                defaults.add(entry)
    return defaults


def _quantities(written: Field) -> dict[str, Any]:
    return dict(written.value) if isinstance(written.value, dict) else {}


def _with(pod_set: PodSet, defaults: _Defaults) -> PodSet:
    spec = pod_set.template / "spec"
    if not isinstance(spec.value, dict):
        return pod_set
    changed = dict(spec.value)
    for name in ("containers", "initContainers"):
        containers = changed.get(name)
        if isinstance(containers, list):
            changed[name] = [_container(container, defaults) for container in containers]
    pods = pods_of(
        pod_set.pods.name,
        pod_set.pods.count,
        Field(changed, spec.path, spec.findings),
    )
    return replace(pod_set, pods=pods)


def _container(written: Any, defaults: _Defaults) -> Any:
    """A container with the defaults; what is malformed stays as it is."""
    if not isinstance(written, dict):
        return written
    resources = written.get("resources")
    if not isinstance(resources, dict | None):
        return written
    completed = dict(resources or {})
    own = Field(completed)
    limits = _quantities(own / "limits")
    requests = _quantities(own / "requests")
    completed["limits"] = {**defaults.limits, **limits}
    completed["requests"] = {**defaults.requests, **requests}
    return {**written, "resources": completed}
