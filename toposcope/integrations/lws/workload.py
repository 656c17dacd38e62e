"""LeaderWorkerSet: groups, or their sub-groups, that each have a domain of their own.

Rules and messages: the webhooks and the pod controller of LeaderWorkerSet 0.7 and later. Without
the annotations nothing keeps the pods of a group together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Group, Holder, Pods, Workload
from toposcope.integrations.framework.document import Field, handle_of, kind_of, namespace_of
from toposcope.integrations.framework.exclusive import exclusive_level, holders, kept_off
from toposcope.integrations.framework.pods import Structure, chunks, structure_of
from toposcope.integrations.framework.system import ClusterFacts, Reading, System
from toposcope.integrations.lws.api import (
    EXCLUSIVE,
    GROUP_KEY,
    LEADER_WORKER_SETS,
    SET_OF,
    SUBGROUP_EXCLUSIVE,
    SUBGROUP_KEY,
)

LEADER_EXCLUDED: Final = "LeaderExcluded"
"""The `subGroupPolicyType` that keeps the leader out of the sub-groups."""
_SIZE_RULE: Final = "leaderworkerset/subgroup-size"
_NO_LABEL: Final = "node does not have topology label: "
"""LeaderWorkerSet's controller means to print the key after this, but prints nothing."""


def _claims(document: Mapping[str, Any]) -> bool:
    """LeaderWorkerSets with one of the annotations, or with sub-groups, which have rules too."""
    if kind_of(document) != LEADER_WORKER_SETS.key:
        return False
    root = Field(document)
    return bool(
        _annotation(root, EXCLUSIVE)
        or _annotation(root, SUBGROUP_EXCLUSIVE)
        or sub_group_policy(root)
    )


