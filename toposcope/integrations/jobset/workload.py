"""JobSet: each child Job alone in a domain of its own.

Rules and messages: JobSet's controller and pod webhook. The annotation is on the JobSet, for all
its Jobs, or on the Job template of one ReplicatedJob. The pod of index 0 is placed first; the
webhook gives the others a node selector for its domain. With the node-selector strategy an admin
labels each node beforehand with the name of one Job, and no affinity is used.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import JOB, Group, Holder, Pods, Workload
from toposcope.integrations.framework.document import (
    Field,
    handle_of,
    kind_of,
    name_of,
    namespace_of,
)
from toposcope.integrations.framework.exclusive import exclusive_level, holders, kept_off
from toposcope.integrations.framework.node_affinity import Toleration
from toposcope.integrations.framework.pods import PodSet, Structure, structure_of
from toposcope.integrations.framework.system import ClusterFacts, Reading, System
from toposcope.integrations.jobset.api import (
    EXCLUSIVE,
    JOB_KEY,
    JOBSETS,
    NAMESPACED_JOB,
    NO_SCHEDULE,
    NODE_SELECTOR,
    PRIORITY,
    SET_OF,
)

_DEFAULT_PRIORITY: Final = "0"
MAX_JOBS: Final = 256
"""With the node-selector strategy each Job has its own nodes; more Jobs than this are not checked.
"""


def _claims(document: Mapping[str, Any]) -> bool:
    """JobSets with one of the annotations."""
    if kind_of(document) != JOBSETS.key:
        return False
    root = Field(document)
    places = [root]
    for replicated in (root / "spec" / "replicatedJobs").items():
        job = replicated / "template"
        pods = job / "spec" / "template"
        places += [job, pods]
    for place in places:
        annotations = place / "metadata" / "annotations"
        if annotations / EXCLUSIVE or annotations / NODE_SELECTOR:
            return True
    return False


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    del before  # nothing about the annotations is checked when they change
    structure = structure_of(root) or Structure(())
    cluster = _of_equal_priority(cluster, structure)
    tree = _Tree(root, cluster)
    groups = tree.all_groups(structure)
    once_left: tuple[Group, ...] = ()
    if tree.holders:
        nobody_there = replace(cluster, exclusive_pods={})
        once_left = _Tree(root, nobody_there).all_groups(structure)
    if len(tree.levels) > 1:  # they need not nest, and only domains that do can be counted
        tree.placeable = False
        tree.notes["its Jobs are exclusive by different node labels"] = None
    workload = Workload(
        "JobSet",
        handle_of(root),
        groups,
        levels=tuple(tree.levels),
        is_placeable=tree.placeable,
        unknown="" if tree.placeable else next(reversed(tree.notes)),
        notes=tuple(tree.notes) if tree.placeable else (),
        holders=tuple(tree.holders),
        once_left=once_left,
    )
    return Reading(workload)


def _of_equal_priority(cluster: ClusterFacts, structure: Structure) -> ClusterFacts:
    """The cluster without exclusive pods of another priority, with which its Jobs share domains.

    The webhook of JobSet 0.10 and later writes the priority into a label that the anti-affinity
    compares. If the value of a priority class is unknown, all pods count.
    """
    for pod_set in structure.sets:
        if pod_set.template / "spec" / "priorityClassName":
            return cluster
    pods = []
    for pod in cluster.exclusive_pods.get(JOB_KEY, ()):
        if pod.labels.get(PRIORITY, _DEFAULT_PRIORITY) == _DEFAULT_PRIORITY:
            pods.append(pod)
    return replace(cluster, exclusive_pods={**cluster.exclusive_pods, JOB_KEY: tuple(pods)})


SYSTEM: Final = System("JobSet", _claims, _read)
READERS: Final = (SYSTEM,)


class _Tree:
    """Builds the groups of one JobSet, and collects the levels that they need."""

    def __init__(self, root: Field, cluster: ClusterFacts) -> None:
        self._root = root
        self._cluster = cluster
        self.levels: dict[Level, None] = {}
        self.holders: dict[Holder, None] = {}
        self.notes: dict[str, None] = {}
        self.placeable = True

    def all_groups(self, structure: Structure) -> tuple[Group, ...]:
        """The Jobs of all ReplicatedJobs."""
        groups: list[Group] = []
        for pod_set in structure.sets:
            groups += self._groups(pod_set)
        return tuple(groups)

    def _groups(self, pod_set: PodSet) -> list[Group]:
        """The Jobs of one ReplicatedJob."""
        places = [self._root / "metadata" / "annotations"]
        if pod_set.job:
            places.append(pod_set.job / "metadata" / "annotations")
        places.append(pod_set.annotations)
        # The webhook reads them from the pod: the innermost one counts.
        exclusive = _first([place / EXCLUSIVE for place in reversed(places)])
        strategy = _first([place / NODE_SELECTOR for place in places])

        if exclusive and strategy:
            return self._selected(pod_set, strategy)
        if exclusive:
            return [self._exclusive(pod_set, exclusive)]
        if strategy:
            fix = f"add {EXCLUSIVE} with a node label key, or remove it"
            strategy.warn("jobset/strategy-alone", f"has no effect without {EXCLUSIVE}", fix)
        return [_jobs(pod_set)]

    def _exclusive(self, pod_set: PodSet, exclusive: Field) -> Group:
        """Jobs that each have their own domain."""
        message = f"node does not have topology label: {exclusive.text() or ''}"
        level = exclusive_level(exclusive, self._cluster, "jobset/label-exists", message)
        if level is None:
            return _jobs(pod_set)

        self.levels[level] = None
        held = holders(self._cluster, level, JOB_KEY, "jobset", SET_OF)
        self.holders.update(dict.fromkeys(held))
        if held:
            text = (
                f"domains of level {level.domain} left out, "
                f"as they hold Jobs of JobSets already: {len(held)}"
            )
            self.notes[text] = None
        occupied = tuple(holder.domain for holder in held)
        pods = kept_off(pod_set.pods, level.key, occupied)
        jobs = replace(_jobs(pod_set), pods=(pods,), required=level, anti_affinity=JOB_KEY)
        if pods.count > 1:
            return replace(jobs, leader=replace(pods, count=1))
        return jobs

    def _selected(self, pod_set: PodSet, strategy: Field) -> list[Group]:
        """A group for each Job, on the nodes labelled with its name, whose taint it tolerates."""
        if self._cluster.lacks_label(NAMESPACED_JOB):
            text = f"no node carries the label {NAMESPACED_JOB}"
            fix = (
                "label the nodes of each Job with it before the JobSet starts "
                "(its value: namespace_jobset-job-index)"
            )
            strategy.error("jobset/nodes-labelled", text, fix)

        if pod_set.jobs > MAX_JOBS:
            self.placeable = False
            text = f"{pod_set.name} has more than {MAX_JOBS} Jobs with nodes of their own"
            self.notes[text] = None
            return []

        namespace, name = namespace_of(self._root), name_of(self._root)
        prefix = f"{namespace}_{name}-{pod_set.name}"
        groups = []
        for number in range(pod_set.jobs):
            pods = _on_nodes_of(pod_set.pods, f"{prefix}-{number}")
            groups.append(Group(f"job {pod_set.name}-{number}", (pods,)))
        return groups


def _first(fields: Iterable[Field]) -> Field | None:
    """The first field that is set."""
    for field in fields:
        if field:
            return field
    return None


def _jobs(pod_set: PodSet) -> Group:
    """The Jobs of one ReplicatedJob, each of which is a copy."""
    return replace(Group.part_of(pod_set.name, JOB, (pod_set.pods,)), copies=pod_set.jobs)


def _on_nodes_of(pods: Pods, job: str) -> Pods:
    """The pods, on the nodes labelled with the name of this Job."""
    nodes = pods.node_filter
    selector = dict(nodes.selector)
    selector[NAMESPACED_JOB] = job
    toleration = Toleration(NO_SCHEDULE, "Exists", effect="NoSchedule")
    node_filter = replace(
        nodes,
        selector=tuple(sorted(selector.items())),
        tolerations=(*nodes.tolerations, toleration),
    )
    return replace(pods, node_filter=node_filter)
