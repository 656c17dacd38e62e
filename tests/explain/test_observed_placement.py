"""What is observed of a workload: its copies, and the domains that Kueue assigned."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from toposcope.api.levels import Level
from toposcope.explain.observed_placement import copies_of
from toposcope.integrations.framework.constraints import Group, Pods
from toposcope.integrations.kueue.queues import AssignedDomain, assigned_domains
from toposcope.integrations.lws.api import GROUP_KEY, SUBGROUP_KEY
from toposcope.snapshot.model import NOTHING, PodView

RACK = Level("rack", "example.com/rack")
HOST = "kubernetes.io/hostname"
PODS = (Pods("pods", 2, ()),)


def labelled(name: str, labels: dict[str, str]) -> PodView:
    """A running pod with these labels."""
    return PodView("ml", name, "n1", "Running", NOTHING, None, labels, {}, "", "")


def names(copies: Mapping[str, Sequence[PodView]] | None) -> dict[str, list[str]]:
    """The names of each copy's pods."""
    assert copies is not None
    found = {}
    for copy, pods in copies.items():
        found[copy] = [pod.name for pod in pods]
    return found


def grove_pod(name: str, clique: str, *, set_copy: str = "0") -> PodView:
    """A pod of a clique that scales on its own."""
    return labelled(name, {"grove.io/podclique": clique, "grove.io/podcliqueset-replica-index": set_copy})


def scaled_grove_pod(name: str, clique: str, group: str, copy: str) -> PodView:
    """A pod of a clique in a copy of a scaling group."""
    labels = {
        "grove.io/podclique": clique,
        "grove.io/podcliqueset-replica-index": "0",
        "grove.io/podcliquescalinggroup": group,
        "grove.io/podcliquescalinggroup-replica-index": copy,
    }
    return labelled(name, labels)


def inner_group(kind: str, name: str) -> Group:
    """A part of a workload that must share a rack."""
    return replace(Group.of_kind(kind, name, PODS), required=RACK)


GROVE_PODS = [
    scaled_grove_pod("a", "llm-0-decode-0-leader", "llm-0-decode", "0"),
    scaled_grove_pod("b", "llm-0-decode-1-leader", "llm-0-decode", "1"),
    grove_pod("c", "llm-1-router", set_copy="1"),
    grove_pod("d", "llm-0-pre-router"),
]
GROVE_SET = Group("llm", PODS, required=RACK, copies=2)
SCALING_GROUP = inner_group("scaling group", "decode")


def test_copies_of_a_grove_set_are_its_replicas() -> None:
    copies = copies_of("Grove", GROVE_SET, GROVE_PODS, is_whole_workload=True)
    assert names(copies) == {"0": ["a", "b", "d"], "1": ["c"]}


def test_copies_of_a_grove_scaling_group_are_its_replicas() -> None:
    copies = copies_of("Grove", SCALING_GROUP, GROVE_PODS, is_whole_workload=False)
    assert names(copies) == {"llm-0-decode-0": ["a"], "llm-0-decode-1": ["b"]}


def test_grove_gang_of_a_set_has_only_the_first_copies_of_a_scaling_group() -> None:
    """Of the scaling group only `copies` are in the gang of the set, the others are gangs of their own."""
    grove_set = replace(GROVE_SET, groups=(SCALING_GROUP,))
    copies = copies_of("Grove", grove_set, GROVE_PODS, is_whole_workload=True)
    assert names(copies) == {"0": ["a", "d"], "1": ["c"]}


def test_grove_clique_has_one_copy() -> None:
    router = inner_group("clique", "router")
    copies = copies_of("Grove", router, GROVE_PODS, is_whole_workload=False)
    assert names(copies) == {"": ["c"]}


LWS_PODS = [
    labelled("a1", {GROUP_KEY: "a", SUBGROUP_KEY: "a1"}),
    labelled("a2", {GROUP_KEY: "a", SUBGROUP_KEY: "a2"}),
    labelled("b1", {GROUP_KEY: "b", SUBGROUP_KEY: "b1"}),
]


