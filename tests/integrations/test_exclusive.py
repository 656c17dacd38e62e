"""Exclusive placement: groups of a LeaderWorkerSet and Jobs of a JobSet, each alone in its domain."""

import copy

import pytest

from tests.support.workloads import (
    HOST,
    KNOWN,
    RACK,
    Object,
    accepted,
    jobset,
    leader_worker_set,
    replicated,
    reported,
    understood,
)
from toposcope.integrations.framework.node_affinity import Expression, Toleration
from toposcope.integrations.framework.system import ClusterFacts, ExclusivePod, Reading
from toposcope.integrations.jobset.api import JOB_KEY
from toposcope.integrations.jobset.workload import MAX_JOBS
from toposcope.integrations.jobset.workload import SYSTEM as JOBSET
from toposcope.integrations.lws.api import GROUP_KEY
from toposcope.integrations.lws.workload import SYSTEM as LWS
from toposcope.topology.levels import Level

GROUPS = "leaderworkerset.sigs.k8s.io/exclusive-topology"
SUBGROUPS = "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"
JOBS = "alpha.jobset.sigs.k8s.io/exclusive-topology"
STRATEGY = "alpha.jobset.sigs.k8s.io/node-selector"
POOL = Level("example.com/pool", "example.com/pool")
SIZE = "spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize"


def lws(document: Object, before: Object | None = None, known: ClusterFacts = KNOWN) -> Reading:
    assert LWS.claims(document)
    return LWS.read(document, known, before)


def jobs(document: Object, known: ClusterFacts = KNOWN) -> Reading:
    assert JOBSET.claims(document)
    return JOBSET.read(document, known)


def of(subgroup: int, kind: str = "LeaderWorker") -> Object:
    return {"subGroupPolicy": {"subGroupSize": subgroup, "subGroupPolicyType": kind}}


def test_each_group_has_a_rack_of_its_own() -> None:
    workload = accepted(lws(leader_worker_set(3, 5, {GROUPS: RACK.key})))
    assert (workload.topology, workload.levels) == (None, (RACK,))
    (group,) = workload.groups
    assert (group.copies, group.required, group.total()["pods"]) == (3, RACK, 5)
    assert group.anti_affinity


def test_any_node_label_will_do() -> None:
    known = ClusterFacts(KNOWN.topologies, frozenset({POOL.key}))
    workload = accepted(lws(leader_worker_set(3, 5, {GROUPS: POOL.key}), known=known))
    assert workload.levels == (POOL,)


def test_each_sub_group_has_a_host_of_its_own() -> None:
    workload = accepted(lws(leader_worker_set(2, 5, {GROUPS: RACK.key, SUBGROUPS: HOST.key}, **of(2))))
    assert workload.levels == (RACK, HOST)
    (group,) = workload.groups
    assert [(below.copies, below.required, below.total()["pods"]) for below in group.groups] == [
        (1, HOST, 3),
        (1, HOST, 2),
    ]
    assert len({below.anti_affinity for below in group.groups}) == 1
    assert group.groups[0].anti_affinity != group.anti_affinity


def test_a_leader_that_is_in_no_sub_group() -> None:
    workload = accepted(lws(leader_worker_set(2, 5, {SUBGROUPS: HOST.key}, **of(2, "LeaderExcluded"))))
    (group,) = workload.groups
    assert (group.required, group.anti_affinity, [pods.name for pods in group.pods]) == (None, "", ["leader"])
    assert [(below.copies, below.total()["pods"]) for below in group.groups] == [(2, 2)]


@pytest.mark.parametrize(
    ("document", "field", "message"),
    [
        (
            leader_worker_set(1, 5, {GROUPS: "example.com/rak"}),
            f"metadata.annotations[{GROUPS}]",
            "node does not have topology label: ",
        ),
        (
            leader_worker_set(1, 5, {SUBGROUPS: HOST.key}),
            f"metadata.annotations[{SUBGROUPS}]",
            "cannot have subgroup-exclusive-topology without subGroupSize set",
        ),
        (
            leader_worker_set(1, 5, {GROUPS: RACK.key, SUBGROUPS: RACK.key}, **of(2)),
            f"metadata.annotations[{SUBGROUPS}]",
            "sub-groups cannot have a rack each and share the one of their group",
        ),
        (leader_worker_set(1, 5, **of(0)), SIZE, "subGroupSize must be equal or greater than 1"),
        (leader_worker_set(1, 6, **of(4)), SIZE, "size or size - 1 must be divisible by subGroupSize"),
        (leader_worker_set(1, 2, **of(3)), SIZE, "subGroupSize cannot be larger than size"),
        (
            leader_worker_set(1, 6, **of(3, "LeaderExcluded")),
            SIZE,
            "size-1 must be divisible by subGroupSize when using LeaderExcluded",
        ),
    ],
)
def test_what_leader_worker_set_refuses(document: Object, field: str, message: str) -> None:
    reading = lws(document)
    assert ("error", field, message) in reported(reading)
    assert all(finding.fix for finding in reading.findings)


