"""The constraint tree: what a workload requests, whatever system it is written for.

A group is kept together at its `required` level, and, where that is possible, at its `preferred`
one. Its copies are independent of each other: each is kept together separately. Groups below a
group stay inside its domain.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Protocol

from toposcope.api.levels import Level
from toposcope.integrations.framework.document import UnreadField
from toposcope.integrations.framework.node_affinity import ANY_NODE, NodeFilter, Taint
from toposcope.integrations.framework.pod_rules import NO_RULES, PodRules


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """A resource claim of a pod: its own, created from a template, or one that pods may share."""

    kind: Literal["ResourceClaimTemplate", "ResourceClaim"]
    namespace: str
    name: str
    device_class: str = ""
    """The class of its devices, if an operator creates the template from the workload."""
    devices: int = 0
    """How many devices it requests then."""

    @property
    def handle(self) -> str:
        """`resourceclaimtemplate/gpus -n ml`, as kubectl takes it."""
        return f"{self.kind.lower()}/{self.name} -n {self.namespace}"


@dataclass(frozen=True, slots=True)
class GpuShare:
    """A fraction of each of some GPUs.

    No device plugin offers these: the scheduler counts them. It is a fraction of one GPU's memory,
    or an amount of it in MiB.
    """

    devices: int
    """How many GPUs."""
    fraction: float = 0
    memory_mib: int = 0

    @property
    def resource(self) -> str:
        """Its name among requests: `x 0.5 gpu`."""
        part = f"{self.fraction:g} gpu"
        if self.memory_mib:
            part = f"{self.memory_mib} MiB of a gpu"
        if self.devices > 1:
            return f"x {self.devices} times {part}"
        return f"x {part}"


@dataclass(frozen=True, slots=True)
class Hold:
    """Why pods get no node, or may get none, even on an empty cluster."""

    kind: Literal["never", "full", "unclear"]
    """As long as the spec says so; until somebody acts; unknown."""
    reason: str
    can_open_nodes: bool = False
    """Whether the unknown facts may also allow more nodes."""


Resources = tuple[tuple[str, int], ...]
"""Amounts by resource name, sorted: `cpu` in thousandths, `memory` in bytes, the rest in units."""


@dataclass(frozen=True, slots=True)
class Priority:
    """Which pods kube-scheduler would evict to make room, by the priority class."""

    class_name: str = ""
    value: int | None = 0
    """None: not known."""
    can_preempt: bool = True


@dataclass(frozen=True, slots=True)
class Creation:
    """What happens to pods between their template and a scheduler."""

    namespace: str = ""
    scheduler: str = ""
    """`schedulerName`; empty if the template sets none."""
    gates: tuple[str, ...] = ()
    """The names of their scheduling gates."""
    priority: Priority = Priority()
    limits: Resources = ()
    unset: tuple[tuple[str, str], ...] = ()
    """Containers without a request or limit: `limits.memory` and the container's name."""
    has_deadline: bool = False
    """Whether `activeDeadlineSeconds` is set."""
    is_best_effort: bool = False
    """Whether no container requests or limits CPU or memory."""
    has_cross_namespace_terms: bool = False
    """Whether they have affinity or anti-affinity to pods of other namespaces."""
    holds: tuple[Hold, ...] = ()


@dataclass(frozen=True, slots=True)
class Pods:
    """Identical pods."""

    name: str
    count: int
    requests: tuple[tuple[str, int], ...]
    """Resource name and amount per pod, sorted: `cpu` in thousandths, `memory` in bytes, everything
    else in units.
    """
    node_filter: NodeFilter = ANY_NODE
    claims: tuple[ClaimRef, ...] = ()
    """The claims by which they get devices, which `requests` do not contain."""
    share: GpuShare | None = None
    """The fraction of a GPU that is among their requests."""
    creation: Creation = field(default=Creation(), compare=False)
    """No scheduler uses it: pods that differ in nothing else look the same to one."""
    rules: PodRules = NO_RULES
    """Their rules about other pods."""

    def sharing(self, share: GpuShare) -> "Pods":
        """The pods with a fraction of a GPU among their requests."""
        requests = tuple(sorted([*self.requests, (share.resource, 1)]))
        return replace(self, requests=requests, share=share)

    def instead_of_share(self, resource: str, amount: int) -> "Pods":
        """The pods that request something else instead of their fraction of a GPU."""
        requests = dict(self.requests)
        if self.share:
            del requests[self.share.resource]
        requests[resource] = requests.get(resource, 0) + amount
        return replace(self, requests=tuple(sorted(requests.items())), share=None)


JOB: Final = "job"
"""The part of a ReplicatedJob that one of its Jobs is."""


