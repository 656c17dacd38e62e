"""No silent `fits`: each unread field of the lists, set in a workload that fits, leaves no verdict and is named.

Each irrelevant one leaves the answer as it was. So it is for queues and the like that the workload is in.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from tests.support.checked_cluster import CheckedCluster, Object
from tests.support.listed_fields import SET, ListedPath, listed_keys, listed_paths
from toposcope.integrations.framework.field_uses import Use
from toposcope.integrations.unread import field_uses

pytestmark = pytest.mark.regression

PRIORITY = "kueue.x-k8s.io/priority-class"


def kueue_job() -> CheckedCluster:
    """A Job of two pods in a queue, for which there is room."""
    return CheckedCluster("placement/clusters/kueue-queue", "placement/kueue-job", served={"Workload": True})


def kueue_job_in_cohort() -> CheckedCluster:
    """The same of a priority of Kueue's, in a queue of a cohort."""
    cluster = kueue_job()
    cluster.edit("ClusterQueue/cq", "spec.cohortName", "all")
    cluster.edit_workload("metadata.labels", {**cluster.workload["metadata"]["labels"], PRIORITY: "usual"})
    head = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
    cluster.add({**head, "kind": "Cohort", "metadata": {"name": "all"}, "spec": {}})
    cluster.add({**head, "kind": "WorkloadPriorityClass", "metadata": {"name": "usual"}, "value": 10})
    return cluster


def kueue_workload() -> CheckedCluster:
    """The Workload that Kueue makes of such a Job."""
    cluster = kueue_job()
    template = cluster.workload["spec"]["template"]
    pod_set = {"name": "main", "count": 2, "template": template, "topologyRequest": {"required": "example.com/rack"}}
    cluster.workload = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "train", "namespace": "ml"},
        "spec": {"queueName": "queue", "podSets": [pod_set]},
    }
    return cluster


def kai_job() -> CheckedCluster:
    """A Job of two pods in a queue of KAI."""
    return CheckedCluster("placement/clusters/kai-queues", "placement/kai-job-in-queue")


def kai_pod_group() -> CheckedCluster:
    """A PodGroup, and the Job of its pods."""
    cluster = kai_job()
    job = cluster.workload
    job["spec"]["template"]["metadata"] = {"annotations": {"pod-group-name": "pg"}}
    job["metadata"]["annotations"] = {"kai.scheduler/skip-podgrouper": "true"}
    cluster.beside = {"Job/train": job}
    cluster.workload = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "pg", "namespace": job["metadata"]["namespace"]},
        "spec": {"queue": "team", "minMember": 2},
    }
    return cluster


def volcano_job() -> CheckedCluster:
    """A Job of two pods in one HyperNode of two nodes, and in a queue."""
    cluster = CheckedCluster("placement/clusters/hyper-nodes", "placement/volcano-job")
    cluster.edit_workload("spec.queue", "team")
    cluster.add(volcano_queue("team"))
    return cluster


def volcano_queue(name: str) -> Object:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {},
        "status": {"state": "Open"},
    }


@dataclass(frozen=True)
class Place:
    """Where fields are set: in a workload, or in an object around it."""

    cluster: Callable[[], CheckedCluster]
    type: str
    name: str = ""
    """Of the object around it; empty: the workload itself."""

    def check(self, field: ListedPath | None = None) -> tuple[str, list[str]]:
        """The verdict, and what it says is not read, with the reasons."""
        cluster = self.cluster()
        if field and self.name:
            cluster.objects[self.name] = field.set_in(cluster.objects[self.name])
        elif field:
            cluster.workload = field.set_in(cluster.workload)
        answer = cluster.check()
        return answer.verdict, answer.unread_lines


