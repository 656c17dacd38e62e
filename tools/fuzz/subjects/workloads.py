"""Manifests of workloads, for every system that `toposcope check` knows."""

import io
from string import Template
from typing import Any, Final

import msgspec
import yaml
from hypothesis import strategies as st

from tools.fuzz.subject import Outcome, Subject, refusal, spoiled
from toposcope.api.label_keys import GPUS, HOSTNAME
from toposcope.placement.check import Checker
from toposcope.placement.sentences import answer
from toposcope.simulator.cluster import BLOCK_KEY, RACK_KEY
from toposcope.snapshot.files import load_files

_TEXT: Final = """\
templates:
- &spec
  nodeSelector: {pool: a}
  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
  containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8", cpu: 500m}}}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [a]}]}]
- &template {metadata: {annotations: {}, labels: {app: x}}, spec: *spec}
- &kai
  kai.scheduler/topology: gpu
  kai.scheduler/topology-required-placement: $BLOCK
  kai.scheduler/topology-preferred-placement: $RACK
- &kaiTemplate {metadata: {annotations: *kai}, spec: *spec}
- &kueue
  kueue.x-k8s.io/podset-required-topology: $RACK
  kueue.x-k8s.io/podset-slice-required-topology: $RACK
  kueue.x-k8s.io/podset-slice-size: "2"
- &on {clusterTopologyName: gpu, packDomain: rack}
- &metadata {name: w, namespace: ml, annotations: {}, labels: {}}
- &withKai {name: w, namespace: ml, annotations: *kai, labels: {}}
samples:
- apiVersion: nvidia.com/v1alpha1
  kind: DynamoGraphDeployment
  metadata: *metadata
  spec:
    topologyConstraint: {topologyProfile: gpu, packDomain: block}
    services:
      decode:
        replicas: 2
        multinode: {nodeCount: 2}
        resources: {limits: {gpu: "8"}}
        topologyConstraint: {topologyProfile: gpu, packDomain: rack}
- apiVersion: nvidia.com/v1beta1
  kind: DynamoGraphDeployment
  metadata: *metadata
  spec:
    topologyConstraint: *on
    components: [{name: decode, replicas: 2, podTemplate: *template, topologyConstraint: *on}]
- apiVersion: grove.io/v1alpha1
  kind: PodCliqueSet
  metadata: *metadata
  spec:
    replicas: 1
    template:
      topologyConstraint: {topologyName: gpu, pack: {required: block, preferred: rack}}
      cliques:
      - name: a
        topologyConstraint: {packDomain: rack}
        spec: {roleName: a, replicas: 2, minAvailable: 1, podSpec: *spec}
      podCliqueScalingGroups: [{name: g, cliqueNames: [a], replicas: 2, minAvailable: 1}]
- apiVersion: batch/v1
  kind: Job
  metadata: *withKai
  spec: {parallelism: 4, completions: 4, template: *kaiTemplate}
- apiVersion: batch/v1
  kind: Job
  metadata: *metadata
  spec: {parallelism: 4, template: {metadata: {annotations: *kueue}, spec: *spec}}
- apiVersion: scheduling.run.ai/v2alpha2
  kind: PodGroup
  metadata: *metadata
  spec:
    minMember: 4
    subGroups: [{name: a, minMember: 2}, {name: b, minMember: 2, parent: a}]
    topologyConstraint: {topology: gpu, requiredTopologyLevel: $RACK}
- apiVersion: kueue.x-k8s.io/v1beta1
  kind: Workload
  metadata: *metadata
  spec: {podSets: [{name: main, count: 4, template: *template, topologyRequest: {required: $RACK}}]}
- apiVersion: kubeflow.org/v1
  kind: PyTorchJob
  metadata: *withKai
  spec: {pytorchReplicaSpecs: {Worker: {replicas: 3, template: *kaiTemplate}}}
- apiVersion: leaderworkerset.x-k8s.io/v1
  kind: LeaderWorkerSet
  metadata: {name: w, namespace: ml, annotations: {leaderworkerset.sigs.k8s.io/exclusive-topology: $RACK}, labels: {}}
  spec: {replicas: 2, leaderWorkerTemplate: {size: 3, workerTemplate: *template, leaderTemplate: *template}}
- apiVersion: jobset.x-k8s.io/v1alpha2
  kind: JobSet
  metadata: {name: w, namespace: ml, annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: $RACK}, labels: {}}
  spec: {replicatedJobs: [{name: j, replicas: 2, template: {spec: {parallelism: 2, template: *template}}}]}
- workflow:
    name: llm
    resources: {shard: {gpu: 8, topology: [{key: rack, group: a, requirementType: required}]}}
    groups: [{name: train, tasks: [{name: t, image: python, resource: shard}]}]
- pools: {p: {backend: default, topology_keys: [{key: rack, label: $RACK}]}}
- {levels: [$RACK, kubernetes.io/hostname], name: default-topology, clusterId: 71f69d83}
- apiVersion: kai.scheduler/v1alpha1
  kind: Topology
  metadata: *metadata
  spec: {levels: [{nodeLabel: $RACK, alias: rack}]}
- {apiVersion: kueue.x-k8s.io/v1beta1, kind: Topology, metadata: *metadata, spec: {levels: [{nodeLabel: $RACK}]}}
- apiVersion: kueue.x-k8s.io/v1beta1
  kind: ResourceFlavor
  metadata: *metadata
  spec: {topologyName: gpu, nodeLabels: {pool: a}}
- {apiVersion: apps/v1, kind: Deployment, metadata: *metadata, spec: {replicas: 3, template: *template}}
- {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: *spec}
"""

