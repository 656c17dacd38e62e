"""The constraint tree: what a workload asks for, whatever system it is written for.

A group is kept together at its `required` level, and, where that is possible, at its `preferred`
one. Its copies are independent of each other: each is kept together by itself. What is below a
group stays inside the domain of the group.
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
    """A resource claim of a pod: one of its own, made of a template, or one that pods may share."""

    kind: Literal["ResourceClaimTemplate", "ResourceClaim"]
    namespace: str
    name: str
    device_class: str = ""
    """The class of its devices, where an operator makes the template of what the workload says."""
    devices: int = 0
    """How many it asks for then."""

    @property
    def handle(self) -> str:
        """`resourceclaimtemplate/gpus -n ml`, as kubectl takes it."""
        return f"{self.kind.lower()}/{self.name} -n {self.namespace}"


@dataclass(frozen=True, slots=True)
class GpuShare:
    """A part of each of some GPUs, which no device plugin offers: the scheduler counts these.

    It is a part of one GPU's memory, or so many MiB of it.
    """

    devices: int
    """How many GPUs."""
    fraction: float = 0
    memory_mib: int = 0

    @property
    def resource(self) -> str:
        """What stands for it among requests: `x 0.5 gpu`."""
        part = f"{self.fraction:g} gpu"
        if self.memory_mib:
            part = f"{self.memory_mib} MiB of a gpu"
        if self.devices > 1:
            return f"x {self.devices} times {part}"
        return f"x {part}"


@dataclass(frozen=True, slots=True)
class Hold:
    """Why pods get no node whatever room there is, or may get none."""

    kind: Literal["never", "full", "unclear"]
    """As long as they are written so; until somebody acts; it is not known."""
    reason: str
    may_open_nodes: bool = False
    """Whether what is not known may also let them onto more nodes."""


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
    """What becomes of pods between their template and a scheduler."""

    namespace: str = ""
    scheduler: str = ""
    """`schedulerName`; empty where the template names none."""
    gates: tuple[str, ...] = ()
    """The names of their scheduling gates."""
    priority: Priority = Priority()
    limits: Resources = ()
    unset: tuple[tuple[str, str], ...] = ()
    """Containers without a request or limit: `limits.memory` and the container's name."""
    has_deadline: bool = False
    """Whether `activeDeadlineSeconds` is set."""
    is_best_effort: bool = False
    """Whether no container says anything of CPU and memory."""
    crosses_namespaces: bool = False
    """Whether they ask to be near pods of other namespaces, or away from them."""
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
    """What they get devices by, which `requests` say nothing of."""
    share: GpuShare | None = None
    """The part of a GPU that is among their requests."""
    creation: Creation = field(default=Creation(), compare=False)
    """No scheduler goes by it: pods that differ in nothing else look the same to one."""
    rules: PodRules = NO_RULES
    """What they ask of the pods around them."""

    def sharing(self, share: GpuShare) -> "Pods":
        """The pods with a part of a GPU among their requests."""
        requests = tuple(sorted([*self.requests, (share.resource, 1)]))
        return replace(self, requests=requests, share=share)

    def instead_of_share(self, resource: str, amount: int) -> "Pods":
        """The pods that request something else instead of their part of a GPU."""
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
    """What an admin calls it: `decode`, `replica of prefill`."""
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
    """What its system calls such a group: `clique`, `pod set`; empty where nobody goes by it."""
    own_name: str = ""
    """Its name among those of its kind, or that of what it is a part of."""
    part: str = ""
    """What one copy is to `own_name`: `replica`, `slice`; empty: a group in its own right."""
    leader: Pods | None = None
    """The pod of each copy that is placed first, and takes all others into its domain of the
    required level; None: they are placed together, or the scheduler knows of all of them."""

    @staticmethod
    def of_kind(kind: str, own_name: str, pods: tuple[Pods, ...] = ()) -> "Group":
        """A group that is called by its kind and its own name."""
        return Group(f"{kind} {own_name}", pods, kind=kind, own_name=own_name)

    @staticmethod
    def part_of(whole: str, part: str, pods: tuple[Pods, ...] = ()) -> "Group":
        """A group of which each copy is a part of something with a name: a `replica` of it."""
        return Group(f"{part} of {whole}", pods, own_name=whole, part=part)

    def around(self, pods: tuple[Pods, ...] = (), groups: tuple["Group", ...] = ()) -> "Group":
        """A group of the same name that asks for nothing."""
        return Group(self.name, pods, groups, own_name=self.own_name, part=self.part)

    def with_pods(self, change: Callable[[Pods], Pods]) -> "Group":
        """The group with all its pods, and those below it, changed."""
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
    def unconstrained(self) -> bool:
        """Whether nothing in it asks for a level."""
        for group, _ in self.everything():
            if group.required or group.preferred:
                return False
        return True

    def simplified(self) -> "Group":
        """The group without empty groups.

        Pods that need not stay together belong to the group around them. A group that asks for
        nothing itself and has nothing but one other group in it gives way to that one.
        """
        pods = [pod for pod in self.pods if pod.count]
        constrained = []
        for below in self.groups:
            if below.unconstrained:
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
        if group.unconstrained:
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
    """The levels that these groups and all below them require or prefer."""
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
        """Why it takes no new pod; empty: it does."""

    @property
    def free(self) -> Mapping[str, int]:
        """What is left on it, by resource."""

    @property
    def total(self) -> Mapping[str, int]:
        """What it has."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a scheduler would do with a workload."""

    refusal: str = ""
    """Why it would wait; empty: it is placed."""
    no_flavor: bool = False
    """Whether it gets no flavor, for lack of quota or because none takes its pods, whatever room
    there is.
    """
    placed: tuple[tuple[Pods, str, int], ...] = ()
    """Pods, their node and how many of them it gets; the node is empty where a whole domain was
    assigned.
    """
    topology: str | None = None
    """The topology that they were assigned on; None: nodes are left to another scheduler."""
    notes: tuple[str, ...] = ()
    has_fewer_pods: bool = False
    """Whether it takes fewer pods than the workload asks for."""
    partly: bool = False
    """Whether only some of many copies were tried, for the sake of time: the others may find no
    room.
    """
    is_split: bool = False
    """Whether its parts are placed by different topologies, or some of them by none: no search on
    one topology says where.
    """
    doubt: str = ""
    """Why it is not known whether it is placed; empty: it is known."""


