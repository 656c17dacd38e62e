"""Volcano: what Jobs and PodGroups ask for, by the tiers of HyperNodes.

Rules and messages: Volcano 1.15 (webhooks of jobs and podgroups, plugin network-topology-aware,
action allocate). A hard constraint keeps pods below one HyperNode of the allowed tier or a lower
one; what no HyperNode can be, such as a tier above all of them, is the whole cluster. A soft one
binds no pod, whatever else it says.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Group, Pods, Workload
from toposcope.integrations.framework.document import Field, handle_of, kind_of, name_of
from toposcope.integrations.framework.levels import TopologyLevels, did_you_mean
from toposcope.integrations.framework.pods import Structure, structure_of
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
_ONE_BY_ONE: Final = "Volcano takes pods and parts that differ one by one and takes none back, so it may miss a place"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A hard `networkTopology` that holds pods together: the highest tier, or its name."""

    tier: int | None
    name: str

    def level(self, topology: TopologyLevels) -> Level | None:
        """The level of one topology that it stands for; None: none of its levels."""
        if self.tier is None:
            return topology.level(self.name)
        tiers = _tiers_of(topology)
        allowed = [tier for tier in tiers if tier <= self.tier]
        return tiers[max(allowed)] if allowed else None


def _tiers_of(topology: TopologyLevels) -> dict[int, Level | None]:
    """The level of each tier that has HyperNodes of this topology; None: they are no level that labels make."""
    return {int(tier): topology.by_key(key) for tier, key in topology.aliases}


def _wanted(group: Field, cluster: ClusterFacts) -> _Wanted | None:
    """The constraint of a Job, a PodGroup or a part of one; None where pods may go anywhere.

    What a webhook refuses becomes a finding, and what the scheduler makes of a tier that no
    HyperNode has.
    """
    topology = group / "networkTopology"
    field, named = topology / "highestTierAllowed", topology / "highestTierName"
    if field and named.text():
        topology.error("volcano/tier-or-name", _BOTH, "keep one of them")
    if not topology or (topology / "mode").text() == "soft":
        return None
    wanted = _Wanted(field.number(1) if field else None, named.text() or "")
    if wanted.tier is None and not wanted.name:
        fix = "write highestTierAllowed or highestTierName"
        topology.warn(
            "volcano/no-tier",
            "names no tier: the pods may go anywhere (Volcano 1.14 and later)",
            fix,
        )
        return None
    if HYPER_NODES.option not in cluster.read:
        return wanted
    tiers = {tier for topology in cluster.topologies.values() for tier in _tiers_of(topology)}
    levels = [level for topology in cluster.topologies.values() for level in topology.levels]
    if not tiers:
        text = "there is no HyperNode, and without any the whole cluster counts as one: the pods may go anywhere"
        topology.error("volcano/topology-exists", text, cluster.missing("") or _AUTO)
    elif wanted.tier is None and all(
        wanted.name not in (level.domain, level.key) for level in levels
    ):
        text = f"failed to find hypernode tier name {wanted.name}: so the scheduler logs, and places the pods anywhere"
        named.error(
            "volcano/level-exists",
            text,
            did_you_mean(wanted.name, [level.domain for level in levels]),
        )
    elif wanted.tier is not None and wanted.tier < min(tiers):
        text = f"no HyperNode has tier {wanted.tier} or a lower one, so that no place is ever found"
        field.error("volcano/level-exists", text, f"the lowest tier is {min(tiers)}")
    elif wanted.tier is not None and wanted.tier > max(tiers):
        text = f"is above all HyperNodes, the highest of which have tier {max(tiers)}: the pods may go anywhere"
        field.warn("volcano/tier-above-all", text, "name a tier that there is")
        return None
    return wanted


def _claims(document: Mapping[str, Any]) -> bool:
    return kind_of(document) in (JOBS.key, POD_GROUPS.key)


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    del before  # the same rules hold for a change
    spec, of_job = root / "spec", kind_of(root.value) == JOBS.key
    whole = _wanted(spec, cluster)
    if of_job:
        parts = [
            (task, _wanted(task / "partitionPolicy", cluster)) for task in (spec / "tasks").items()
        ]
    else:
        parts = [(policy, _wanted(policy, cluster)) for policy in (spec / "subGroupPolicy").items()]
    asked = [limit for limit in (whole, *(wanted for _, wanted in parts)) if limit]
    # HyperNodes are one forest: a tree in which each constraint is a level will do.
    trees = [
        topology
        for topology in cluster.topologies.values()
        if all(limit.level(topology) for limit in asked)
    ]
    on = partial(_job if of_job else _pod_group, root, whole, parts)
    workloads = [on(topology) for topology in trees if asked] or [on(None)]
    return Reading(workloads[0], alternatives=tuple(workloads[1:]))


