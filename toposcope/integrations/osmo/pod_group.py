"""The PodGroup of one OSMO task group.

The constraint tree that was asked for, and where OSMO's differs from it. OSMO sorts a task's
requirements by the pool's order and makes a path of groups of them, so a group is the same one only
below the same groups. Source: OSMO's PodGroupTopologyBuilder (2026-08). It takes the first
requirement of a group for all, keeps only the last of a chain of single groups, joins the names of
a path with `-`, and has no place for tasks without requirements.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Group, Pods
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import TopologyLevels


@dataclass(frozen=True, slots=True)
class Requirement:
    """One entry of a resource's `topology`."""

    field: Field
    key: str
    group: str
    required: bool
    level: Level | None
    """None: the pool does not have the key, or is not known."""


@dataclass(frozen=True, slots=True)
class Task:
    """One task: one pod."""

    name: str
    pods: Pods
    requirements: tuple[Requirement, ...]


@dataclass(slots=True)
class Branch:
    """The tasks of one group below the same groups.

    The root is the whole task group, with no requirement.
    """

    path: tuple[str, ...] = ()
    requirements: list[Requirement] = field(default_factory=list)
    """One of each of its tasks."""
    tasks: list[Task] = field(default_factory=list)
    """Those that ask for nothing narrower."""
    below: dict[str, "Branch"] = field(default_factory=dict)

    @property
    def required(self) -> bool:
        """Whether any task requires it."""
        return any(requirement.required for requirement in self.requirements)

    @property
    def only_child(self) -> "Branch | None":
        """The group below, when there is just one."""
        return next(iter(self.below.values())) if len(self.below) == 1 else None

    def walk(self) -> Iterator["Branch"]:
        """This one and all below it."""
        yield self
        for branch in self.below.values():
            yield from branch.walk()


def tree_of(tasks: Sequence[Task], pool: TopologyLevels) -> Branch:
    """The tree of tasks whose requirements all have a level of the pool."""
    root = Branch()
    for task in tasks:
        branch = root
        for requirement in sorted(
            task.requirements, key=lambda one: pool.rank(one.level) if one.level else 0
        ):
            branch = branch.below.setdefault(
                requirement.group, Branch((*branch.path, requirement.group))
            )
            branch.requirements.append(requirement)
        branch.tasks.append(task)
    return root


def group_of(branch: Branch, name: str) -> Group:
    """What is asked for: a group that is required for one of its tasks stays together."""
    level = branch.requirements[0].level if branch.requirements else None
    below = [
        group_of(child, f"{child.requirements[0].key} group {'/'.join(child.path)}")
        for child in branch.below.values()
    ]
    counts: dict[Pods, int] = {}  # tasks of one resource are identical pods
    for task in branch.tasks:
        counts[task.pods] = counts.get(task.pods, 0) + 1
    return Group(
        name,
        pods=tuple(replace(pods, count=count) for pods, count in counts.items()),
        groups=tuple(below),
        required=level if branch.required else None,
        preferred=None if branch.required else level,
    )


def check_differences(tasks: Field, name: str, root: Branch) -> None:
    """Note where OSMO's PodGroup says something else.

    `tasks` is where the task group `name` stands.
    """
    for branch in root.walk():
        if len({requirement.required for requirement in branch.requirements}) > 1:
            first = branch.requirements[0]
            first.field.warn(
                "osmo/mixed-requirement",
                f"group {first.group!r} is both required and preferred; "
                "OSMO uses the first of its tasks: "
                f"{'required' if first.required else 'preferred'}",
                "write the same requirementType in every resource of the group",
            )
    for branch, kept in lost(root):
        key = kept.requirements[0].key
        next(requirement for requirement in branch.requirements if requirement.required).field.warn(
            "osmo/required-lost",
            f"required {branch.requirements[0].key!r} is lost for tasks of {name!r}: "
            f"OSMO writes only preferred {key!r} into the PodGroup",
            f"make {key!r} required too, or leave it out",
        )
    for group, other in _collisions(root):
        other.requirements[0].field.error(
            "osmo/group-collision",
            f"groups {'/'.join(group.path)} and {'/'.join(other.path)} are both called "
            f"{'-'.join(group.path)!r} by "
            "OSMO, which fails with IndexError or takes them for one",
            "choose group names without '-'",
        )
    if root.tasks and root.below:
        names = ", ".join(task.name for task in root.tasks)
        where = (
            "are put under the constraint of the others"
            if root.only_child
            else "may be placed anywhere"
        )
        fix = "give every task of the group a topology, or put these into a group of their own"
        tasks.warn("osmo/without-requirements", f"tasks without topology {where}: {names}", fix)


def lost(root: Branch) -> Iterator[tuple[Branch, Branch]]:
    """Required groups of which nothing is left in the PodGroup.

    Each with the preferred one that is kept instead. From the root down a chain of single groups
    becomes one constraint on the whole PodGroup: its last one. A chain that begins at a branching
    is cut to its last group in the same way; below a sub-group nothing is lost. Where the last one
    is required it is narrower, and the others follow from it.
    """
    whole = _chain(root)
    for chain in (whole[1:], *map(_chain, whole[-1].below.values())):
        if chain and not chain[-1].requirements[0].required:
            yield from ((branch, chain[-1]) for branch in chain[:-1] if branch.required)


def _chain(start: Branch) -> list[Branch]:
    chain = [start]
    while below := chain[-1].only_child:
        chain.append(below)
    return chain


def _collisions(root: Branch) -> Iterator[tuple[Branch, Branch]]:
    """Different groups that get one name."""
    by_name: dict[str, Branch] = {}
    for branch in root.walk():
        other = by_name.setdefault("-".join(branch.path), branch)
        if other is not branch:
            yield other, branch
