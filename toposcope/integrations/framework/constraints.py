"""The constraint tree: what a workload asks for, whatever system it is written for.

A group is kept together at its `required` level, and, where that is possible, at its `preferred` one. Its copies are
independent of each other: each is kept together by itself. What is below a group stays inside the domain of the group.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from toposcope.integrations.framework.node_affinity import ANY_NODE, NodeFilter
from toposcope.topology.levels import Level


@dataclass(frozen=True, slots=True)
class Pods:
    """Pods that are all alike."""

    name: str
    count: int
    requests: tuple[tuple[str, int], ...]
    """Resource name and amount per pod, sorted: `cpu` in thousandths, `memory` in bytes, everything else in units."""
    choice: NodeFilter = ANY_NODE
    """The nodes that they may use."""


@dataclass(frozen=True, slots=True)
class Group:
    """Pods and smaller groups that belong together."""

    name: str
    """As an admin finds it in the workload: `decode`, `replica of prefill`."""
    pods: tuple[Pods, ...] = ()
    groups: tuple["Group", ...] = ()
    required: Level | None = None
    preferred: Level | None = None
    copies: int = 1
    apart: str = ""
    """No two copies of the groups with this same word share a domain of the required level ("exclusive placement").

    As pod anti-affinity has it, a domain here is the value of the level's label alone, whatever lies above it.
    """

    def everything(self) -> Iterator[tuple["Group", int]]:
        """This group and all below it, each with the number of times it exists in one copy of this one."""
        yield self, 1
        for below in self.groups:
            for group, times in below.everything():
                yield group, times * below.copies

    @property
    def loose(self) -> bool:
        """Whether nothing in it has to stay together."""
        return all(not (group.required or group.preferred) for group, _ in self.everything())

    def simplified(self) -> "Group":
        """The same demand without empty groups; pods that need not stay together belong to the group around them.

        A group that asks for nothing itself and has nothing but one other group in it gives way to that one.
        """
        pods = [pod for pod in self.pods if pod.count]
        tight = []
        for below in self.groups:
            if not below.loose:
                tight.append(below.simplified())
            else:
                heap = [(pod, times * below.copies) for group, times in below.everything() for pod in group.pods]
                pods += [replace(each, count=each.count * times) for each, times in heap if each.count * times]
        filled = tuple(group for group in tight if group.copies and group.total())
        if len(filled) == 1 and not pods and not (self.required or self.preferred):
            return replace(filled[0], copies=self.copies * filled[0].copies)
        return replace(self, pods=tuple(pods), groups=filled)

    def total(self) -> dict[str, int]:
        """What one copy asks for in all, by resource; `pods` counts the pods themselves."""
        found: dict[str, int] = {}
        for group, times in self.everything():
            for pods in group.pods:
                found["pods"] = found.get("pods", 0) + pods.count * times
                for resource, amount in pods.requests:
                    found[resource] = found.get(resource, 0) + amount * pods.count * times
        return found


def simplified(groups: Iterable[Group]) -> tuple[Group, ...]:
    """The groups that ask for anything, each simplified."""
    found = []
    for group in groups:
        if group.copies and group.total():
            heap = Group(group.name, groups=(group,)) if group.loose else group
            found.append(heap.simplified())
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Workload:
    """One workload's demands on one topology."""

    system: str
    """Who will place it, in the field's words: `Grove`, `Kueue`."""
    handle: str
    """`kind/name`, with the namespace in front where there is one."""
    groups: tuple[Group, ...]
    topology: str | None = None
    """The ClusterTopology whose levels count; None: it asks for none."""
    levels: tuple[Level, ...] = ()
    """The node labels that count where no topology is asked: pod affinity knows nothing else."""
    placeable: bool = True
    """False: too little is known to say whether it fits; the notes say what."""
    notes: tuple[str, ...] = field(default=())
    """What the admin should know about how the tree was made."""


PodGroupName = tuple[str, str]
"""Namespace and name of a PodGroup."""


@dataclass(frozen=True, slots=True)
class PodGroupMember:
    """Pods of a PodGroup that are alike; `subgroup` is empty where they are in none."""

    subgroup: str
    pods: Pods


PodGroupMembers = Mapping[PodGroupName, tuple[PodGroupMember, ...]]
