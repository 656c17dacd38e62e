"""KAI's PodGroup: its tree, and each rule of the CRD and the webhook in their own words."""

from typing import Any

import pytest
import yaml

from tests.support.workloads import KNOWN, RACK, ZONE, Object, accepted, reported, understood, workload
from toposcope.integrations.framework.system import Reading
from toposcope.integrations.kai.pod_group import SYSTEM as POD_GROUP


def pod_group(*subgroups: Any, **spec: Any) -> Object:
    body = {"subGroups": list(subgroups), **spec} if subgroups else spec
    return workload("scheduling.run.ai/v2alpha2", "PodGroup", body)


def subgroup(name: str, pods: int | None = 1, **more: Any) -> Object:
    return {"name": name, **({} if pods is None else {"minMember": pods}), **more}


def constraint(required: str | None = None, preferred: str | None = None, topology: str | None = "cluster") -> Object:
    return {"topology": topology, "requiredTopologyLevel": required, "preferredTopologyLevel": preferred}


def read(document: Object) -> Reading:
    assert POD_GROUP.claims(document)
    return POD_GROUP.read(document, KNOWN)


def test_the_tree_of_sub_groups() -> None:
    document = pod_group(
        subgroup("prefill", None, minSubGroup=2),
        subgroup("a", 4, parent="prefill", topologyConstraint=constraint(RACK.key)),
        subgroup("b", 4, parent="prefill", topologyConstraint=constraint(RACK.key)),
        subgroup("router", 1),
        minSubGroup=2,
        topologyConstraint=constraint(ZONE.key, RACK.key),
    )
    workload = accepted(read(document))
    (top,) = workload.groups
    assert (workload.topology, top.required, top.preferred) == ("cluster", ZONE, RACK)
    assert top.total() == {"pods": 9}
    prefill, router = top.groups
    assert [(group.name, group.required) for group in prefill.groups] == [("sub-group a", RACK), ("sub-group b", RACK)]
    assert router.total() == {"pods": 1}


def test_without_sub_groups_it_has_its_members() -> None:
    workload = accepted(read(pod_group(minMember=8)))
    assert workload.groups[0].total() == {"pods": 8}


def test_whether_there_is_room_stays_open() -> None:
    workload = understood(read(pod_group(minMember=8, topologyConstraint=constraint(RACK.key))))
    assert not workload.placeable
    assert "no pods of the PodGroup are known" in workload.notes[0]
    assert "room is not checked" in workload.notes[0]