SYSTEM: Final = System(NAME, _claims, _read, HYPER_NODES.option)
READERS: Final = (SYSTEM,)


def _kept(group: Group, wanted: _Wanted | None, topology: TopologyLevels | None) -> Group:
    """The group with what is asked for it."""
    return replace(group, required=wanted.level(topology)) if wanted and topology else group


_Parts = Sequence[tuple[Field, _Wanted | None]]
"""The tasks of a Job or the policies of a PodGroup, each with its constraint."""


def _pod_group(
    root: Field, whole: _Wanted | None, parts: _Parts, topology: TopologyLevels | None
) -> Workload:
    groups = [
        _kept(Group((policy / "name").text() or "sub-group"), limit, topology)
        for policy, limit in parts
    ]
    group = _kept(Group(name_of(root, "PodGroup"), groups=tuple(groups)), whole, topology)
    note = "which pods it has is not read: room is not checked; check the Job that they come from"
    name = topology.name if topology else None
    return Workload(NAME, handle_of(root), (group,), name, placeable=False, notes=(note,))


def _job(
    root: Field, whole: _Wanted | None, parts: _Parts, topology: TopologyLevels | None
) -> Workload:
    sets = (structure_of(root) or Structure(())).sets
    tasks = [(task, pod_set, wanted) for (task, wanted), pod_set in zip(parts, sets, strict=True)]
    least = [_least(task, pod_set.count) for task, pod_set, _ in tasks]
    total = (root / "spec" / "minAvailable").number(sum(least))
    groups, kinds, notes = [], Counter[Pods](), []
    for (task, pod_set, wanted), needed in zip(tasks, least, strict=True):
        count = total if len(tasks) == 1 else needed
        if wanted is None:
            kinds[replace(pod_set.pods, name="pods", count=1)] += count
            continue
        size = (task / "partitionPolicy" / "partitionSize").number(1) or 1
        part = Group(f"partition of {pod_set.name}", (pod_set.some(size),), copies=count // size)
        groups.append(_kept(part, wanted, topology))
    pods = tuple(replace(kind, count=count) for kind, count in kinds.items() if count)
    group = _kept(Group(name_of(root, "Job"), pods, tuple(groups)), whole, topology)
    replicas = sum(pod_set.count for pod_set in sets)
    certain = total == sum(least) or len(tasks) == 1
    if total < replicas and certain:
        notes.append(f"room is for the {total} pods of minAvailable, of {replicas}")
    if not certain:
        text = f"minAvailable is {total} of {replicas} pods of several tasks: which of them count is not known"
        notes.append(f"{text}: room is not checked")
    if unknown := topology is None and any((whole, *(wanted for _, wanted in parts))):
        notes.append("which level its tier is, is not known: room is not checked")
    asked = (root / "spec", *(task / "partitionPolicy" for task, _, _ in tasks))
    if any((limit / "networkTopology" / "mode").text() == "soft" for limit in asked):
        notes.append("that Volcano prefers the lowest tier where mode is soft is not looked at")
    queue = (root / "spec" / "queue").text() or "default"
    notes.append(f"the quota of Volcano's queue {queue} is not looked at")
    several = len(pods) + len(groups) > 1
    return Workload(
        NAME,
        handle_of(root),
        (group,),
        topology.name if topology else None,
        placeable=certain and not unknown,
        notes=tuple(notes),
        doubt=_ONE_BY_ONE if several else "",
        certain=(replace(group, pods=(largest(pods),)),) if several and not groups else (),
    )


def _least(task: Field, replicas: int) -> int:
    """How many pods of a task must start together; notes partitions that its webhook refuses."""
    policy = task / "partitionPolicy"
    if not policy:
        return (task / "minAvailable").number(replicas)
    total, size = (policy / "totalPartitions").number(0), (policy / "partitionSize").number(0)
    name = (task / "name").text() or task.path
    for field, number in (("totalPartitions", total), ("partitionSize", size)):
        if number <= 0:
            text = f"'{field[0].upper()}{field[1:]}' must be greater than 0 in task: {name}"
            (policy / field).error(
                "volcano/partitions", text, "say how many there are, and of how many pods"
            )
    if total > 0 and size > 0 and replicas != total * size:
        text = f"'Replicas' are not equal to TotalPartitions*PartitionSize in task: {name}"
        (task / "replicas").error("volcano/partitions", text, f"write {total * size}")
    least = (policy / "minPartitions").number(0)
    return least * size if least else (task / "minAvailable").number(replicas)
