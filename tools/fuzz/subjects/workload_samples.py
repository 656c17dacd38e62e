"""One good manifest for each system whose workloads are understood."""

from typing import Any, Final

from toposcope.simulator.cluster import BLOCK_KEY, RACK_KEY

_ON: Final = {"clusterTopologyName": "gpu", "packDomain": "rack"}
_TEMPLATE: Final[dict[str, Any]] = {
    "metadata": {"annotations": {}, "labels": {"app": "x"}},
    "spec": {
        "nodeSelector": {"pool": "a"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "8", "cpu": "500m"}}}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}]
                }
            }
        },
    },
}


def _object(version: str, kind: str, spec: Any, **annotations: str) -> dict[str, Any]:
    metadata = {"name": "w", "namespace": "ml", "annotations": dict(annotations), "labels": {}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _annotated(**annotations: str) -> dict[str, Any]:
    return {**_TEMPLATE, "metadata": {"annotations": dict(annotations)}}


_JOB: Final = {"parallelism": 2, "template": _TEMPLATE}
_REQUIRED: Final = {"requirementType": "required"}
_KUEUE: Final = {
    "kueue.x-k8s.io/podset-required-topology": RACK_KEY,
    "kueue.x-k8s.io/podset-slice-required-topology": RACK_KEY,
    "kueue.x-k8s.io/podset-slice-size": "2",
}
_KAI: Final = {
    "kai.scheduler/topology": "gpu",
    "kai.scheduler/topology-required-placement": BLOCK_KEY,
    "kai.scheduler/topology-preferred-placement": RACK_KEY,
}

SAMPLES: Final[tuple[dict[str, Any], ...]] = (
    _object(
        "nvidia.com/v1alpha1",
        "DynamoGraphDeployment",
        {
            "topologyConstraint": {"topologyProfile": "gpu", "packDomain": "block"},
            "services": {
                "decode": {
                    "replicas": 2,
                    "multinode": {"nodeCount": 2},
                    "resources": {"limits": {"gpu": "8"}},
                    "topologyConstraint": {"topologyProfile": "gpu", "packDomain": "rack"},
                }
            },
        },
    ),
    _object(
        "nvidia.com/v1beta1",
        "DynamoGraphDeployment",
        {
            "topologyConstraint": _ON,
            "components": [{"name": "decode", "replicas": 2, "podTemplate": _TEMPLATE, "topologyConstraint": _ON}],
        },
    ),
    _object(
        "grove.io/v1alpha1",
        "PodCliqueSet",
        {
            "replicas": 1,
            "template": {
                "topologyConstraint": {"topologyName": "gpu", "pack": {"required": "block", "preferred": "rack"}},
                "cliques": [
                    {
                        "name": "a",
                        "topologyConstraint": {"packDomain": "rack"},
                        "spec": {"roleName": "a", "replicas": 2, "minAvailable": 1, "podSpec": _TEMPLATE["spec"]},
                    }
                ],
                "podCliqueScalingGroups": [{"name": "g", "cliqueNames": ["a"], "replicas": 2, "minAvailable": 1}],
            },
        },
    ),
    _object("batch/v1", "Job", {"parallelism": 4, "completions": 4, "template": _annotated(**_KAI)}, **_KAI),
    _object("batch/v1", "Job", {"parallelism": 4, "template": _annotated(**_KUEUE)}),
    _object(
        "scheduling.run.ai/v2alpha2",
        "PodGroup",
        {
            "minMember": 4,
            "subGroups": [{"name": "a", "minMember": 2}, {"name": "b", "minMember": 2, "parent": "a"}],
            "topologyConstraint": {"topology": "gpu", "requiredTopologyLevel": RACK_KEY},
        },
    ),
    _object(
        "kueue.x-k8s.io/v1beta1",
        "Workload",
        {"podSets": [{"name": "main", "count": 4, "template": _TEMPLATE, "topologyRequest": {"required": RACK_KEY}}]},
    ),
    _object(
        "kubeflow.org/v1",
        "PyTorchJob",
        {"pytorchReplicaSpecs": {"Worker": {"replicas": 3, "template": _annotated(**_KAI)}}},
        **_KAI,
    ),
    _object(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        {"replicas": 2, "leaderWorkerTemplate": {"size": 3, "workerTemplate": _TEMPLATE, "leaderTemplate": _TEMPLATE}},
        **{"leaderworkerset.sigs.k8s.io/exclusive-topology": RACK_KEY},
    ),
    _object(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        {"replicatedJobs": [{"name": "j", "replicas": 2, "template": {"spec": _JOB}}]},
        **{"alpha.jobset.sigs.k8s.io/exclusive-topology": RACK_KEY},
    ),
    {
        "workflow": {
            "name": "llm",
            "resources": {"shard": {"gpu": 8, "topology": [{"key": "rack", "group": "a", **_REQUIRED}]}},
            "groups": [{"name": "train", "tasks": [{"name": "t", "image": "python", "resource": "shard"}]}],
        }
    },
    {"pools": {"p": {"backend": "default", "topology_keys": [{"key": "rack", "label": RACK_KEY}]}}},
    {"levels": [RACK_KEY, "kubernetes.io/hostname"], "name": "default-topology", "clusterId": "71f69d83"},
    _object("kai.scheduler/v1alpha1", "Topology", {"levels": [{"nodeLabel": RACK_KEY, "alias": "rack"}]}),
    _object("kueue.x-k8s.io/v1beta1", "Topology", {"levels": [{"nodeLabel": RACK_KEY}]}),
    _object("kueue.x-k8s.io/v1beta1", "ResourceFlavor", {"topologyName": "gpu", "nodeLabels": {"pool": "a"}}),
    _object("apps/v1", "Deployment", {"replicas": 3, "template": _TEMPLATE}),
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": _TEMPLATE["spec"]},
)  # fmt: skip
WORDS: Final = (
    "rack", "block", "host", RACK_KEY, BLOCK_KEY, "gpu", "8", "500m", "1e3", "1Ei", "-1", "2147483648", "required",
    "preferred", "In", "Gt", "Exists", "NoSchedule", "PodCliqueSet", "Job", "grove.io/v1alpha1", "batch/v1",
)  # fmt: skip
"""What may stand in such manifests."""
