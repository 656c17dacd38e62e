"""LeaderWorkerSet: groups, or their sub-groups, that each have a domain of their own.

Rules and messages: the webhooks and the pod controller of LeaderWorkerSet 0.7 and later. Without
the annotations nothing keeps the pods of a group together.
"""

from collections.abc import Mapping
from typing import Any, Final

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Group, Pods, Workload
from toposcope.integrations.framework.document import Field, handle_of, kind_of, namespace_of
from toposcope.integrations.framework.exclusive import exclusive_level, kept_off
from toposcope.integrations.framework.pods import Structure, chunks, structure_of
from toposcope.integrations.framework.system import ClusterFacts, Reading, System
from toposcope.integrations.lws.api import (
    EXCLUSIVE,
    GROUP_KEY,
    LEADER_WORKER_SETS,
    SUBGROUP_EXCLUSIVE,
    SUBGROUP_KEY,
)

LEADER_EXCLUDED: Final = "LeaderExcluded"
"""The `subGroupPolicyType` in which the leader is in no sub-group."""
_NO_LABEL: Final = "node does not have topology label: "
"""LeaderWorkerSet's controller means to print the key here and prints nothing."""


def _claims(document: Mapping[str, Any]) -> bool:
    """LeaderWorkerSets with one of the annotations, or with sub-groups.

    Which have rules of their own.
    """
    if kind_of(document) != LEADER_WORKER_SETS.key:
        return False
    root = Field(document)
    annotations = root / "metadata" / "annotations"
    return bool(
        annotations / EXCLUSIVE or annotations / SUBGROUP_EXCLUSIVE or sub_group_policy(root)
    )


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    structure = structure_of(root) or Structure(())
    annotations = root / "metadata" / "annotations"
    rule = "leaderworkerset/label-exists"
    group_level = exclusive_level(annotations / EXCLUSIVE, cluster, rule, _NO_LABEL)
    sub_level = exclusive_level(annotations / SUBGROUP_EXCLUSIVE, cluster, rule, _NO_LABEL)
    size = _sub_group_size(root, before)
    if sub_level and not size:
        text = "cannot have subgroup-exclusive-topology without subGroupSize set"
        fix = "set spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize"
        (annotations / SUBGROUP_EXCLUSIVE).error("leaderworkerset/subgroup-size", text, fix)
        sub_level = None
    if size and sub_level and sub_level == group_level:
        text = f"sub-groups cannot have a {sub_level.domain} each and share the one of their group"
        fix = "name a narrower label here, or remove exclusive-topology"
        (annotations / SUBGROUP_EXCLUSIVE).error("leaderworkerset/subgroup-level", text, fix)
        sub_level = None
    group, notes = _group(
        root, structure, cluster, group_level=group_level, sub_level=sub_level, size=size
    )
    levels = tuple(dict.fromkeys(level for level in (group_level, sub_level) if level))
    return Reading(
        Workload("LeaderWorkerSet", handle_of(root), (group,), levels=levels, notes=notes)
    )


SYSTEM: Final = System("LeaderWorkerSet", _claims, _read)
READERS: Final = (SYSTEM,)


def sub_group_policy(root: Field) -> Field:
    """The `subGroupPolicy` of a LeaderWorkerSet."""
    return root / "spec" / "leaderWorkerTemplate" / "subGroupPolicy"


def sub_groups(
    structure: Structure, size: int, *, leader_excluded: bool
) -> tuple[tuple[tuple[Pods, ...], int], ...]:
    """The sub-groups of one group: their pods, and how many are alike.

    The leader belongs to the first one, as an extra pod where size - 1 is divisible; or to none
    (`LeaderExcluded`). Source: SubGroupPolicy in the LeaderWorkerSet API; only KAI has a last one
    that is not full.
    """
    leader, worker = structure.sets[0], structure.sets[-1]
    left = sum(pod_set.count for pod_set in structure.sets) - 1
    groups: list[tuple[tuple[Pods, ...], int]] = []
    if not leader_excluded:
        first = min(size if left % size == 0 else size - 1, left)
        groups.append(
            (tuple(pods for pods in (leader.some(1), worker.some(first)) if pods.count), 1)
        )
        left -= first
    groups += [((worker.some(count),), times) for count, times in chunks(left, size)]
    return tuple(groups)


