"""What each version of Kubernetes calls its gangs, and the feature gates that switch them on."""

from typing import Final

from tools.apiserver.build import kubernetes_version

_GROUP: Final = "scheduling.k8s.io"
_VERSION: Final = kubernetes_version()
HAS_TREES: Final = not _VERSION.startswith(("v1.30.", "v1.36."))
"""Whether PodGroups nest in CompositePodGroups, and a Job can be a gang by itself: since 1.37."""

GANGS: Final = f"{_GROUP}/v1beta1" if HAS_TREES else f"{_GROUP}/v1alpha2"
"""The API version of PodGroups."""
COMPOSITES: Final = f"{_GROUP}/v1alpha3"
_GATES: Final = (
    ("GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup", "WorkloadWithJob")
    if HAS_TREES
    else ("GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling")
)
GATES: Final = "--feature-gates=" + ",".join(f"{gate}=true" for gate in _GATES)
"""For kube-scheduler and kube-controller-manager."""
SERVED: Final = (
    GATES,
    f"--runtime-config={GANGS}=true,{COMPOSITES}=true" if HAS_TREES else f"--runtime-config={GANGS}=true",
)
"""For kube-apiserver."""
