"""The kinds of objects that an explanation reads."""

from typing import Final

from toposcope.integrations.dynamo.features import DEPLOYMENT_GRAPH
from toposcope.integrations.framework.features import Kind
from toposcope.integrations.grove.features import BINDING, CLIQUE, CLIQUE_SET, GANG, OLD_BINDING, SCALING_GROUP
from toposcope.integrations.kai import features as kai
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
    "Kueue": (kueue.TOPOLOGY,),
}
"""The topology resource that each system reads, any one of these; LeaderWorkerSet and JobSet read node labels only."""
PUBLISH_FIELDS: Final = {BINDING.key: "grove", kai.TOPOLOGY.key: "kai", kueue.TOPOLOGY.key: "kueue"}
"""The field of a ClusterTopology's `spec.publish` that governs each kind."""


def kind_called(word: str) -> Kind | None:
    """The kind, Pod included, that kubectl takes `word` for."""
    return next((kind for kind in (POD, *SUBJECTS) if kind.is_called(word)), None)