def test_copies_of_a_leader_worker_set_are_its_groups() -> None:
    group = Group("group", PODS, required=RACK, copies=2, anti_affinity=GROUP_KEY)
    copies = copies_of("LeaderWorkerSet", group, LWS_PODS, is_whole_workload=True)
    assert names(copies) == {"a": ["a1", "a2"], "b": ["b1"]}


def test_copies_of_a_leader_worker_set_group_are_its_sub_groups() -> None:
    inner = Group("sub-group", PODS, required=RACK, copies=2, anti_affinity=SUBGROUP_KEY)
    copies = copies_of("LeaderWorkerSet", inner, LWS_PODS, is_whole_workload=False)
    assert names(copies) == {"a1": ["a1"], "a2": ["a2"], "b1": ["b1"]}


def test_kueue_pod_set_has_the_pods_of_its_label() -> None:
    pods = [labelled(name, {"kueue.x-k8s.io/podset": name}) for name in ("leader", "worker")]
    group = inner_group("pod set", "worker")
    copies = copies_of("Kueue", group, pods, is_whole_workload=False)
    assert names(copies) == {"": ["worker"]}


def test_unlabelled_pods_are_the_whole_or_unknown() -> None:
    pods = [labelled("a", {}), labelled("b", {})]
    one_copy = Group("train", PODS, required=RACK)
    two_copies = Group("train", PODS, required=RACK, copies=2)
    two_segments = Group("segment", PODS, required=RACK, copies=2)
    assert names(copies_of("KAI", one_copy, pods, is_whole_workload=True)) == {"": ["a", "b"]}
    assert copies_of("KAI", two_copies, pods, is_whole_workload=True) is None
    assert copies_of("KAI", two_segments, pods, is_whole_workload=False) is None


BEFORE_V1BETA2 = {
    "levels": ["rack", HOST],
    "domains": [{"values": ["r1", "n1"], "count": 2}, {"values": ["r1", "n2"], "count": 1}],
}
SINCE_V1BETA2 = {
    "levels": ["rack", HOST],
    "slices": [
        {
            "domainCount": 2,
            "valuesPerLevel": [{"universal": "r1"}, {"individual": {"prefix": "n", "roots": ["1", "2"]}}],
            "podCounts": {"individual": [2, 1]},
        },
        {
            "domainCount": 1,
            "valuesPerLevel": [{"universal": "r2"}, {"individual": {"suffix": ".local", "roots": ["n3"]}}],
            "podCounts": {"universal": 4},
        },
        {"domainCount": 1, "valuesPerLevel": [{"universal": "r3"}, {"universal": "n4"}], "podCounts": {"universal": 1}},
    ],
}


def assigned(assignment: dict[str, Any], pod_set: str = "main") -> list[AssignedDomain]:
    """The domains of a Workload with this topologyAssignment."""
    pod_sets = [{"name": pod_set, "topologyAssignment": assignment}]
    return list(assigned_domains({"status": {"admission": {"podSetAssignments": pod_sets}}}))


def test_kueue_assignment_before_v1beta2_lists_its_domains() -> None:
    assert assigned(BEFORE_V1BETA2, "w") == [
        AssignedDomain("w", ("rack", HOST), ("r1", "n1"), 2),
        AssignedDomain("w", ("rack", HOST), ("r1", "n2"), 1),
    ]


def test_kueue_assignment_since_v1beta2_packs_its_domains_in_slices() -> None:
    assert assigned(SINCE_V1BETA2) == [
        AssignedDomain("main", ("rack", HOST), ("r1", "n1"), 2),
        AssignedDomain("main", ("rack", HOST), ("r1", "n2"), 1),
        AssignedDomain("main", ("rack", HOST), ("r2", "n3.local"), 4),
        AssignedDomain("main", ("rack", HOST), ("r3", "n4"), 1),
    ]


@pytest.mark.parametrize(
    "assignment",
    [
        pytest.param({}, id="empty"),
        pytest.param({"levels": 3, "domains": "x"}, id="no-lists"),
        pytest.param({"slices": [{"domainCount": "x"}, 3]}, id="no-slices"),
        pytest.param({"domains": [3]}, id="no-domain"),
    ],
)
def test_malformed_kueue_assignment_names_no_level(assignment: dict[str, Any]) -> None:
    levels = [domain.levels for domain in assigned(assignment)]
    assert not any(levels)
