"""CompositePodGroups: groups of kube-scheduler's PodGroups, as one tree of constraints.

Kubernetes 1.37, alpha (KEP-6012). Nothing of a tree is bound before `minGroupCount` children of
each group find nodes; a child goes onto nodes of its parent's domain. Groups are placed one after
the other and none is moved again, so that one may take the only place of the next. The API server
accepts a parent that does not exist, and nothing is bound.
"""

from collections.abc import Callable, Mapping
from typing import Final

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Group, Workload
from toposcope.integrations.framework.document import Field, name_of

_MAX_DEPTH: Final = 4
"""How deep groups nest (Kubernetes 1.37: WorkloadMaxTreeDepth)."""
GREEDY: Final = (
    "kube-scheduler places groups of a CompositePodGroup one by one, "
    "and one may take the place of another"
)


def parent_of(group: Field) -> str:
    """The name of the CompositePodGroup around a PodGroup or another one; empty: there is none."""
    return (group / "spec" / "parentCompositePodGroupName").text() or ""


def around(group: Field, composites: Mapping[str, Field]) -> tuple[Field, str]:
    """The outermost group around one, itself if there is none.

    And the name of a parent without which no tree ends.
    """
    above, name = group, parent_of(group)
    for _ in range(_MAX_DEPTH):
        if name not in composites:
            break
        above, name = composites[name], parent_of(composites[name])
    return above, name


class Tree:
    """Builds the groups of one tree, and collects what keeps its room from being checked.

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
        self.unknown[f"{why}: room is not checked"] = None

    @property
    def levels(self) -> tuple[Level, ...]:
        """The labels that count, from the outermost group to the innermost."""
        longest = max(self._paths, key=len, default=())
        if any(path != longest[: len(path)] for path in self._paths):
            self._add_unknown("its groups go by different labels")
        return longest

    def group(self, one: Field, above: tuple[Level, ...] = (), depth: int = _MAX_DEPTH) -> Group:
        """One CompositePodGroup with all below it."""
        name, level = name_of(one), self._level(one / "spec")
        path = above if level is None or level in above else (*above, level)
        self._paths[path] = None
        children = [
            child for child in self._composites.values() if depth > 1 and parent_of(child) == name
        ]
        inside = [self.group(child, path, depth - 1) for child in children]
        leaves = [
            self._leaf(child) for child in self._pod_groups.values() if parent_of(child) == name
        ]
        for leaf in leaves:
            self._paths[*path, *(level for level in leaf.levels if level not in path)] = None
            self.unknown.update(() if leaf.placeable else dict.fromkeys(leaf.notes))
            self.notes.update(dict.fromkeys(leaf.notes if leaf.placeable else ()))
            self.doubt = self.doubt or leaf.doubt
        below = (*inside, *(group for leaf in leaves for group in leaf.groups))
        least = (one / "spec" / "schedulingPolicy" / "gang" / "minGroupCount").number(len(below))
        if not below:
            self._add_unknown(f"no groups of CompositePodGroup {name} are known")
        elif least != len(below):
            needs = f"CompositePodGroup {name} needs {least} of its groups"
            self._add_unknown(f"{needs}, and {len(below)} are known")
        if len({(group.pods, group.groups, group.required) for group in below}) > 1:
            self.doubt = self.doubt or GREEDY
        return Group(name, groups=below, required=level)
