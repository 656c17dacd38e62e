"""kube-scheduler's own gangs: PodGroups, Workloads and Jobs that ask for one domain."""

import pytest
from tests.integrations.clusters import CLUSTER, WITHOUT_GANGS
from tests.support.checking import Read, error, read
from tests.support.documents import Edits, document, text
from toposcope.integrations.framework.system import ClusterFacts

pytestmark = pytest.mark.regression

KEY = "spec.schedulingConstraints.topology[0].key"
MIN_COUNT = "spec.scheduling.schedulingPolicy.gang.minCount"
POLICY = "spec.schedulingPolicy"
NO_PODS = "no pods of the PodGroup are known, so room is not checked; also give the files of its pods"
KEY_OF_TEMPLATE = "spec.compositePodGroupTemplates[0].podGroupTemplates[0].schedulingConstraints.topology[0].key"
NO_PLACEMENTS = "no feasible placements found"


def read_kube_scheduler(name: str, edits: Edits | None = None, *, cluster: ClusterFacts = CLUSTER) -> Read:
    return read("kube-scheduler", document(f"kube-scheduler/{name}", edits), cluster)


def test_pod_group_without_known_pods_is_not_placeable() -> None:
    answer = read_kube_scheduler("podgroup")
    assert answer.findings == []
    assert answer.workload == text("""
        kube-scheduler podgroup/train -n ml on labels example.com/rack, not placeable
          train: required rack
    """)
    assert answer.notes == [NO_PODS]


def test_parent_of_a_pod_group_is_left_aside() -> None:
    answer = read_kube_scheduler(
        "podgroup",
        {
            "spec.schedulingConstraints": None,
            "spec.parentCompositePodGroupName": "all",
            "spec.workloadRef": {"workloadName": "train", "templateName": "workers"},
        },
    )
    assert answer.findings == []
    assert answer.workload == text("""
        kube-scheduler podgroup/train -n ml, not placeable
          train
    """)
    assert answer.notes == [NO_PODS, "the request of CompositePodGroup all is not checked"]


def test_misspelt_key_is_refused() -> None:
    answer = read_kube_scheduler("podgroup", {KEY: "example.com/rak"})
    assert answer.findings == [
        error(
            "kube-scheduler/label-exists",
            KEY,
            NO_PLACEMENTS,
            fix="no node carries the label 'example.com/rak'; did you mean 'example.com/rack'?",
        )
    ]


def test_domain_instead_of_key_is_refused() -> None:
    answer = read_kube_scheduler("podgroup", {KEY: "rack"})
    assert answer.findings == [
        error(
            "kube-scheduler/label-exists",
            KEY,
            NO_PLACEMENTS,
            fix="no node carries the label 'rack'; a label key is required here: write 'example.com/rack'",
        )
    ]


def test_misspelt_key_of_a_template_is_refused() -> None:
    answer = read_kube_scheduler("workload", {KEY_OF_TEMPLATE: "example.com/rak"})
    assert answer.findings == [
        error(
            "kube-scheduler/label-exists",
            KEY_OF_TEMPLATE,
            NO_PLACEMENTS,
            fix="no node carries the label 'example.com/rak'; did you mean 'example.com/rack'?",
        )
    ]


def test_second_constraint_is_refused() -> None:
    answer = read_kube_scheduler(
        "podgroup",
        {"spec.schedulingConstraints.topology": [{"key": "example.com/rack"}, {"key": "topology.kubernetes.io/zone"}]},
    )
    assert answer.findings == [
        error(
            "kube-scheduler/one-constraint",
            "spec.schedulingConstraints.topology",
            "Too many: 2: must have at most 1 item",
            fix="keep one key",
        )
    ]


def test_templates_ask_for_nothing_themselves() -> None:
    answer = read_kube_scheduler("workload")
    assert answer.findings == []
    assert answer.asks_for_nothing


def test_composite_pod_group_without_known_groups_is_not_placeable() -> None:
    answer = read_kube_scheduler("compositepodgroup")
    assert answer.findings == []
    assert answer.workload == text("""
        kube-scheduler compositepodgroup/train -n ml on labels example.com/rack, not placeable
          train: required rack
    """)
    assert answer.notes == ["no groups of CompositePodGroup train are known, so room is not checked"]


