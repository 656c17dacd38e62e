"""KAI's PodGroup: constraints of the group and of its sub-groups.

Which form a tree by their parents. Rules and messages: the CRD and the webhook of KAI 0.17. A
PodGroup says how many pods belong together and not what they request: the pods that name it do, in
the cluster or in the same files. Without them its tree has pods without requests, and whether there
is room stays open. Room is for `minMember` pods: KAI starts the group with that many, and the
others when there is room for them.
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
from toposcope.integrations.framework.document import (
    Field,
    handle_of,
    kind_of,
    name_of,
    namespace_of,
)
from toposcope.integrations.framework.levels import did_you_mean
from toposcope.integrations.framework.pods import structure_of
from toposcope.integrations.framework.system import ClusterFacts, Reading, System, is_change
from toposcope.integrations.framework.unknown_fields import check_fields, schema
from toposcope.integrations.kai.api import GROUP_OF, POD_GROUPS, SUB_GROUP_OF
from toposcope.integrations.kai.constraints import NONE, Constraint, Constraints, WrittenConstraint
from toposcope.integrations.kai.gang_size import keeps_its_group

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_MAX_DEPTH: Final = 64


def _check_schema(root: Field, cluster: ClusterFacts) -> None:
    """What the API server refuses.

    `topologyPolicy.scope` is in recipes for KAI and in no release to 0.17.0.
    """
    version, policy = root / "apiVersion", root / "spec" / "topologyPolicy"
    if version.value not in (f"{POD_GROUPS.group}/{known}" for known in POD_GROUPS.versions):
        text = f"KAI serves no PodGroup of {version.value}"
        version.error("kai/version", text, f"write {POD_GROUPS.group}/{POD_GROUPS.versions[0]}")
    check_fields(root / "spec", schema("kai", "PodGroup"), "kai/field", "KAI 0.17")
    if policy:
        topology = cluster.only_topology
        level = topology.level((policy / "scope").text() or "") if topology else None
        name, key = (topology.name, level.key) if topology and level else ("NAME", "LABEL KEY")
        text = (
            "no version of KAI has this field: the API server refuses or drops it, "
            "and the pods are placed anywhere"
        )
        fix = (
            f"write spec.topologyConstraint with topology: {name} and requiredTopologyLevel: {key}"
        )
        policy.error("kai/field", text, fix)


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    if before is None or is_change(root, before):  # what is in the cluster has passed the schema
        _check_schema(root, cluster)
    constraints = Constraints(cluster)
    name = name_of(root, "PodGroup")
    tree = _Tree(root / "spec", constraints, cluster.pod_groups.get((namespace_of(root), name), ()))
    group = tree.group(name)
    unknown = (
        f"{why}: room is not checked; check the workload that its pods come from"
        for why in tree.unknown[:1]
    )
    workload = Workload(
        "KAI",
        handle_of(root),
        (group,),
        constraints.topology,
        placeable=constraints.placeable and not tree.unknown,
        notes=(*constraints.notes, *tree.notes, *unknown),
        gang=True,
        queue=(root / "spec" / "queue").text() or "",
        preemptible=(root / "spec" / "preemptibility").text() != "non-preemptible",
    )
    return Reading(workload)


SYSTEM: Final = System("KAI", lambda document: kind_of(document) == POD_GROUPS.key, _read, "kai")


class _Tree:
    """Builds the tree of one PodGroup."""

    def __init__(
        self, spec: Field, constraints: Constraints, members: Sequence[PodGroupMember]
    ) -> None:
        self._members = members
        self.unknown: list[str] = []
        """Why the requests of some of its pods are not known."""
        self.notes: list[str] = []
        self._spec = spec
        self._constraints = constraints
        self._by_name: dict[str, Field] = {}
        for subgroup in (spec / "subGroups").items():
            self._add(subgroup)
        self._children: dict[str, list[str]] = {}
        for name, subgroup in self._by_name.items():
            self._children.setdefault(self._parent(subgroup), []).append(name)

    def group(self, name: str) -> Group:
        """The whole PodGroup."""
        spec = self._spec
        minimum = (spec / "minMember").number(1, least=1)
        if spec / "minMember" and spec / "minSubGroup":
            (spec / "minSubGroup").error(
                "kai/min-member",
                "minMember and minSubGroup are mutually exclusive: "
                f"set minMember ({minimum}) to schedule a fixed "
                "number of pods, or set minSubGroup to require a minimum number of child "
                "SubGroups, but not both",
                "keep one of them",
            )
        self._check_min_subgroup(spec / "minSubGroup", self._children.get("", []), "")
        self._check_cycles()
        for subgroup, field in self._by_name.items():
            self._check_subgroup(subgroup, field)
        own = self._constraint("workload", spec, NONE)
        below = tuple(
            self._subgroup(subgroup, own) for subgroup in self._first("", spec / "minSubGroup")
        )
        pods = () if below else self._pods("", "pods", minimum)
        return Group(name, pods, below, own.required, own.preferred)

    def _pods(self, subgroup: str, name: str, minimum: int) -> tuple[Pods, ...]:
        """The pods that must start together, with their requests where these are known."""
        pods, note = pods_of_group(self._members, subgroup, minimum)
        if pods:
            self.notes += [note] * bool(note)
            return tuple(replace(alike, name=name) for alike in pods)
        if minimum:
            self.unknown.append(note)
        return (Pods(name, minimum, ()),)

    def _add(self, subgroup: Field) -> None:
        name = (subgroup / "name").text()
        if name is None or not _NAME.fullmatch(name):
            fix = "write 1-63 lower-case letters, digits or '-'"
            (subgroup / "name").error("kai/sub-group-name", "must be a DNS label (RFC 1123)", fix)
        name = name or subgroup.path
        if name in self._by_name:
            text = f"duplicate subgroup name {name}"
            (subgroup / "name").error(
                "kai/sub-group-name", text, "give each sub-group a name of its own"
            )
        self._by_name.setdefault(name, subgroup)

    def _parent(self, subgroup: Field) -> str:
        """The name of its parent.

        Empty for the PodGroup itself, and where the parent does not exist.
        """
        parent = (subgroup / "parent").text()
        if parent is None or parent in self._by_name:
            return parent or ""
        text = f"parent {parent} of {(subgroup / 'name').text() or subgroup.path} was not found"
        (subgroup / "parent").error("kai/parent-exists", text, did_you_mean(parent, self._by_name))
        return ""

    def _check_cycles(self) -> None:
        """Note sub-groups that cannot be reached from the PodGroup.

        And cut the tree where it is too deep.
        """
        reached: set[str] = set()
        todo = [("", 0)]
        while todo:
            parent, depth = todo.pop()
            reached.update(self._children.get(parent, ()))
            if depth < _MAX_DEPTH:
                todo += [(name, depth + 1) for name in self._children.get(parent, ())]
            elif parent in self._children:
                text = f"more than {_MAX_DEPTH} sub-groups inside each other are not looked at"
                (self._by_name[parent] / "name").error(
                    "kai/sub-group-depth", text, "a topology has at most 16 levels"
                )
                reached.update(self._by_name)
                del self._children[parent]
        for name, subgroup in self._by_name.items():
            if name not in reached:
                fix = "one of its parents must have none itself"
                (subgroup / "parent").error(
                    "kai/sub-group-cycle", "cycle detected in subgroups", fix
                )

    def _check_subgroup(self, name: str, subgroup: Field) -> None:
        member, subgroups = subgroup / "minMember", subgroup / "minSubGroup"
        children = self._children.get(name, [])
        minimum = member.number(0)
        rule, of = "kai/min-member", f'subgroup "{name}": '
        if minimum and subgroups:
            subgroups.error(
                rule, f"{of}minMember and minSubGroup are mutually exclusive", "keep one of them"
            )
        if children and minimum:
            text = (
                f"{of}minMember cannot be set on a mid-level SubGroup (has child SubGroups); "
                "use minSubGroup instead"
            )
            member.error(rule, text, "remove minMember here and set it on the children")
        if not children and not member and not subgroups:
            subgroup.error(
                rule,
                f"subgroup {name}: minMember is required",
                "say how many pods it needs at least",
            )
        if not children and subgroups:
            text = f"{of}minSubGroup cannot be set on a leaf SubGroup (no child SubGroups)"
            subgroups.error(rule, text, "use minMember")
        else:
            self._check_min_subgroup(subgroups, children, of)

    def _check_min_subgroup(self, minimum: Field, children: list[str], of: str) -> None:
        if not minimum:
            return
        number, rule = minimum.number(0), "kai/min-sub-group"
        if isinstance(minimum.value, int) and number <= 0:
            minimum.error(
                rule, f"{of}minSubGroup must be greater than 0", "write at least 1, or remove it"
            )
        elif number > len(children):
            text = (
                f"{of}minSubGroup ({number}) exceeds the number of direct child SubGroups "
                f"({len(children)})"
            )
            minimum.error(rule, text, f"write at most {len(children)}" if children else "remove it")

    def _subgroup(self, name: str, above: Constraint) -> Group:
        subgroup = self._by_name[name]
        own = self._constraint(f"sub-group {name}", subgroup, above)
        inner = above if own.required is None else own
        below = tuple(
            self._subgroup(child, inner) for child in self._first(name, subgroup / "minSubGroup")
        )
        pods = () if below else self._pods(name, name, (subgroup / "minMember").number(0))
        return Group(f"sub-group {name}", pods, below, own.required, own.preferred)

    def _first(self, parent: str, minimum: Field) -> list[str]:
        """The children that have to start with it.

        KAI takes the first `minSubGroup` of them by their names.
        """
        children = sorted(self._children.get(parent, ()))
        number = minimum.number(len(children)) if minimum else len(children)
        if 0 < number < len(children):
            of = f"sub-group {parent}" if parent else "the PodGroup"
            names = ", ".join(children[:number])
            self.notes.append(
                f"room is checked for {names}: KAI starts {number} of the {len(children)} "
                f"sub-groups of {of} first"
            )
            return children[:number]
        return children

    def _constraint(self, owner: str, group: Field, above: Constraint) -> Constraint:
        field = group / "topologyConstraint"
        levels = field / "requiredTopologyLevel", field / "preferredTopologyLevel"
        return self._constraints.read(WrittenConstraint(owner, field / "topology", *levels), above)


def members_of_documents(documents: Iterable[Mapping[str, Any]]) -> PodGroupMembers:
    """The pods of workloads whose templates name a PodGroup, by PodGroup.

    Where KAI's grouper leaves them in it.
    """
    groups: dict[PodGroupName, list[PodGroupMember]] = {}
    for document in documents:
        if GROUP_OF not in str(document):
            continue  # most documents name none, and reading a workload takes longer than this
        root = Field(document)
        structure = structure_of(root)
        if structure is None or not keeps_its_group(root, structure):
            continue
        for pod_set in structure.sets:
            name = (pod_set.annotations / GROUP_OF).text()
            subgroup = (pod_set.template / "metadata" / "labels" / SUB_GROUP_OF).text() or ""
            if name:
                member = PodGroupMember(subgroup, pod_set.some(pod_set.count * structure.copies))
                groups.setdefault((namespace_of(root), name), []).append(member)
    return {group: tuple(members) for group, members in groups.items()}


def pods_of_group(
    members: Sequence[PodGroupMember], subgroup: str, minimum: int
) -> tuple[tuple[Pods, ...], str]:
    """`minimum` pods of a sub-group (empty.

    Of the whole group) with their requests, and a note about them. No pods: their requests are not
    known, and the note says why.
    """
    kinds: Counter[Pods] = Counter()
    for member in members:
        if member.subgroup == subgroup:
            kinds[replace(member.pods, name="pods", count=1)] += member.pods.count
    known = sum(kinds.values())
    of = f"sub-group {subgroup}" if subgroup else "the PodGroup"
    if not known:
        return (), f"no pods of {of} are known, so what they request is not known"
    if len(kinds) == 1:
        (only,) = kinds
        note = f"{known} of {minimum} pods of {of} are known; the others are taken to be alike"
        return (replace(only, count=minimum),), note if known < minimum else ""
    if known == minimum:
        return tuple(replace(pods, count=count) for pods, count in kinds.items()), ""
    return (
        (),
        (
            f"{of} needs {minimum} pods and {known} of several sizes are known: "
            "which of them count is not known"
        ),
    )
