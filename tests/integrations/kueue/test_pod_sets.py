"""What Kueue keeps together of a workload: pod sets, slices of them, groups of two."""

import json

import pytest
from tests.integrations.clusters import CLUSTER, NOTHING_KNOWN, TWO_TOPOLOGIES_WITH_RACKS, ZONES_AND_RACKS_APART
from tests.integrations.kueue.annotations import (
    PREFERRED,
    REQUIRED,
    SLICE_LAYERS,
    SLICE_LEVEL,
    SLICE_SIZE,
    UNCONSTRAINED,
)
from tests.support.checking import Read, error, read, warning
from tests.support.documents import Edits, document, text
from toposcope.integrations.framework.system import ClusterFacts

pytestmark = pytest.mark.regression

FLAVORS_UNKNOWN = "the queue's flavors are not known: their nodes, taints and quota are not checked"
TOTAL_COUNT = "metadata.annotations[kueue.x-k8s.io/pod-group-total-count]"
LEVELS_FIRST = "room is not checked until the levels are right"
IN_ONE_RACK = text("""
    Kueue job/train -n ml on cluster
      train
        pod set pods: required rack; 8 pods (nvidia.com/gpu=8)
""")


def layers(**sizes: int) -> str:
    """Slice layers as the annotation has them: pods by domain, in this order."""
    keys = {"zone": "topology.kubernetes.io/zone", "rack": "example.com/rack", "host": "kubernetes.io/hostname"}
    return json.dumps([{"topology": keys[domain], "size": size} for domain, size in sizes.items()])


def read_kueue(name: str, edits: Edits | None = None, *, cluster: ClusterFacts = CLUSTER) -> Read:
    return read("Kueue", document(f"kueue/{name}", edits), cluster)


def test_pod_set_requires_one_rack() -> None:
    answer = read_kueue("job")
    assert answer.findings == []
    assert answer.workload == IN_ONE_RACK
    assert answer.notes == [FLAVORS_UNKNOWN]


