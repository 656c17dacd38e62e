"""KAI's annotations on Jobs and others: topology, required and preferred level."""

import pytest
from tests.integrations.clusters import CLUSTER, SHELF_IS_RACK
from tests.integrations.kai.annotations import (
    JOB_IN_ONE_RACK,
    JOB_IS_NO_GANG,
    MIN_MEMBER,
    NO_LEVEL,
    PREFERRED,
    REPLICATED_JOB_REQUIRED,
    REPLICATED_JOB_TOPOLOGY,
    REQUIRED,
    SET_MIN_MEMBER,
)
from tests.support.checking import Read, error, read, warning
from tests.support.documents import Edits, document, text
from toposcope.integrations.framework.system import ClusterFacts

pytestmark = pytest.mark.regression

TOPOLOGY = "metadata.annotations[kai.scheduler/topology]"
LEVELS_FIRST = "room is not checked until the levels are right"
SET_A_LEVEL = (
    "set metadata.annotations[kai.scheduler/topology-required-placement] or "
    "metadata.annotations[kai.scheduler/topology-preferred-placement], or remove the topology "
    "here"
)
JOB_WITHOUT_LEVELS = text("""
    KAI job/train -n ml, one by one, not placeable
      train: 4 pods (nvidia.com/gpu=8)
""")


def read_kai(name: str, edits: Edits | None = None, *, cluster: ClusterFacts = CLUSTER) -> Read:
    return read("KAI", document(f"kai/{name}", edits), cluster)


