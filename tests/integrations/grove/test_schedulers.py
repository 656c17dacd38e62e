"""Who schedules the pods of a PodCliqueSet, by schedulerName and the operator's configuration, and KAI's queue."""

from dataclasses import replace
from typing import Any

import pytest
from tests.integrations.clusters import (
    CLUSTER,
    GROVE_NOT_TOPOLOGY_AWARE,
    GROVE_WITH_KAI,
    GROVE_WITH_KAI_BY_DEFAULT,
    GROVE_WITH_VOLCANO,
)
from tests.integrations.grove.podcliqueset import (
    GROUP_CONSTRAINT,
    GROUP_WITHOUT_LEVEL,
    LEADER_SCHEDULER,
    ONE_SCHEDULER,
    PLACED_ALONE,
    ROUTER,
    ROUTER_SCHEDULER,
    SET_CONSTRAINT,
    WHOLE,
    WORKER,
)
from tests.support.checking import Read, error, read, warning
from tests.support.documents import Edits, document, text
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.grove.schedulers import profiles_of

pytestmark = pytest.mark.regression

QUEUE = "metadata.labels[kai.scheduler/queue]"
WORKER_SCHEDULER = f"{WORKER}.spec.podSpec.schedulerName"
NO_QUEUE = "no KAI queue is configured on PodCliqueSet ml/llm or its PodClique templates"
OTHER_QUEUE = 'KAI queue on PodCliqueSet ml/llm is "research" but PodClique template "router" resolves to "x"'
KEEPS_NOTHING = "default-scheduler ignores topology constraints: Grove accepts it, and the pods are placed anywhere"
NOT_ENABLED = (
    "schedulerName must be an enabled scheduler backend; this scheduler is not enabled in OperatorConfiguration"
)
NOTHING_AT_ONCE = text("""
    Grove podcliqueset/llm -n ml
      2 x llm
        2 x scaling group decode
          clique leader: 1 leader (nvidia.com/gpu=8)
          clique worker: 3 worker (nvidia.com/gpu=8)
        clique router: 1 router (nvidia.com/gpu=8)
""")


def scheduled_by(scheduler: str | None) -> dict[str, str | None]:
    """Edits that give all pods to one scheduler; None: they name none."""
    return {ROUTER_SCHEDULER: scheduler, LEADER_SCHEDULER: scheduler, WORKER_SCHEDULER: scheduler}


def read_grove(edits: Edits | None = None, *, cluster: ClusterFacts = CLUSTER, before: Any = None) -> Read:
    return read("Grove", document("grove/podcliqueset", edits), cluster, before=before)


def read_unchanged(edits: Edits | None = None) -> Read:
    """Read what stands in the cluster already, word for word."""
    existing = document("grove/podcliqueset", edits)
    return read("Grove", existing, CLUSTER, before=existing)


@pytest.mark.parametrize(
    ("configuration", "cluster"),
    [
        pytest.param({"profiles": [{"name": "kai-scheduler"}]}, GROVE_WITH_KAI, id="kai"),
        pytest.param(
            {"profiles": [{"name": "kai-scheduler"}], "defaultProfileName": "kai-scheduler"},
            GROVE_WITH_KAI_BY_DEFAULT,
            id="kai-by-default",
        ),
        pytest.param({"profiles": [{"name": "volcano"}]}, GROVE_WITH_VOLCANO, id="volcano"),
    ],
)
def test_configuration_says_which_schedulers_are_enabled(configuration: Any, cluster: ClusterFacts) -> None:
    profiles = profiles_of({"scheduler": configuration})
    assert cluster.profiles
    assert profiles.enabled == cluster.profiles.enabled
    assert profiles.default == cluster.profiles.default


def test_pods_without_constraint_may_name_no_scheduler() -> None:
    answer = read_grove({**scheduled_by(None), GROUP_CONSTRAINT: None, SET_CONSTRAINT: None})
    assert answer.findings == []
    assert answer.workload == NOTHING_AT_ONCE
    assert answer.notes == []