PLACES = {
    "Kueue's Workload": Place(kueue_workload, "kueue/Workload"),
    "Kueue's ClusterQueue": Place(kueue_job, "kueue/ClusterQueue", "ClusterQueue/cq"),
    "Kueue's LocalQueue": Place(kueue_job, "kueue/LocalQueue", "LocalQueue/queue"),
    "Kueue's ResourceFlavor": Place(kueue_job, "kueue/ResourceFlavor", "ResourceFlavor/f"),
    "Kueue's Cohort": Place(kueue_job_in_cohort, "kueue/Cohort", "Cohort/all"),
    "Kueue's priority": Place(kueue_job_in_cohort, "kueue/WorkloadPriorityClass", "WorkloadPriorityClass/usual"),
    "Kueue's Topology": Place(kueue_job, "kueue/Topology", "Topology/t"),
    "KAI's PodGroup": Place(kai_pod_group, "kai/PodGroup"),
    "KAI's Queue": Place(kai_job, "kai/Queue", "Queue/team"),
    "Volcano's Job": Place(volcano_job, "volcano/Job"),
    "Volcano's Queue": Place(volcano_job, "volcano/Queue", "Queue/team"),
}


LEFT_OUT = {
    "kueue/AdmissionCheck": "its status decides",
    "kai/Topology": "all of its fields are used",
    "volcano/PodGroup": "its pods are not known",
    "volcano/HyperNode": "all of its fields are used",
}


def test_kinds_of_the_systems_are_tried_or_left_out_for_a_reason() -> None:
    tried = {place.type for place in PLACES.values()}
    listed = set()
    for type_ in field_uses().kinds.values():
        if type_.startswith(("kueue/", "kai/", "volcano/")):
            listed.add(type_)
    assert listed == tried | LEFT_OUT.keys()


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_workload_without_more_fields_fits(place: Place) -> None:
    verdict, unread = place.check()
    assert verdict.startswith("fits: ")
    assert unread == []


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_irrelevant_field_leaves_the_answer_as_it_was(place: Place) -> None:
    before = place.check()
    changed = {}
    for field in listed_paths(place.type):
        if field.use is Use.IRRELEVANT:
            after = place.check(field)
            if after != before:
                changed[field.path] = after
    assert changed == {}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_unread_field_leaves_no_verdict_and_is_named(place: Place) -> None:
    silent = {}
    for field in listed_paths(place.type):
        if field.use is Use.UNREAD:
            verdict, unread = place.check(field)
            name = field.path.removesuffix(f".{SET}")
            if not verdict.startswith("unclear: ") or name not in "".join(unread):
                silent[field.path] = verdict, unread
    assert silent == {}


def test_queue_of_volcano_is_none_of_kai() -> None:
    cluster = volcano_job()
    kais = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "other"}, "spec": {}}
    cluster.add(kais)
    assert cluster.check().findings == []


def test_affinity_of_a_volcano_queue_is_said_of_the_field_that_names_it() -> None:
    cluster = volcano_job()
    cluster.edit("Queue/team", "spec.parent", "all")
    cluster.add(volcano_queue("all"))
    affinity = {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["a"]}}
    cluster.edit("Queue/all", "spec.affinity", affinity)
    assert cluster.check().unread_lines == [
        "spec.queue: queue all sets spec.affinity, which restricts its pods to groups of nodes",
    ]


WORKLOADS = {
    "kueue.x-k8s.io": kueue_job,
    "kai.scheduler": kai_job,
    "volcano.sh": volcano_job,
}


@pytest.mark.parametrize("kept_in", ["labels", "annotations"])
@pytest.mark.parametrize("prefix", WORKLOADS)
def test_key_leaves_no_verdict_where_it_is_unread_alone(prefix: str, kept_in: str) -> None:
    before = WORKLOADS[prefix]().check().verdict
    wrong = {}
    for key, listed in listed_keys((prefix,)).items():
        if listed.use is Use.USED:
            continue
        field = ListedPath(("metadata", kept_in, key), listed)
        cluster = WORKLOADS[prefix]()
        cluster.workload = field.set_in(cluster.workload)
        answer = cluster.check()
        is_right = (answer.verdict, answer.unread) == (before, [])
        if listed.use is Use.UNREAD:
            is_right = answer.verdict.startswith("unclear: ") and answer.unread == [f"metadata.{kept_in}[{key}]"]
        if not is_right:
            wrong[key] = listed.use.value, answer.verdict, answer.unread
    assert wrong == {}