def test_job_requires_its_zone_and_prefers_a_rack() -> None:
    answer = read_kai("job", {REQUIRED: "topology.kubernetes.io/zone", PREFERRED: "example.com/rack"})
    assert answer.findings == []
    assert answer.workload == text("""
        KAI job/train -n ml on cluster, a gang
          train: required zone, preferred rack; 4 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_alias_names_a_level() -> None:
    answer = read_kai("job", {REQUIRED: "shelf"}, cluster=SHELF_IS_RACK)
    assert answer.findings == []
    assert answer.workload == JOB_IN_ONE_RACK
    assert answer.notes == []


def test_misspelt_alias_is_refused() -> None:
    answer = read_kai("job", {REQUIRED: "shelv", MIN_MEMBER: None}, cluster=SHELF_IS_RACK)
    assert answer.findings == [
        error(
            "kai/level-exists",
            REQUIRED,
            (
                "topology constraint error: workload specified 'shelv' as the required topology constraint "
                "level, but the topology tree 'cluster' does not contain a level with this name"
            ),
            fix="did you mean 'shelf'?",
        )
    ]
    assert answer.workload == text("""
        KAI job/train -n ml on cluster, one by one, not placeable
          train: 4 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == [LEVELS_FIRST]


def test_unknown_topology_is_refused() -> None:
    answer = read_kai("job", {TOPOLOGY: "clutser", MIN_MEMBER: None})
    assert answer.findings == [
        error(
            "kai/topology-exists", TOPOLOGY, "Requested topology clutser does not exist", fix="did you mean 'cluster'?"
        )
    ]
    assert answer.workload == JOB_WITHOUT_LEVELS
    assert answer.notes == [LEVELS_FIRST]


def test_domain_instead_of_label_key_is_refused() -> None:
    answer = read_kai("job", {REQUIRED: "rack", MIN_MEMBER: None})
    assert answer.findings == [
        error(
            "kai/level-exists",
            REQUIRED,
            (
                "topology constraint error: workload specified 'rack' as the required topology constraint "
                "level, but the topology tree 'cluster' does not contain a level with this name"
            ),
            fix="a label key is required here: write 'example.com/rack'",
        )
    ]
    assert answer.workload == text("""
        KAI job/train -n ml on cluster, one by one, not placeable
          train: 4 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == [LEVELS_FIRST]


def test_misspelt_preferred_level_is_refused() -> None:
    answer = read_kai("job", {REQUIRED: "topology.kubernetes.io/zone", PREFERRED: "example.com/rak", MIN_MEMBER: None})
    assert answer.findings == [
        error(
            "kai/level-exists",
            PREFERRED,
            (
                "topology constraint error: workload specified 'example.com/rak' as the preferred topology "
                "constraint level, but the topology tree 'cluster' does not contain a level with this name"
            ),
            fix="did you mean 'example.com/rack'?",
        ),
        warning("kai/min-member", REQUIRED, JOB_IS_NO_GANG, fix=SET_MIN_MEMBER),
    ]
    assert answer.workload == text("""
        KAI job/train -n ml on cluster, one by one, not placeable
          train: required zone; 4 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == [LEVELS_FIRST]


def test_level_that_is_no_text_is_refused() -> None:
    answer = read_kai("job", {REQUIRED: 8, MIN_MEMBER: None})
    assert answer.findings == [
        error("type", REQUIRED, "is 8, expected a string", fix="put it in quotes"),
        error("kai/no-level", TOPOLOGY, NO_LEVEL, fix=SET_A_LEVEL),
    ]
    assert answer.workload == JOB_WITHOUT_LEVELS
    assert answer.notes == [LEVELS_FIRST]


def test_preferred_level_broader_than_required_is_refused() -> None:
    answer = read_kai("job", {MIN_MEMBER: None, PREFERRED: "topology.kubernetes.io/zone"})
    assert answer.findings == [
        error(
            "kai/preferred-broader",
            PREFERRED,
            (
                "KAI 0.17 never schedules pods whose preferred level (topology.kubernetes.io/zone) is "
                "broader than the required one (example.com/rack, in "
                "metadata.annotations[kai.scheduler/topology-required-placement])"
            ),
            fix=(
                "prefer example.com/rack or a narrower level, or remove "
                "metadata.annotations[kai.scheduler/topology-preferred-placement]"
            ),
        ),
        warning("kai/min-member", REQUIRED, JOB_IS_NO_GANG, fix=SET_MIN_MEMBER),
    ]
    assert answer.workload == text("""
        KAI job/train -n ml on cluster, one by one, not placeable
          train: required rack, preferred zone; 4 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == [LEVELS_FIRST]


def test_topology_without_level_is_refused() -> None:
    answer = read_kai("job", {REQUIRED: None, MIN_MEMBER: None})
    assert answer.findings == [error("kai/no-level", TOPOLOGY, NO_LEVEL, fix=SET_A_LEVEL)]
    assert answer.workload == JOB_WITHOUT_LEVELS
    assert answer.notes == [LEVELS_FIRST]


def test_level_without_topology_is_warned_of() -> None:
    answer = read_kai("job", {TOPOLOGY: None, MIN_MEMBER: None})
    assert answer.findings == [
        warning(
            "kai/no-topology",
            REQUIRED,
            "a level without a topology has no effect",
            fix="set metadata.annotations[kai.scheduler/topology]; there are: cluster",
        )
    ]


def test_topology_without_level_on_one_kind_of_jobs_is_warned_of() -> None:
    answer = read_kai(
        "jobset",
        {"spec.replicatedJobs[0].name": "a", "spec.replicatedJobs[0].replicas": 1, REPLICATED_JOB_REQUIRED: None},
    )
    assert answer.findings == [
        warning(
            "kai/no-level",
            REPLICATED_JOB_TOPOLOGY,
            "a topology without a required or preferred level has no effect",
            fix="name a level, or remove the topology",
        )
    ]


def test_level_on_pod_template_is_warned_of() -> None:
    answer = read_kai(
        "job",
        {
            MIN_MEMBER: None,
            "spec.template.metadata": {
                "annotations": {"kai.scheduler/topology-required-placement": "topology.kubernetes.io/zone"}
            },
        },
    )
    assert answer.findings == [
        warning(
            "kai/wrong-place",
            "spec.template.metadata.annotations[kai.scheduler/topology-required-placement]",
            "KAI does not read this on a pod template of a Job",
            fix="move it to the annotations of the Job itself",
        ),
        warning("kai/min-member", REQUIRED, JOB_IS_NO_GANG, fix=SET_MIN_MEMBER),
    ]


def test_same_level_on_the_pod_template_is_harmless() -> None:
    copy = {"kai.scheduler/topology-required-placement": "example.com/rack"}
    answer = read_kai("job", {"spec.template.metadata": {"annotations": copy}})
    assert answer.findings == [
        warning(
            "kai/duplicate",
            "spec.template.metadata.annotations[kai.scheduler/topology-required-placement]",
            "KAI reads this on the Job itself, not on the pod template",
            fix="remove this copy; it has no effect",
        )
    ]


def test_segments_of_a_job_are_warned_of() -> None:
    answer = read_kai(
        "job", {MIN_MEMBER: None, "spec.template.metadata": {"annotations": {"kai.scheduler/segment-size": "2"}}}
    )
    assert answer.findings == [
        warning(
            "kai/segments-ignored",
            "spec.template.metadata.annotations[kai.scheduler/segment-size]",
            "KAI creates segments only for PyTorchJob workers and LeaderWorkerSets; this has no effect here",
            fix="write a PodGroup with sub-groups, or set it on the worker template of one of these",
        ),
        warning("kai/min-member", REQUIRED, JOB_IS_NO_GANG, fix=SET_MIN_MEMBER),
    ]


def test_pods_of_another_scheduler_are_warned_of() -> None:
    answer = read_kai(
        "job",
        {
            MIN_MEMBER: None,
            "spec.parallelism": None,
            "spec.completions": None,
            "spec.template.spec.schedulerName": None,
        },
    )
    assert answer.findings == [
        warning(
            "kai/scheduler-name",
            "spec.template.spec.schedulerName",
            "KAI does not schedule these pods, so KAI's annotations have no effect",
            fix="set schedulerName: kai-scheduler (or the name that KAI was installed with)",
        )
    ]


def test_room_on_unknown_topology_is_not_checked() -> None:
    answer = read_kai("job", {TOPOLOGY: "other", MIN_MEMBER: None})
    assert answer.findings == [
        error("kai/topology-exists", TOPOLOGY, "Requested topology other does not exist", fix="there are: cluster")
    ]
    assert answer.workload == JOB_WITHOUT_LEVELS
    assert answer.notes == [LEVELS_FIRST]


def test_room_below_unknown_preferred_level_is_not_checked() -> None:
    answer = read_kai("job", {REQUIRED: "topology.kubernetes.io/zone", PREFERRED: "rak", MIN_MEMBER: None})
    assert answer.findings == [
        error(
            "kai/level-exists",
            PREFERRED,
            (
                "topology constraint error: workload specified 'rak' as the preferred topology constraint "
                "level, but the topology tree 'cluster' does not contain a level with this name"
            ),
            fix="there are: example.com/rack, kubernetes.io/hostname, topology.kubernetes.io/zone",
        ),
        warning("kai/min-member", REQUIRED, JOB_IS_NO_GANG, fix=SET_MIN_MEMBER),
    ]
    assert answer.workload == text("""
        KAI job/train -n ml on cluster, one by one, not placeable
          train: required zone; 4 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == [LEVELS_FIRST]


def test_preferred_level_may_be_the_required_one() -> None:
    answer = read_kai("job", {PREFERRED: "example.com/rack"})
    assert answer.findings == []
    assert answer.workload == text("""
        KAI job/train -n ml on cluster, a gang
          train: required rack, preferred rack; 4 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_pod_group_name_on_pod_template_is_warned_of() -> None:
    answer = read_kai(
        "job", {"metadata.annotations": None, "spec.template.metadata": {"annotations": {"pod-group-name": "mine"}}}
    )
    assert answer.findings == [
        warning(
            "kai/pod-group-name",
            "spec.template.metadata.annotations.pod-group-name",
            "KAI puts the pods of a Job into a PodGroup that it creates, not into mine",
            fix='set kai.scheduler/skip-podgrouper: "true" on the Job, or remove this',
        )
    ]


def test_annotations_that_no_version_reads_are_warned_of() -> None:
    answer = read_kai(
        "job",
        {
            "spec.template.metadata": {
                "annotations": {
                    "scheduling.run.ai/pod-group": "mine",
                    "scheduling.run.ai/topology-policy": "nvlink-locality",
                }
            }
        },
    )
    assert answer.findings == [
        warning(
            "kai/unread",
            "spec.template.metadata.annotations[scheduling.run.ai/pod-group]",
            "no version of KAI reads this annotation",
            fix='name the PodGroup in pod-group-name, with kai.scheduler/skip-podgrouper: "true"',
        ),
        warning(
            "kai/unread",
            "spec.template.metadata.annotations[scheduling.run.ai/topology-policy]",
            "no version of KAI reads this annotation",
            fix="set kai.scheduler/topology and kai.scheduler/topology-required-placement on the workload",
        ),
    ]


@pytest.mark.parametrize(
    "edits",
    [
        pytest.param({"metadata.annotations": None}, id="no-annotations"),
        pytest.param({"metadata.annotations[kai.scheduler/skip-podgrouper]": "true"}, id="skipped-by-the-grouper"),
        pytest.param(
            {"spec.template.metadata.annotations[kai.scheduler/skip-podgrouper]": "true"},
            id="pods-skipped-by-the-grouper",
        ),
        pytest.param({"": {"kind": "Job"}}, id="no-version"),
        pytest.param({"": {}}, id="empty"),
        pytest.param({"kind": "ConfigMap", "apiVersion": "v1", "spec": None}, id="config-map"),
    ],
)
def test_document_of_others_is_not_read(edits: Edits) -> None:
    answer = read_kai("job", edits)
    assert not answer.is_claimed