def _group(
    root: Field,
    structure: Structure,
    cluster: ClusterFacts,
    *,
    group_level: Level | None,
    sub_level: Level | None,
    size: int,
) -> tuple[Group, tuple[str, ...]]:
    """One group of the set, as many times as there are replicas."""
    notes = []
    occupied: list[tuple[str, tuple[str, ...]]] = []
    for level, pod_label in ((group_level, GROUP_KEY), (sub_level, SUBGROUP_KEY)):
        values = cluster.occupied(pod_label, level.key, namespace_of(root)) if level else ()
        if level and values:
            occupied.append((level.key, values))
            notes.append(
                f"domains of level {level.domain} left out, "
                "as they hold groups of LeaderWorkerSets already: "
                f"{len(values)}"
            )

    def off_occupied(pods: Pods) -> Pods:
        for key, values in occupied:
            pods = kept_off(pods, key, values)
        return pods

    pods = structure.whole
    below: tuple[Group, ...] = ()
    if sub_level:
        leader_excluded = (sub_group_policy(root) / "subGroupPolicyType").text() == LEADER_EXCLUDED
        below = tuple(
            Group(
                "sub-group",
                tuple(map(off_occupied, alike)),
                (),
                sub_level,
                copies=times,
                anti_affinity=SUBGROUP_KEY,
            )
            for alike, times in sub_groups(structure, size, leader_excluded=leader_excluded)
        )
        pods = (structure.sets[0].some(1),) if leader_excluded else ()
    parts = tuple(map(off_occupied, pods))
    group = Group(
        "group",
        parts,
        below,
        group_level,
        copies=structure.copies,
        anti_affinity=GROUP_KEY if group_level else "",
    )
    return group, tuple(notes)


def _sub_group_size(root: Field, before: Field | None) -> int:
    """How many pods a sub-group has; 0 where there are none, or where the number is invalid."""
    policy = sub_group_policy(root)
    field, rule = policy / "subGroupSize", "leaderworkerset/subgroup-size"
    if before is not None:
        _check_unchanged(policy, sub_group_policy(before))
    if not field:
        return 0
    if isinstance(field.value, int) and not isinstance(field.value, bool) and field.value < 1:
        field.error(
            rule,
            "subGroupSize must be equal or greater than 1",
            "write how many pods share a domain",
        )
        return 0
    size = field.number(0)
    total = (root / "spec" / "leaderWorkerTemplate" / "size").number(1, least=1)
    if not size:
        return 0
    findings = len(field.findings)
    fix = f"of {total} pods, one of them the leader"
    if total % size and (total - 1) % size:
        field.error(rule, "size or size - 1 must be divisible by subGroupSize", fix)
    if total < size:
        field.error(rule, "subGroupSize cannot be larger than size", fix)
    if (policy / "subGroupPolicyType").text() == LEADER_EXCLUDED and (total - 1) % size:
        field.error(rule, "size-1 must be divisible by subGroupSize when using LeaderExcluded", fix)
    return size if len(field.findings) == findings else 0


def _check_unchanged(policy: Field, before: Field) -> None:
    rule, fix = "leaderworkerset/immutable", "delete the LeaderWorkerSet and create it again"
    now, then = policy / "subGroupSize", before / "subGroupSize"
    if policy and before:
        if now.value != then.value:
            now.error(rule, "field is immutable", fix)
    elif policy:
        now.error(rule, "cannot enable subGroupSize after the lws is already created", fix)
    elif before:
        now.error(rule, "cannot remove subGroupSize after enabled", fix)
