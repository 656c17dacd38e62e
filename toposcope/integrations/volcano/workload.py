"""Volcano: what Jobs and PodGroups ask for, by the tiers of HyperNodes.

Rules and messages: Volcano 1.15 (webhooks of jobs and podgroups, plugin network-topology-aware,
action allocate). A hard constraint keeps pods below one HyperNode of the allowed tier or a lower
one; what no HyperNode can be, such as a tier above all of them, is the whole cluster. A soft one
binds no pod, whatever else it says.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Group, Pods, Workload
from toposcope.integrations.framework.document import Field, handle_of, kind_of, name_of
from toposcope.integrations.framework.levels import TopologyLevels, did_you_mean
from toposcope.integrations.framework.system import ClusterFacts, Reading, System
from toposcope.integrations.kubernetes.gangs import largest
from toposcope.integrations.volcano.api import JOBS, POD_GROUPS
from toposcope.integrations.volcano.hyper_nodes import HYPER_NODES
from toposcope.integrations.volcano.tasks import (
    REFUSED,
    Task,
    Tasks,
    least_demanding,
    merged,
    tasks_of,
)

NAME: Final = "Volcano"
_BOTH: Final = (
    "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"
)
_AUTO: Final = (
    f"have Toposcope make them: spec.publish.{HYPER_NODES.option}: Auto in a ClusterTopology"
)
_TIER: Final = re.compile(r"[0-9]+")
"""An alias of a level that is the number of a tier."""
_WRONG_LEVEL: Final = frozenset({"volcano/topology-exists", "volcano/level-exists"})
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
            return _level_named(self.name, topology)
        tiers = _tiers_of(topology)
        allowed = [tier for tier in tiers if tier <= self.tier]
        if not allowed:
            return None
        return tiers[max(allowed)]


def _tiers_of(topology: TopologyLevels) -> dict[int, Level | None]:
    """The level of each tier that has HyperNodes of this topology; None: it is no level."""
    tiers: dict[int, Level | None] = {}
    for alias, key in topology.aliases:
        if _TIER.fullmatch(alias):
            tiers[int(alias)] = topology.by_key(key)
    return tiers


def _level_named(name: str, topology: TopologyLevels) -> Level | None:
    """The level of the tier of this name; where no HyperNodes are known, that of the domain."""
    if topology.source != HYPER_NODES.kind:
        return topology.level(name)
    keys = dict(topology.aliases)
    key = keys.get(name)
    if not key:
        return None
    return topology.by_key(key)


def _names_of_tiers(topology: TopologyLevels) -> Sequence[str]:
    """The names that tiers of the topology have."""
    if topology.source != HYPER_NODES.kind:
        return topology.domains
    names = []
    for alias, _ in topology.aliases:
        if not _TIER.fullmatch(alias):
            names.append(alias)
    return names


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
    names: list[str] = []
    for topology in cluster.topologies.values():
        if _level_named(name, topology) is not None:
            return
        names += _names_of_tiers(topology)
    text = (
        f"failed to find hypernode tier name {name}: so the scheduler logs, "
        "and places the pods anywhere"
    )
    fix = did_you_mean(name, names)
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
    return Workload(
        NAME,
        handle_of(gang.root),
        groups=(_kept(whole, gang.limit, topology),),
        topology=topology.name if topology else None,
        placeable=False,
        unknown="which pods it has is not read; check the Job that they come from",
    )


def _job(gang: _Gang, topology: TopologyLevels | None) -> Workload:
    job = tasks_of(gang.root)
    whole = _group_of(gang, job, topology)
    notes = (*_notes_on_room(job), *_notes_on_job(gang))
    workload = Workload(
        NAME,
        handle_of(gang.root),
        groups=(whole,),
        topology=topology.name if topology else None,
        notes=notes,
    )
    if any(finding.rule in (*REFUSED, *_WRONG_LEVEL) for finding in gang.root.findings):
        return replace(workload, placeable=False)
    if gang.limits and topology is None:
        return replace(workload, placeable=False, unknown="which level its tier is, is not known")
    if not job.is_certain:
        return _of_any_pods(workload, whole, job)
    if len(whole.pods) + len(whole.groups) <= 1:
        return workload
    as_largest: tuple[Group, ...] = ()
    if not whole.groups:
        pods = largest(whole.pods)
        as_largest = (replace(whole, pods=(pods,)),)
    return replace(workload, doubt=_ONE_BY_ONE, certain=as_largest)


def _of_any_pods(workload: Workload, whole: Group, job: Tasks) -> Workload:
    """The workload where any `minAvailable` of its pods may start together.

    It does not fit where the least demanding ones do not, and surely fits where all of them do.
    """
    doubt = (
        f"minAvailable is {job.total} of {job.replicas} pods of several tasks: "
        "which of them count is not known"
    )
    if whole.groups:
        return replace(workload, placeable=False, unknown=doubt)
    kinds = []
    for task in job.first:
        pods = task.pod_set
        kinds.append(pods.some(pods.count))
    least = least_demanding(kinds, job.total)
    as_largest = largest(kinds)
    return replace(
        workload,
        groups=(replace(whole, pods=least),),
        doubt=doubt,
        certain=(replace(whole, pods=(as_largest,)),),
    )


def _group_of(gang: _Gang, job: Tasks, topology: TopologyLevels | None) -> Group:
    """What starts together: partitions that have a constraint of their own, and all other pods."""
    limits = {part.field.path: part.limit for part in gang.parts}
    partitions: list[Group] = []
    loose: list[tuple[Pods, int]] = []
    for task in job.first:
        count = task.least
        if len(job.first) == 1:
            count = job.total
        limit = limits[task.field.path]
        if limit is None:
            loose.append((task.pod_set.pods, count))
        else:
            partition = _partitions_of(task, count)
            partitions.append(_kept(partition, limit, topology))

    pods = merged(loose)
    if not partitions and len(pods) == 1:
        pods = (replace(pods[0], count=job.total),)
    whole = Group(
        name=name_of(gang.root, "Job"),
        pods=pods,
        groups=tuple(partitions),
    )
    return _kept(whole, gang.limit, topology)


def _partitions_of(task: Task, count: int) -> Group:
    """The partitions of a task that hold so many of its pods."""
    policy = task.field / "partitionPolicy"
    size_field = policy / "partitionSize"
    size = size_field.number(1) or 1
    copies = count // size
    pods = task.pod_set.some(size)
    partition = Group.part_of(task.name, "partition", (pods,))
    return replace(partition, copies=copies)


def _notes_on_room(job: Tasks) -> Iterator[str]:
    if job.is_certain and job.total < job.replicas:
        yield f"room is for the {job.total} pods of minAvailable, of {job.replicas}"


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