def test_missing_scheduler_in_unknown_configuration_is_warned_of() -> None:
    answer = read_grove({**scheduled_by(None), GROUP_CONSTRAINT: None})
    assert answer.findings == [
        warning(
            "grove/scheduler-default",
            ROUTER_SCHEDULER,
            (
                "without it, Grove's default profile places the pods: default-scheduler in its charts, which "
                "ignores topology constraints"
            ),
            fix=(
                "set schedulerName: kai-scheduler in the podSpec of every clique, and label the set with "
                "kai.scheduler/queue; or check that scheduler.defaultProfileName is kai-scheduler: kubectl "
                "get configmap -A -l app.kubernetes.io/name=grove-operator -o yaml"
            ),
        )
    ]


def test_missing_scheduler_beside_default_profile_is_warned_of() -> None:
    answer = read_grove({**scheduled_by(None), GROUP_CONSTRAINT: None}, cluster=GROVE_WITH_KAI)
    assert answer.findings == [
        warning(
            "grove/scheduler-name",
            ROUTER_SCHEDULER,
            KEEPS_NOTHING,
            fix=(
                "set schedulerName: kai-scheduler in the podSpec of every clique, and label the set with "
                "kai.scheduler/queue"
            ),
        )
    ]


def test_missing_scheduler_is_kai_where_it_is_the_default_profile() -> None:
    answer = read_grove({**scheduled_by(None), GROUP_CONSTRAINT: None}, cluster=GROVE_WITH_KAI_BY_DEFAULT)
    assert answer.findings == []
    assert answer.workload == GROUP_WITHOUT_LEVEL
    assert answer.notes == [PLACED_ALONE]


def test_default_scheduler_keeps_no_constraint() -> None:
    answer = read_grove(
        {**scheduled_by("default-scheduler"), GROUP_CONSTRAINT: None}, cluster=GROVE_WITH_KAI_BY_DEFAULT
    )
    assert answer.findings == [
        warning(
            "grove/scheduler-name",
            ROUTER_SCHEDULER,
            KEEPS_NOTHING,
            fix=(
                "set schedulerName: kai-scheduler in the podSpec of every clique, and label the set with "
                "kai.scheduler/queue"
            ),
        )
    ]


def test_default_scheduler_may_have_pods_without_constraint() -> None:
    answer = read_grove(
        {**scheduled_by("default-scheduler"), GROUP_CONSTRAINT: None, SET_CONSTRAINT: None},
        cluster=GROVE_WITH_KAI_BY_DEFAULT,
    )
    assert answer.findings == []
    assert answer.workload == NOTHING_AT_ONCE
    assert answer.notes == []


def test_two_schedulers_of_unknown_configuration_are_refused() -> None:
    answer = read_grove({ROUTER_SCHEDULER: None, LEADER_SCHEDULER: None, GROUP_CONSTRAINT: None})
    assert answer.findings == [
        error(
            "grove/one-scheduler",
            WORKER_SCHEDULER,
            ONE_SCHEDULER,
            fix=(
                "set schedulerName: kai-scheduler in the podSpec of every clique; if unset, Grove uses "
                "default-scheduler"
            ),
        )
    ]


def test_missing_scheduler_beside_kai_is_kai_by_default() -> None:
    answer = read_grove(
        {ROUTER_SCHEDULER: None, LEADER_SCHEDULER: None, GROUP_CONSTRAINT: None}, cluster=GROVE_WITH_KAI_BY_DEFAULT
    )
    assert answer.findings == []
    assert answer.workload == GROUP_WITHOUT_LEVEL
    assert answer.notes == [PLACED_ALONE]


def test_two_schedulers_are_refused() -> None:
    answer = read_grove(
        {ROUTER_SCHEDULER: "default-scheduler", GROUP_CONSTRAINT: None, SET_CONSTRAINT: None},
        cluster=GROVE_WITH_KAI_BY_DEFAULT,
    )
    assert answer.findings == [
        error(
            "grove/one-scheduler",
            LEADER_SCHEDULER,
            ONE_SCHEDULER,
            fix="set schedulerName: kai-scheduler in the podSpec of every clique",
        )
    ]


def test_scheduler_that_grove_does_not_know_is_refused() -> None:
    answer = read_grove({**scheduled_by("slurm"), GROUP_CONSTRAINT: None, SET_CONSTRAINT: None})
    assert answer.findings == [
        error(
            "grove/scheduler-enabled",
            ROUTER_SCHEDULER,
            NOT_ENABLED,
            fix="set kai-scheduler, or enable a profile slurm in Grove's chart",
        )
    ]


def test_volcano_where_configuration_is_unknown_is_warned_of() -> None:
    answer = read_grove({**scheduled_by("volcano"), GROUP_CONSTRAINT: None, SET_CONSTRAINT: None})
    assert answer.findings == [
        warning(
            "grove/scheduler-enabled",
            ROUTER_SCHEDULER,
            "Grove accepts this only if its configuration has a profile volcano; its charts have none",
            fix="check scheduler.profiles: kubectl get configmap -A -l app.kubernetes.io/name=grove-operator -o yaml",
        )
    ]


def test_volcano_without_profile_is_refused() -> None:
    answer = read_grove(
        {**scheduled_by("volcano"), GROUP_CONSTRAINT: None, SET_CONSTRAINT: None}, cluster=GROVE_WITH_KAI_BY_DEFAULT
    )
    assert answer.findings == [
        error(
            "grove/scheduler-enabled",
            ROUTER_SCHEDULER,
            NOT_ENABLED,
            fix="set kai-scheduler, or enable a profile volcano in Grove's chart",
        )
    ]


def test_volcano_with_profile_schedules_the_pods() -> None:
    answer = read_grove(
        {**scheduled_by("volcano"), GROUP_CONSTRAINT: None, SET_CONSTRAINT: None}, cluster=GROVE_WITH_VOLCANO
    )
    assert answer.findings == []
    assert answer.workload == NOTHING_AT_ONCE
    assert answer.notes == []


def test_volcano_with_constraint_and_unknown_configuration_is_refused() -> None:
    answer = read_grove({**scheduled_by("volcano"), GROUP_CONSTRAINT: None})
    assert answer.findings == [
        error(
            "grove/scheduler-enabled",
            ROUTER_SCHEDULER,
            NOT_ENABLED,
            fix="set kai-scheduler, or enable a profile volcano in Grove's chart",
        )
    ]


def test_volcano_with_profile_keeps_no_constraint() -> None:
    answer = read_grove({**scheduled_by("volcano"), GROUP_CONSTRAINT: None}, cluster=GROVE_WITH_VOLCANO)
    assert answer.findings == [
        error(
            "grove/scheduler-enabled",
            ROUTER_SCHEDULER,
            "volcano scheduler backend does not support topologyConstraint",
            fix=(
                "set schedulerName: kai-scheduler in the podSpec of every clique, and label the set with "
                "kai.scheduler/queue"
            ),
        )
    ]


def test_pods_of_default_scheduler_are_not_placeable() -> None:
    answer = read_grove({**scheduled_by("default-scheduler"), GROUP_CONSTRAINT: None})
    assert answer.findings == [
        warning(
            "grove/scheduler-name",
            ROUTER_SCHEDULER,
            KEEPS_NOTHING,
            fix=(
                "set schedulerName: kai-scheduler in the podSpec of every clique, and label the set with "
                "kai.scheduler/queue"
            ),
        )
    ]
    assert answer.workload == text("""
        Grove podcliqueset/llm -n ml on cluster, not placeable
          2 x llm: required zone
            2 x scaling group decode
              clique leader: 1 leader (nvidia.com/gpu=8)
              clique worker: 3 worker (nvidia.com/gpu=8)
            clique router: 1 router (nvidia.com/gpu=8)
    """)
    assert answer.notes == ["default-scheduler ignores topology constraints, so it is unknown where its pods would run"]


