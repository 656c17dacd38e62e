"""KAI's PodGroup: its tree of sub-groups, and what KAI refuses of it."""

from typing import Any

import pytest
from tests.integrations.clusters import CLUSTER
from tests.integrations.kai.annotations import NO_LEVEL
from tests.support.checking import Read, error, read, warning
from tests.support.documents import Edits, document, text

pytestmark = pytest.mark.regression

PODS_UNKNOWN = (
    "no pods of the PodGroup are known, so their requests are unknown, so room is not checked; check the workload "
    "that creates its pods"
)
PODS_OF_A_UNKNOWN = (
    "no pods of sub-group a are known, so their requests are unknown, so room is not checked; check the workload "
    "that creates its pods"
)


def read_kai(name: str, edits: Edits | None = None) -> Read:
    return read("KAI", document(f"kai/{name}", edits), CLUSTER)


def test_sub_groups_are_a_tree() -> None:
    answer = read_kai("podgroup")
    assert answer.findings == []
    assert answer.workload == text("""
        KAI podgroup/train -n ml on cluster, a gang, not placeable
          train: required zone, preferred rack
            sub-group prefill
              sub-group a: required rack; 4 a
              sub-group b: required rack; 4 b
            sub-group router: 1 router
    """)
    assert answer.notes == [PODS_OF_A_UNKNOWN]


def test_pod_group_without_sub_groups_has_its_members() -> None:
    answer = read_kai("podgroup", {"spec": {"minMember": 8}})
    assert answer.findings == []
    assert answer.workload == text("""
        KAI podgroup/train -n ml, a gang, not placeable
          train: 8 pods
    """)
    assert answer.notes == [PODS_UNKNOWN]


def test_room_for_unknown_pods_is_not_checked() -> None:
    answer = read_kai(
        "podgroup",
        {
            "spec": {
                "minMember": 8,
                "topologyConstraint": {"topology": "cluster", "requiredTopologyLevel": "example.com/rack"},
            }
        },
    )
    assert answer.findings == []
    assert answer.workload == text("""
        KAI podgroup/train -n ml on cluster, a gang, not placeable
          train: required rack; 8 pods
    """)
    assert answer.notes == [PODS_UNKNOWN]


def test_unknown_version_and_policy_are_refused() -> None:
    answer = read_kai(
        "podgroup",
        {
            "apiVersion": "scheduling.run.ai/v2",
            "spec.topologyPolicy": {"scope": "rack"},
            "spec.topologyConstraint": None,
        },
    )
    assert answer.findings == [
        error(
            "kai/version",
            "apiVersion",
            "KAI does not serve PodGroup scheduling.run.ai/v2",
            fix="write scheduling.run.ai/v2alpha2",
        ),
        error(
            "kai/field",
            "spec.topologyPolicy",
            "no version of KAI has this field: the API server rejects or drops it, and the pods are placed anywhere",
            fix="write spec.topologyConstraint with topology: cluster and requiredTopologyLevel: example.com/rack",
        ),
    ]


def test_unknown_policy_is_refused() -> None:
    answer = read_kai("podgroup", {"spec.topologyPolicy": {"scope": "node"}})
    assert answer.findings == [
        error(
            "kai/field",
            "spec.topologyPolicy",
            "no version of KAI has this field: the API server rejects or drops it, and the pods are placed anywhere",
            fix="write spec.topologyConstraint with topology: NAME and requiredTopologyLevel: LABEL KEY",
        )
    ]


def test_misspelt_field_is_refused() -> None:
    answer = read_kai("podgroup", {"spec.minMembers": 8})
    assert answer.findings == [
        error(
            "kai/field",
            "spec.minMembers",
            'unknown field "spec.minMembers"',
            fix="did you mean 'minMember'? KAI 0.17 has no such field: kubectl rejects it, Helm drops it",
        )
    ]


def test_sub_groups_inside_each_other_without_end_are_refused() -> None:
    chain: list[dict[str, Any]] = [{"name": "s0"}]
    for number in range(1, 3000):
        chain.append({"name": f"s{number}", "parent": f"s{number - 1}"})
    answer = read_kai("podgroup", {"spec": {"subGroups": chain}})
    assert answer.findings[0].rule == "kai/sub-group-depth"


def test_equal_sub_group_names_are_refused() -> None:
    answer = read_kai(
        "podgroup", {"spec": {"subGroups": [{"name": "a", "minMember": 1}, {"name": "a", "minMember": 1}]}}
    )
    assert answer.findings == [
        error(
            "kai/sub-group-name",
            "spec.subGroups[1].name",
            "duplicate subgroup name a",
            fix="give each sub-group a name of its own",
        )
    ]


def test_sub_group_name_in_capitals_is_refused() -> None:
    answer = read_kai("podgroup", {"spec": {"subGroups": [{"name": "A", "minMember": 1}]}})
    assert answer.findings == [
        error(
            "kai/sub-group-name",
            "spec.subGroups[0].name",
            "must be a DNS label (RFC 1123)",
            fix="use 1-63 lower-case letters, digits or '-'",
        )
    ]