SAMPLES: Final[tuple[dict[str, Any], ...]] = tuple(
    yaml.safe_load(Template(_TEXT).substitute(RACK=RACK_KEY, BLOCK=BLOCK_KEY))["samples"]
)
WORDS: Final = (
    "rack", "block", "host", RACK_KEY, BLOCK_KEY, "gpu", "8", "500m", "1e3", "1Ei", "-1", "2147483648", "required",
    "preferred", "In", "Gt", "Exists", "NoSchedule", "PodCliqueSet", "Job", "grove.io/v1alpha1", "batch/v1",
)  # fmt: skip
"""What may stand in such manifests."""


def cluster() -> bytes:
    """A small cluster as a file: two blocks of two racks of two nodes."""
    metadata = [
        {"name": f"n{i}", "labels": {GPUS: "8", BLOCK_KEY: f"b{i // 4}", RACK_KEY: f"r{i // 2}", HOSTNAME: f"n{i}"}}
        for i in range(8)
    ]
    status = {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": about, "status": status} for about in metadata]
    domains = {"block": BLOCK_KEY, "rack": RACK_KEY, "host": HOSTNAME}
    topology = {
        "apiVersion": "gpu.topology/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": "gpu"},
        "spec": {"levels": [{"domain": domain, "key": key} for domain, key in domains.items()]},
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}}
    return msgspec.json.encode({"kind": "List", "items": [*nodes, topology, pod]})


_CHECKER: Final = Checker(load_files(["-"], io.BytesIO(cluster())))


def attempt(case: Any) -> Outcome:
    """Findings in words and a verdict in words, whatever the document holds."""
    if not isinstance(case, dict):
        return "refused"  # the reader of files says so
    outcome: Outcome = "taken"
    for checked in _CHECKER.check(case):
        for finding in checked.reading.findings:
            refusal(f"{finding.field or 'the document'}: {finding.message} {finding.fix}")
        if checked.errors:
            outcome = "refused"
        if checked.verdict:
            answer(checked.verdict)
    return outcome


WORKLOADS: Final = Subject(
    "workloads",
    "a manifest gets findings in words and a verdict, never a traceback",
    st.one_of(
        spoiled(SAMPLES, *WORDS),
        st.dictionaries(st.sampled_from(["apiVersion", "kind", "metadata", "spec", "items"]), spoiled(SAMPLES, *WORDS)),
    ),
    attempt,
)
