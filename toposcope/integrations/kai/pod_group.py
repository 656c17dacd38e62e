"""KAI's PodGroup: constraints of the group and of its sub-groups, a tree by their parents.

Rules and messages: the CRD and the webhook of KAI 0.17. A PodGroup says how many pods belong
together and not what they request: the pods that name it do, in the cluster or in the same files.
Without them its tree has pods without requests, and room is unknown. Room is checked for
`minMember` pods: KAI starts the group with that many, and the others when there is room for them.
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
from toposcope.integrations.framework.surroundings import Surroundings
from toposcope.integrations.framework.system import ClusterFacts, Reading, System, is_change
from toposcope.integrations.framework.unknown_fields import check_fields, schema
from toposcope.integrations.kai.api import GROUP_OF, POD_GROUPS, PREEMPTIBLE, SUB_GROUP_OF
from toposcope.integrations.kai.constraints import (
    NONE,
    KaiConstraint,
    KaiConstraints,
    WrittenConstraint,
)
from toposcope.integrations.kai.gang_size import keeps_its_group
from toposcope.integrations.kai.pod_shares import with_share_at

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_MAX_DEPTH: Final = 64


def _check_schema(root: Field, cluster: ClusterFacts) -> None:
    """Note what the API server rejects."""
    group = POD_GROUPS.group
    served = [f"{group}/{version}" for version in POD_GROUPS.versions]
    version = root / "apiVersion"
    if version.value not in served:
        text = f"KAI does not serve PodGroup {version.value}"
        version.error("kai/version", text, f"write {served[0]}")
    spec = root / "spec"
    fields = schema("kai", "PodGroup")
    check_fields(spec, fields, "kai/field", "KAI 0.17")
    _check_policy(spec / "topologyPolicy", cluster)


def _check_policy(policy: Field, cluster: ClusterFacts) -> None:
    """Note a `topologyPolicy.scope`: recipes for KAI have it, and no release to 0.17.0."""
    if not policy:
        return
    name, key = "NAME", "LABEL KEY"
    topology = cluster.only_topology
    if topology is not None:
        level = topology.level((policy / "scope").text() or "")
        if level is not None:
            name, key = topology.name, level.key
    text = (
        "no version of KAI has this field: the API server rejects or drops it, and the pods are "
        "placed anywhere"
    )
    fix = f"write spec.topologyConstraint with topology: {name} and requiredTopologyLevel: {key}"
    policy.error("kai/field", text, fix)


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    if before is None or is_change(root, before):  # what is in the cluster has passed the schema
        _check_schema(root, cluster)
    constraints = KaiConstraints(cluster)
    spec = root / "spec"
    name = name_of(root, "PodGroup")
    members = cluster.pod_groups.get((namespace_of(root), name), ())
    tree = _Tree(spec, constraints, members)
    group = tree.group(name)

    notes = [*constraints.notes, *tree.notes]
    if tree.unknown:
        why = tree.unknown[0]
        notes.append(f"{why}, so room is not checked; check the workload that creates its pods")
    queue = spec / "queue"
    workload = Workload(
        "KAI",
        handle_of(root),
        (group,),
        constraints.topology,
        is_placeable=constraints.is_placeable and not tree.unknown,
        notes=tuple(notes),
        gang=tree.gang,
        queue=queue.text() or "",
        queue_field=queue.path,
        is_preemptible=_is_preemptible(spec),
    )
    return Reading(workload)


def _is_preemptible(spec: Field) -> bool:
    """Whether it may be evicted, by its own field, else by its priority class."""
    written = (spec / "preemptibility").text()
    if written:
        return written.lower() != "non-preemptible"
    return PREEMPTIBLE.get((spec / "priorityClassName").text() or "", True)


def _claims(document: Mapping[str, Any]) -> bool:
    return kind_of(document) == POD_GROUPS.key


SYSTEM: Final = System("KAI", _claims, _read, "kai")


class _Tree:
    """Builds the tree of one PodGroup."""

    def __init__(
        self, spec: Field, constraints: KaiConstraints, members: Sequence[PodGroupMember]
    ) -> None:
        self._members = members
        self.gang = True
        """Whether its pods start together."""
        self.unknown: list[str] = []
        """Why the requests of some of its pods are unknown."""
        self.notes: list[str] = []
        self._spec = spec
        self._constraints = constraints
        self._by_name: dict[str, Field] = {}
        for subgroup in (spec / "subGroups").items():
            self._add(subgroup)
        self._children: dict[str, list[str]] = {}
        for name, subgroup in self._by_name.items():
            parent = self._parent(subgroup)
            children = self._children.setdefault(parent, [])
            children.append(name)

    def group(self, name: str) -> Group:
        """The whole PodGroup."""
        spec = self._spec
        children = spec / "minSubGroup"
        minimum = self._minimum(spec / "minMember")
        if spec / "minMember" and children:
            text = (
                "minMember and minSubGroup are mutually exclusive: "
                f"set minMember ({minimum}) to schedule a fixed number of pods, "
                "or set minSubGroup to require a minimum number of child SubGroups, but not both"
            )
            children.error("kai/min-member", text, "keep one of them")
        self._check_min_subgroup(children, self._children.get("", []), "")
        self._check_cycles()
        for subgroup, field in self._by_name.items():
            self._check_subgroup(subgroup, field)

        own = self._constraint("workload", spec, NONE)
        below = self._below("", children, own)
        pods: tuple[Pods, ...] = ()
        if not below:
            pods = self._pods("", "pods", minimum)
        return Group(name, pods, below, own.required, own.preferred)

    def _minimum(self, field: Field) -> int:
        """How many pods start together; all known pods if none have to."""
        minimum = field.number(1)
        if minimum or self._spec / "minSubGroup" or self._by_name:
            return minimum
        text = "KAI 0.17 rejects 0; later releases start the pods one by one"
        field.warn("kai/min-member", text, "set at least 1 for KAI 0.17")
        self.gang = False
        return max(sum(member.pods.count for member in self._members), 1)

    def _pods(self, subgroup: str, name: str, minimum: int) -> tuple[Pods, ...]:
        """The pods that must start together, with their requests if known."""
        pods, note = pods_of_group(self._members, subgroup, minimum)
        if not pods:
            if minimum:
                self.unknown.append(note)
            return (Pods(name, minimum, ()),)
        if note:
            self.notes.append(note)
        return tuple([replace(kind, name=name) for kind in pods])

    def _add(self, subgroup: Field) -> None:
        rule = "kai/sub-group-name"
        field = subgroup / "name"
        name = field.text()
        if name is None or not _NAME.fullmatch(name):
            fix = "use 1-63 lower-case letters, digits or '-'"
            field.error(rule, "must be a DNS label (RFC 1123)", fix)
        name = name or subgroup.path
        if name in self._by_name:
            text = f"duplicate subgroup name {name}"
            field.error(rule, text, "give each sub-group a name of its own")
        self._by_name.setdefault(name, subgroup)

    def _parent(self, subgroup: Field) -> str:
        """The name of its parent; empty for the PodGroup itself or a parent that does not exist."""
        field = subgroup / "parent"
        parent = field.text()
        if parent is None:
            return ""
        if parent in self._by_name:
            return parent
        name = (subgroup / "name").text() or subgroup.path
        text = f"parent {parent} of {name} was not found"
        field.error("kai/parent-exists", text, did_you_mean(parent, self._by_name))
        return ""

    def _check_cycles(self) -> None:
        """Note sub-groups that are unreachable from the PodGroup, and cut too deep a tree."""
        reached: set[str] = set()
        pending = [("", 0)]
        while pending:
            parent, depth = pending.pop()
            children = self._children.get(parent, [])
            reached.update(children)
            if depth < _MAX_DEPTH:
                pending += [(name, depth + 1) for name in children]
            elif children:
                self._cut(parent)
                reached.update(self._by_name)

        for name, subgroup in self._by_name.items():
            if name not in reached:
                fix = "one of its parents must have no parent"
                parent_field = subgroup / "parent"
                parent_field.error("kai/sub-group-cycle", "cycle detected in subgroups", fix)

    def _cut(self, parent: str) -> None:
        """Drop what is below a sub-group that is too deep."""
        text = f"sub-groups nested more than {_MAX_DEPTH} deep are not read"
        name = self._by_name[parent] / "name"
        name.error("kai/sub-group-depth", text, "a topology has at most 16 levels")
        del self._children[parent]

    def _check_subgroup(self, name: str, subgroup: Field) -> None:
        member = subgroup / "minMember"
        subgroups = subgroup / "minSubGroup"
        children = self._children.get(name, [])
        minimum = member.number(0)
        rule = "kai/min-member"
        of = f'subgroup "{name}": '
        if minimum and subgroups:
            text = f"{of}minMember and minSubGroup are mutually exclusive"
            subgroups.error(rule, text, "keep one of them")
        if children and minimum:
            text = (
                f"{of}minMember cannot be set on a mid-level SubGroup (has child SubGroups); "
                "use minSubGroup instead"
            )
            member.error(rule, text, "remove minMember here and set it on the children")
        if children:
            self._check_min_subgroup(subgroups, children, of)
        elif subgroups:
            text = f"{of}minSubGroup cannot be set on a leaf SubGroup (no child SubGroups)"
            subgroups.error(rule, text, "use minMember")
        elif not member:
            text = f"subgroup {name}: minMember is required"
            subgroup.error(rule, text, "set the fewest pods that it needs")

    def _check_min_subgroup(self, minimum: Field, children: list[str], of: str) -> None:
        if not minimum:
            return
        rule = "kai/min-sub-group"
        number = minimum.number(0)
        if isinstance(minimum.value, int) and number <= 0:
            text = f"{of}minSubGroup must be greater than 0"
            minimum.error(rule, text, "set at least 1, or remove it")
        elif number > len(children):
            text = (
                f"{of}minSubGroup ({number}) exceeds the number of direct child SubGroups "
                f"({len(children)})"
            )
            fix = "remove it"
            if children:
                fix = f"set at most {len(children)}"
            minimum.error(rule, text, fix)

    def _subgroup(self, name: str, above: KaiConstraint) -> Group:
        subgroup = self._by_name[name]
        handle = f"sub-group {name}"
        own = self._constraint(handle, subgroup, above)
        inner = own
        if own.required is None:
            inner = above
        below = self._below(name, subgroup / "minSubGroup", inner)
        pods: tuple[Pods, ...] = ()
        if not below:
            minimum = (subgroup / "minMember").number(0)
            pods = self._pods(name, name, minimum)
        return Group(
            handle,
            pods,
            below,
            required=own.required,
            preferred=own.preferred,
        )

    def _below(self, parent: str, minimum: Field, above: KaiConstraint) -> tuple[Group, ...]:
        """The sub-groups inside one, or inside the PodGroup itself."""
        names = self._first(parent, minimum)
        return tuple([self._subgroup(name, above) for name in names])

    def _first(self, parent: str, minimum: Field) -> list[str]:
        """The children that have to start with it.

        KAI takes the first `minSubGroup` of them by their names.
        """
        children = sorted(self._children.get(parent, ()))
        if not minimum:
            return children
        number = minimum.number(len(children))
        if number <= 0 or number >= len(children):
            return children
        first = children[:number]
        names = ", ".join(first)
        group = _called(parent)
        self.notes.append(
            f"room is checked for {names}: KAI starts {number} of the {len(children)} "
            f"sub-groups of {group} first"
        )
        return first

    def _constraint(self, owner: str, group: Field, above: KaiConstraint) -> KaiConstraint:
        field = group / "topologyConstraint"
        written = WrittenConstraint(
            owner,
            topology=field / "topology",
            required=field / "requiredTopologyLevel",
            preferred=field / "preferredTopologyLevel",
        )
        return self._constraints.read(written, above)


def _called(subgroup: str) -> str:
    """A sub-group, or the PodGroup if that is empty, for a sentence."""
    if subgroup:
        return f"sub-group {subgroup}"
    return "the PodGroup"


def members_of_documents(
    documents: Iterable[Mapping[str, Any]], surroundings: Surroundings
) -> PodGroupMembers:
    """The pods of workloads whose templates name a PodGroup that KAI's grouper leaves them in."""
    groups: dict[PodGroupName, list[PodGroupMember]] = {}
    for document in documents:
        if GROUP_OF not in str(document):
            continue  # most documents name none, and reading a workload takes longer than this
        root = Field(document, surroundings=surroundings)
        structure = structure_of(root)
        if structure is None or not keeps_its_group(root, structure):
            continue
        namespace = namespace_of(root)
        for pod_set in structure.sets:
            name = (pod_set.annotations / GROUP_OF).text()
            if name:
                subgroup = (pod_set.template / "metadata" / "labels" / SUB_GROUP_OF).text() or ""
                pods = pod_set.some(pod_set.count * structure.copies)
                pods = with_share_at(pods, pod_set.annotations)
                members = groups.setdefault((namespace, name), [])
                members.append(PodGroupMember(subgroup, pods))
    return {group: tuple(members) for group, members in groups.items()}


def pods_of_group(
    members: Sequence[PodGroupMember], subgroup: str, minimum: int
) -> tuple[tuple[Pods, ...], str]:
    """`minimum` pods of a sub-group with their requests, and a note about them.

    If `subgroup` is empty they are those of the whole group. If there are none, their requests are
    unknown, and the note says why.
    """
    kinds: Counter[Pods] = Counter()
    for member in members:
        if member.subgroup == subgroup:
            kind = replace(member.pods, name="pods", count=1)
            kinds[kind] += member.pods.count
    total = sum(kinds.values())
    of = _called(subgroup)
    if not total:
        return (), f"no pods of {of} are known, so their requests are unknown"

    if len(kinds) == 1:
        note = ""
        if total < minimum:
            note = f"{total} of {minimum} pods of {of} are known; the others are assumed identical"
        (only,) = kinds
        return (replace(only, count=minimum),), note

    if total != minimum:
        note = (
            f"{of} needs {minimum} of {total} known pods of several sizes; it is unknown which of "
            "them count"
        )
        return (), note
    pods = [replace(kind, count=count) for kind, count in kinds.items()]
    return tuple(pods), ""
