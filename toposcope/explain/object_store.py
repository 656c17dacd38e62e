"""The kinds of objects that an explanation reads; the objects themselves, and why some of them are unknown."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from toposcope.integrations.dynamo.features import DEPLOYMENT_GRAPH
from toposcope.integrations.framework.document import Field, kind_of
from toposcope.integrations.framework.features import Kind, Object, Ref
from toposcope.integrations.grove.features import BINDING, CLIQUE, CLIQUE_SET, GANG, OLD_BINDING, SCALING_GROUP
from toposcope.integrations.kai import features as kai
from toposcope.integrations.kubernetes import gangs
from toposcope.integrations.kueue import features as kueue

POD: Final = Kind("", "Pod", "pods", ("v1",), ("po",))

SUBJECTS: Final = (
    DEPLOYMENT_GRAPH,
    CLIQUE_SET,
    SCALING_GROUP,
    CLIQUE,
    GANG,
    kai.POD_GROUP,
    kueue.WORKLOAD,
    gangs.POD_GROUP,
    gangs.COMPOSITE,
    gangs.WORKLOAD,
    Kind("batch", "Job", "jobs", ("v1",)),
    Kind("apps", "Deployment", "deployments", ("v1",), ("deploy",)),
    Kind("apps", "StatefulSet", "statefulsets", ("v1",), ("sts",)),
    Kind("apps", "ReplicaSet", "replicasets", ("v1",), ("rs",)),
    Kind("jobset.x-k8s.io", "JobSet", "jobsets", ("v1alpha2",)),
    Kind("leaderworkerset.x-k8s.io", "LeaderWorkerSet", "leaderworkersets", ("v1",), ("lws",)),
    Kind("kubeflow.org", "PyTorchJob", "pytorchjobs", ("v1",)),
    Kind("kubeflow.org", "MPIJob", "mpijobs", ("v2beta1", "v1")),
    Kind("ray.io", "RayCluster", "rayclusters", ("v1",)),
    Kind("ray.io", "RayJob", "rayjobs", ("v1",)),
)
"""What can be explained besides pods: owners of pods, and what schedulers create for them."""

AROUND: Final = (
    kueue.LOCAL_QUEUE,
    kueue.CLUSTER_QUEUE,
    kueue.FLAVOR,
    BINDING,
    OLD_BINDING,
    kai.TOPOLOGY,
    kueue.TOPOLOGY,
)
"""What schedulers read besides the workload."""

TOPOLOGY_KINDS: Final = {
    "Dynamo": (BINDING, OLD_BINDING),
    "Grove": (BINDING, OLD_BINDING),
    "KAI": (kai.TOPOLOGY,),
    "Run:ai": (kai.TOPOLOGY,),
    "Kueue": (kueue.TOPOLOGY,),
}
"""The topology resource that each system reads, any one of these; LeaderWorkerSet and JobSet read node labels only."""
PUBLISH_FIELDS: Final = {BINDING.key: "grove", kai.TOPOLOGY.key: "kai", kueue.TOPOLOGY.key: "kueue"}
"""The field of a ClusterTopology's `spec.publish` that governs each kind."""


def kinds_called(word: str) -> tuple[Kind, ...]:
    """The kinds, Pod included, that `word` may stand for: KAI and Kubernetes both have PodGroups."""
    return tuple(kind for kind in (POD, *SUBJECTS) if kind.is_called(word))


_KEPT = {kind.key: kind for kind in (*SUBJECTS, *AROUND)}


@dataclass(slots=True)
class ObjectStore:
    """Objects by reference. `unread` says of which kinds nothing is known, and why: those are not absent."""

    objects: dict[Ref, Object] = field(default_factory=dict)
    unread: dict[tuple[str, str], str] = field(default_factory=dict)
    namespace: str | None = None
    """The namespace that was read; None: files, which may hold several."""

    def put(self, document: Object) -> None:
        """Keep an object."""
        self.objects[ref_of(document)] = document

    def of_kind(self, kind: Kind) -> Iterator[tuple[Ref, Object]]:
        """The objects of a kind."""
        for ref, document in self.objects.items():
            if (ref.group, ref.kind) == kind.key:
                yield ref, document

    def find(self, kind: Kind, name: str, namespace: str = "") -> Object | None:
        """One object; None where it does not exist or cannot be read."""
        return self.objects.get(Ref(kind.group, kind.kind, namespace if kind.namespaced else "", name))

    def why_unknown(self, *kinds: Kind) -> str:
        """Why nothing is known about any of these kinds; empty when one of them is known."""
        reasons = [self.unread.get(kind.key, "") for kind in kinds]
        return reasons[0] if all(reasons) else ""


class FileCollector:
    """Fills a store with the objects that pass by while files are read; of pods only `pod`, the one asked about."""

    def __init__(self, pod: str | None) -> None:
        self._pod = pod
        self._store = ObjectStore()

    def wants(self, group: str, kind: str) -> bool:
        """Whether objects of the kind are kept at all: then `put` is called with each."""
        return (group, kind) in _KEPT or (self._pod is not None and (group, kind) == POD.key)

    def put(self, document: Object) -> None:
        """Keep an object."""
        ref = ref_of(document)
        if (ref.group, ref.kind) != POD.key or ref.name == self._pod:
            self._store.objects[ref] = document

    def store(self) -> ObjectStore:
        """All that was kept. Files that hold no object of a kind say nothing about that kind."""
        seen = {(ref.group, ref.kind) for ref in self._store.objects}
        for kind in _KEPT.values():
            if kind.key not in seen:
                self._store.unread[kind.key] = f"the files have no {kind.kind} (kubectl get {kind.name} -A)"
        return self._store


def ref_of(document: Object) -> Ref:
    """What identifies an object; malformed fields count as missing."""
    group, kind = kind_of(document)
    metadata = Field(document) / "metadata"
    known = _KEPT.get((group, kind))
    namespace = (metadata / "namespace").text() or ""
    if not namespace and (known is None or known.namespaced):
        namespace = "default"
    return Ref(group, kind, namespace, (metadata / "name").text() or "")


def owner_of(document: Object) -> Ref | None:
    """The object's controller, or else its only owner: KAI does not mark the owners of PodGroups as controllers."""
    references = list((Field(document) / "metadata" / "ownerReferences").items())
    chosen = [reference for reference in references if reference.value and (reference / "controller").flag()]
    if not chosen and len(references) == 1:
        chosen = references
    if not chosen:
        return None
    group, kind = kind_of(chosen[0].value)
    name = (chosen[0] / "name").text()
    return Ref(group, kind, ref_of(document).namespace, name) if kind and name else None
