"""One OSMO task group: what it requests, and where the PodGroup that OSMO creates differs.

OSMO sorts a task's
requirements by the pool's order and makes a path of groups of them, so a group is the same one only
below the same groups. Source: OSMO's PodGroupTopologyBuilder (2026-08). It takes the first
requirement of a group for all, keeps only the last of a chain of single groups, joins the names of
a path with `-`, and cannot express tasks without requirements.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Group, Pods
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import TopologyLevels


@dataclass(frozen=True, slots=True)
class TopologyRequirement:
    """One entry of a resource's `topology`."""

    field: Field
    key: str
    group: str
    is_required: bool
    level: Level | None
    """None if the pool does not have the key, or is unknown."""


@dataclass(frozen=True, slots=True)
class OsmoTask:
    """One task: one pod."""

    name: str
    pods: Pods
    requirements: tuple[TopologyRequirement, ...]


@dataclass(slots=True)
class Branch:
    """The tasks of one group below the same groups.

    The root is the whole task group, with no requirement.
    """

    path: tuple[str, ...] = ()
    requirements: list[TopologyRequirement] = field(default_factory=list)
    """One of each of its tasks."""
    tasks: list[OsmoTask] = field(default_factory=list)
    """The tasks that request nothing narrower."""
    below: dict[str, "Branch"] = field(default_factory=dict)

    @property
    def is_required(self) -> bool:
        """Whether any task requires it."""
        return any(requirement.is_required for requirement in self.requirements)

    @property
    def only_child(self) -> "Branch | None":
        """The group below, if there is exactly one."""
        if len(self.below) != 1:
            return None
        (child,) = self.below.values()
        return child

    def walk(self) -> Iterator["Branch"]:
        """This group and all below it."""
        yield self
        for branch in self.below.values():
            yield from branch.walk()


def tree_of(tasks: Sequence[OsmoTask], pool: TopologyLevels) -> Branch:
    """The tree of tasks whose requirements all have a level of the pool."""
    root = Branch()

    def rank(requirement: TopologyRequirement) -> int:
        return pool.rank(requirement.level) if requirement.level else 0

    for task in tasks:
        branch = root
        for requirement in sorted(task.requirements, key=rank):
            group = requirement.group
            if group not in branch.below:
                branch.below[group] = Branch((*branch.path, group))
            branch = branch.below[group]
            branch.requirements.append(requirement)
        branch.tasks.append(task)

    return root


def group_of(branch: Branch, name: str) -> Group:
    """What the tasks request: a group stays together if one of its tasks requires it."""
    level = branch.requirements[0].level if branch.requirements else None
    below = []
    for child in branch.below.values():
        path = "/".join(child.path)
        key = child.requirements[0].key
        below.append(group_of(child, f"{key} group {path}"))

    # Tasks of one resource are identical pods.
    counts = Counter([task.pods for task in branch.tasks])
    pods = [replace(kind, count=count) for kind, count in counts.items()]
    return Group(
        name,
        pods=tuple(pods),
        groups=tuple(below),
        required=level if branch.is_required else None,
        preferred=None if branch.is_required else level,
    )


def check_differences(tasks: Field, name: str, root: Branch) -> None:
    """Note where OSMO's PodGroup differs from the request.

    `tasks` is the field of task group `name`.
    """
    for branch in root.walk():
        _check_mixed(branch)

    for branch, kept in lost(root):
        _warn_of_lost(branch, kept, name)

    for group, namesake in _collisions(root):
        paths = f"{'/'.join(group.path)} and {'/'.join(namesake.path)}"
        namesake.requirements[0].field.error(
            "osmo/group-collision",
            f"groups {paths} both get the name {'-'.join(group.path)!r} in OSMO, which fails with "
            "IndexError or merges them",
            "choose group names without '-'",
        )

    if root.tasks and root.below:
        _warn_without_requirements(tasks, root)


def _check_mixed(branch: Branch) -> None:
    if len({requirement.is_required for requirement in branch.requirements}) <= 1:
        return

    first = branch.requirements[0]
    used = "required" if first.is_required else "preferred"
    first.field.warn(
        "osmo/mixed-requirement",
        f"group {first.group!r} is both required and preferred; "
        f"OSMO follows the first of its tasks: {used}",
        "write the same requirementType in every resource of the group",
    )


def _warn_of_lost(branch: Branch, kept: Branch, name: str) -> None:
    """Note, at the first task that requires the group, that OSMO keeps another group instead."""
    lost_key = branch.requirements[0].key
    kept_key = kept.requirements[0].key
    required = next(requirement for requirement in branch.requirements if requirement.is_required)
    required.field.warn(
        "osmo/required-lost",
        f"OSMO drops required {lost_key!r} for tasks of {name!r}: it writes only preferred "
        f"{kept_key!r} into the PodGroup",
        f"make {kept_key!r} required too, or remove it",
    )


def _warn_without_requirements(tasks: Field, root: Branch) -> None:
    names = ", ".join([task.name for task in root.tasks])
    where = "may be placed anywhere"
    if root.only_child:
        where = "get the constraint of the others"
    fix = "give every task of the group a topology, or move these tasks to a group of their own"
    tasks.warn("osmo/without-requirements", f"tasks without topology {where}: {names}", fix)


def lost(root: Branch) -> Iterator[tuple[Branch, Branch]]:
    """Required groups that OSMO drops, each with the preferred group that it keeps instead.

    From the root down a chain of single groups
    becomes one constraint on the whole PodGroup: its last one. A chain that begins at a branching
    is cut to its last group in the same way; below a sub-group nothing is lost. Where the last one
    is required it is narrower, and the others follow from it.
    """
    root_chain = _chain(root)
    chains = [root_chain[1:]]
    for branch in root_chain[-1].below.values():
        chains.append(_chain(branch))

    for chain in chains:
        if not chain:
            continue

        *others, kept = chain
        if kept.requirements[0].is_required:
            continue
        for branch in others:
            if branch.is_required:
                yield branch, kept


def _chain(start: Branch) -> list[Branch]:
    chain = [start]
    below = start.only_child
    while below:
        chain.append(below)
        below = below.only_child
    return chain


def _collisions(root: Branch) -> Iterator[tuple[Branch, Branch]]:
    """Different groups that get the same name."""
    by_name: dict[str, Branch] = {}
    for branch in root.walk():
        namesake = by_name.setdefault("-".join(branch.path), branch)
        if namesake is not branch:
            yield namesake, branch
