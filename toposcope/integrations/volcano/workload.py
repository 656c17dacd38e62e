"""Volcano: what Jobs and PodGroups ask for, by the tiers of HyperNodes.

Rules and messages: Volcano 1.15 (webhooks of jobs and podgroups, plugin network-topology-aware,
action allocate). A hard constraint keeps pods below one HyperNode of the allowed tier or a lower
one; what no HyperNode can be, such as a tier above all of them, is the whole cluster. A soft one
binds no pod, whatever else it says.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Group, Pods, Workload
from toposcope.integrations.framework.document import Field, handle_of, kind_of, name_of
from toposcope.integrations.framework.levels import TopologyLevels, did_you_mean
from toposcope.integrations.framework.pods import PodSet, Structure, structure_of
from toposcope.integrations.framework.system import ClusterFacts, Reading, System
from toposcope.integrations.kubernetes.gangs import largest
from toposcope.integrations.volcano.api import JOBS, POD_GROUPS
from toposcope.integrations.volcano.hyper_nodes import HYPER_NODES

NAME: Final = "Volcano"
_BOTH: Final = (
    "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"
)
_AUTO: Final = (
    f"have Toposcope make them: spec.publish.{HYPER_NODES.option}: Auto in a ClusterTopology"
)
_ONE_BY_ONE: Final = (
    "Volcano takes pods and parts that differ one by one and takes none back, "
    "so it may miss a place"
)


@dataclass(frozen=True, slots=True)
class _Limit:
    """A hard `networkTopology` that holds pods together: the highest tier, or its name."""

    tier: int | None
    name: str

    def level(self, topology: TopologyLevels) -> Level | None:
        """The level of one topology that it stands for; None: none of its levels."""
        if self.tier is None:
            return topology.level(self.name)
        tiers = _tiers_of(topology)
        allowed = [tier for tier in tiers if tier <= self.tier]
        if not allowed:
            return None
        return tiers[max(allowed)]


def _tiers_of(topology: TopologyLevels) -> dict[int, Level | None]:
    """The level of each tier that has HyperNodes of this topology; None: it is no level."""
    return {int(tier): topology.by_key(key) for tier, key in topology.aliases}


def _limit_of(group: Field, cluster: ClusterFacts) -> _Limit | None:
    """The constraint of a Job, a PodGroup or a part of one; None where pods may go anywhere.

    What a webhook refuses becomes a finding, and what the scheduler makes of a tier that no
    HyperNode has.
    """
    topology = group / "networkTopology"
    limit = _written_limit(topology)
    if limit is None or HYPER_NODES.option not in cluster.read:
        return limit
    if _check_tier(topology, limit, cluster):
        return limit
    return None


def _written_limit(topology: Field) -> _Limit | None:
    """A hard constraint as it is written; None where there is none, or a soft one."""
    number = topology / "highestTierAllowed"
    name = topology / "highestTierName"
    if number and name.text():
        topology.error("volcano/tier-or-name", _BOTH, "keep one of them")
    if not topology or (topology / "mode").text() == "soft":
        return None

    limit = _Limit(tier=None, name=name.text() or "")
    if number:
        limit = replace(limit, tier=number.number(1))
    if limit.tier is None and not limit.name:
        text = "names no tier: the pods may go anywhere (Volcano 1.14 and later)"
        fix = "write highestTierAllowed or highestTierName"
        topology.warn("volcano/no-tier", text, fix)
        return None
    return limit


def _check_tier(field: Field, limit: _Limit, cluster: ClusterFacts) -> bool:
    """Note a tier that no HyperNode has; whether the constraint holds pods together."""
    tiers: set[int] = set()
    for topology in cluster.topologies.values():
        tiers.update(_tiers_of(topology))
    if not tiers:
        text = (
            "there is no HyperNode, and without any the whole cluster counts as one: "
            "the pods may go anywhere"
        )
        fix = cluster.missing("") or _AUTO
        field.error("volcano/topology-exists", text, fix)
        return True

    if limit.tier is None:
        _check_name(field / "highestTierName", limit.name, cluster)
        return True

    number = field / "highestTierAllowed"
    lowest = min(tiers)
    highest = max(tiers)
    if limit.tier < lowest:
        text = f"no HyperNode has tier {limit.tier} or a lower one, so that no place is ever found"
        number.error("volcano/level-exists", text, f"the lowest tier is {lowest}")
    if limit.tier > highest:
        text = (
            f"is above all HyperNodes, the highest of which have tier {highest}: "
            "the pods may go anywhere"
        )
        number.warn("volcano/tier-above-all", text, "name a tier that there is")
        return False
    return True


def _check_name(field: Field, name: str, cluster: ClusterFacts) -> None:
    """Note a name of a tier that no level has."""
    domains: list[str] = []
    for topology in cluster.topologies.values():
        if topology.level(name) is not None:
            return
        domains += topology.domains
    text = (
        f"failed to find hypernode tier name {name}: so the scheduler logs, "
        "and places the pods anywhere"
    )
    fix = did_you_mean(name, domains)
    field.error("volcano/level-exists", text, fix)


def _claims(document: Mapping[str, Any]) -> bool:
    return kind_of(document) in (JOBS.key, POD_GROUPS.key)


@dataclass(frozen=True, slots=True)
class _Part:
    """A task of a Job or a policy of a PodGroup."""

    field: Field
    limit: _Limit | None


@dataclass(frozen=True, slots=True)
class _Gang:
    """A Job or a PodGroup with its constraints."""

    root: Field
    limit: _Limit | None
    parts: tuple[_Part, ...]

    @property
    def limits(self) -> list[_Limit]:
        """All of its constraints."""
        limits: list[_Limit] = []
        if self.limit is not None:
            limits.append(self.limit)
        for part in self.parts:
            if part.limit is not None:
                limits.append(part.limit)
        return limits

    def holds_in(self, topology: TopologyLevels) -> bool:
        """Whether each of its constraints is a level of this topology."""
        return all(limit.level(topology) for limit in self.limits)


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    del before  # the same rules hold for a change
    is_job = kind_of(root.value) == JOBS.key
    gang = _gang_of(root, cluster, is_job=is_job)
    read = _job if is_job else _pod_group
    # HyperNodes are one forest: a tree in which each constraint is a level will do.
    workloads: list[Workload] = []
    if gang.limits:
        for topology in cluster.topologies.values():
            if gang.holds_in(topology):
                workload = read(gang, topology)
                workloads.append(workload)
    if not workloads:
        workload = read(gang, None)
        workloads.append(workload)

    first, *alternatives = workloads
    return Reading(first, alternatives=tuple(alternatives))


def _gang_of(root: Field, cluster: ClusterFacts, *, is_job: bool) -> _Gang:
    spec = root / "spec"
    whole = _limit_of(spec, cluster)
    parts: list[_Part] = []
    if is_job:
        for task in (spec / "tasks").items():
            policy = task / "partitionPolicy"
            limit = _limit_of(policy, cluster)
            parts.append(_Part(task, limit))
    else:
        for policy in (spec / "subGroupPolicy").items():
            limit = _limit_of(policy, cluster)
            parts.append(_Part(policy, limit))
    return _Gang(root, whole, tuple(parts))


SYSTEM: Final = System(NAME, _claims, _read, HYPER_NODES.option)
READERS: Final = (SYSTEM,)


def _kept(group: Group, limit: _Limit | None, topology: TopologyLevels | None) -> Group:
    """The group with what is asked for it."""
    if limit is None or topology is None:
        return group
    return replace(group, required=limit.level(topology))


def _pod_group(gang: _Gang, topology: TopologyLevels | None) -> Workload:
    groups: list[Group] = []
    for part in gang.parts:
        name = (part.field / "name").text() or "sub-group"
        group = _kept(Group(name), part.limit, topology)
        groups.append(group)
    whole = Group(name_of(gang.root, "PodGroup"), groups=tuple(groups))
    note = "which pods it has is not read: room is not checked; check the Job that they come from"
    return Workload(
        NAME,
        handle_of(gang.root),
        groups=(_kept(whole, gang.limit, topology),),
        topology=topology.name if topology else None,
        placeable=False,
        notes=(note,),
    )


@dataclass(frozen=True, slots=True)
class _Task:
    """A task of a Job: its pods, and how many of them must start together."""

    field: Field
    limit: _Limit | None
    pod_set: PodSet
    least: int


def _job(gang: _Gang, topology: TopologyLevels | None) -> Workload:
    tasks = _tasks_of(gang)
    sum_of_least = sum(task.least for task in tasks)
    total = (gang.root / "spec" / "minAvailable").number(sum_of_least)
    certain = total == sum_of_least or len(tasks) == 1
    whole = _group_of(gang, tasks, total, topology)
    notes = list(_notes_on_room(tasks, total, certain=certain))
    is_level_known = topology is not None or not gang.limits
    if not is_level_known:
        notes.append("which level its tier is, is not known: room is not checked")
    notes += _notes_on_job(gang)

    doubt = ""
    as_largest: tuple[Group, ...] = ()
    if len(whole.pods) + len(whole.groups) > 1:
        doubt = _ONE_BY_ONE
        if not whole.groups:
            pods = largest(whole.pods)
            as_largest = (replace(whole, pods=(pods,)),)
    return Workload(
        NAME,
        handle_of(gang.root),
        groups=(whole,),
        topology=topology.name if topology else None,
        placeable=certain and is_level_known,
        notes=tuple(notes),
        doubt=doubt,
        certain=as_largest,
    )


def _tasks_of(gang: _Gang) -> list[_Task]:
    structure = structure_of(gang.root) or Structure(())
    tasks: list[_Task] = []
    for part, pod_set in zip(gang.parts, structure.sets, strict=True):
        task = _Task(
            field=part.field,
            limit=part.limit,
            pod_set=pod_set,
            least=_least(part.field, pod_set.count),
        )
        tasks.append(task)
    return tasks


def _group_of(
    gang: _Gang, tasks: Sequence[_Task], total: int, topology: TopologyLevels | None
) -> Group:
    """What starts together: partitions that have a constraint of their own, and all other pods."""
    partitions: list[Group] = []
    loose = Counter[Pods]()
    for task in tasks:
        count = task.least
        if len(tasks) == 1:
            count = total
        if task.limit is None:
            kind = replace(task.pod_set.pods, name="pods", count=1)
            loose[kind] += count
        else:
            partition = _partitions_of(task, count)
            kept = _kept(partition, task.limit, topology)
            partitions.append(kept)

    pods: list[Pods] = []
    for kind, count in loose.items():
        if count:
            counted = replace(kind, count=count)
            pods.append(counted)
    whole = Group(
        name=name_of(gang.root, "Job"),
        pods=tuple(pods),
        groups=tuple(partitions),
    )
    return _kept(whole, gang.limit, topology)


def _partitions_of(task: _Task, count: int) -> Group:
    """The partitions of a task that hold so many of its pods."""
    policy = task.field / "partitionPolicy"
    size = (policy / "partitionSize").number(1) or 1
    pod_set = task.pod_set
    pods = pod_set.some(size)
    partition = Group.part_of(pod_set.name, "partition", (pods,))
    return replace(partition, copies=count // size)


def _notes_on_room(tasks: Sequence[_Task], total: int, *, certain: bool) -> Iterator[str]:
    replicas = sum(task.pod_set.count for task in tasks)
    if not certain:
        yield (
            f"minAvailable is {total} of {replicas} pods of several tasks: "
            "which of them count is not known: room is not checked"
        )
    elif total < replicas:
        yield f"room is for the {total} pods of minAvailable, of {replicas}"


def _notes_on_job(gang: _Gang) -> Iterator[str]:
    spec = gang.root / "spec"
    places = [spec]
    for part in gang.parts:
        places.append(part.field / "partitionPolicy")
    for place in places:
        mode = place / "networkTopology" / "mode"
        if mode.text() == "soft":
            yield "that Volcano prefers the lowest tier where mode is soft is not looked at"
            break
    queue = (spec / "queue").text() or "default"
    yield f"the quota of Volcano's queue {queue} is not looked at"


def _least(task: Field, replicas: int) -> int:
    """How many pods of a task must start together; notes partitions that its webhook refuses."""
    policy = task / "partitionPolicy"
    if policy:
        total = (policy / "totalPartitions").number(0)
        size = (policy / "partitionSize").number(0)
        _check_partitions(task, replicas, total, size)
        partitions = (policy / "minPartitions").number(0)
        if partitions:
            return partitions * size
    return (task / "minAvailable").number(replicas)


def _check_partitions(task: Field, replicas: int, total: int, size: int) -> None:
    """Note partitions that are not as many pods as the task has."""
    rule = "volcano/partitions"
    name = (task / "name").text() or task.path
    policy = task / "partitionPolicy"
    fix = "say how many there are, and of how many pods"
    if total <= 0:
        field = policy / "totalPartitions"
        text = f"'TotalPartitions' must be greater than 0 in task: {name}"
        field.error(rule, text, fix)
    if size <= 0:
        field = policy / "partitionSize"
        text = f"'PartitionSize' must be greater than 0 in task: {name}"
        field.error(rule, text, fix)
    pods = total * size
    if pods > 0 and replicas != pods:
        field = task / "replicas"
        text = f"'Replicas' are not equal to TotalPartitions*PartitionSize in task: {name}"
        field.error(rule, text, f"write {pods}")
