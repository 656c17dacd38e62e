"""KAI's annotations: each rule with a workload that keeps it and one that breaks it, in KAI's own words."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.workloads import (
    GPU,
    HOST,
    KNOWN,
    LEVELS,
    RACK,
    ZONE,
    Object,
    accepted,
    job,
    jobset,
    leader_worker_set,
    replicated,
    reported,
    template,
    understood,
    workload,
)
from toposcope.integrations.framework.constraints import Group
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.system import ClusterFacts, Reading
from toposcope.integrations.kai.workload import SYSTEM as KAI_SYSTEM

TOPOLOGY = "kai.scheduler/topology"
REQUIRED = "kai.scheduler/topology-required-placement"
PREFERRED = "kai.scheduler/topology-preferred-placement"
MINIMUM = "kai.scheduler/batch-min-member"
SKIP = "kai.scheduler/skip-podgrouper"
SIZE = "kai.scheduler/segment-size"
SEGMENT = "kai.scheduler/segment-topology-required-placement"
SEGMENT_PREFERRED = "kai.scheduler/segment-topology-preferred-placement"

OWN = "metadata.annotations"


def placed(required: Any = None, preferred: Any = None, topology: Any = "cluster", minimum: Any = None) -> Object:
    found = {TOPOLOGY: topology, REQUIRED: required, PREFERRED: preferred, MINIMUM: minimum}
    return {key: value for key, value in found.items() if value is not None}


def read(document: Object, known: ClusterFacts = KNOWN) -> Reading:
    assert KAI_SYSTEM.claims(document)
    return KAI_SYSTEM.read(document, known)


def tree(document: Object) -> Group:
    workload = accepted(read(document))
    assert workload.topology == "cluster"
    return workload.groups[0]


def test_a_job_in_one_zone_if_possible_in_one_rack() -> None:
    group = tree(job(4, placed(ZONE.key, RACK.key, minimum="4")))
    assert (group.name, group.required, group.preferred, group.copies) == ("train", ZONE, RACK, 1)
    assert group.total() == {"pods": 4, GPU: 32}


def test_an_alias_names_a_level() -> None:
    topology_levels = TopologyLevels("cluster", LEVELS, aliases=(("shelf", RACK.key),))
    workload = accepted(read(job(4, placed("shelf", minimum="4")), ClusterFacts({"cluster": topology_levels})))
    assert workload.groups[0].required == RACK
    wrong = read(job(4, placed("shelv")), ClusterFacts({"cluster": topology_levels}))
    assert wrong.findings[0].fix == "did you mean 'shelf'?"


def level_error(text: str, how: str = "required", who: str = "workload") -> str:
    return (
        f"topology constraint error: {who} specified '{text}' as the {how} topology constraint level, "
        "but the topology tree 'cluster' does not contain a level with this name"
    )


BROADER = (
    f"KAI 0.17 never schedules pods whose preferred level ({ZONE.key}) is broader than the required one "
    f"({RACK.key}, in {OWN}[{REQUIRED}])"
)
NOT_READ = "KAI does not read this on a pod template of a Job"
NO_SEGMENTS = "KAI makes segments of PyTorchJob workers and of LeaderWorkerSets only; this has no effect here"
NOT_SCHEDULED = "KAI does not schedule these pods, so its annotations have no effect"


@pytest.mark.parametrize(
    ("annotations", "key", "message", "fix"),
    [
        (
            placed(RACK.key, topology="clutser"),
            TOPOLOGY,
            "Requested topology clutser does not exist",
            "did you mean 'cluster'?",
        ),
        (placed("rack"), REQUIRED, level_error("rack"), "label keys are taken here: write 'example.com/rack'"),
        (
            placed(ZONE.key, "example.com/rak"),
            PREFERRED,
            level_error("example.com/rak", "preferred"),
            "did you mean 'example.com/rack'?",
        ),
        (placed(8), REQUIRED, "is 8, expected a string", "put it in quotes"),
        (
            placed(RACK.key, ZONE.key),
            PREFERRED,
            BROADER,
            f"prefer {RACK.key} or a narrower level, or remove {OWN}[{PREFERRED}]",
        ),
        (
            placed(),
            TOPOLOGY,
            "KAI 0.17 never schedules pods with a topology and neither a required nor a preferred level",
            f"set {OWN}[{REQUIRED}] or {OWN}[{PREFERRED}], or remove the topology here",
        ),
    ],
)
def test_errors(annotations: Object, key: str, message: str, fix: str) -> None:
    reading = read(job(4, annotations))
    field = f"{OWN}[{key}]"
    assert ("error", field, message) in reported(reading)
    assert fix in [finding.fix for finding in reading.findings if finding.field == field]
    assert understood(reading).groups[0].total() == {"pods": 4, GPU: 32}


@pytest.mark.parametrize(
    ("document", "field", "message", "fix"),
    [
        (
            job(4, placed(RACK.key, topology=None)),
            f"{OWN}[{REQUIRED}]",
            "a level without a topology has no effect",
            f"set {OWN}[{TOPOLOGY}]; there are: cluster",
        ),
        (
            jobset(replicated("a", 1, 4, placed()), annotations=placed(ZONE.key)),
            f"spec.replicatedJobs[0].template.{OWN}[{TOPOLOGY}]",
            "a topology without a required or preferred level has no effect",
            "name a level, or remove the topology",
        ),
        (
            job(4, placed(RACK.key), {REQUIRED: RACK.key}),
            f"spec.template.{OWN}[{REQUIRED}]",
            NOT_READ,
            "move it to the annotations of the Job itself",
        ),
        (
            job(4, placed(RACK.key), {SIZE: "2"}),
            f"spec.template.{OWN}[{SIZE}]",
            NO_SEGMENTS,
            "write a PodGroup with sub-groups, or set it on the worker template of one of these",
        ),
        (
            workload("batch/v1", "Job", {"template": template()}, placed(RACK.key)),
            "spec.template.spec.schedulerName",
            NOT_SCHEDULED,
            "set schedulerName: kai-scheduler (or the name that KAI was installed with)",
        ),
    ],
)
def test_warnings(document: Object, field: str, message: str, fix: str) -> None:
    reading = read(document)
    assert ("warning", field, message) in reported(reading)
    assert fix in [finding.fix for finding in reading.findings if finding.field == field]


@pytest.mark.parametrize("annotations", [placed("rack"), placed(RACK.key, topology="other"), placed(ZONE.key, "rak")])
def test_room_is_not_claimed_for_levels_that_are_not_understood(annotations: Object) -> None:
    workload = understood(read(job(4, annotations)))
    assert not workload.placeable
    assert workload.notes == ("room is not checked before the levels are right",)


def test_a_preferred_level_may_be_the_required_one() -> None:
    assert tree(job(4, placed(RACK.key, RACK.key, minimum="4"))).preferred == RACK


STARTS_ONE_BY_ONE = (
    "KAI 0.17 does not treat a {} as a gang: it starts the 4 pods one by one, the first one picks the domain, and "
    "those without room there wait"
)


def one_by_one(kind: str, annotations: Object, version: str = "apps/v1") -> Object:
    spec = {"replicas": 4, "template": template(8, schedulerName="kai-scheduler")}
    return workload(version, kind, spec, annotations)


@pytest.mark.parametrize(
    ("document", "kind", "field", "fix"),
    [
        (job(4, placed(RACK.key)), "Job", REQUIRED, 'set kai.scheduler/batch-min-member: "4" on the Job'),
        (job(4, placed(None, RACK.key)), "Job", PREFERRED, 'set kai.scheduler/batch-min-member: "4" on the Job'),
        (one_by_one("StatefulSet", placed(RACK.key)), "StatefulSet", REQUIRED, "write a PodGroup with minMember: 4"),
        (one_by_one("ReplicaSet", placed(RACK.key)), "ReplicaSet", REQUIRED, "write a PodGroup with minMember: 4"),
    ],
)
def test_kinds_that_kai_takes_for_no_gang(document: Object, kind: str, field: str, fix: str) -> None:
    reading = read(document)
    assert reported(reading) == [("warning", f"{OWN}[{field}]", STARTS_ONE_BY_ONE.format(kind))]
    assert fix in reading.findings[0].fix
    assert understood(reading).gang is False
    assert understood(reading).groups[0].total()["pods"] == 4


@pytest.mark.parametrize("document", [job(1, placed(RACK.key)), job(4, placed(RACK.key, minimum="4"))])
def test_jobs_that_are_a_gang(document: Object) -> None:
    assert accepted(read(document)).gang is True


def test_a_gang_smaller_than_its_job() -> None:
    workload = accepted(read(job(4, placed(RACK.key, minimum="3"))))
    assert workload.groups[0].total()["pods"] == 3
    assert workload.notes == (
        "room is checked for 3 of 4 pods: KAI starts these together, the others where there is room left",
    )


@pytest.mark.parametrize(
    ("minimum", "message"),
    [
        ("all", "'all' is not a whole number: KAI makes no PodGroup, and the pods are never scheduled"),
        ("4.0", "'4.0' is not a whole number: KAI makes no PodGroup, and the pods are never scheduled"),
        ("0", "0 is below 1: KAI makes no PodGroup, and the pods are never scheduled"),
        ("-1", "-1 is below 1: KAI makes no PodGroup, and the pods are never scheduled"),
        ("5", "5 is more than the 4 pods at once: KAI waits for the others forever"),
    ],
)
def test_wrong_sizes_of_a_gang(minimum: str, message: str) -> None:
    reading = read(job(4, placed(RACK.key, minimum=minimum)))
    assert reported(reading) == [("error", f"{OWN}[{MINIMUM}]", message)]
    assert reading.findings[0].fix == "write a whole number from 1 to 4, in quotes"
    wrong = jobset(replicated("a", 2, 4, placed(RACK.key, minimum=minimum)))
    assert reported(read(wrong)) == [("error", f"spec.replicatedJobs[0].template.{OWN}[{MINIMUM}]", message)]


def test_the_gang_size_of_a_stateful_set_is_not_read() -> None:
    reading = read(one_by_one("StatefulSet", placed(RACK.key, minimum="4")))
    assert ("warning", f"{OWN}[{MINIMUM}]", "KAI reads this on Jobs and JobSets only") in reported(reading)


def test_the_gang_size_of_a_jobset_counts_its_kinds_of_jobs() -> None:
    sets = [replicated(name, 1, 4) for name in ("b", "a", "c")]
    workload = accepted(read(jobset(*sets, annotations=placed(ZONE.key, minimum="2"))))
    assert [group.name for group in workload.groups[0].groups] == ["job of a", "job of b"]
    assert len(workload.notes) == 1
    all_of_them = accepted(read(jobset(*sets, annotations=placed(ZONE.key, minimum="9"))))
    assert [group.name for group in all_of_them.groups[0].groups] == ["job of a", "job of b", "job of c"]


def test_jobs_of_one_kind_that_start_with_fewer_pods() -> None:
    group = understood(read(jobset(replicated("a", 2, 4, placed(RACK.key, minimum="3"))))).groups[0]
    assert group.total()["pods"] == 6


def test_jobs_that_never_have_the_pods_that_kai_waits_for() -> None:
    few = replicated("a", 2, 4, placed(RACK.key))
    few["template"]["spec"]["completions"] = 2
    reading = read(jobset(few))
    message = "KAI waits for 4 pods of each Job, of which no more than 2 ever run"
    assert reported(reading) == [("error", "spec.replicatedJobs[0].template.spec.parallelism", message)]


@pytest.mark.parametrize(
    ("names", "annotations", "severity", "message"),
    [
        (("b", "a"), {}, "error", "KAI 0.17 takes a first, by its name, and the JobSet creates b first"),
        (("a", "b"), placed(ZONE.key), "warning", "KAI 0.17 places a alone, and the others later wherever"),
    ],
)
def test_jobs_that_a_jobset_creates_in_order(
    names: tuple[str, str], annotations: Object, severity: str, message: str
) -> None:
    document = jobset(*(replicated(name, 1, 4, placed(RACK.key)) for name in names), annotations=annotations)
    assert reported(read(document)) == []
    document["spec"]["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    (finding,) = read(document).findings
    assert (finding.rule, finding.severity, message in finding.message) == ("kai/startup-order", severity, True)


def kubeflow(kind: str, specs: str, *roles: str, **spec: Any) -> Object:
    replicas = {name: {"replicas": 4, "template": template(8, schedulerName="kai-scheduler")} for name in roles}
    return workload("kubeflow.org/v1", kind, {specs: replicas, **spec}, placed(RACK.key))


SCHEDULED = {"schedulingPolicy": {"minAvailable": 5}}


@pytest.mark.parametrize(
    ("document", "together"),
    [
        (kubeflow("TFJob", "tfReplicaSpecs", "PS", "Worker"), 8),
        (kubeflow("TFJob", "tfReplicaSpecs", "PS", "Worker", runPolicy=SCHEDULED), 5),
        (kubeflow("TFJob", "tfReplicaSpecs", "PS", "Worker", elasticPolicy={"minReplicas": 3}), 8),
        (kubeflow("PyTorchJob", "pytorchReplicaSpecs", "Master", "Worker", elasticPolicy={"minReplicas": 6}), 6),
        (kubeflow("PyTorchJob", "pytorchReplicaSpecs", "Master", "Worker", elasticPolicy={"minReplicas": 2}), 4),
        (kubeflow("PyTorchJob", "pytorchReplicaSpecs", "Worker", runPolicy=SCHEDULED), 4),
    ],
)
def test_how_many_pods_of_a_kubeflow_job_start_together(document: Object, together: int) -> None:
    assert understood(read(document)).groups[0].total()["pods"] == together


def test_a_kubeflow_job_that_waits_for_more_pods_than_it_has() -> None:
    reading = read(kubeflow("PyTorchJob", "pytorchReplicaSpecs", "Worker", runPolicy=SCHEDULED))
    field, message = (
        "spec.runPolicy.schedulingPolicy.minAvailable",
        "5 is more than its 4 pods: KAI waits for the others",
    )
    assert [(finding.field, message in finding.message) for finding in reading.findings] == [(field, True)]


def test_segments_beyond_the_pods_that_start_together_are_not_needed() -> None:
    document = kubeflow("PyTorchJob", "pytorchReplicaSpecs", "Worker", elasticPolicy={"minReplicas": 3})
    worker = document["spec"]["pytorchReplicaSpecs"]["Worker"]
    worker["template"]["metadata"] = {"annotations": {SIZE: "2", SEGMENT: HOST.key}}
    assert [group.total()["pods"] for group in understood(read(document)).groups[0].groups] == [4]
    worker["replicas"] = 9
    assert [group.total()["pods"] for group in understood(read(document)).groups[0].groups] == [4]


def test_pods_of_other_kubeflow_jobs_are_one_group() -> None:
    roles = {name: {"replicas": 2, "template": template(8, schedulerName="kai-scheduler")} for name in ("PS", "Worker")}
    group = tree(workload("kubeflow.org/v1", "TFJob", {"tfReplicaSpecs": roles}, placed(RACK.key)))
    assert (group.groups, group.total()["pods"]) == ((), 4)
    paddle = workload("kubeflow.org/v1", "PaddleJob", {"paddleReplicaSpecs": roles}, placed(RACK.key))
    assert understood(read(paddle)).gang is False


def test_each_pod_of_a_deployment_is_alone() -> None:
    spec = {"replicas": 3, "template": template(schedulerName="kai-scheduler")}
    reading = read(workload("apps/v1", "Deployment", spec, placed(RACK.key)))
    message = "KAI makes a PodGroup of each pod of a Deployment, so this keeps no two of them together"
    assert reported(reading) == [("warning", f"{OWN}[{REQUIRED}]", message)]
    (group,) = understood(reading).groups
    assert (group.copies, group.total()["pods"]) == (3, 1)
    assert understood(reading).gang is True


def test_a_pod_group_that_the_grouper_does_not_keep() -> None:
    reading = read(job(4, None, {"pod-group-name": "mine"}))
    message = "KAI puts the pods of a Job into a PodGroup of its own making, and none into mine"
    assert reported(reading) == [("warning", f"spec.template.{OWN}.pod-group-name", message)]
    for kept in (job(4, {SKIP: "true"}, {"pod-group-name": "mine"}), job(4, placed(RACK.key), {SKIP: "true"})):
        assert not KAI_SYSTEM.claims(kept)


def test_a_pod_is_its_own_workload() -> None:
    document = workload("v1", "Pod", template(schedulerName="kai-scheduler")["spec"], placed(RACK.key))
    assert tree(document).total() == {"pods": 1, GPU: 8}


def test_each_job_of_a_jobset_has_a_constraint_of_its_own() -> None:
    group = tree(jobset(replicated("workers", 3, 4, placed(RACK.key)), annotations=placed(ZONE.key)))
    assert group.required == ZONE
    (workers,) = group.groups
    assert (workers.required, workers.copies, workers.total()["pods"]) == (RACK, 3, 4)


def test_a_constraint_of_a_job_that_is_broader_than_that_of_the_jobset() -> None:
    reading = read(jobset(replicated("workers", 3, 4, placed(ZONE.key)), annotations=placed(RACK.key)))
    (finding,) = reading.findings
    assert (finding.rule, finding.severity) == ("kai/broader-than-parent", "error")
    assert finding.field == f"spec.replicatedJobs[0].template.{OWN}[{REQUIRED}]"
    also_preferred = read(jobset(replicated("workers", 3, 4, placed(ZONE.key, HOST.key)), annotations=placed(RACK.key)))
    assert [finding.severity for finding in also_preferred.findings] == ["warning"]


def test_two_topologies_are_more_than_the_placement_looks_at() -> None:
    known = replace(KNOWN, topologies={**KNOWN.topologies, "other": TopologyLevels("other", LEVELS)})
    document = jobset(replicated("a", 1, 1, placed(RACK.key, topology="other")), annotations=placed(ZONE.key))
    workload = understood(read(document, known))
    assert not workload.placeable
    assert workload.notes == ("the constraints are on several topologies (cluster, other): room is not checked",)


def test_each_group_of_a_leader_worker_set_is_placed_by_itself() -> None:
    group = tree(leader_worker_set(3, 5, placed(RACK.key)))
    assert (group.copies, group.required, group.total()) == (3, RACK, {"pods": 5, GPU: 33})


def test_a_leader_that_starts_before_its_workers() -> None:
    document = leader_worker_set(3, 5, placed(RACK.key))
    document["spec"]["startupPolicy"] = "LeaderReady"
    assert [(finding.rule, finding.severity) for finding in read(document).findings] == [
        ("kai/leader-first", "warning")
    ]
    assert accepted(read(leader_worker_set(3, 5, placed(preferred=RACK.key), startupPolicy="LeaderReady"))).gang


def test_segments_of_a_leader_worker_set() -> None:
    segmented = {SIZE: "2", SEGMENT: HOST.key}
    group = tree(leader_worker_set(3, 5, placed(RACK.key), segmented))
    assert [(below.copies, below.required, below.total()["pods"]) for below in group.groups] == [
        (1, HOST, 3),
        (1, HOST, 2),
    ]
    sized = leader_worker_set(3, 5, placed(RACK.key), {SEGMENT: HOST.key}, subGroupPolicy={"subGroupSize": 2})
    assert tree(sized) == group
    excluded = {"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"}
    apart = tree(leader_worker_set(3, 5, placed(RACK.key), {SEGMENT: HOST.key}, subGroupPolicy=excluded))
    assert [(below.name, below.copies, below.total()["pods"]) for below in apart.groups] == [
        ("leader", 1, 1),
        ("segment", 2, 2),
    ]


@pytest.mark.parametrize(
    ("count", "segments"),
    [
        (10, [(2, RACK, 4), (1, RACK, 2)]),
        # The last of 12 segments is worker-11, which KAI takes fourth: worker-0, worker-1, worker-10, worker-11.
        (46, [(3, RACK, 4), (1, RACK, 2), (8, RACK, 4)]),
    ],
)
def test_segments_of_pytorch_workers(count: int, segments: list[Any]) -> None:
    segmented = {TOPOLOGY: "cluster", SIZE: "4", SEGMENT: RACK.key}
    workers = {"replicas": count, "template": template(8, segmented, schedulerName="kai-scheduler")}
    master = {"replicas": 1, "template": template(8, schedulerName="kai-scheduler")}
    spec = {"pytorchReplicaSpecs": {"Master": master, "Worker": workers}}
    group = tree(workload("kubeflow.org/v1", "PyTorchJob", spec))
    leader, worker = group.groups
    assert leader.total()["pods"] == 1
    assert [(below.copies, below.required, below.total()["pods"]) for below in worker.groups] == segments


@pytest.mark.parametrize(
    ("on_workers", "rule", "message"),
    [
        ({SIZE: "two", SEGMENT: HOST.key}, "kai/segment-size", "invalid segment size two"),
        ({SIZE: "1", SEGMENT: HOST.key}, "kai/segment-size", "segmentSize 1 is not valid. It must be greater than 1"),
        ({SIZE: "6", SEGMENT: HOST.key}, "kai/segment-size", "segmentSize 6 is greater than replicasSize 5"),
        ({SIZE: "2"}, "kai/segment-level", "segments without a level are placed anywhere"),
        ({SEGMENT: HOST.key}, "kai/segment-size-missing", "has no effect without a segment size"),
        ({SIZE: "2", SEGMENT: "host"}, "kai/level-exists", level_error("host", who="sub-group segment")),
    ],
)
def test_segment_rules(on_workers: Object, rule: str, message: str) -> None:
    reading = read(leader_worker_set(1, 5, placed(RACK.key), on_workers))
    assert [(finding.rule, finding.message) for finding in reading.findings] == [(rule, message)]


def test_a_leader_apart_needs_equal_segments() -> None:
    policy = {"subGroupSize": 3, "subGroupPolicyType": "LeaderExcluded"}
    reading = read(leader_worker_set(1, 6, placed(RACK.key), {SEGMENT: HOST.key}, subGroupPolicy=policy))
    assert [finding.rule for finding in reading.findings] == ["kai/segment-size"]


def ray(on_workers: Object, annotations: Object | None = None) -> Object:
    scheduled: Object = {"schedulerName": "kai-scheduler"}
    spec = {
        "headGroupSpec": {"template": template(0, **scheduled)},
        "workerGroupSpecs": [{"groupName": "gpu", "replicas": 4, "template": template(8, on_workers, **scheduled)}],
    }
    return workload("ray.io/v1", "RayCluster", spec, annotations)


def test_worker_groups_of_ray() -> None:
    workers, head = tree(ray(placed(RACK.key), placed(ZONE.key))).groups
    assert head.required is None
    assert (workers.required, workers.total()["pods"]) == (RACK, 4)
    message = (
        "topology annotation (kai.scheduler/topology) is required for workerGroupSpecs.gpu "
        "when topology placement annotations are set"
    )
    field = f"spec.workerGroupSpecs[0].template.{OWN}[{REQUIRED}]"
    fewer = ray(placed(RACK.key))
    fewer["spec"]["workerGroupSpecs"][0] |= {"minReplicas": 2, "numOfHosts": 2}
    assert [group.total()["pods"] for group in understood(read(fewer)).groups[0].groups] == [4, 1]
    assert reported(read(ray(placed(RACK.key, topology=None)))) == [("error", field, message)]


@pytest.mark.parametrize("document", [job(4), {"kind": "Job"}, {}, workload("v1", "ConfigMap", None, placed(RACK.key))])
def test_what_is_not_for_kai(document: Object) -> None:
    assert not KAI_SYSTEM.claims(document)