def test_constraint_where_topology_awareness_is_off_is_refused() -> None:
    answer = read_grove({GROUP_CONSTRAINT: None}, cluster=GROVE_NOT_TOPOLOGY_AWARE)
    assert answer.findings == [
        error(
            "grove/disabled",
            SET_CONSTRAINT,
            "topology constraints are not allowed when Topology Aware Scheduling is disabled",
            fix="enable it in Grove's chart: config.topologyAwareScheduling.enabled: true",
        )
    ]


def test_empty_queue_of_a_clique_inherits_the_queue_of_the_set() -> None:
    answer = read_grove({f"{ROUTER}.annotations": {"kai.scheduler/queue": ""}})
    assert answer.findings == []
    assert answer.workload == WHOLE
    assert answer.notes == [PLACED_ALONE]


def test_unchanged_empty_queue_of_a_clique_is_accepted() -> None:
    answer = read_unchanged({f"{ROUTER}.annotations": {"kai.scheduler/queue": ""}})
    assert answer.findings == []
    assert answer.workload == WHOLE
    assert answer.notes == [PLACED_ALONE]


def test_queue_of_one_clique_is_enough() -> None:
    answer = read_grove({QUEUE: "", f"{ROUTER}.annotations": {"kai.scheduler/queue": "research"}})
    assert answer.findings == []
    assert answer.workload == WHOLE
    assert answer.notes == [PLACED_ALONE]


def test_unchanged_queue_of_one_clique_is_accepted() -> None:
    answer = read_unchanged({QUEUE: "", f"{ROUTER}.annotations": {"kai.scheduler/queue": "research"}})
    assert answer.findings == []
    assert answer.workload == WHOLE
    assert answer.notes == [PLACED_ALONE]


def test_equal_queue_of_a_clique_is_accepted() -> None:
    answer = read_grove({f"{ROUTER}.annotations": {"kai.scheduler/queue": "research"}})
    assert answer.findings == []
    assert answer.workload == WHOLE
    assert answer.notes == [PLACED_ALONE]


def test_unchanged_equal_queue_of_a_clique_is_accepted() -> None:
    answer = read_unchanged({f"{ROUTER}.annotations": {"kai.scheduler/queue": "research"}})
    assert answer.findings == []
    assert answer.workload == WHOLE
    assert answer.notes == [PLACED_ALONE]


def test_set_without_queue_is_warned_of() -> None:
    answer = read_grove({QUEUE: "", f"{ROUTER}.annotations": {"kai.scheduler/queue": ""}})
    assert answer.findings == [
        warning(
            "grove/queue",
            "metadata.labels",
            NO_QUEUE,
            fix="label the set with kai.scheduler/queue: Grove after v0.1.0-alpha.12 rejects it without a queue",
        )
    ]


def test_unchanged_set_without_queue_is_accepted() -> None:
    answer = read_unchanged({QUEUE: "", f"{ROUTER}.annotations": {"kai.scheduler/queue": ""}})
    assert answer.findings == []
    assert answer.workload == WHOLE
    assert answer.notes == [PLACED_ALONE]


def test_other_queue_of_a_clique_is_refused() -> None:
    answer = read_grove({f"{ROUTER}.annotations": {"kai.scheduler/queue": "x"}})
    assert answer.findings == [error("grove/queue", "spec.template.cliques[0]", OTHER_QUEUE, fix="name one queue")]


def test_unchanged_other_queue_of_a_clique_is_accepted() -> None:
    answer = read_unchanged({f"{ROUTER}.annotations": {"kai.scheduler/queue": "x"}})
    assert answer.findings == []
    assert answer.workload == WHOLE
    assert answer.notes == [PLACED_ALONE]


def test_changed_set_without_queue_is_warned_of() -> None:
    answer = read_grove({QUEUE: "", f"{ROUTER}.spec.replicas": 5}, before=document("grove/podcliqueset", {QUEUE: ""}))
    assert answer.findings == [
        warning(
            "grove/queue",
            "metadata.labels",
            NO_QUEUE,
            fix="label the set with kai.scheduler/queue: Grove after v0.1.0-alpha.12 rejects it without a queue",
        )
    ]