def test_unknown_parent_is_refused() -> None:
    answer = read_kai("podgroup", {"spec": {"subGroups": [{"name": "a", "minMember": 1, "parent": "b"}]}})
    assert answer.findings == [
        error("kai/parent-exists", "spec.subGroups[0].parent", "parent b of a was not found", fix="there are: a")
    ]


def test_parents_in_a_circle_are_refused() -> None:
    answer = read_kai("podgroup", {"spec": {"subGroups": [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}]}})
    assert answer.findings == [
        error(
            "kai/sub-group-cycle",
            "spec.subGroups[0].parent",
            "cycle detected in subgroups",
            fix="one of its parents must have no parent",
        ),
        error(
            "kai/sub-group-cycle",
            "spec.subGroups[1].parent",
            "cycle detected in subgroups",
            fix="one of its parents must have no parent",
        ),
    ]


def test_sub_group_without_min_member_is_refused() -> None:
    answer = read_kai("podgroup", {"spec": {"subGroups": [{"name": "a"}]}})
    assert answer.findings == [
        error(
            "kai/min-member",
            "spec.subGroups[0]",
            "subgroup a: minMember is required",
            fix="set the fewest pods that it needs",
        )
    ]


def test_min_member_beside_min_sub_group_is_refused() -> None:
    answer = read_kai(
        "podgroup", {"spec": {"subGroups": [{"name": "a", "minMember": 1}], "minMember": 1, "minSubGroup": 1}}
    )
    assert answer.findings == [
        error(
            "kai/min-member",
            "spec.minSubGroup",
            (
                "minMember and minSubGroup are mutually exclusive: set minMember (1) to schedule a fixed "
                "number of pods, or set minSubGroup to require a minimum number of child SubGroups, but not "
                "both"
            ),
            fix="keep one of them",
        )
    ]


def test_min_sub_group_beyond_sub_groups_is_refused() -> None:
    answer = read_kai("podgroup", {"spec": {"subGroups": [{"name": "a", "minMember": 1}], "minSubGroup": 2}})
    assert answer.findings == [
        error(
            "kai/min-sub-group",
            "spec.minSubGroup",
            "minSubGroup (2) exceeds the number of direct child SubGroups (1)",
            fix="set at most 1",
        )
    ]


def test_min_sub_group_of_zero_is_refused() -> None:
    answer = read_kai("podgroup", {"spec": {"subGroups": [{"name": "a", "minMember": 1}], "minSubGroup": 0}})
    assert answer.findings == [
        error(
            "kai/min-sub-group",
            "spec.minSubGroup",
            "minSubGroup must be greater than 0",
            fix="set at least 1, or remove it",
        )
    ]


def test_min_sub_group_of_a_leaf_is_refused() -> None:
    answer = read_kai("podgroup", {"spec": {"subGroups": [{"name": "a", "minMember": 1, "minSubGroup": 1}]}})
    assert answer.findings == [
        error(
            "kai/min-member",
            "spec.subGroups[0].minSubGroup",
            'subgroup "a": minMember and minSubGroup are mutually exclusive',
            fix="keep one of them",
        ),
        error(
            "kai/min-member",
            "spec.subGroups[0].minSubGroup",
            'subgroup "a": minSubGroup cannot be set on a leaf SubGroup (no child SubGroups)',
            fix="use minMember",
        ),
    ]


def test_min_sub_group_of_a_leaf_without_members_is_refused() -> None:
    answer = read_kai("podgroup", {"spec": {"subGroups": [{"name": "a", "minMember": 0, "minSubGroup": 1}]}})
    assert answer.findings == [
        error(
            "kai/min-member",
            "spec.subGroups[0].minSubGroup",
            'subgroup "a": minSubGroup cannot be set on a leaf SubGroup (no child SubGroups)',
            fix="use minMember",
        )
    ]


def test_min_member_of_a_parent_is_refused() -> None:
    answer = read_kai(
        "podgroup",
        {"spec": {"subGroups": [{"name": "a", "minMember": 1}, {"name": "b", "minMember": 1, "parent": "a"}]}},
    )
    assert answer.findings == [
        error(
            "kai/min-member",
            "spec.subGroups[0].minMember",
            (
                'subgroup "a": minMember cannot be set on a mid-level SubGroup (has child SubGroups); use '
                "minSubGroup instead"
            ),
            fix="remove minMember here and set it on the children",
        )
    ]


def test_min_sub_group_beyond_children_is_refused() -> None:
    answer = read_kai(
        "podgroup",
        {"spec": {"subGroups": [{"name": "a", "minSubGroup": 3}, {"name": "b", "minMember": 1, "parent": "a"}]}},
    )
    assert answer.findings == [
        error(
            "kai/min-sub-group",
            "spec.subGroups[0].minSubGroup",
            'subgroup "a": minSubGroup (3) exceeds the number of direct child SubGroups (1)',
            fix="set at most 1",
        )
    ]


def test_min_member_of_zero_is_for_releases_to_come() -> None:
    answer = read_kai("podgroup", {"spec": {"minMember": 0}})
    assert answer.findings == [
        warning(
            "kai/min-member",
            "spec.minMember",
            "KAI 0.17 rejects 0; later releases start the pods one by one",
            fix="set at least 1 for KAI 0.17",
        )
    ]