class Admission(Protocol):
    """The exact procedure of a scheduler for one workload."""

    @property
    def own(self) -> frozenset[tuple[str, str]]:
        """Namespace and name of the objects by which this workload is admitted already.

        What they hold counts as free for it.
        """

    def decide(self, nodes: Sequence[OfferedNode], *, emptied: bool = False) -> Decision:
        """What the scheduler would do now.

        `emptied`: as if nothing else were running or admitted, and all nodes were Ready.
        """


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a domain, so that no other group of its kind may use it."""

    level: Level
    domain: str
    """The value of the level's label."""
    name: str
    """`kind/name -n namespace`."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What one workload asks of one topology."""

    system: str
    """Who places it, by the name of the reader."""
    handle: str
    """`kind/name -n namespace`."""
    groups: tuple[Group, ...]
    topology: str | None = None
    """The topology whose levels count; None: it asks for none."""
    levels: tuple[Level, ...] = ()
    """The node labels that count where it names no topology: pod affinity knows nothing else."""
    placeable: bool = True
    """False: too little is known to say whether it fits; the notes say what."""
    notes: tuple[str, ...] = ()
    """What the admin should know about how the workload was read."""
    gang: bool | None = None
    """Where the scheduler starts whole gangs. True: all pods of a copy start, or none. False: one
    after the other, the first pod decides the domain."""
    pod_groups: tuple[Group, ...] = ()
    """What the scheduler places at once each, where that is not `groups`."""
    least: tuple[Group, ...] = ()
    """What of it has to start, where it is no failure that the others wait for room."""
    queue: str = ""
    """The scheduler's queue; empty: not known."""
    queue_field: str = ""
    """Where its document names that queue, or may; empty: not known."""
    preemptible: bool = True
    """Whether it may be evicted: then only the limits of its queue bind it, not the quota."""
    admission: Admission | None = None
    """How the scheduler decides, where its procedure is known; None: only what is possible is
    known.
    """
    doubt: str = ""
    """Why the scheduler may find no place though there is one; empty: it tries every placement."""
    certain: tuple[Group, ...] = ()
    """Where these fit, it finds one all the same."""
    suspended: str = ""
    """The field that suspends it, where no queue does that: it has no pods; empty: it has."""
    unread: tuple[UnreadField, ...] = ()
    """The fields of its document that may decide and are not read: no verdict holds then."""
    certain_too: tuple[Group, ...] = ()
    """The same, where those do not fit."""
    holders: tuple[Holder, ...] = ()
    """Who holds domains that `groups` keep off."""
    once_left: tuple[Group, ...] = ()
    """The groups as they could be placed if nobody held these domains."""
    unknown: str = ""
    """What is not known of it, so that nobody can say whether it fits; empty: nothing."""


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
        f"room is checked for {minimum} of {total} pods: {scheduler} starts these together, "
        "the others where there is room left"
    )