# The spec of a PodGroup, the field that KAI refuses, and its message.
REFUSED = """
- spec: {subGroups: [{name: a, minMember: 1}, {name: a, minMember: 1}]}
  field: spec.subGroups[1].name
  message: duplicate subgroup name a
- spec: {subGroups: [{name: A, minMember: 1}]}
  field: spec.subGroups[0].name
  message: must be a DNS label (RFC 1123)
- spec: {subGroups: [{name: a, minMember: 1, parent: b}]}
  field: spec.subGroups[0].parent
  message: parent b of a was not found
- spec: {subGroups: [{name: a, parent: b}, {name: b, parent: a}]}
  field: spec.subGroups[0].parent
  message: cycle detected in subgroups
- spec: {subGroups: [{name: a}]}
  field: spec.subGroups[0]
  message: "subgroup a: minMember is required"
- spec: {subGroups: [{name: a, minMember: 1}], minMember: 1, minSubGroup: 1}
  field: spec.minSubGroup
  message: "minMember and minSubGroup are mutually exclusive: set minMember (1) to schedule a fixed number of pods, or
    set minSubGroup to require a minimum number of child SubGroups, but not both"
- spec: {subGroups: [{name: a, minMember: 1}], minSubGroup: 2}
  field: spec.minSubGroup
  message: minSubGroup (2) exceeds the number of direct child SubGroups (1)
- spec: {subGroups: [{name: a, minMember: 1}], minSubGroup: 0}
  field: spec.minSubGroup
  message: minSubGroup must be greater than 0
- spec: {subGroups: [{name: a, minMember: 1, minSubGroup: 1}]}
  field: spec.subGroups[0].minSubGroup
  message: 'subgroup "a": minMember and minSubGroup are mutually exclusive'
- spec: {subGroups: [{name: a, minMember: 0, minSubGroup: 1}]}
  field: spec.subGroups[0].minSubGroup
  message: 'subgroup "a": minSubGroup cannot be set on a leaf SubGroup (no child SubGroups)'
- spec: {subGroups: [{name: a, minMember: 1}, {name: b, minMember: 1, parent: a}]}
  field: spec.subGroups[0].minMember
  message: 'subgroup "a": minMember cannot be set on a mid-level SubGroup (has child SubGroups); use
    minSubGroup instead'
- spec: {subGroups: [{name: a, minSubGroup: 3}, {name: b, minMember: 1, parent: a}]}
  field: spec.subGroups[0].minSubGroup
  message: 'subgroup "a": minSubGroup (3) exceeds the number of direct child SubGroups (1)'
- spec: {minMember: 0}
  field: spec.minMember
  message: is 0, expected a whole number of at least 1
- spec: {subGroups: [{name: a, minMember: 1, topologyConstraint: {topology: cluster, requiredTopologyLevel: rack}}]}
  field: spec.subGroups[0].topologyConstraint.requiredTopologyLevel
  message: "topology constraint error: sub-group a specified 'rack' as the required topology constraint level, but the
    topology tree 'cluster' does not contain a level with this name"
- spec: {minMember: 1, topologyConstraint: {topology: other, requiredTopologyLevel: example.com/rack}}
  field: spec.topologyConstraint.topology
  message: Requested topology other does not exist
"""


@pytest.mark.parametrize("case", yaml.safe_load(REFUSED), ids=lambda case: case["message"][:60])
def test_what_kai_refuses(case: Object) -> None:
    reading = read(pod_group(**case["spec"]))
    assert ("error", case["field"], case["message"]) in reported(reading)
    assert all(finding.fix for finding in reading.findings if finding.rule != "type")


def test_levels_that_are_never_met() -> None:
    inner = subgroup("a", topologyConstraint=constraint(ZONE.key))
    reading = read(pod_group(inner, topologyConstraint=constraint(RACK.key, ZONE.key)))
    assert [(finding.rule, finding.severity) for finding in reading.findings] == [
        ("kai/preferred-broader", "error"),
        ("kai/broader-than-parent", "error"),
    ]
    alone = read(pod_group(subgroup("a", topologyConstraint=constraint())))
    assert [(finding.rule, finding.severity) for finding in alone.findings] == [("kai/no-level", "error")]


def test_kai_starts_the_first_sub_groups_by_name() -> None:
    reading = read(pod_group(subgroup("b", 2), subgroup("a", 4), subgroup("c", 8), minSubGroup=2))
    assert [group.name for group in accepted(reading).groups[0].groups] == ["sub-group a", "sub-group b"]
    assert "room is checked for a, b" in accepted(reading).notes[0]


def test_a_level_below_an_unconstrained_sub_group_is_compared_with_the_one_above_it() -> None:
    document = pod_group(
        subgroup("mid", None),
        subgroup("leaf", parent="mid", topologyConstraint=constraint(ZONE.key)),
        topologyConstraint=constraint(RACK.key),
    )
    assert [finding.rule for finding in read(document).findings] == ["kai/broader-than-parent"]


def test_sub_groups_inside_each_other_without_end() -> None:
    chain = [subgroup(f"s{n}", None, **({"parent": f"s{n - 1}"} if n else {})) for n in range(3000)]
    assert [finding.rule for finding in read(pod_group(*chain)).findings][:1] == ["kai/sub-group-depth"]
