"""KAI's PodGroup: constraints of the group and of its sub-groups, which form a tree by their parents.

Rules and messages: the CRD and the webhook of KAI 0.17. A PodGroup says how many pods belong together and not what
they take: that is told by the pods that name it, in the cluster or beside it in the same files. Where there are none,
its tree has pods without requests and whether there is room stays open. Room is for `minMember` pods: KAI starts the
group with so many, and others when there is room for them.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from toposcope.integrations.framework.constraints import (
    Group,
    PodGroupMember,
    PodGroupMembers,
    PodGroupName,
    Pods,
    Workload,
)
from toposcope.integrations.framework.document import Field, handle_of, is_kind
from toposcope.integrations.framework.levels import near
from toposcope.integrations.framework.pods import structure_of
from toposcope.integrations.framework.system import ClusterFacts, Reading, merged
from toposcope.integrations.kai.constraints import NONE, Constraint, Constraints, WrittenConstraint

_GROUP: Final = "scheduling.run.ai"
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_DEEPEST: Final = 64
_CHECK: Final = "room is not checked; check the workload that its pods come from"


class KaiPodGroup:
    """Reads PodGroups."""

    name = "KAI"

    def claims(self, document: Mapping[str, Any]) -> bool:
        """Every PodGroup of KAI's API group."""
        return is_kind(document, _GROUP, "PodGroup")

    def read(
        self, document: Mapping[str, Any], known: ClusterFacts, before: Mapping[str, Any] | None = None
    ) -> Reading:
        """The group's demands; see System."""
        del before  # constraints may change
        root = Field(document)
        constraints = Constraints(known)
        name = (root / "metadata" / "name").text() or "PodGroup"
        namespace = (root / "metadata" / "namespace").text() or "default"
        tree = _Tree(root / "spec", constraints, known.members.get((namespace, name), ()))
        group = tree.group(name)
        workload = Workload(
            self.name,
            handle_of(root),
            (group,),
            constraints.topology,
            placeable=constraints.placeable and not tree.unknown,
            notes=(*constraints.notes, *tree.notes, *(f"{why}: {_CHECK}" for why in tree.unknown[:1])),
        )
        return Reading(workload, merged(root.findings))


class _Tree:
    """Builds the tree of one PodGroup."""

    def __init__(self, spec: Field, constraints: Constraints, members: Sequence[PodGroupMember]) -> None:
        self._members = members
        self.unknown: list[str] = []
        """Why it cannot be told what some of its pods take."""
        self.notes: list[str] = []
        self._spec = spec
        self._constraints = constraints
        self._by_name: dict[str, Field] = {}
        for group in (spec / "subGroups").items():
            self._add(group)
        self._children: dict[str, list[str]] = {}
        for name, each in self._by_name.items():
            self._children.setdefault(self._parent(each), []).append(name)

    def group(self, name: str) -> Group:
        """The whole PodGroup."""
        spec = self._spec
        least = _least(spec / "minMember", 1)
        if spec / "minMember" and spec / "minSubGroup":
            (spec / "minSubGroup").error(
                "kai/min-member",
                f"minMember and minSubGroup are mutually exclusive: set minMember ({least}) to schedule a fixed number "
                "of pods, or set minSubGroup to require a minimum number of child SubGroups, but not both",
                "keep one of them",
            )
        self._check_min_subgroup(spec / "minSubGroup", self._children.get("", []), "")
        self._check_cycles()
        for each, part in self._by_name.items():
            self._check_subgroup(each, part)
        own = self._constraint("workload", spec, NONE)
        below = tuple(self._subgroup(each, own) for each in self._children.get("", ()))
        pods = () if below else self._pods("", "pods", least)
        return Group(name, pods, below, own.required, own.preferred)

    def _pods(self, subgroup: str, name: str, least: int) -> tuple[Pods, ...]:
        """What the pods that must start together take, as far as it is known."""
        found, note = taken(self._members, subgroup, least)
        if found:
            self.notes += [note] * bool(note)
            return tuple(replace(each, name=name) for each in found)
        if least:
            self.unknown.append(note)
        return (Pods(name, least, ()),)

    def _add(self, each: Field) -> None:
        name = (each / "name").text()
        if name is None or not _NAME.fullmatch(name):
            fix = "write 1-63 lower-case letters, digits or '-'"
            (each / "name").error("kai/sub-group-name", "must be a DNS label (RFC 1123)", fix)
        name = name or each.path
        if name in self._by_name:
            (each / "name").error(
                "kai/sub-group-name", f"duplicate subgroup name {name}", "give each sub-group a name of its own"
            )
        self._by_name.setdefault(name, each)

    def _parent(self, each: Field) -> str:
        """The name of its parent, empty for the PodGroup itself, also where the parent does not exist."""
        parent = (each / "parent").text()
        if parent is None or parent in self._by_name:
            return parent or ""
        name = (each / "name").text() or each.path
        (each / "parent").error(
            "kai/parent-exists", f"parent {parent} of {name} was not found", near(parent, self._by_name)
        )
        return ""

    def _check_cycles(self) -> None:
        """Sub-groups that no way leads to from the PodGroup; then those too deep, which are taken off the tree."""
        reached: set[str] = set()
        todo = [("", 0)]
        while todo:
            parent, depth = todo.pop()
            reached.update(self._children.get(parent, ()))
            if depth < _DEEPEST:
                todo += [(name, depth + 1) for name in self._children.get(parent, ())]
            elif parent in self._children:
                text = f"more than {_DEEPEST} sub-groups inside each other are not looked at"
                (self._by_name[parent] / "name").error("kai/sub-group-depth", text, "a topology has at most 16 levels")
                reached.update(self._by_name)
                del self._children[parent]
        for name, each in self._by_name.items():
            if name not in reached:
                (each / "parent").error(
                    "kai/sub-group-cycle", "cycle detected in subgroups", "one of its parents must have none itself"
                )

    def _check_subgroup(self, name: str, each: Field) -> None:
        member, subgroups = each / "minMember", each / "minSubGroup"
        children = self._children.get(name, [])
        least = _least(member, 0)
        rule = "kai/min-member"
        if least and subgroups:
            text = f'subgroup "{name}": minMember and minSubGroup are mutually exclusive'
            subgroups.error(rule, text, "keep one of them")
        if children and least:
            member.error(
                rule,
                f'subgroup "{name}": minMember cannot be set on a mid-level SubGroup (has child SubGroups); '
                "use minSubGroup instead",
                "remove minMember here and set it on the children",
            )
        if not children and not member and not subgroups:
            each.error(rule, f"subgroup {name}: minMember is required", "say how many pods it needs at least")
        if not children and subgroups:
            text = f'subgroup "{name}": minSubGroup cannot be set on a leaf SubGroup (no child SubGroups)'
            subgroups.error(rule, text, "use minMember")
        else:
            self._check_min_subgroup(subgroups, children, f'subgroup "{name}": ')

    def _check_min_subgroup(self, part: Field, children: list[str], of: str) -> None:
        if not part:
            return
        least = _least(part, 0)
        if isinstance(part.value, int) and least <= 0:
            part.error("kai/min-sub-group", f"{of}minSubGroup must be greater than 0", "write at least 1, or remove it")
        elif least > len(children):
            part.error(
                "kai/min-sub-group",
                f"{of}minSubGroup ({least}) exceeds the number of direct child SubGroups ({len(children)})",
                f"write at most {len(children)}" if children else "remove it",
            )

    def _subgroup(self, name: str, above: Constraint) -> Group:
        each = self._by_name[name]
        own = self._constraint(f"sub-group {name}", each, above)
        inner = above if own.required is None else own
        below = tuple(self._subgroup(child, inner) for child in self._children.get(name, ()))
        pods = () if below else self._pods(name, name, _least(each / "minMember", 0))
        return Group(f"sub-group {name}", pods, below, own.required, own.preferred)

    def _constraint(self, who: str, holder: Field, above: Constraint) -> Constraint:
        part = holder / "topologyConstraint"
        asked = WrittenConstraint(
            who, part / "topology", part / "requiredTopologyLevel", part / "preferredTopologyLevel"
        )
        return self._constraints.of(asked, above)


