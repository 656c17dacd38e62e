"""Exclusive placement of a JobSet: each Job alone in its domain, or on nodes that carry its name."""

from typing import Any

import pytest
from tests.integrations.clusters import CLUSTER, NODES_LABELLED_FOR_JOBS
from tests.support.checking import Read, error, read, warning
from tests.support.documents import Edits, document, edited, text
from toposcope.integrations.framework.system import ClusterFacts

pytestmark = pytest.mark.regression

JOBS_EXCLUSIVE = "metadata.annotations[alpha.jobset.sigs.k8s.io/exclusive-topology]"
NODE_SELECTOR = "metadata.annotations[alpha.jobset.sigs.k8s.io/node-selector]"
NO_NODE_LABELLED = "no node carries the label alpha.jobset.sigs.k8s.io/namespaced-job"
JOBS_EXCLUSIVE_ON_TEMPLATE = "template.metadata.annotations[alpha.jobset.sigs.k8s.io/exclusive-topology]"


def jobs(name: str, *, replicas: int, pods: int) -> Any:
    """One kind of Jobs of a JobSet."""
    edits = {"name": name, "replicas": replicas, "template.spec.parallelism": pods}
    return edited(document("exclusive/jobset")["spec"]["replicatedJobs"][0], edits)


def read_exclusive(name: str, edits: Edits | None = None, *, cluster: ClusterFacts = CLUSTER) -> Read:
    return read(("LeaderWorkerSet", "JobSet"), document(f"exclusive/{name}", edits), cluster)


def test_each_job_has_a_rack_of_its_own() -> None:
    answer = read_exclusive(
        "jobset",
        {NODE_SELECTOR: None, "spec.replicatedJobs": [jobs("a", replicas=3, pods=4), jobs("b", replicas=1, pods=2)]},
    )
    assert answer.findings == []
    assert answer.workload == text("""
        JobSet jobset/train -n ml on labels example.com/rack
          3 x job of a: required rack, apart by jobset.sigs.k8s.io/job-key; 4 a (nvidia.com/gpu=8)
          job of b: required rack, apart by jobset.sigs.k8s.io/job-key; 2 b (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_one_kind_of_jobs_may_be_exclusive() -> None:
    answer = read_exclusive(
        "jobset",
        {
            "metadata.annotations": None,
            "spec.replicatedJobs": [
                edited(jobs("a", replicas=3, pods=4), {JOBS_EXCLUSIVE_ON_TEMPLATE: "example.com/rack"}),
                jobs("b", replicas=1, pods=2),
            ],
        },
    )
    assert answer.findings == []
    assert answer.workload == text("""
        JobSet jobset/train -n ml on labels example.com/rack
          3 x job of a: required rack, apart by jobset.sigs.k8s.io/job-key; 4 a (nvidia.com/gpu=8)
          job of b: 2 b (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_domain_instead_of_label_key_is_refused() -> None:
    answer = read_exclusive(
        "jobset",
        {
            "metadata.annotations": None,
            "spec.replicatedJobs[0].replicas": 3,
            "spec.replicatedJobs[0].template.metadata": {
                "annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
            },
        },
    )
    assert answer.findings == [
        error(
            "jobset/label-exists",
            "spec.replicatedJobs[0].template.metadata.annotations[alpha.jobset.sigs.k8s.io/exclusive-topology]",
            "node does not have topology label: rack",
            fix="no node carries the label 'rack'; a label key is required here: write 'example.com/rack'",
        )
    ]


def test_jobs_go_to_nodes_that_carry_their_names() -> None:
    answer = read_exclusive("jobset", cluster=NODES_LABELLED_FOR_JOBS)
    assert answer.findings == []
    assert answer.workload == text("""
        JobSet jobset/train -n ml
          job a-0: 4 a (nvidia.com/gpu=8) on nodes with
              alpha.jobset.sigs.k8s.io/namespaced-job=ml_train-a-0, tolerates
              alpha.jobset.sigs.k8s.io/no-schedule Exists NoSchedule
          job a-1: 4 a (nvidia.com/gpu=8) on nodes with
              alpha.jobset.sigs.k8s.io/namespaced-job=ml_train-a-1, tolerates
              alpha.jobset.sigs.k8s.io/no-schedule Exists NoSchedule
    """)
    assert answer.notes == []


def test_jobs_without_labelled_nodes_are_refused() -> None:
    answer = read_exclusive("jobset")
    assert answer.findings == [
        error(
            "jobset/nodes-labelled",
            NODE_SELECTOR,
            NO_NODE_LABELLED,
            fix="label the nodes of each Job with it before the JobSet starts (its value: namespace_jobset-job-index)",
        )
    ]
    assert answer.workload == text("""
        JobSet jobset/train -n ml
          job a-0: 4 a (nvidia.com/gpu=8) on nodes with
              alpha.jobset.sigs.k8s.io/namespaced-job=ml_train-a-0, tolerates
              alpha.jobset.sigs.k8s.io/no-schedule Exists NoSchedule
          job a-1: 4 a (nvidia.com/gpu=8) on nodes with
              alpha.jobset.sigs.k8s.io/namespaced-job=ml_train-a-1, tolerates
              alpha.jobset.sigs.k8s.io/no-schedule Exists NoSchedule
    """)
    assert answer.notes == []


def test_node_selector_without_exclusive_topology_is_warned_of() -> None:
    answer = read_exclusive("jobset", {JOBS_EXCLUSIVE: None})
    assert answer.findings == [
        warning(
            "jobset/strategy-alone",
            NODE_SELECTOR,
            "has no effect without alpha.jobset.sigs.k8s.io/exclusive-topology",
            fix="add alpha.jobset.sigs.k8s.io/exclusive-topology with a node label key, or remove it",
        )
    ]


def test_more_than_256_jobs_with_own_nodes_are_not_checked() -> None:
    answer = read_exclusive("jobset", {"spec.replicatedJobs[0].replicas": 257})
    assert answer.findings == [
        error(
            "jobset/nodes-labelled",
            NODE_SELECTOR,
            NO_NODE_LABELLED,
            fix="label the nodes of each Job with it before the JobSet starts (its value: namespace_jobset-job-index)",
        )
    ]
    assert answer.workload == "JobSet jobset/train -n ml, not placeable"
    assert answer.unknown == "a has more than 256 Jobs with nodes of their own"
