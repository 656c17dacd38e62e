"""Schedulers' words and what they mean."""

import pytest

from toposcope.explain.scheduler_messages import meaning


@pytest.mark.parametrize(
    ("text", "means"),
    [
        (
            (
                "0/30 nodes are available: 18 Insufficient nvidia.com/gpu, 4 node(s) had untolerated taint "
                "{nvidia.com/gpu: present}, 8 node(s) didn't match Pod's node affinity/selector. "
                "preemption: 0/30 nodes are available: 30 Preemption is not helpful for scheduling."
            ),
            (
                "of 30 nodes 18 have too little free nvidia.com/gpu, 4 have taint nvidia.com/gpu: present, which the "
                "pod does not tolerate, 8 are not those that the pod's node selector or affinity asks for"
            ),
        ),
        (
            "0/2 nodes are available: 1 node(s) were unschedulable, 1 node(s) didn't match pod anti-affinity rules.",
            "of 2 nodes 1 are cordoned, 1 hold pods that this one must not be near (anti-affinity)",
        ),
        (
            "Requested topology clutser does not exist",
            "KAI has no Topology clutser; kubectl get topologies.kai.scheduler lists those that it has",
        ),
        (
            'topology "default" allows to fit only 2 out of 4 pod(s)',
            "the best domain of topology default has room for 2 of the 4 pods, and they have to be together",
        ),
        (
            'there is no Topology "default" for TAS flavor "h2"',
            "ResourceFlavor h2 names Topology default, which is not there; the ClusterQueue takes nothing until it is",
        ),
        (
            "insufficient unused quota for nvidia.com/gpu in flavor h200, 8 more needed",
            (
                "the queue's quota of nvidia.com/gpu in flavor h200 is used up (8 more needed); room on the nodes is "
                "another matter"
            ),
        ),
        (
            "spec.template: Forbidden: topology constraints are not allowed when Topology Aware Scheduling is disabled",
            "Grove's webhook refuses the PodCliqueSet: its topology-aware scheduling is switched off",
        ),
        (
            'Node "n1" does not have required topology label "example.com/rack"; topology is unknown',
            "node n1 lacks the label example.com/rack, so its pods do not learn from Dynamo where they are; label it",
        ),
        (
            "KAI Topology levels differ from ClusterTopologyBinding levels",
            "KAI goes by other levels than the binding says; whoever wrote KAI's Topology has to make it anew",
        ),
        ("0/3 nodes are available: 3 something that nobody has heard of.", ""),
        ("something else", ""),
        ("", ""),
    ],
)
def test_words(text: str, means: str) -> None:
    assert meaning(text) == means
