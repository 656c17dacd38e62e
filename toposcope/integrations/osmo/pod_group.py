"""The constraint tree of one OSMO task group, as it was asked.

OSMO sorts a task's requirements by the pool's order and makes a path of groups of them, so a group is the same one only
below the same groups.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from toposcope.integrations.framework.constraints import Group, Pods
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.topology.levels import Level


@dataclass(frozen=True, slots=True)
class Requirement:
    """One entry of a resource's `topology`."""

    part: Field
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
    """The tasks of one group below the same groups; the root is the whole task group, with no requirement."""

    path: tuple[str, ...] = ()
    asked: list[Requirement] = field(default_factory=list)
    """By each of its tasks."""
    tasks: list[Task] = field(default_factory=list)
    """Those that ask for nothing narrower."""
    below: dict[str, "Branch"] = field(default_factory=dict)

    @property
    def required(self) -> bool:
        """Whether any task asks for it to be kept together in any case."""
        return any(each.required for each in self.asked)

    @property
    def only(self) -> "Branch | None":
        """The group below, when there is just one."""
        return next(iter(self.below.values())) if len(self.below) == 1 else None

    def everything(self) -> Iterator["Branch"]:
        """This one and all below it."""
        yield self
        for branch in self.below.values():
            yield from branch.everything()


def grow(tasks: Sequence[Task], ladder: TopologyLevels) -> Branch:
    """The tree of tasks whose requirements all have a level of the ladder."""
    root = Branch()
    for task in tasks:
        branch = root
        for requirement in sorted(task.requirements, key=lambda each: ladder.rank(each.level) if each.level else 0):
            branch = branch.below.setdefault(requirement.group, Branch((*branch.path, requirement.group)))
            branch.asked.append(requirement)
        branch.tasks.append(task)
    return root


def group_of(branch: Branch, name: str) -> Group:
    """What is asked: a group that is required for one of its tasks stays together."""
    level = branch.asked[0].level if branch.asked else None
    below = [group_of(each, f"{each.asked[0].key} group {'/'.join(each.path)}") for each in branch.below.values()]
    return Group(
        name,
        pods=_alike(branch.tasks),
        groups=tuple(below),
        required=level if branch.required else None,
        preferred=None if branch.required else level,
    )


def _alike(tasks: Sequence[Task]) -> tuple[Pods, ...]:
    """Tasks of one resource are pods that are all alike."""
    counts: dict[Pods, int] = {}
    for task in tasks:
        counts[task.pods] = counts.get(task.pods, 0) + 1
    return tuple(replace(pods, count=count) for pods, count in counts.items())


def check_gaps(tasks: Field, name: str, root: Branch) -> None:
    """Note every gap; `tasks` is where the task group `name` stands."""
    for branch in root.everything():
        if len({each.required for each in branch.asked}) > 1:
            first = branch.asked[0]
            first.part.warn(
                "osmo/mixed-requirement",
                f"group {first.group!r} is both required and preferred; OSMO goes by the first of its tasks: "
                f"{'required' if first.required else 'preferred'}",
                "write the same requirementType in every resource of the group",
            )
    for branch, instead in lost(root):
        kept = instead.asked[0]
        next(each for each in branch.asked if each.required).part.warn(
            "osmo/required-lost",
            f"required {branch.asked[0].key!r} is lost for tasks of {name!r}: "
            f"OSMO writes only preferred {kept.key!r} into the PodGroup",
            f"make {kept.key!r} required too, or leave it out",
        )
    for one, other in collisions(root):
        other.asked[0].part.error(
            "osmo/group-collision",
            f"groups {'/'.join(one.path)} and {'/'.join(other.path)} are both called {'-'.join(one.path)!r} by OSMO, "
            "which fails with IndexError or takes them for one",
            "choose group names without '-'",
        )
    if root.tasks and root.below:
        names = ", ".join(task.name for task in root.tasks)
        where = "are put under the constraint of the others" if root.only else "may be placed anywhere"
        tasks.warn(
            "osmo/without-requirements",
            f"tasks without topology {where}: {names}",
            "give every task of the group a topology, or put these into a group of their own",
        )


def lost(root: Branch) -> Iterator[tuple[Branch, Branch]]:
    """Required groups of which nothing is left in the PodGroup, each with the preferred one that is kept instead.

    From the root down a chain of single groups becomes one constraint on the whole PodGroup: its last one. A chain that
    begins at a branching is cut to its last group in the same way; below a sub-group nothing is lost. Where the last
    one is required it is narrower, and the others follow from it.
    """
    whole = _chain(root)
    yield from _lost_of(whole[1:])
    for start in whole[-1].below.values():
        yield from _lost_of(_chain(start))


def _chain(start: Branch) -> list[Branch]:
    found = [start]
    while below := found[-1].only:
        found.append(below)
    return found


def _lost_of(chain: Sequence[Branch]) -> Iterator[tuple[Branch, Branch]]:
    if chain and not chain[-1].asked[0].required:
        for branch in chain[:-1]:
            if branch.required:
                yield branch, chain[-1]


def collisions(root: Branch) -> Iterator[tuple[Branch, Branch]]:
    """Different groups that get one name."""
    named: dict[str, Branch] = {}
    for branch in root.everything():
        other = named.setdefault("-".join(branch.path), branch)
        if other is not branch:
            yield other, branch
