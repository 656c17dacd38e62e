"""The kinds of objects that an explanation looks at, and the names by which people call them."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind. `versions` are those that are understood, the preferred one first."""

    group: str
    """Empty for the core group."""
    kind: str
    plural: str
    versions: tuple[str, ...]
    short: tuple[str, ...] = ()
    namespaced: bool = True

    @property
    def name(self) -> str:
        """`podcliquesets.grove.io`: what kubectl takes for this kind and for no other."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def key(self) -> tuple[str, str]:
        """Group and kind."""
        return self.group, self.kind

    def is_called(self, word: str) -> bool:
        """Whether kubectl would take `word` for this kind: kind, plural or short name, with the group or without."""
        name, _, group = word.lower().partition(".")
        return name in {self.kind.lower(), self.plural, *self.short} and group in {"", self.group}


POD: Final = Kind("", "Pod", "pods", ("v1",), ("po",))

DEPLOYMENT_GRAPH: Final = Kind(
    "nvidia.com", "DynamoGraphDeployment", "dynamographdeployments", ("v1beta1", "v1alpha1"), ("dgd",)
)
CLIQUE_SET: Final = Kind("grove.io", "PodCliqueSet", "podcliquesets", ("v1alpha1",), ("pcs",))
GANG: Final = Kind("scheduler.grove.io", "PodGang", "podgangs", ("v1alpha1",))
POD_GROUP: Final = Kind("scheduling.run.ai", "PodGroup", "podgroups", ("v2alpha2",), ("pg",))
KUEUE_WORKLOAD: Final = Kind("kueue.x-k8s.io", "Workload", "workloads", ("v1beta2", "v1beta1"), ("wl",))

SUBJECTS: Final = (
    DEPLOYMENT_GRAPH,
    CLIQUE_SET,
    Kind("grove.io", "PodCliqueScalingGroup", "podcliquescalinggroups", ("v1alpha1",), ("pcsg",)),
    Kind("grove.io", "PodClique", "podcliques", ("v1alpha1",), ("pclq",)),
    GANG,
    POD_GROUP,
    KUEUE_WORKLOAD,
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
"""What can be explained besides pods; owners of pods, and what schedulers make of them."""

LOCAL_QUEUE: Final = Kind("kueue.x-k8s.io", "LocalQueue", "localqueues", ("v1beta2", "v1beta1"))
CLUSTER_QUEUE: Final = Kind("kueue.x-k8s.io", "ClusterQueue", "clusterqueues", ("v1beta2", "v1beta1"), namespaced=False)
FLAVOR: Final = Kind("kueue.x-k8s.io", "ResourceFlavor", "resourceflavors", ("v1beta2", "v1beta1"), namespaced=False)
BINDING: Final = Kind("grove.io", "ClusterTopologyBinding", "clustertopologybindings", ("v1alpha1",), namespaced=False)
OLD_BINDING: Final = Kind("grove.io", "ClusterTopology", "clustertopologies", ("v1alpha1",), namespaced=False)
KAI_TOPOLOGY: Final = Kind("kai.scheduler", "Topology", "topologies", ("v1alpha1",), namespaced=False)
KUEUE_TOPOLOGY: Final = Kind(
    "kueue.x-k8s.io", "Topology", "topologies", ("v1beta2", "v1beta1", "v1alpha1"), namespaced=False
)

AROUND: Final = (LOCAL_QUEUE, CLUSTER_QUEUE, FLAVOR, BINDING, OLD_BINDING, KAI_TOPOLOGY, KUEUE_TOPOLOGY)
"""What schedulers read besides the workload."""


def kind_called(word: str) -> Kind | None:
    """The kind that somebody calls so, pods included."""
    return next((kind for kind in (POD, *SUBJECTS) if kind.is_called(word)), None)
