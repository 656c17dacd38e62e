"""The kinds of objects that an explanation reads; the objects themselves, and why some of them are unknown."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from toposcope.integrations.dynamo.api import DEPLOYMENTS
from toposcope.integrations.framework.document import Field, kind_of
from toposcope.integrations.framework.features import Object, Ref
from toposcope.integrations.grove.api import (
    BINDINGS,
    CLIQUE,
    GANG,
    OLDER_TOPOLOGIES,
    POD_CLIQUE_SETS,
    SCALING_GROUP,
)
from toposcope.integrations.kai import api as kai
from toposcope.integrations.kubernetes import api as gangs
from toposcope.integrations.kueue import api as kueue
from toposcope.integrations.volcano import api as volcano
from toposcope.kube.client import ApiClient
from toposcope.kube.discovery import Kind
from toposcope.kube.errors import ApiError
from toposcope.kube.listing import everything
from toposcope.snapshot.problems import Progress, silent

POD: Final = Kind("", "Pod", "pods", ("v1",), short=("po",))

SUBJECTS: Final = (
    DEPLOYMENTS,
    POD_CLIQUE_SETS,
    SCALING_GROUP,
    CLIQUE,
    GANG,
    kai.POD_GROUPS,
    kueue.WORKLOAD,
    gangs.POD_GROUPS,
    gangs.COMPOSITES,
    gangs.WORKLOADS,
    volcano.POD_GROUPS,
    Kind("batch", "Job", "jobs", ("v1",)),
    volcano.JOBS,
    Kind("apps", "Deployment", "deployments", ("v1",), short=("deploy",)),
    Kind("apps", "StatefulSet", "statefulsets", ("v1",), short=("sts",)),
    Kind("apps", "ReplicaSet", "replicasets", ("v1",), short=("rs",)),
    Kind("jobset.x-k8s.io", "JobSet", "jobsets", ("v1alpha2",)),
    Kind(
        "leaderworkerset.x-k8s.io", "LeaderWorkerSet", "leaderworkersets", ("v1",), short=("lws",)
    ),
    Kind("kubeflow.org", "PyTorchJob", "pytorchjobs", ("v1",)),
    Kind("kubeflow.org", "MPIJob", "mpijobs", ("v2beta1", "v1")),
    Kind("ray.io", "RayCluster", "rayclusters", ("v1",)),
    Kind("ray.io", "RayJob", "rayjobs", ("v1",)),
)
"""What can be explained besides pods: owners of pods, and what schedulers create for them."""

AROUND: Final = (
    *(kueue.LOCAL_QUEUE, kueue.CLUSTER_QUEUE, kueue.FLAVORS),
    *(BINDINGS, OLDER_TOPOLOGIES, kai.TOPOLOGIES, kueue.TOPOLOGIES),
)
"""What schedulers read besides the workload."""

TOPOLOGY_KINDS: Final = {
    **dict.fromkeys(("Dynamo", "Grove"), (BINDINGS, OLDER_TOPOLOGIES)),
    **dict.fromkeys(("KAI", "Run:ai"), (kai.TOPOLOGIES,)),
    "Kueue": (kueue.TOPOLOGIES,),
}
"""The topology resource that each system reads, any one of these; LeaderWorkerSet and JobSet read node labels only."""
PUBLISH_FIELDS: Final = {
    kind.key: kind.option for kind in (BINDINGS, kai.TOPOLOGIES, kueue.TOPOLOGIES)
}
"""The field of a ClusterTopology's `spec.publish` that governs each kind."""


def kinds_called(word: str) -> tuple[Kind, ...]:
    """The kinds, Pod included, that `word` may stand for: KAI and Kubernetes both have PodGroups."""
    return tuple(kind for kind in (POD, *SUBJECTS) if kind.is_called(word))


_KEPT = {kind.key: kind for kind in (*SUBJECTS, *AROUND)}


@dataclass(slots=True)
class ObjectStore:
    """Objects by reference.

    `unread` says of which kinds nothing is known, and why: those are not absent.
    """

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
        return self.objects.get(
            Ref(kind.group, kind.kind, namespace if kind.namespaced else "", name)
        )

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
                self._store.unread[kind.key] = (
                    f"the files have no {kind.kind} (kubectl get {kind.name} -A)"
                )

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
    chosen = [
        reference
        for reference in references
        if reference.value and (reference / "controller").flag()
    ]

    if not chosen and len(references) == 1:
        chosen = references

    if not chosen:
        return None

    group, kind = kind_of(chosen[0].value)
    name = (chosen[0] / "name").text()
    return Ref(group, kind, ref_of(document).namespace, name) if kind and name else None


UNLISTED: Final = " may not be listed with these credentials"


def load_objects(
    client: ApiClient, namespace: str | None, pod: str | None, progress: Progress = silent
) -> ObjectStore:
    """Everything that may matter for a workload in this namespace (None: that of the kubeconfig's context).

    `pod` is loaded too where one is asked about; all other pods are in the snapshot. Raises KubeError when the server
    does not answer; kinds that these credentials may not list go to `ObjectStore.unread`.
    """
    store = ObjectStore(namespace=namespace or client.namespace or "default")
    for kind in (*SUBJECTS, *AROUND):
        _load(client, kind, store, progress)

    if pod is not None:
        _load(client, POD, store, progress, f"metadata.name={pod}")

    return store


def _load(
    client: ApiClient, kind: Kind, into: ObjectStore, progress: Progress, fields: str = ""
) -> None:
    """All objects of a kind in the version that is served; none where it is not served."""
    progress(kind.name, 0)
    for version in kind.versions:
        path = kind.path(version, into.namespace or "")
        try:
            for item in everything(
                client, path, fields=fields, progress=partial(progress, kind.name)
            ):
                # Items of a list have neither.
                into.put({**item, "apiVersion": kind.api_version(version), "kind": kind.kind})
        except ApiError as error:
            if error.forbidden:
                into.unread[kind.key] = f"{kind.name}{UNLISTED}"
                return

            if not error.not_found:
                raise
        else:
            return
