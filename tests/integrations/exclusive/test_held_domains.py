"""Domains that hold other exclusive groups are left out, and what is not exclusive is not read."""

import pytest
from tests.integrations.clusters import CLUSTER, RACK_HELD_BY_GROUP, RACK_HELD_BY_JOB_OF_OTHERS
from tests.support.checking import Read, read
from tests.support.documents import Edits, document, text
from toposcope.integrations.framework.system import ClusterFacts

pytestmark = pytest.mark.regression

EXCLUSIVE = "metadata.annotations[leaderworkerset.sigs.k8s.io/exclusive-topology]"
SIZE = "spec.leaderWorkerTemplate.size"
SUB_GROUPS = "spec.leaderWorkerTemplate.subGroupPolicy"
NODE_SELECTOR = "metadata.annotations[alpha.jobset.sigs.k8s.io/node-selector]"


def read_exclusive(name: str, edits: Edits | None = None, *, cluster: ClusterFacts = CLUSTER) -> Read:
    return read(("LeaderWorkerSet", "JobSet"), document(f"exclusive/{name}", edits), cluster)


def test_rack_held_by_a_group_is_left_out() -> None:
    answer = read_exclusive(
        "leaderworkerset", {EXCLUSIVE: "example.com/rack", SIZE: 2, SUB_GROUPS: None}, cluster=RACK_HELD_BY_GROUP
    )
    assert answer.findings == []
    assert answer.workload == text("""
        LeaderWorkerSet leaderworkerset/train -n ml on labels example.com/rack
          group: required rack, apart by leaderworkerset.sigs.k8s.io/group-key;
              1 leader (nvidia.com/gpu=1) on nodes with example.com/rack NotIn r1;
              1 worker (nvidia.com/gpu=8) on nodes with example.com/rack NotIn r1
    """)
    assert answer.notes == ["domains of level rack left out, as they hold groups of LeaderWorkerSets already: 1"]


def test_rack_held_by_a_job_is_left_out() -> None:
    answer = read_exclusive(
        "jobset",
        {
            NODE_SELECTOR: None,
            "spec.replicatedJobs[0].replicas": 1,
            "spec.replicatedJobs[0].template.spec.parallelism": 2,
        },
        cluster=RACK_HELD_BY_JOB_OF_OTHERS,
    )
    assert answer.findings == []
    assert answer.workload == text("""
        JobSet jobset/train -n ml on labels example.com/rack
          job of a: required rack, apart by jobset.sigs.k8s.io/job-key;
              2 a (nvidia.com/gpu=8) on nodes with example.com/rack NotIn r1
    """)
    assert answer.notes == ["domains of level rack left out, as they hold Jobs of JobSets already: 1"]


@pytest.mark.parametrize(
    ("name", "edits"),
    [
        pytest.param("leaderworkerset", {"metadata.annotations": None, SUB_GROUPS: None}, id="leaderworkerset"),
        pytest.param(
            "jobset",
            {"metadata.annotations": None, "spec.replicatedJobs[0].template.metadata.annotations": None},
            id="jobset",
        ),
        pytest.param("leaderworkerset", {"": {}}, id="empty"),
        pytest.param("leaderworkerset", {"": {"kind": "JobSet"}}, id="no-version"),
    ],
)
def test_document_without_exclusive_topology_is_not_read(name: str, edits: Edits) -> None:
    answer = read_exclusive(name, edits)
    assert not answer.is_claimed