@dataclass(frozen=True, slots=True)
class Group:
    """Pods and smaller groups that belong together."""

    name: str
    """Its name for people: `decode`, `replica of prefill`."""
    pods: tuple[Pods, ...] = ()
    groups: tuple["Group", ...] = ()
    required: Level | None = None
    preferred: Level | None = None
    copies: int = 1
    anti_affinity: str = ""
    """Groups with the same pod label here, and their copies, never share a domain of the required
    level. As for pod anti-affinity, a domain is then the value of the level's label alone, whatever
    lies above it."""
    kind: str = ""
    """The system's word for such a group: `clique`, `pod set`; empty if nobody uses one."""
    own_name: str = ""
    """Its name among those of its kind, or the name of the group that it is a part of."""
    part: str = ""
    """What one copy is of `own_name`: `replica`, `slice`; empty for an independent group."""
    leader: Pods | None = None
    """The pod of each copy that is placed first, and takes all others into its domain of the
    required level; None if they are placed together, or the scheduler knows all of them."""

    @staticmethod
    def of_kind(kind: str, own_name: str, pods: tuple[Pods, ...] = ()) -> "Group":
        """A group named by its kind and its own name."""
        return Group(f"{kind} {own_name}", pods, kind=kind, own_name=own_name)

    @staticmethod
    def part_of(group_name: str, part: str, pods: tuple[Pods, ...] = ()) -> "Group":
        """A group of which each copy is a part of something with a name: a `replica` of it."""
        return Group(f"{part} of {group_name}", pods, own_name=group_name, part=part)

    def around(self, pods: tuple[Pods, ...] = (), groups: tuple["Group", ...] = ()) -> "Group":
        """A group of the same name without constraints."""
        return Group(self.name, pods, groups, own_name=self.own_name, part=self.part)

    def with_pods(self, change: Callable[[Pods], Pods]) -> "Group":
        """The group with `change` applied to its pods and to those below it."""
        pods = [change(kind) for kind in self.pods]
        groups = [group.with_pods(change) for group in self.groups]
        return replace(self, pods=tuple(pods), groups=tuple(groups))

    def everything(self) -> Iterator[tuple["Group", int]]:
        """This group and all below it, with how often each exists in one copy of this one."""
        yield self, 1
        for below in self.groups:
            for group, times in below.everything():
                yield group, times * below.copies

    @property
    def is_unconstrained(self) -> bool:
        """Whether nothing in it requests a level."""
        for group, _ in self.everything():
            if group.required or group.preferred:
                return False
        return True

    def simplified(self) -> "Group":
        """The group without empty groups.

        Pods that need not stay together belong to the group around them. A group without
        constraints that contains only one group is replaced by that one.
        """
        pods = [pod for pod in self.pods if pod.count]
        constrained = []
        for below in self.groups:
            if below.is_unconstrained:
                pods += below.all_pods()
                continue
            simpler = below.simplified()
            if not simpler.is_empty:
                constrained.append(simpler)
        has_more = bool(pods or self.required or self.preferred)
        if len(constrained) == 1 and not has_more:
            only = constrained[0]
            return replace(only, copies=self.copies * only.copies)
        return replace(self, pods=tuple(pods), groups=tuple(constrained))

    @property
    def is_empty(self) -> bool:
        """Whether there are no pods in it."""
        return not (self.copies and self.total())

    def all_pods(self) -> Iterator[Pods]:
        """The pods of all copies of this group, and of all below it."""
        for group, times in self.everything():
            for pods in group.pods:
                count = pods.count * times * self.copies
                if count:
                    yield replace(pods, count=count)

    def total(self) -> dict[str, int]:
        """The requests of one copy, by resource; `pods` counts the pods themselves. None is 0."""
        total: dict[str, int] = {}
        for group, times in self.everything():
            for pods in group.pods:
                count = pods.count * times
                for resource, amount in (("pods", 1), *pods.requests):
                    requested = amount * count
                    if requested:
                        total[resource] = total.get(resource, 0) + requested
        return total


def simplified(groups: Iterable[Group]) -> tuple[Group, ...]:
    """The groups that have pods, each simplified."""
    simpler = []
    for group in groups:
        if group.is_empty:
            continue
        if group.is_unconstrained:
            # its pods lose their groups
            simpler.append(group.around(groups=(group,)).simplified())
        else:
            simpler.append(group.simplified())
    return tuple(simpler)


def nested(groups: Iterable[Group]) -> Iterator[Group]:
    """These groups and all below them."""
    for top in groups:
        for group, _ in top.everything():
            yield group


def pods_in(groups: Iterable[Group]) -> Iterator[Pods]:
    """The pods of these groups and of all below them, kind by kind."""
    for group in nested(groups):
        yield from group.pods


def count_of_pods(groups: Iterable[Group]) -> int:
    """How many pods all copies of these groups have."""
    count = 0
    for group in groups:
        total = group.total()
        count += total.get("pods", 0) * group.copies
    return count


def levels_asked_for(groups: Iterable[Group]) -> Iterator[Level]:
    """The levels that these groups and the groups below them require or prefer."""
    for group in nested(groups):
        for level in (group.required, group.preferred):
            if level:
                yield level


