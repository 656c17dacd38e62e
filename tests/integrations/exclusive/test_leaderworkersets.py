"""Exclusive placement of a LeaderWorkerSet: each group, or each sub-group, alone in its domain."""

from typing import Any

import pytest
from tests.integrations.clusters import CLUSTER, NODES_WITH_POOLS_ONLY, NOTHING_KNOWN, RACK_HELD_BY_GROUP_OF_OTHERS
from tests.support.checking import Read, error, read
from tests.support.documents import Edits, document, text
from toposcope.integrations.framework.system import ClusterFacts

pytestmark = pytest.mark.regression

EXCLUSIVE = "metadata.annotations[leaderworkerset.sigs.k8s.io/exclusive-topology]"
SUB_GROUP_EXCLUSIVE = "metadata.annotations[leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology]"
SIZE = "spec.leaderWorkerTemplate.size"
SUB_GROUPS = "spec.leaderWorkerTemplate.subGroupPolicy"
SUB_GROUP_SIZE = "spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize"
SUB_GROUP_TYPE = "spec.leaderWorkerTemplate.subGroupPolicy.subGroupPolicyType"
NOT_DIVISIBLE = "size or size - 1 must be divisible by subGroupSize"


def read_exclusive(
    name: str, edits: Edits | None = None, *, cluster: ClusterFacts = CLUSTER, before: Any = None
) -> Read:
    return read(("LeaderWorkerSet", "JobSet"), document(f"exclusive/{name}", edits), cluster, before=before)