def test_changed_queue_of_a_clique_is_refused() -> None:
    answer = read_grove({f"{ROUTER}.annotations": {"kai.scheduler/queue": "x"}}, before=document("grove/podcliqueset"))
    assert answer.findings == [error("grove/queue", "spec.template.cliques[0]", OTHER_QUEUE, fix="name one queue")]


def profiles(*entries: dict[str, Any]) -> ClusterFacts:
    """A cluster whose Grove has these profiles, and topology-aware scheduling on."""
    configuration = {"scheduler": {"profiles": list(entries)}, "topologyAwareScheduling": {"enabled": True}}
    return replace(CLUSTER, profiles=profiles_of(configuration))


def test_policies_of_profiles_say_whose_topologies_are_to_be_named() -> None:
    entries = [
        {"name": "kai-scheduler"},
        {"name": "kueue"},
        {"name": "other", "topologyBindingPolicy": "AutoCreate"},
    ]
    assert profiles_of({"scheduler": {"profiles": entries}}).named_topologies == ("kueue",)
    required = {"name": "kai-scheduler", "topologyBindingPolicy": "ReferenceRequired"}
    assert profiles_of({"scheduler": {"profiles": [required]}}).named_topologies == ("kai-scheduler",)


def test_scheduler_of_later_releases_is_warned_of_where_nothing_is_known() -> None:
    answer = read_grove({**scheduled_by("kueue"), "metadata.labels": {"kueue.x-k8s.io/queue-name": "q"}})
    assert answer.findings == [
        warning(
            "grove/scheduler-enabled",
            ROUTER_SCHEDULER,
            "Grove accepts this only if its configuration has a profile kueue; its charts have none",
            fix="check scheduler.profiles: kubectl get configmap -A -l app.kubernetes.io/name=grove-operator -o yaml",
        )
    ]
    assert answer.notes == ["kueue places its pods by its own rules, so room is not checked"]


def test_scheduler_of_later_releases_needs_a_topology_of_its_own() -> None:
    edits = {**scheduled_by("kueue"), "metadata.labels": {"kueue.x-k8s.io/queue-name": "q"}}
    answer = read_grove(edits, cluster=profiles({"name": "kueue"}))
    assert answer.findings == [
        warning(
            "grove/scheduler-binding",
            ROUTER_SCHEDULER,
            "Grove creates no topology for kueue, and rejects the set unless its ClusterTopologyBinding names one",
            fix=(
                "name it in spec.schedulerTopologyBindings with schedulerName: kueue, "
                "or set topologyBindingPolicy: AutoCreate in its profile; if Toposcope publishes the binding, list "
                "kueue in spec.bindingSchedulers"
            ),
        )
    ]
    assert read_grove(edits, cluster=profiles({"name": "kueue", "topologyBindingPolicy": "AutoCreate"})).findings == []


def test_set_without_a_queue_and_with_partial_cliques_is_refused_for_kueue() -> None:
    edits = {
        **scheduled_by("kueue"),
        f"{WORKER}.spec.minAvailable": 1,
        f"{ROUTER}.spec.replicas": 2,
        f"{ROUTER}.spec.minAvailable": 1,
    }
    answer = read_grove(edits, cluster=profiles({"name": "kueue", "topologyBindingPolicy": "AutoCreate"}))
    assert answer.findings == [
        error(
            "grove/kueue",
            "metadata.labels[kueue.x-k8s.io/queue-name]",
            "the set must have the label kueue.x-k8s.io/queue-name: Grove creates no Workload without a queue",
            fix="name a LocalQueue",
        ),
        error(
            "grove/kueue",
            f"{WORKER}.spec.minAvailable",
            "cliques of a scaling group must start with all of their pods",
            fix="write 3",
        ),
    ]


def test_default_scheduler_with_gangs_may_keep_required_levels() -> None:
    cluster = profiles({"name": "default-scheduler", "config": {"gangScheduling": True}})
    answer = read_grove(scheduled_by("default-scheduler"), cluster=cluster)
    (finding,) = answer.findings
    assert finding.message == (
        "default-scheduler ignores topology constraints through v0.1.0-alpha.12; later releases of Grove create "
        "gangs for it, which keep only required levels"
    )
