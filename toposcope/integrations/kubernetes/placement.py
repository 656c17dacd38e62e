"""kube-scheduler's own gangs: which pods belong to each PodGroup."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from toposcope.integrations.framework.constraints import PodGroupName, Pods
from toposcope.integrations.framework.document import Field, kind_of, name_of
from toposcope.integrations.framework.placement import Placement, ViewedPod, kind_of_pod
from toposcope.integrations.framework.pod_kinds import POD_KINDS, VOLUME_CLAIMS, VOLUMES
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.kubernetes.gangs import group_of

_KEPT_ANNOTATIONS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "volume.kubernetes.io/selected-node",
)
_KEPT_OF_SPEC: Final = {
    VOLUMES.key: (
        "accessModes",
        "capacity",
        "claimRef",
        "nodeAffinity",
        "storageClassName",
    ),
    VOLUME_CLAIMS.key: ("accessModes", "resources", "storageClassName", "volumeName"),
}
"""There may be many, so their drivers' own data is dropped."""
_OF_PODS: Final = frozenset(kind.key for kind in POD_KINDS)


def _reduced(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """An object with only the fields that affect pods."""
    root = Field(document)
    metadata = root / "metadata"
    kept = {
        "name": name_of(root),
        "namespace": (metadata / "namespace").value,
        "deletionTimestamp": (metadata / "deletionTimestamp").value,
        "labels": (metadata / "labels").value,
        "annotations": _kept_annotations(metadata / "annotations"),
    }
    reduced = dict(document)
    reduced["metadata"] = {name: value for name, value in kept.items() if value}
    fields = _KEPT_OF_SPEC.get(kind_of(document))
    spec = document.get("spec")
    if fields and isinstance(spec, dict):
        reduced["spec"] = {name: spec[name] for name in fields if name in spec}
    return reduced


def _kept_annotations(annotations: Field) -> dict[str, str]:
    kept = {}
    for name in _KEPT_ANNOTATIONS:
        text = (annotations / name).text()
        if text:
            kept[name] = text
    return kept


class _Placement(Placement):
    def kept(self, document: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The fields that affect pods, of an object that may be large."""
        if kind_of(document) in _OF_PODS:
            return _reduced(document)
        return document

    def with_pods(self, cluster: ClusterFacts, pods: Iterable[ViewedPod]) -> ClusterFacts:
        """Add the existing pods of each PodGroup to the facts."""
        counts: dict[PodGroupName, Counter[Pods]] = {}
        for pod in pods:
            name = group_of(Field(pod.wants))
            if name:
                kinds = counts.setdefault((pod.namespace, name), Counter())
                kinds[kind_of_pod(pod)] += 1

        gangs = dict(cluster.gangs)
        for group, kinds in counts.items():
            members = [replace(kind, count=count) for kind, count in kinds.items()]
            gangs[group] = tuple(members)
        return replace(cluster, gangs=gangs)


PLACEMENT: Final = _Placement()