@pytest.mark.parametrize(
    ("kind", "edits", "field", "message"),
    [
        pytest.param("podgroup", {POLICY: None}, POLICY, "must specify one of: `basic`, `gang`", id="no-policy"),
        pytest.param(
            "podgroup",
            {POLICY: {"basic": {}, "gang": {"minCount": 1}}},
            POLICY,
            "must specify exactly one of: `basic`, `gang`",
            id="two-policies",
        ),
        pytest.param("podgroup", {POLICY: {"gang": {}}}, f"{POLICY}.gang.minCount", "Required value", id="min-count"),
        pytest.param(
            "compositepodgroup",
            {POLICY: {"gang": {}}},
            f"{POLICY}.gang.minGroupCount",
            "Required value",
            id="min-group-count",
        ),
        pytest.param(
            "compositepodgroup", {"spec.workloadRef": None}, "spec.workloadRef", "Required value", id="no-workload"
        ),
        pytest.param(
            "podgroup",
            {"spec.parentCompositePodGroupName": "all"},
            "spec.workloadRef",
            "Required value: must be set when parentCompositePodGroupName is set",
            id="no-workload-of-a-child",
        ),
    ],
)
def test_group_that_the_api_server_refuses_is_an_error(kind: str, edits: Edits, field: str, message: str) -> None:
    answer = read_kube_scheduler(kind, edits)
    (finding,) = answer.findings
    assert (finding.severity, finding.field, finding.message) == ("error", field, message)


def test_job_with_constraint_is_kept_together() -> None:
    answer = read_kube_scheduler("job")
    assert answer.findings == []
    assert answer.workload == text("""
        kube-scheduler job/train -n ml on labels example.com/rack
          train: required rack; 4 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_only_min_count_pods_of_a_job_need_room() -> None:
    answer = read_kube_scheduler("job", {MIN_COUNT: 2})
    assert answer.findings == []
    assert answer.workload == text("""
        kube-scheduler job/train -n ml on labels example.com/rack
          train: required rack; 2 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == ["room is counted for the 2 pods of minCount, of 4"]


def test_min_count_above_parallelism_is_refused() -> None:
    answer = read_kube_scheduler("job", {MIN_COUNT: 6})
    assert answer.findings == [
        error(
            "kube-scheduler/min-count",
            MIN_COUNT,
            "must not be greater than parallelism (4)",
            fix="set at most 4, or remove it for all pods",
        )
    ]


def test_gang_of_a_job_with_fewer_completions_waits_for_more_pods() -> None:
    answer = read_kube_scheduler("job", {"spec.completions": 2})
    assert answer.workload == text("""
        kube-scheduler job/train -n ml on labels example.com/rack
          train: required rack; 4 pods (nvidia.com/gpu=8)
    """)


def test_job_without_scheduling_is_not_read() -> None:
    answer = read_kube_scheduler("job", {"spec.scheduling": None})
    assert not answer.is_claimed


def test_pods_of_an_unknown_group_are_not_placeable() -> None:
    answer = read_kube_scheduler("statefulset", {"spec.template.spec.schedulingGroup": {"podGroupName": "train"}})
    assert answer.findings == []
    assert answer.workload == text("""
        kube-scheduler statefulset/train -n ml, not placeable
          train: 4 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == ["PodGroup train is unknown, so room is not checked; also give its file"]


def test_pod_group_where_none_are_served_is_refused() -> None:
    answer = read_kube_scheduler("podgroup", cluster=WITHOUT_GANGS)
    assert answer.findings == [
        error(
            "kube-scheduler/served",
            "",
            (
                "the cluster does not serve podgroups.scheduling.k8s.io, so the API server silently drops fields "
                "that request it"
            ),
            fix=(
                "enable the feature gates GenericWorkload and TopologyAwareWorkloadScheduling (and GangScheduling "
                "in 1.36) of kube-apiserver and kube-scheduler, and serve the API: "
                "--runtime-config=scheduling.k8s.io/v1beta1=true (v1alpha2 in 1.36)"
            ),
        )
    ]


def test_malformed_fields_of_a_pod_group_are_refused() -> None:
    answer = read_kube_scheduler(
        "podgroup", {"spec.schedulingConstraints": [], "spec.schedulingPolicy": "all", "metadata.name": None}
    )
    assert answer.findings == [
        error("type", "spec.schedulingConstraints", "is [], expected an object", fix=""),
        error("type", "spec.schedulingPolicy", "is 'all', expected an object", fix=""),
    ]


def test_malformed_scheduling_of_a_job_is_refused() -> None:
    answer = read_kube_scheduler("job", {"spec.scheduling": "gang"})
    assert answer.findings == [error("type", "spec.scheduling", "is 'gang', expected an object", fix="")]