def test_pod_set_prefers_one_rack() -> None:
    answer = read_kueue("job", {REQUIRED: None, PREFERRED: "example.com/rack"})
    assert answer.findings == []
    assert answer.workload == text("""
        Kueue job/train -n ml on cluster
          train
            pod set pods: preferred rack; 8 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == [FLAVORS_UNKNOWN]


def test_unconstrained_pod_set_asks_for_no_level() -> None:
    answer = read_kueue("job", {REQUIRED: None, UNCONSTRAINED: "true"})
    assert answer.findings == []
    assert answer.workload == text("""
        Kueue job/train -n ml
          train
            pod set pods: 8 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == [FLAVORS_UNKNOWN]


def test_slices_are_kept_together_inside_the_pod_set() -> None:
    answer = read_kueue(
        "job", {REQUIRED: "topology.kubernetes.io/zone", SLICE_LEVEL: "example.com/rack", SLICE_SIZE: "4"}
    )
    assert answer.findings == []
    assert answer.workload == text("""
        Kueue job/train -n ml on cluster
          train
            pod set pods: required zone
              2 x slice of pods: required rack; 4 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == [FLAVORS_UNKNOWN]


def test_slices_may_have_slices() -> None:
    answer = read_kueue("job", {"spec.parallelism": 16, REQUIRED: None, SLICE_LAYERS: layers(zone=8, rack=4, host=2)})
    assert answer.findings == []
    assert answer.workload == text("""
        Kueue job/train -n ml on cluster
          train
            pod set pods
              2 x slice of pods: required zone
                2 x slice of pods: required rack
                  2 x slice of pods: required host; 2 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == [FLAVORS_UNKNOWN]


def test_jobs_of_a_kind_are_one_pod_set() -> None:
    answer = read_kueue("jobset")
    assert answer.findings == []
    assert answer.workload == text("""
        Kueue jobset/train -n ml on cluster
          train
            pod set workers: required zone
              3 x slice of workers: required rack; 4 workers (nvidia.com/gpu=8)
    """)
    assert answer.notes == [FLAVORS_UNKNOWN]


def test_leader_and_workers_of_one_group_share_a_domain() -> None:
    answer = read_kueue("leaderworkerset")
    assert answer.findings == []
    assert answer.workload == text("""
        Kueue leaderworkerset/train -n ml on cluster
          3 x train
            pod set group one: required rack; 1 leader (nvidia.com/gpu=1); 4 worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == [FLAVORS_UNKNOWN]


def test_pod_of_a_group_counts_for_the_whole_group() -> None:
    answer = read_kueue("pod")
    assert answer.findings == []
    assert answer.workload == text("""
        Kueue pod/train -n ml on cluster
          train
            pod set pod group: required rack; 6 pod (nvidia.com/gpu=8)
    """)
    assert answer.notes == ["counted as 6 pods like this one: the whole pod group", FLAVORS_UNKNOWN]


def test_group_count_that_is_no_number_is_refused() -> None:
    answer = read_kueue("pod", {TOTAL_COUNT: "six"})
    assert answer.findings == [
        error(
            "kueue/pod-group",
            TOTAL_COUNT,
            "must be the number of pods in the group",
            fix="set kueue.x-k8s.io/pod-group-total-count to a whole number in quotes",
        )
    ]
    assert answer.workload == text("""
        Kueue pod/train -n ml on cluster
          train
            pod set pod: required rack; 1 pod (nvidia.com/gpu=8)
    """)
    assert answer.notes == [FLAVORS_UNKNOWN]


def test_workload_has_several_pod_sets() -> None:
    answer = read_kueue("workload")
    assert answer.findings == []
    assert answer.workload == text("""
        Kueue workload/train -n ml on cluster
          train
            pod set a: required zone
              2 x slice of a: required rack; 4 a (nvidia.com/gpu=8)
            pod set b
              2 x slice of b: required rack; 2 b (nvidia.com/gpu=8)
            pod set c: 2 c (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_each_pod_of_a_deployment_is_alone() -> None:
    answer = read_kueue("deployment")
    assert answer.findings == [
        warning(
            "kueue/each-pod-alone",
            REQUIRED,
            "Kueue admits each pod of a Deployment separately, so this keeps no pods together",
            fix="use a StatefulSet, Job or LeaderWorkerSet for pods that belong together",
        )
    ]
    assert answer.workload == text("""
        Kueue deployment/train -n ml on cluster
          3 x pod
            pod set pods: required rack; 1 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == [FLAVORS_UNKNOWN]


def test_each_topology_with_the_level_may_be_meant() -> None:
    answer = read_kueue("job", cluster=TWO_TOPOLOGIES_WITH_RACKS)
    assert answer.findings == []
    assert answer.workload == text("""
        Kueue job/train -n ml on a
          train
            pod set pods: required rack; 8 pods (nvidia.com/gpu=8)
        or on c
    """)
    assert answer.notes == ["the ResourceFlavor decides which topology it is: a, c", FLAVORS_UNKNOWN]


def test_levels_of_two_topologies_are_warned_of() -> None:
    answer = read_kueue(
        "job",
        {REQUIRED: "topology.kubernetes.io/zone", SLICE_LEVEL: "example.com/rack", SLICE_SIZE: "2"},
        cluster=ZONES_AND_RACKS_APART,
    )
    assert answer.findings == [
        warning(
            "kueue/one-topology",
            SLICE_LEVEL,
            "no topology has all of these levels: topology.kubernetes.io/zone, example.com/rack",
            fix="name levels of one topology; only pod sets that get flavors of their own can be on several",
        )
    ]
    assert answer.workload == text("""
        Kueue job/train -n ml, not placeable
          train
            pod set pods: 8 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == [LEVELS_FIRST]


def test_room_without_known_topology_is_not_checked() -> None:
    answer = read_kueue("job", cluster=NOTHING_KNOWN)
    assert answer.findings == []
    assert answer.workload == text("""
        Kueue job/train -n ml, not placeable
          train
            pod set pods: 8 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == ["no topology is known, so levels and room are not checked"]


@pytest.mark.parametrize(
    "edits",
    [
        pytest.param(
            {"metadata.labels": None, "spec.template.metadata.annotations": None}, id="no-queue-and-no-annotation"
        ),
        pytest.param({"": {}}, id="empty"),
        pytest.param({"": {"kind": "Job"}}, id="no-version"),
        pytest.param(
            {
                "": {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": "train", "annotations": {"kueue.x-k8s.io/podset-required-topology": "x"}},
                }
            },
            id="config-map",
        ),
    ],
)
def test_document_of_others_is_not_read(edits: Edits) -> None:
    answer = read_kueue("job", edits)
    assert not answer.is_claimed
