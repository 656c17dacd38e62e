"""Messages of schedulers and what they mean."""

import pytest

from toposcope.explain.diagnosis import meaning


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            (
                "0/30 nodes are available: 18 Insufficient nvidia.com/gpu, 4 node(s) had untolerated taint "
                "{nvidia.com/gpu: present}, 8 node(s) didn't match Pod's node affinity/selector. "
                "preemption: 0/30 nodes are available: 30 Preemption is not helpful for scheduling."
            ),
            (
                "of 30 nodes, 18 have too little free nvidia.com/gpu, 4 have taint nvidia.com/gpu: present, which the "
                "pod does not tolerate, 8 do not match the pod's node selector or affinity"
            ),
        ),
        (
            "0/2 nodes are available: 1 node(s) were unschedulable, 1 node(s) didn't match pod anti-affinity rules.",
            "of 2 nodes, 1 are cordoned, 1 run pods that this one must avoid (anti-affinity)",
        ),
        (
            "Requested topology clutser does not exist",
            "KAI has no Topology clutser; kubectl get topologies.kai.scheduler lists those it has",
        ),
        (
            'topology "default" allows to fit only 2 out of 4 pod(s)',
            "the best domain of topology default has room for 2 of the 4 pods, and they have to stay together",
        ),
        (
            'there is no Topology "default" for TAS flavor "h2"',
            (
                "ResourceFlavor h2 names Topology default, which does not exist; the ClusterQueue admits nothing until "
                "it does"
            ),
        ),
        (
            "insufficient unused quota for nvidia.com/gpu in flavor h200, 8 more needed",
            (
                "the queue's quota of nvidia.com/gpu in flavor h200 is used up (8 more needed), however much is free "
                "on the nodes"
            ),
        ),
        (
            "spec.template: Forbidden: topology constraints are not allowed when Topology Aware Scheduling is disabled",
            "Grove's webhook rejects the PodCliqueSet: its topology-aware scheduling is disabled",
        ),
        (
            'Node "n1" does not have required topology label "example.com/rack"; topology is unknown',
            "node n1 lacks the label example.com/rack, so Dynamo cannot tell its pods where they run; label it",
        ),
        (
            "KAI Topology levels differ from ClusterTopologyBinding levels",
            "KAI's Topology has other levels than the binding; whoever created it has to recreate it",
        ),
        ("0/3 nodes are available: 3 reasons unknown to us.", ""),
        ("something else", ""),
        ("", ""),
    ],
)
def test_the_meaning_of_a_message(text: str, expected: str) -> None:
    assert meaning(text) == expected