class OfferedNode(Protocol):
    """A node as a scheduler sees it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def labels(self) -> Mapping[str, str]:
        """All of its labels."""

    @property
    def taints(self) -> Sequence[Taint]:
        """The taints that repel pods."""

    @property
    def obstacle(self) -> str:
        """Why it accepts no new pods; empty if it does."""

    @property
    def free(self) -> Mapping[str, int]:
        """What is free on it, by resource."""

    @property
    def total(self) -> Mapping[str, int]:
        """What it has in total."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a scheduler would do with a workload."""

    refusal: str = ""
    """Why it would wait; empty if it is placed."""
    has_no_flavor: bool = False
    """Whether it gets no flavor, because quota is missing or no flavor accepts its pods, even on an
    empty cluster.
    """
    placed: tuple[tuple[Pods, str, int], ...] = ()
    """Pods, their node and how many of them it gets; the node is empty where a whole domain was
    assigned.
    """
    topology: str | None = None
    """The topology on which they were assigned; None if another scheduler chooses the nodes."""
    notes: tuple[str, ...] = ()
    has_fewer_pods: bool = False
    """Whether it admits fewer pods than the workload requests."""
    is_incomplete: bool = False
    """Whether only some of many copies were tried, to save time: the others may not fit.
    """
    is_split: bool = False
    """Whether its parts are placed on different topologies, or some on none, so no search on one
    topology can place them.
    """
    doubt: str = ""
    """Why it is unknown whether it is placed; empty if it is known."""


class Admission(Protocol):
    """The exact procedure of a scheduler for one workload."""

    @property
    def own(self) -> frozenset[tuple[str, str]]:
        """Namespace and name of the objects by which this workload is admitted already.

        What they hold counts as free for it.
        """

    def decide(self, nodes: Sequence[OfferedNode], *, emptied: bool = False) -> Decision:
        """What the scheduler would do now.

        With `emptied`, as if nothing else were running or admitted and all nodes were Ready.
        """


@dataclass(frozen=True, slots=True)
class Holder:
    """The owner of a domain that no other group of its kind may use."""

    level: Level
    domain: str
    """The value of the level's label."""
    name: str
    """`kind/name -n namespace`."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What one workload requests from one topology."""

    system: str
    """The system that places it, by the name of its reader."""
    handle: str
    """`kind/name -n namespace`."""
    groups: tuple[Group, ...]
    topology: str | None = None
    """The topology whose levels it uses; None if it requests none."""
    levels: tuple[Level, ...] = ()
    """The node labels that it uses without a topology, by pod affinity."""
    is_placeable: bool = True
    """False if too little is known to say whether it fits; the notes say what is missing."""
    notes: tuple[str, ...] = ()
    """What the reader assumed or left out."""
    gang: bool | None = None
    """How the scheduler starts pods.

    True: all pods of a copy, or none. False: one after the other, and the first pod decides the
    domain.
    """
    pod_groups: tuple[Group, ...] = ()
    """The units that the scheduler places, if these are not `groups`."""
    least: tuple[Group, ...] = ()
    """The part of it that has to start; the others may wait for room."""
    queue: str = ""
    """The scheduler's queue; empty if unknown."""
    queue_group: str = ""
    """The API group of that queue; empty for the gang scheduler's own."""
    queue_field: str = ""
    """The field in which its document names that queue, or may; empty if unknown."""
    is_preemptible: bool = True
    """Whether it may be evicted: then only the limits of its queue apply, not the quota."""
    admission: Admission | None = None
    """How the scheduler decides; None if its procedure is unknown.
    """
    doubt: str = ""
    """Why the scheduler may miss a valid placement; empty if it tries every one."""
    certain: tuple[Group, ...] = ()
    """If these fit, it finds a placement all the same."""
    suspended: str = ""
    """The field by which it is suspended (not by a queue) and so has no pods; empty if it is not.
    """
    unread: tuple[UnreadField, ...] = ()
    """The unread fields of its document that may decide: they make any verdict unclear."""
    certain_too: tuple[Group, ...] = ()
    """If these fit, it does so as well."""
    holders: tuple[Holder, ...] = ()
    """The owners of domains that `groups` avoid."""
    once_left: tuple[Group, ...] = ()
    """The groups without the constraint to avoid these domains."""
    unknown: str = ""
    """The unknown fact that keeps the verdict open; empty if there is none."""


PodGroupName = tuple[str, str]
"""Namespace and name of a PodGroup."""


@dataclass(frozen=True, slots=True)
class PodGroupMember:
    """Identical pods of a PodGroup; `subgroup` is empty for pods outside of sub-groups."""

    subgroup: str
    pods: Pods


PodGroupMembers = Mapping[PodGroupName, tuple[PodGroupMember, ...]]


def starts_with(scheduler: str, minimum: int, total: int) -> str:
    """The note on a gang that is smaller than its pods."""
    return (
        f"room is checked for {minimum} of {total} pods: {scheduler} starts these together, and "
        "the others if there is room"
    )