def test_the_fix_for_a_label_that_no_node_has() -> None:
    (near,) = lws(leader_worker_set(1, 5, {GROUPS: "example.com/rak"})).findings
    assert near.fix == "no node carries the label 'example.com/rak'; did you mean 'example.com/rack'?"
    (domain,) = lws(leader_worker_set(1, 5, {GROUPS: "rack"})).findings
    assert domain.fix == "no node carries the label 'rack'; label keys are taken here: write 'example.com/rack'"
    assert lws(leader_worker_set(1, 5, {GROUPS: "rack"}), known=ClusterFacts()).findings == ()


def test_sub_groups_do_not_change_once_the_set_exists() -> None:
    before = leader_worker_set(1, 5, **of(2))
    assert lws(copy.deepcopy(before), before).findings == ()
    without = leader_worker_set(1, 5, {GROUPS: RACK.key})
    assert reported(lws(before, without)) == [
        ("error", SIZE, "cannot enable subGroupSize after the lws is already created")
    ]
    assert reported(lws(without, before)) == [("error", SIZE, "cannot remove subGroupSize after enabled")]
    assert reported(lws(leader_worker_set(1, 5, **of(4)), before)) == [("error", SIZE, "field is immutable")]


def running(mark: str, namespace: str = "ml", rack: str = "r1") -> ClusterFacts:
    holder = ExclusivePod(namespace, {RACK.key: rack})
    return ClusterFacts(KNOWN.topologies, KNOWN.node_labels, {mark: (holder,)})


def test_racks_that_hold_other_groups_are_left_out() -> None:
    taken = Expression(RACK.key, "NotIn", ("r1",))
    for reading in (
        lws(leader_worker_set(1, 2, {GROUPS: RACK.key}), known=running(GROUP_KEY)),
        jobs(jobset(replicated("a", 1, 2), annotations={JOBS: RACK.key}), running(JOB_KEY, "other")),
    ):
        workload = understood(reading)
        (group,) = workload.groups
        assert {pods.node_filter.terms for pods in group.pods} == {((taken,),)}
        assert workload.notes[0].startswith("domains of level rack left out")


def test_groups_in_other_namespaces_do_not_count_for_a_leader_worker_set() -> None:
    workload = understood(lws(leader_worker_set(1, 2, {GROUPS: RACK.key}), known=running(GROUP_KEY, "other")))
    assert workload.notes == ()


def test_each_job_has_a_rack_of_its_own() -> None:
    workload = accepted(jobs(jobset(replicated("a", 3, 4), replicated("b", 1, 2), annotations={JOBS: RACK.key})))
    a, b = workload.groups
    assert [(below.copies, below.required, below.total()["pods"]) for below in (a, b)] == [(3, RACK, 4), (1, RACK, 2)]
    assert a.anti_affinity == b.anti_affinity != ""


def test_one_kind_of_jobs_alone() -> None:
    workload = understood(jobs(jobset(replicated("a", 3, 4, {JOBS: RACK.key}), replicated("b", 1, 2))))
    a, b = workload.groups
    assert (a.required, b.required, b.anti_affinity) == (RACK, None, "")


def test_a_job_label_that_no_node_has() -> None:
    (finding,) = jobs(jobset(replicated("a", 3, 4, {JOBS: "rack"}))).findings
    assert finding.message == "node does not have topology label: rack"
    assert finding.fix.endswith("label keys are taken here: write 'example.com/rack'")


def test_jobs_on_nodes_that_carry_their_names() -> None:
    labelled = ClusterFacts(KNOWN.topologies, KNOWN.node_labels | {"alpha.jobset.sigs.k8s.io/namespaced-job"})
    document = jobset(replicated("a", 2, 4), annotations={JOBS: RACK.key, STRATEGY: "true"})
    workload = accepted(jobs(document, labelled))
    choices = [pods.node_filter for group in workload.groups for pods in group.pods]
    assert [dict(choice.selector)["alpha.jobset.sigs.k8s.io/namespaced-job"] for choice in choices] == [
        "ml_train-a-0",
        "ml_train-a-1",
    ]
    toleration = Toleration("alpha.jobset.sigs.k8s.io/no-schedule", "Exists", effect="NoSchedule")
    assert all(toleration in choice.tolerations for choice in choices)
    assert [finding.rule for finding in jobs(document).findings] == ["jobset/nodes-labelled"]


def test_the_strategy_needs_an_exclusive_topology() -> None:
    reading = jobs(jobset(replicated("a", 2, 4), annotations={STRATEGY: "true"}))
    assert [(finding.rule, finding.severity) for finding in reading.findings] == [("jobset/strategy-alone", "warning")]


def test_too_many_jobs_with_nodes_of_their_own() -> None:
    workload = understood(
        jobs(jobset(replicated("a", MAX_JOBS + 1, 4), annotations={JOBS: RACK.key, STRATEGY: "true"}))
    )
    assert not workload.placeable


@pytest.mark.parametrize("document", [leader_worker_set(1, 2), jobset(replicated("a", 1, 1)), {}, {"kind": "JobSet"}])
def test_what_is_not_exclusive(document: Object) -> None:
    assert not LWS.claims(document)
    assert not JOBSET.claims(document)