def test_each_group_has_a_rack_of_its_own() -> None:
    answer = read_exclusive("leaderworkerset", {EXCLUSIVE: "example.com/rack", "spec.replicas": 3, SUB_GROUPS: None})
    assert answer.findings == []
    assert answer.workload == text("""
        LeaderWorkerSet leaderworkerset/train -n ml on labels example.com/rack
          3 x group: required rack, apart by leaderworkerset.sigs.k8s.io/group-key;
              1 leader (nvidia.com/gpu=1); 4 worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_any_node_label_will_do() -> None:
    answer = read_exclusive(
        "leaderworkerset",
        {EXCLUSIVE: "example.com/pool", "spec.replicas": 3, SUB_GROUPS: None},
        cluster=NODES_WITH_POOLS_ONLY,
    )
    assert answer.findings == []
    assert answer.workload == text("""
        LeaderWorkerSet leaderworkerset/train -n ml on labels example.com/pool
          3 x group: required example.com/pool, apart by leaderworkerset.sigs.k8s.io/group-key;
              1 leader (nvidia.com/gpu=1); 4 worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_each_sub_group_has_a_host_of_its_own() -> None:
    answer = read_exclusive(
        "leaderworkerset",
        {EXCLUSIVE: "example.com/rack", SUB_GROUP_EXCLUSIVE: "kubernetes.io/hostname", "spec.replicas": 2},
    )
    assert answer.findings == []
    assert answer.workload == text("""
        LeaderWorkerSet leaderworkerset/train -n ml on labels example.com/rack, kubernetes.io/hostname
          2 x group: required rack, apart by leaderworkerset.sigs.k8s.io/group-key
            sub-group: required host, apart by leaderworkerset.sigs.k8s.io/subgroup-key;
                1 leader (nvidia.com/gpu=1); 2 worker (nvidia.com/gpu=8)
            sub-group: required host, apart by leaderworkerset.sigs.k8s.io/subgroup-key;
                2 worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_leader_excluded_is_in_no_sub_group() -> None:
    answer = read_exclusive(
        "leaderworkerset",
        {SUB_GROUP_EXCLUSIVE: "kubernetes.io/hostname", "spec.replicas": 2, SUB_GROUP_TYPE: "LeaderExcluded"},
    )
    assert answer.findings == []
    assert answer.workload == text("""
        LeaderWorkerSet leaderworkerset/train -n ml on labels kubernetes.io/hostname
          2 x group: 1 leader (nvidia.com/gpu=1)
            2 x sub-group: required host, apart by leaderworkerset.sigs.k8s.io/subgroup-key;
                2 worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_label_that_no_node_carries_is_refused() -> None:
    answer = read_exclusive("leaderworkerset", {EXCLUSIVE: "example.com/rak", SUB_GROUPS: None})
    assert answer.findings == [
        error(
            "leaderworkerset/label-exists",
            EXCLUSIVE,
            "node does not have topology label: ",
            fix="no node carries the label 'example.com/rak'; did you mean 'example.com/rack'?",
        )
    ]


def test_exclusive_sub_groups_without_size_are_refused() -> None:
    answer = read_exclusive("leaderworkerset", {SUB_GROUP_EXCLUSIVE: "kubernetes.io/hostname", SUB_GROUPS: None})
    assert answer.findings == [
        error(
            "leaderworkerset/subgroup-size",
            SUB_GROUP_EXCLUSIVE,
            "cannot have subgroup-exclusive-topology without subGroupSize set",
            fix="set spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize",
        )
    ]


def test_sub_groups_on_the_level_of_their_group_are_refused() -> None:
    answer = read_exclusive("leaderworkerset", {EXCLUSIVE: "example.com/rack", SUB_GROUP_EXCLUSIVE: "example.com/rack"})
    assert answer.findings == [
        error(
            "leaderworkerset/subgroup-level",
            SUB_GROUP_EXCLUSIVE,
            "sub-groups cannot each have their own rack and share the rack of their group",
            fix="name a narrower label here, or remove exclusive-topology",
        )
    ]


@pytest.mark.parametrize(
    ("edits", "message", "fix"),
    [
        pytest.param(
            {SUB_GROUP_SIZE: 0},
            "subGroupSize must be equal or greater than 1",
            "set the number of pods that share a domain",
            id="zero",
        ),
        pytest.param({SIZE: 6, SUB_GROUP_SIZE: 4}, NOT_DIVISIBLE, "of 6 pods, one of them the leader", id="no-divisor"),
    ],
)
def test_wrong_sub_group_size_is_refused(edits: Edits, message: str, fix: str) -> None:
    answer = read_exclusive("leaderworkerset", edits)
    assert answer.findings == [error("leaderworkerset/subgroup-size", SUB_GROUP_SIZE, message, fix=fix)]


def test_sub_group_larger_than_its_group_is_refused() -> None:
    answer = read_exclusive("leaderworkerset", {SIZE: 2, SUB_GROUP_SIZE: 3})
    assert answer.findings == [
        error("leaderworkerset/subgroup-size", SUB_GROUP_SIZE, NOT_DIVISIBLE, fix="of 2 pods, one of them the leader"),
        error(
            "leaderworkerset/subgroup-size",
            SUB_GROUP_SIZE,
            "subGroupSize cannot be larger than size",
            fix="of 2 pods, one of them the leader",
        ),
    ]


def test_sub_groups_of_workers_alone_that_do_not_divide_are_refused() -> None:
    answer = read_exclusive(
        "leaderworkerset", {SIZE: 6, SUB_GROUPS: {"subGroupSize": 3, "subGroupPolicyType": "LeaderExcluded"}}
    )
    assert answer.findings == [
        error(
            "leaderworkerset/subgroup-size",
            SUB_GROUP_SIZE,
            "size-1 must be divisible by subGroupSize when using LeaderExcluded",
            fix="of 6 pods, one of them the leader",
        )
    ]


def test_domain_instead_of_label_key_is_refused() -> None:
    answer = read_exclusive("leaderworkerset", {EXCLUSIVE: "rack", SUB_GROUPS: None})
    assert answer.findings == [
        error(
            "leaderworkerset/label-exists",
            EXCLUSIVE,
            "node does not have topology label: ",
            fix="no node carries the label 'rack'; a label key is required here: write 'example.com/rack'",
        )
    ]


def test_label_in_an_unknown_cluster_is_accepted() -> None:
    answer = read_exclusive("leaderworkerset", {EXCLUSIVE: "rack", SUB_GROUPS: None}, cluster=NOTHING_KNOWN)
    assert answer.findings == []
    assert answer.workload == text("""
        LeaderWorkerSet leaderworkerset/train -n ml on labels rack
          group: required rack, apart by leaderworkerset.sigs.k8s.io/group-key; 1 leader (nvidia.com/gpu=1);
              4 worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_unchanged_sub_groups_are_accepted() -> None:
    answer = read_exclusive("leaderworkerset", before=document("exclusive/leaderworkerset"))
    assert answer.findings == []
    assert answer.workload == text("""
        LeaderWorkerSet leaderworkerset/train -n ml
          group: 1 leader (nvidia.com/gpu=1); 4 worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_sub_groups_cannot_be_added() -> None:
    answer = read_exclusive(
        "leaderworkerset",
        before=document(
            "exclusive/leaderworkerset",
            {
                "metadata.annotations": {"leaderworkerset.sigs.k8s.io/exclusive-topology": "example.com/rack"},
                SUB_GROUPS: None,
            },
        ),
    )
    assert answer.findings == [
        error(
            "leaderworkerset/immutable",
            SUB_GROUP_SIZE,
            "cannot enable subGroupSize after the lws is already created",
            fix="delete the LeaderWorkerSet and create it again",
        )
    ]


def test_sub_groups_cannot_be_removed() -> None:
    answer = read_exclusive(
        "leaderworkerset",
        {EXCLUSIVE: "example.com/rack", SUB_GROUPS: None},
        before=document("exclusive/leaderworkerset"),
    )
    assert answer.findings == [
        error(
            "leaderworkerset/immutable",
            SUB_GROUP_SIZE,
            "cannot remove subGroupSize after enabled",
            fix="delete the LeaderWorkerSet and create it again",
        )
    ]


def test_sub_group_size_is_immutable() -> None:
    answer = read_exclusive("leaderworkerset", {SUB_GROUP_SIZE: 4}, before=document("exclusive/leaderworkerset"))
    assert answer.findings == [
        error(
            "leaderworkerset/immutable",
            SUB_GROUP_SIZE,
            "field is immutable",
            fix="delete the LeaderWorkerSet and create it again",
        )
    ]


def test_rack_held_by_a_group_of_another_namespace_is_free() -> None:
    answer = read_exclusive(
        "leaderworkerset",
        {EXCLUSIVE: "example.com/rack", SIZE: 2, SUB_GROUPS: None},
        cluster=RACK_HELD_BY_GROUP_OF_OTHERS,
    )
    assert answer.findings == []
    assert answer.workload == text("""
        LeaderWorkerSet leaderworkerset/train -n ml on labels example.com/rack
          group: required rack, apart by leaderworkerset.sigs.k8s.io/group-key; 1 leader (nvidia.com/gpu=1);
              1 worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == []
