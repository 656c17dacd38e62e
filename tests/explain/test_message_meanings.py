"""What each message of a scheduler means; where no meaning is known, the message is shown as it is."""

import gzip
import json
import re

import pytest
from tests.support.paths import FIXTURES
from toposcope.explain.meanings import meaning

MESSAGES = [
    pytest.param(
        (
            "0/30 nodes are available: 18 Insufficient nvidia.com/gpu, 4 node(s) had untolerated taint "
            "{nvidia.com/gpu: present}, 8 node(s) didn't match Pod's node affinity/selector. preemption: 0/30 "
            "nodes are available: 30 Preemption is not helpful for scheduling."
        ),
        (
            "of 30 nodes, 18 have too little free nvidia.com/gpu, 4 have taint nvidia.com/gpu: present, which "
            "the pod does not tolerate, 8 do not match the pod's node selector or affinity"
        ),
        id="nodes-and-taint",
    ),
    pytest.param(
        "0/2 nodes are available: 1 node(s) were unschedulable, 1 node(s) didn't match pod anti-affinity rules.",
        "of 2 nodes, 1 are cordoned, 1 run pods that this one must avoid (anti-affinity)",
        id="cordoned-and-anti-affinity",
    ),
    pytest.param(
        "Unable to schedule podgroup (queue parent has children)",
        "queue parent has queues below it, and KAI schedules nothing that is in it: name one of those",
        id="kai-queue-with-children",
    ),
    pytest.param(
        (
            "Resources were not found for pod ml/hp-0 due to: no nodes with enough resources were found: "
            "2 node(s) didn't have free ports for the requested pod ports."
        ),
        "no node fits pod ml/hp-0; nodes: 2 where a host port of the pod is taken",
        id="kai-host-port",
    ),
    pytest.param(
        "Requested topology clutser does not exist",
        "KAI has no Topology clutser; kubectl get topologies.kai.scheduler lists those it has",
        id="kai-topology-missing",
    ),
    pytest.param(
        (
            "all quota has reached the allowable limit of GPUs. Limit is 8 GPUs, currently 0 GPUs allocated "
            "and workload requested 16 GPUs"
        ),
        (
            "queue all has no room below its limit for GPUs: raise spec.resources.*.limit, or wait for its "
            "other workloads"
        ),
        id="kai-queue-limit",
    ),
    pytest.param(
        (
            "Non-preemptible workload is over quota. Workload requested 16 GPUs, but team quota is 8 GPUs, "
            "while 0 GPUs are already allocated for non-preemptible pods. Use a preemptible workload to go "
            "over quota."
        ),
        (
            "queue team has too little quota left for workloads that are not preemptible: raise "
            "spec.resources.*.quota, or use a priority class below 100 (train)"
        ),
        id="kai-queue-quota",
    ),
    pytest.param(
        "Queue 'tema' does not exist",
        "KAI has no queue tema, or none above it; kubectl get queues.scheduling.run.ai",
        id="kai-queue-missing",
    ),
    pytest.param(
        'topology "default" allows to fit only 2 out of 4 pod(s)',
        "in topology default there is room for 2 of the 4 pods where they have to be; see room for what is missing",
        id="kueue-fits-some-pods",
    ),
    pytest.param(
        'there is no Topology "default" for TAS flavor "h2"',
        (
            "ResourceFlavor h2 names Topology default, which does not exist; the ClusterQueue admits nothing "
            "until it does"
        ),
        id="kueue-topology-missing",
    ),
    pytest.param(
        "insufficient unused quota for nvidia.com/gpu in flavor h200, 8 more needed",
        (
            "the queue's quota of nvidia.com/gpu in flavor h200 is used up (8 more needed), however much is "
            "free on the nodes"
        ),
        id="kueue-quota-used",
    ),
    pytest.param(
        "spec.template: Forbidden: topology constraints are not allowed when Topology Aware Scheduling is disabled",
        "Grove's webhook rejects the PodCliqueSet: its topology-aware scheduling is disabled",
        id="grove-topology-disabled",
    ),
    pytest.param(
        'Node "n1" does not have required topology label "example.com/rack"; topology is unknown',
        "node n1 lacks the label example.com/rack, so Dynamo cannot tell its pods where they run; label it",
        id="dynamo-node-label",
    ),
    pytest.param(
        "KAI Topology levels differ from ClusterTopologyBinding levels",
        "KAI's Topology has other levels than the binding; whoever created it has to recreate it",
        id="grove-kai-levels-differ",
    ),
    pytest.param(
        (
            "Unable to schedule podgroup: node-group b0 can allocate only 3 of 7 required pods. \nnode-group "
            "b1 can allocate only 4 of 7 required pods. \ntopology cluster, requirement example.com/block "
            "couldn't be satisfied for job <ml/pg-train>."
        ),
        (
            "no domain of example.com/block takes 7 pods at once, each counted as the largest: the best of 2, "
            "b1, takes 4; free nodes in one of them, or request fewer pods or a broader level"
        ),
        id="kai-no-domain-for-pods",
    ),
    pytest.param(
        (
            "Unable to schedule podgroup: node-group b0 can allocate only 0 of 1 required pods. \ntopology "
            "cluster, requirement  couldn't be satisfied for job <ml/pg-train>, subgroup a."
        ),
        (
            "no domain takes a pod: the best of 1, b0, takes 0; free nodes in one of them, or request fewer pods or "
            "a broader level"
        ),
        id="kai-no-domain-for-a-pod",
    ),
    pytest.param(
        (
            "PodSchedulingErrors: topology cluster, requirement example.com/block couldn't be satisfied for "
            "job <ml/train>, subgroup m0: not enough resources in the cluster to allocate the job."
        ),
        (
            "the cluster has too little room for sub-group m0 on any of its nodes (KAI counts each pod as the "
            "largest): free nodes, or request fewer pods"
        ),
        id="kai-cluster-too-small",
    ),
    pytest.param(
        (
            "PodSchedulingErrors: topology cluster, requirement example.com/block couldn't be satisfied for "
            "job <ml/train>."
        ),
        "KAI finds no domain of example.com/block for it",
        id="kai-no-domain-at-all",
    ),
    pytest.param(
        (
            "PodSchedulingErrors: Resources were found for 3 pods while 5 are required for gang scheduling. "
            "Additional pods cannot be scheduled due to: no nodes with enough resources were found: 1 node is "
            "unschedulable. \n1 node has NotReady condition. \n2 node(s) had untolerated taint(s). \n1 "
            "node(s) didn't have enough resources: pods. \n2 node(s) didn't match Pod's node "
            "affinity/selector. \n7 node(s) didn't have enough resources: GPUs.."
        ),
        (
            "KAI finds nodes for 3 of the 5 pods that start together: free nodes, or lower minMember; nodes: "
            "1 cordoned, 1 not Ready, 2 with a taint that the pod does not tolerate, 1 at their pod limit, 2 "
            "that its node selector or affinity excludes, 7 with too little free GPUs"
        ),
        id="kai-gang-reasons",
    ),
    pytest.param(
        (
            "Resources were found for 21 pods from all sub-groups while sub-group s0 requires 32 pods for "
            "gang scheduling. Additional pods cannot be scheduled in this sub-group due to: Unable to "
            "schedule pod"
        ),
        (
            "sub-group s0 needs 32 pods at once, but KAI finds nodes for only 21 pods in total: free "
            "nodes, or lower its minMember"
        ),
        id="kai-sub-group",
    ),
    pytest.param(
        "Resources were not found for pod ml/train-3 due to: no nodes with enough resources were found: 4 reasons.",
        "no node fits pod ml/train-3",
        id="kai-pod-reasons",
    ),
    pytest.param(
        "Job is not ready for scheduling. Waiting for 5 pods, currently 4 exist, 0 are gated",
        "the gang needs 5 pods and has 4: create the missing pods, or lower minMember",
        id="kai-too-few-pods",
    ),
    pytest.param(
        (
            "couldn't assign flavors to pod set s0: topology \"t\" doesn't allow to fit; 0/1 slice(s) fit on "
            "level a.b/rack; 3/4 slice(s) fit on level kubernetes.io/hostname. Total nodes: 10; excluded: "
            'nodeSelector: 7, resource "nvidia.com/gpu": 2, taint "x=y:NoExecute": 1, taint "x=y:NoSchedule": '
            "3"
        ),
        (
            "no domain of topology t has room for the slices at all of their levels; see room for what is "
            "missing; level a.b/rack: room for 0 slices in the best domain, 1 needed; level "
            "kubernetes.io/hostname: room for 3 slices in the best domain, 4 needed; nodes that do not match "
            "the pods' nodeSelector: 7; nodes with taint x=y:NoExecute, which neither the pods nor the "
            "ResourceFlavor tolerate: 1; nodes with taint x=y:NoSchedule, which neither the pods nor the "
            "ResourceFlavor tolerate: 3; nodes with too little free nvidia.com/gpu for one pod: 2"
        ),
        id="kueue-slices",
    ),
    pytest.param(
        'Flavor "cpu" does not support TopologyAwareScheduling, Flavor "gpu" supports only TopologyAwareScheduling',
        (
            "ResourceFlavor cpu has no topology, so it takes no pods that ask for a level; set its "
            "spec.topologyName; ResourceFlavor gpu has a topology, so it takes only pods that ask for one: "
            "annotate the pod template with kueue.x-k8s.io/podset-unconstrained-topology or a level"
        ),
        id="kueue-flavors",
    ),
    pytest.param(
        (
            "insufficient quota for nvidia.com/gpu in flavor h200, previously considered podsets requests (0) "
            "+ current podset request (80) > maximum capacity (64)"
        ),
        (
            "it asks for more nvidia.com/gpu than the queue can ever have of flavor h200 (64); ask for less, "
            "or raise nominalQuota or the borrowing limit"
        ),
        id="kueue-quota-never",
    ),
    pytest.param(
        "untolerated taint {gpu  NoSchedule <nil>} in flavor h200, resource rdma/ib unavailable in ClusterQueue",
        (
            "the ClusterQueue covers no rdma/ib; add it to coveredResources of a resource group, with a "
            "quota; the pods do not tolerate taint {gpu  NoSchedule <nil>} of ResourceFlavor h200; add the "
            "toleration to them or to the flavor"
        ),
        id="kueue-taint-and-resource",
    ),
    pytest.param(
        "Workload was evicted as there was no replacement for unhealthy node(s): n1,n2",
        "node n1,n2 failed, and no other node of the domain that the pods have to share had room; Kueue requeues it",
        id="kueue-failed-nodes",
    ),
    pytest.param(
        (
            "PodCliqueSet topology constraint domain 'host' is narrower than PodClique 'prefill' topology "
            "constraint domain 'rack'"
        ),
        (
            "PodCliqueSet has to stay in one host, and PodClique 'prefill', which is a part of it, in one "
            "rack: ask for rack or something broader on the whole, or for host or something narrower on the "
            "part"
        ),
        id="grove-narrower",
    ),
    pytest.param(
        "topology domain 'rak' does not exist in cluster topology [zone rack]",
        "the ClusterTopologyBinding has no level rak; it has zone rack",
        id="grove-level-missing",
    ),
    pytest.param(
        'PodCliqueSet topology constraint cannot be changed from required="rack" preferred=""',
        "the constraints of a PodCliqueSet are immutable: delete and recreate it",
        id="grove-immutable",
    ),
    pytest.param(
        'schedulerName "volcano" is not enabled in OperatorConfiguration',
        "Grove's operator has no scheduler profile of that name; constraints need kai-scheduler",
        id="grove-scheduler-off",
    ),
    pytest.param(
        "no KAI queue is configured on PodCliqueSet ml/llm or its PodClique templates",
        "label the PodCliqueSet with kai.scheduler/queue",
        id="grove-queue-missing",
    ),
    pytest.param("0/3 nodes are available: 3 reasons unknown to us.", "", id="unknown-reasons"),
    pytest.param("something else", "", id="unknown"),
    pytest.param("", "", id="empty"),
]


@pytest.mark.regression
@pytest.mark.parametrize(("message", "expected"), MESSAGES)
def test_message_of_a_scheduler_has_this_meaning(message: str, expected: str) -> None:
    assert meaning(message) == expected


def recorded_messages() -> set[str]:
    """All messages of Kueue in its recorded answers."""
    recorded = json.loads(gzip.decompress((FIXTURES / "answers" / "kueue.json.gz").read_bytes()))
    messages = set()
    for state in recorded["states"]:
        for case in state["cases"]:
            messages.add(case.get("message", ""))
    return messages - {""}


@pytest.mark.regression
def test_every_recorded_message_of_kueue_has_a_meaning() -> None:
    messages = recorded_messages()
    assert len(messages) > 100
    without_meaning = [message for message in messages if not meaning(message)]
    assert without_meaning == []


@pytest.mark.regression
def test_meaning_of_a_kueue_message_names_each_count_of_excluded_nodes() -> None:
    for message in recorded_messages():
        excluded = message.partition("; excluded: ")[2]
        counts = re.findall(r": \d+(?:,|$)", excluded)
        assert meaning(message).count("nodes ") == len(counts), message
