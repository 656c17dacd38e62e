"""CompositePodGroups: groups of kube-scheduler's PodGroups, as one tree of constraints.

Kubernetes 1.37, alpha (KEP-6012). No pod of a tree is bound until `minGroupCount` children of each
group find nodes; a child is placed on nodes of its parent's domain. Groups are placed one after the
other and never moved, so one may use the only place of the next. The API server accepts a parent
that does not exist, and no pod is bound; it rejects a group of a tree that names no Workload.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Group, Workload
from toposcope.integrations.framework.document import Field, name_of

_MAX_DEPTH: Final = 4
"""The deepest nesting of groups (Kubernetes 1.37: WorkloadMaxTreeDepth)."""
GREEDY: Final = (
    "kube-scheduler places groups of a CompositePodGroup one by one, and one may use the only "
    "place of another"
)


def parent_of(group: Field) -> str:
    """The name of the CompositePodGroup around a PodGroup or another one; empty if none."""
    return (group / "spec" / "parentCompositePodGroupName").text() or ""


def around(group: Field, composites: Mapping[str, Field]) -> tuple[Field, str]:
    """The outermost group around one, and the name of a missing parent; empty if none is missing.

    A group without a parent is its own outermost one. In a cycle of groups, one parent counts as
    missing.
    """
    above = group
    name = parent_of(group)
    for _ in range(_MAX_DEPTH):
        if name not in composites:
            break
        above = composites[name]
        name = parent_of(above)
    return above, name


class TreeBuilder:
    """Builds the groups of one tree, and collects why its room cannot be checked.

    `level` reads the constraint of a group's spec, `leaf` a PodGroup.
    """

    def __init__(
        self,
        composites: Mapping[str, Field],
        pod_groups: Mapping[str, Field],
        level: Callable[[Field], Level | None],
        leaf: Callable[[Field], Workload],
    ) -> None:
        self._composites = composites
        self._pod_groups = pod_groups
        self._level = level
        self._leaf = leaf
        self._paths: dict[tuple[Level, ...], None] = {}
        self.unknown: dict[str, None] = {}
        self.notes: dict[str, None] = {}
        self.doubt = ""

    def _add_unknown(self, why: str) -> None:
        self.unknown[f"{why}, so room is not checked"] = None

    @property
    def levels(self) -> tuple[Level, ...]:
        """The labels of the constraints, from the outermost group to the innermost."""
        longest = max(self._paths, key=len, default=())
        for path in self._paths:
            if path != longest[: len(path)]:
                self._add_unknown("its groups use different labels")
                break
        return longest

    def group(
        self, composite: Field, above: tuple[Level, ...] = (), depth: int = _MAX_DEPTH
    ) -> Group:
        """A CompositePodGroup with all below it."""
        name = name_of(composite)
        level = self._level(composite / "spec")
        path = above
        if level is not None and level not in above:
            path = (*above, level)
        self._paths[path] = None

        below: list[Group] = []
        if depth > 1:
            for child in _children_of(name, self._composites):
                nested = self.group(child, path, depth - 1)
                below.append(nested)
        pod_groups = _children_of(name, self._pod_groups)
        leaves = [self._leaf(child) for child in pod_groups]
        for leaf in leaves:
            self._collect(leaf, path)
            below += leaf.groups

        if not self.doubt and not _are_alike(below):
            self.doubt = GREEDY
        counted = self._counted(composite, below)
        return Group(name, groups=tuple(counted), required=level)

    def _collect(self, leaf: Workload, path: tuple[Level, ...]) -> None:
        """Add the labels, notes and doubts of a PodGroup inside a group."""
        inner = path
        for level in leaf.levels:
            if level not in path:
                inner = (*inner, level)
        self._paths[inner] = None

        notes = self.unknown
        if leaf.is_placeable:
            notes = self.notes
        notes.update(dict.fromkeys(leaf.notes))
        if not self.doubt:
            self.doubt = leaf.doubt

    def _counted(self, composite: Field, below: list[Group]) -> list[Group]:
        """The groups that must start together, among those known below a composite.

        Any of them if they are identical.
        """
        name = name_of(composite)
        present = len(below)
        if not present:
            self._add_unknown(f"no groups of CompositePodGroup {name} are known")
            return below

        gang = composite / "spec" / "schedulingPolicy" / "gang"
        least = (gang / "minGroupCount").number(present, least=1)
        if least == present:
            return below
        if least < present and _are_alike(below):
            note = f"room is counted for {least} of {present} groups of {name}, its minGroupCount"
            self.notes[note] = None
            return below[:least]
        self._add_unknown(f"CompositePodGroup {name} needs {least} of its groups; known: {present}")
        return below


def _children_of(name: str, groups: Mapping[str, Field]) -> list[Field]:
    """The groups whose parent has this name."""
    return [group for group in groups.values() if parent_of(group) == name]


def _are_alike(groups: Iterable[Group]) -> bool:
    """Whether the order of placing these groups does not matter."""
    kinds = {(group.pods, group.groups, group.required) for group in groups}
    return len(kinds) <= 1
