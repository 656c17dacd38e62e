"""LeaderWorkerSet: groups, or their sub-groups, that each have a domain of their own.

Rules and messages: the webhooks and the pod controller of LeaderWorkerSet 0.7 and later. Without the annotations
nothing keeps the pods of a group together.
"""

from collections.abc import Mapping
from typing import Any, Final

from toposcope.integrations.framework.constraints import Group, Pods, Workload
from toposcope.integrations.framework.document import Field, handle_of
from toposcope.integrations.framework.exclusive import GROUP_KEY, SUBGROUP_KEY, avoiding, exclusive_level
from toposcope.integrations.framework.pods import LEADER_WORKER_SET, Structure, kind_of, structure_of, subgroups
from toposcope.integrations.framework.system import ClusterFacts, Reading, merged
from toposcope.topology.levels import Level

_PREFIX: Final = "leaderworkerset.sigs.k8s.io/"
EXCLUSIVE: Final = _PREFIX + "exclusive-topology"
SUBGROUP_EXCLUSIVE: Final = _PREFIX + "subgroup-exclusive-topology"
_NO_LABEL: Final = "node does not have topology label: "
"""Its controller means to print the key here and prints nothing."""
_EXCLUDED: Final = "LeaderExcluded"


class LeaderWorkerSet:
    """Reads LeaderWorkerSets with exclusive placement."""

    name = "LeaderWorkerSet"

    def claims(self, document: Mapping[str, Any]) -> bool:
        """LeaderWorkerSets with one of the annotations, or with sub-groups, which have rules of their own."""
        if kind_of(document) != LEADER_WORKER_SET:
            return False
        root = Field(document)
        annotations = root / "metadata" / "annotations"
        policy = root / "spec" / "leaderWorkerTemplate" / "subGroupPolicy"
        return bool(annotations / EXCLUSIVE or annotations / SUBGROUP_EXCLUSIVE or policy)

    def read(
        self, document: Mapping[str, Any], known: ClusterFacts, before: Mapping[str, Any] | None = None
    ) -> Reading:
        """The set's demands; see System."""
        root = Field(document)
        structure = structure_of(root) or Structure(())
        annotations = root / "metadata" / "annotations"
        rule = "leaderworkerset/label-exists"
        group_level = exclusive_level(annotations / EXCLUSIVE, known, rule, _NO_LABEL)
        sub_level = exclusive_level(annotations / SUBGROUP_EXCLUSIVE, known, rule, _NO_LABEL)
        size = _subgroup_size(root, before)
        if sub_level and not size:
            (annotations / SUBGROUP_EXCLUSIVE).error(
                "leaderworkerset/subgroup-size",
                "cannot have subgroup-exclusive-topology without subGroupSize set",
                "set spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize",
            )
            sub_level = None
        if size and sub_level and sub_level == group_level:
            (annotations / SUBGROUP_EXCLUSIVE).error(
                "leaderworkerset/subgroup-level",
                f"sub-groups cannot have a {sub_level.domain} each and share the one of their group",
                "name a narrower label here, or remove exclusive-topology",
            )
            sub_level = None
        group, notes = _group(root, structure, known, group_level, sub_level, size)
        levels = tuple(dict.fromkeys(level for level in (group_level, sub_level) if level))
        workload = Workload(self.name, handle_of(root), (group,), levels=levels, notes=notes)
        return Reading(workload, merged(root.findings))


def _group(
    root: Field,
    structure: Structure,
    known: ClusterFacts,
    group_level: Level | None,
    sub_level: Level | None,
    size: int,
) -> tuple[Group, tuple[str, ...]]:
    """One group of the set, as many times as there are replicas."""
    namespace = (root / "metadata" / "namespace").text() or "default"
    notes = []
    held: list[tuple[str, tuple[str, ...]]] = []
    for level, mark in ((group_level, GROUP_KEY), (sub_level, SUBGROUP_KEY)):
        values = known.held(mark, level.key, namespace) if level else ()
        if level and values:
            held.append((level.key, values))
            what = "groups of LeaderWorkerSets"
            notes.append(f"domains of level {level.domain} left out, as they hold {what} already: {len(values)}")

    def kept_off(pods: Pods) -> Pods:
        for key, values in held:
            pods = avoiding(pods, key, values)
        return pods

    parts = structure.whole
    below: tuple[Group, ...] = ()
    if sub_level:
        leader_apart = (_policy(root) / "subGroupPolicyType").text() == _EXCLUDED
        alike = subgroups(structure, size, leader_apart=leader_apart)
        below = tuple(
            Group("sub-group", tuple(map(kept_off, pods)), (), sub_level, copies=times, apart=SUBGROUP_KEY)
            for pods, times in alike
        )
        parts = (structure.sets[0].some(1),) if leader_apart else ()
    group = Group(
        "group",
        tuple(map(kept_off, parts)),
        below,
        group_level,
        copies=structure.copies,
        apart=GROUP_KEY if group_level else "",
    )
    return group, tuple(notes)


def _policy(root: Field) -> Field:
    return root / "spec" / "leaderWorkerTemplate" / "subGroupPolicy"


def _subgroup_size(root: Field, before: Mapping[str, Any] | None) -> int:
    """How many pods a sub-group has; 0 where there are none, or where the number makes no sense."""
    policy = _policy(root)
    part = policy / "subGroupSize"
    rule = "leaderworkerset/subgroup-size"
    if before is not None:
        _check_unchanged(policy, _policy(Field(before)))
    if not part:
        return 0
    if isinstance(part.value, int) and not isinstance(part.value, bool) and part.value < 1:
        part.error(rule, "subGroupSize must be equal or greater than 1", "write how many pods share a domain")
        return 0
    size = part.number(0)
    total = (root / "spec" / "leaderWorkerTemplate" / "size").number(1, least=1)
    if not size:
        return 0
    found = len(part.findings)
    kept = f"of {total} pods, one of them the leader"
    if total % size and (total - 1) % size:
        part.error(rule, "size or size - 1 must be divisible by subGroupSize", kept)
    if total < size:
        part.error(rule, "subGroupSize cannot be larger than size", kept)
    if (policy / "subGroupPolicyType").text() == _EXCLUDED and (total - 1) % size:
        part.error(rule, "size-1 must be divisible by subGroupSize when using LeaderExcluded", kept)
    return size if len(part.findings) == found else 0


def _check_unchanged(policy: Field, before: Field) -> None:
    rule, fix = "leaderworkerset/immutable", "delete the LeaderWorkerSet and create it anew"
    now, then = policy / "subGroupSize", before / "subGroupSize"
    if policy and before:
        if now.value != then.value:
            now.error(rule, "field is immutable", fix)
    elif policy:
        now.error(rule, "cannot enable subGroupSize after the lws is already created", fix)
    elif before:
        now.error(rule, "cannot remove subGroupSize after enabled", fix)