def test_domain_as_level_of_a_sub_group_is_refused() -> None:
    answer = read_kai(
        "podgroup",
        {
            "spec": {
                "subGroups": [
                    {
                        "name": "a",
                        "minMember": 1,
                        "topologyConstraint": {"topology": "cluster", "requiredTopologyLevel": "rack"},
                    }
                ]
            }
        },
    )
    assert answer.findings == [
        error(
            "kai/level-exists",
            "spec.subGroups[0].topologyConstraint.requiredTopologyLevel",
            (
                "topology constraint error: sub-group a specified 'rack' as the required topology constraint "
                "level, but the topology tree 'cluster' does not contain a level with this name"
            ),
            fix="a label key is required here: write 'example.com/rack'",
        )
    ]


def test_unknown_topology_of_a_pod_group_is_refused() -> None:
    answer = read_kai(
        "podgroup",
        {
            "spec": {
                "minMember": 1,
                "topologyConstraint": {"topology": "other", "requiredTopologyLevel": "example.com/rack"},
            }
        },
    )
    assert answer.findings == [
        error(
            "kai/topology-exists",
            "spec.topologyConstraint.topology",
            "Requested topology other does not exist",
            fix="there are: cluster",
        )
    ]


def test_levels_broader_than_those_around_them_are_refused() -> None:
    answer = read_kai(
        "podgroup",
        {
            "spec": {
                "subGroups": [
                    {
                        "name": "a",
                        "minMember": 1,
                        "topologyConstraint": {
                            "topology": "cluster",
                            "requiredTopologyLevel": "topology.kubernetes.io/zone",
                        },
                    }
                ],
                "topologyConstraint": {
                    "topology": "cluster",
                    "requiredTopologyLevel": "example.com/rack",
                    "preferredTopologyLevel": "topology.kubernetes.io/zone",
                },
            }
        },
    )
    assert answer.findings == [
        error(
            "kai/preferred-broader",
            "spec.topologyConstraint.preferredTopologyLevel",
            (
                "KAI 0.17 never schedules pods whose preferred level (topology.kubernetes.io/zone) is "
                "broader than the required one (example.com/rack, in "
                "spec.topologyConstraint.requiredTopologyLevel)"
            ),
            fix="prefer example.com/rack or a narrower level, or remove spec.topologyConstraint.preferredTopologyLevel",
        ),
        error(
            "kai/broader-than-parent",
            "spec.subGroups[0].topologyConstraint.requiredTopologyLevel",
            (
                "'topology.kubernetes.io/zone' is broader than 'example.com/rack', which the group around it "
                "requires: KAI 0.17 never schedules it"
            ),
            fix="name a narrower level, or remove it",
        ),
    ]


def test_topology_without_level_of_a_sub_group_is_refused() -> None:
    answer = read_kai(
        "podgroup",
        {"spec": {"subGroups": [{"name": "a", "minMember": 1, "topologyConstraint": {"topology": "cluster"}}]}},
    )
    assert answer.findings == [
        error(
            "kai/no-level",
            "spec.subGroups[0].topologyConstraint.topology",
            NO_LEVEL,
            fix=(
                "set spec.subGroups[0].topologyConstraint.requiredTopologyLevel or "
                "spec.subGroups[0].topologyConstraint.preferredTopologyLevel, or remove the topology here"
            ),
        )
    ]


def test_first_sub_groups_by_name_start() -> None:
    answer = read_kai(
        "podgroup",
        {
            "spec": {
                "subGroups": [
                    {"name": "b", "minMember": 2},
                    {"name": "a", "minMember": 4},
                    {"name": "c", "minMember": 8},
                ],
                "minSubGroup": 2,
            }
        },
    )
    assert answer.findings == []
    assert answer.workload == text("""
        KAI podgroup/train -n ml, a gang, not placeable
          train
            sub-group a: 4 a
            sub-group b: 2 b
    """)
    assert answer.notes == [
        "room is checked for a, b: KAI starts 2 of the 3 sub-groups of the PodGroup first",
        PODS_OF_A_UNKNOWN,
    ]


def test_level_is_compared_across_an_unconstrained_sub_group() -> None:
    answer = read_kai(
        "podgroup",
        {
            "spec": {
                "subGroups": [
                    {"name": "mid"},
                    {
                        "name": "leaf",
                        "minMember": 1,
                        "parent": "mid",
                        "topologyConstraint": {
                            "topology": "cluster",
                            "requiredTopologyLevel": "topology.kubernetes.io/zone",
                        },
                    },
                ],
                "topologyConstraint": {"topology": "cluster", "requiredTopologyLevel": "example.com/rack"},
            }
        },
    )
    assert answer.findings == [
        error(
            "kai/broader-than-parent",
            "spec.subGroups[1].topologyConstraint.requiredTopologyLevel",
            (
                "'topology.kubernetes.io/zone' is broader than 'example.com/rack', which the group around it "
                "requires: KAI 0.17 never schedules it"
            ),
            fix="name a narrower level, or remove it",
        )
    ]