def _annotation(root: Field, key: str) -> Field:
    """The annotation of the set, or of its pods: the webhook reads it from the leader."""
    own = root / "metadata" / "annotations" / key
    if own:
        return own
    templates = root / "spec" / "leaderWorkerTemplate"
    for name in ("leaderTemplate", "workerTemplate"):
        template = templates / name
        if template:
            return template / "metadata" / "annotations" / key
    return own


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    structure = structure_of(root) or Structure(())
    rule = "leaderworkerset/label-exists"
    of_sub_groups = _annotation(root, SUBGROUP_EXCLUSIVE)
    group_level = exclusive_level(_annotation(root, EXCLUSIVE), cluster, rule, _NO_LABEL)
    sub_level = exclusive_level(of_sub_groups, cluster, rule, _NO_LABEL)
    size = _sub_group_size(root, before)
    if sub_level and not _can_be_exclusive(sub_level, group_level, size, of_sub_groups):
        sub_level = None

    request = _Asked(root, structure, group_level, sub_level, size)
    occupied = _Occupied(cluster, namespace_of(root))
    group = _group(request, occupied)
    once_left: tuple[Group, ...] = ()
    if occupied.holders:
        nobody = _Occupied(replace(cluster, exclusive_pods={}), namespace_of(root))
        once_left = (_group(request, nobody),)

    levels = []
    for level in (group_level, sub_level):
        if level and level not in levels:
            levels.append(level)
    workload = Workload(
        "LeaderWorkerSet",
        handle_of(root),
        (group,),
        levels=tuple(levels),
        notes=tuple(occupied.notes),
        holders=tuple(occupied.holders),
        once_left=once_left,
    )
    return Reading(workload)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The request of a LeaderWorkerSet."""

    root: Field
    structure: Structure
    group_level: Level | None
    sub_level: Level | None
    sub_group_size: int


def _can_be_exclusive(
    sub_level: Level, group_level: Level | None, size: int, annotation: Field
) -> bool:
    """Whether sub-groups of this size can have a domain of `sub_level` each."""
    if not size:
        text = "cannot have subgroup-exclusive-topology without subGroupSize set"
        fix = "set spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize"
        annotation.error(_SIZE_RULE, text, fix)
        return False

    if sub_level == group_level:
        text = (
            f"sub-groups cannot each have their own {sub_level.domain} and share the "
            f"{sub_level.domain} of their group"
        )
        fix = "name a narrower label here, or remove exclusive-topology"
        annotation.error("leaderworkerset/subgroup-level", text, fix)
        return False
    return True


SYSTEM: Final = System("LeaderWorkerSet", _claims, _read)
READERS: Final = (SYSTEM,)


def sub_group_policy(root: Field) -> Field:
    """The `subGroupPolicy` of a LeaderWorkerSet."""
    return root / "spec" / "leaderWorkerTemplate" / "subGroupPolicy"


def sub_groups(
    structure: Structure, size: int, *, is_leader_excluded: bool
) -> tuple[tuple[tuple[Pods, ...], int], ...]:
    """The sub-groups of one group: their pods, and how many sub-groups are identical.

    The leader belongs to the first one, as an extra pod where size - 1 is divisible; or to none
    (`LeaderExcluded`). Source: SubGroupPolicy in the LeaderWorkerSet API; one scheduler
    alone has a last one that is not full.
    """
    leader, worker = structure.sets[0], structure.sets[-1]
    remaining = sum(pod_set.count for pod_set in structure.sets) - 1
    groups: list[tuple[tuple[Pods, ...], int]] = []
    if not is_leader_excluded:
        workers = size if remaining % size == 0 else size - 1
        workers = min(workers, remaining)
        with_leader = [leader.some(1)]
        if workers:
            with_leader.append(worker.some(workers))
        groups.append((tuple(with_leader), 1))
        remaining -= workers

    for count, times in chunks(remaining, size):
        groups.append(((worker.some(count),), times))
    return tuple(groups)


class _Occupied:
    """Domains that already hold groups, so other groups avoid them."""

    def __init__(self, cluster: ClusterFacts, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._by_key: list[tuple[str, tuple[str, ...]]] = []
        self.notes: list[str] = []
        self.holders: list[Holder] = []

    def add(self, level: Level | None, pod_label: str) -> None:
        """Avoid the domains of a level that hold pods with the label."""
        if level is None:
            return

        cluster = self._cluster
        values = cluster.occupied(pod_label, level.key, self._namespace)
        if not values:
            return
        for holder in holders(cluster, level, pod_label, "leaderworkerset", SET_OF):
            if holder.domain in values:
                self.holders.append(holder)
        self._by_key.append((level.key, values))
        self.notes.append(
            f"domains of level {level.domain} left out, "
            "as they hold groups of LeaderWorkerSets already: "
            f"{len(values)}"
        )

    def kept_off(self, pods: Sequence[Pods]) -> tuple[Pods, ...]:
        """The pods, excluded from the nodes of these domains."""
        kept = []
        for kind in pods:
            restricted = kind
            for key, values in self._by_key:
                restricted = kept_off(restricted, key, values)
            kept.append(restricted)
        return tuple(kept)


def _group(request: _Asked, occupied: _Occupied) -> Group:
    """The group of a set, once for each replica, outside the domains of others."""
    structure = request.structure
    occupied.add(request.group_level, GROUP_KEY)
    occupied.add(request.sub_level, SUBGROUP_KEY)
    pods = occupied.kept_off(structure.whole)
    group = Group(
        "group",
        pods,
        required=request.group_level,
        copies=structure.copies,
        anti_affinity=GROUP_KEY if request.group_level else "",
    )
    if request.group_level and sum(kind.count for kind in pods) > 1:
        # Workers get a node selector for the domain of their leader.
        group = replace(group, leader=replace(pods[0], count=1))
    if request.sub_level:
        return _with_sub_groups(group, request, occupied, request.sub_level)
    return group


def _with_sub_groups(group: Group, request: _Asked, occupied: _Occupied, sub_level: Level) -> Group:
    """The group with its pods in sub-groups that have a domain of `sub_level` each."""
    structure = request.structure
    policy = sub_group_policy(request.root)
    leader_excluded = (policy / "subGroupPolicyType").text() == LEADER_EXCLUDED
    below = []
    for pods, times in sub_groups(
        structure, request.sub_group_size, is_leader_excluded=leader_excluded
    ):
        kept = occupied.kept_off(pods)
        sub_group = Group(
            "sub-group",
            kept,
            required=sub_level,
            copies=times,
            anti_affinity=SUBGROUP_KEY,
        )
        if sum(kind.count for kind in kept) > 1:
            # The first pod of a sub-group decides its domain, by pod affinity.
            sub_group = replace(sub_group, leader=replace(kept[0], count=1))
        below.append(sub_group)

    outside: tuple[Pods, ...] = ()
    if leader_excluded:
        leader = structure.sets[0].some(1)
        outside = occupied.kept_off([leader])
    return replace(group, pods=outside, groups=tuple(below))


def _sub_group_size(root: Field, before: Field | None) -> int:
    """How many pods a sub-group has; 0 if there are none or the number is invalid."""
    policy = sub_group_policy(root)
    field = policy / "subGroupSize"
    if before is not None:
        _check_unchanged(policy, sub_group_policy(before))
    if not field:
        return 0

    value = field.value
    if isinstance(value, int) and not isinstance(value, bool) and value < 1:
        text = "subGroupSize must be equal or greater than 1"
        field.error(_SIZE_RULE, text, "set the number of pods that share a domain")
        return 0

    size = field.number(0)
    total = (root / "spec" / "leaderWorkerTemplate" / "size").number(1, least=1)
    if not size:
        return 0

    findings = len(field.findings)
    _check_divisible(policy, size, total)
    return size if len(field.findings) == findings else 0


def _check_divisible(policy: Field, size: int, total: int) -> None:
    """Check that groups of `total` pods can be split into sub-groups of this size."""
    field = policy / "subGroupSize"
    fix = f"of {total} pods, one of them the leader"
    workers = total - 1
    if total % size and workers % size:
        text = "size or size - 1 must be divisible by subGroupSize"
        field.error(_SIZE_RULE, text, fix)
    if total < size:
        field.error(_SIZE_RULE, "subGroupSize cannot be larger than size", fix)

    kind = (policy / "subGroupPolicyType").text()
    if kind == LEADER_EXCLUDED and workers % size:
        text = "size-1 must be divisible by subGroupSize when using LeaderExcluded"
        field.error(_SIZE_RULE, text, fix)


def _check_unchanged(policy: Field, before: Field) -> None:
    rule = "leaderworkerset/immutable"
    fix = "delete the LeaderWorkerSet and create it again"
    now = policy / "subGroupSize"
    if policy and before:
        then = before / "subGroupSize"
        if now.value != then.value:
            now.error(rule, "field is immutable", fix)
    elif policy:
        now.error(rule, "cannot enable subGroupSize after the lws is already created", fix)
    elif before:
        now.error(rule, "cannot remove subGroupSize after enabled", fix)
