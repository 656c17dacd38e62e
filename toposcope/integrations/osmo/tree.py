"""The constraint tree of one OSMO task group, as it was asked.

OSMO sorts a task's requirements by the pool's order and makes a path of groups of them, so a group is the same one only
below the same groups.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from toposcope.integrations.framework.constraints import Group, Pods
from toposcope.integrations.framework.document import Part
from toposcope.integrations.framework.reading import Ladder
from toposcope.topology.levels import Level


@dataclass(frozen=True, slots=True)
class Requirement:
    """One entry of a resource's `topology`."""

    part: Part
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


def grow(tasks: Sequence[Task], ladder: Ladder) -> Branch:
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