def _least(part: Field, least: int) -> int:
    """A number of pods or sub-groups; below `least` the CRD refuses it."""
    return part.number(least, least=least)


GROUP_OF: Final = "pod-group-name"
SUB_GROUP_OF: Final = "kai.scheduler/subgroup-name"
"""Label of a pod: its sub-group."""


def members_of_documents(documents: Iterable[Mapping[str, Any]]) -> PodGroupMembers:
    """By PodGroup: the pods of workloads whose templates name it."""
    found: dict[PodGroupName, list[PodGroupMember]] = {}
    for document in documents:
        if GROUP_OF not in str(document):
            continue  # most documents name none, and to take a workload apart takes longer
        root = Field(document)
        structure = structure_of(root)
        namespace = (root / "metadata" / "namespace").text() or "default"
        for each in structure.sets if structure else ():
            name = (each.annotations / GROUP_OF).text()
            labels = each.template / "metadata" / "labels"
            if name and structure:
                member = PodGroupMember((labels / SUB_GROUP_OF).text() or "", each.some(each.count * structure.copies))
                found.setdefault((namespace, name), []).append(member)
    return {group: tuple(members) for group, members in found.items()}


def taken(members: Sequence[PodGroupMember], subgroup: str, least: int) -> tuple[tuple[Pods, ...], str]:
    """What `least` pods of a sub-group (empty: of the whole group) take, and what is to be known about it.

    No pods: it cannot be told, and the words say why.
    """
    kinds: Counter[Pods] = Counter()
    for member in members:
        if member.subgroup == subgroup:
            kinds[replace(member.pods, name="pods", count=1)] += member.pods.count
    there = sum(kinds.values())
    of = f"sub-group {subgroup}" if subgroup else "the PodGroup"
    if not there:
        return (), f"no pod is known of {of}, so what its pods take is not known"
    if len(kinds) == 1:
        (only,) = kinds
        note = f"{there} of {least} pods of {of} are known; the others are taken to be alike" if there < least else ""
        return (replace(only, count=least),), note
    if there == least:
        return tuple(replace(kind, count=count) for kind, count in kinds.items()), ""
    return (), f"{of} needs {least} pods and {there} of several sizes are known: which of them count is not known"
