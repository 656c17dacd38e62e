"""OSMO's workflows: what the resource of each task requests from the topology of a pool.

Rules and messages: OSMO 2026-08 (first pydantic's, on the form of the document, then those of the
submission and of the PodGroup builder; the builder never reports an unknown key, because the
submission does). Each group of tasks is a PodGroup, placed on its own when the tasks that it waits
for are done. The keys of the pool come from its configuration, checked in the same run (`pool`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Pods, Workload
from toposcope.integrations.framework.containers import amounts_of
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import TopologyLevels, did_you_mean
from toposcope.integrations.framework.node_affinity import (
    ANY_NODE,
    NODE_NAME,
    Expression,
    NodeFilter,
)
from toposcope.integrations.framework.system import ClusterFacts, Reading, System
from toposcope.integrations.osmo import scheduler
from toposcope.integrations.osmo.pod_group import (
    OsmoTask,
    TopologyRequirement,
    check_differences,
    group_of,
    tree_of,
)
from toposcope.integrations.osmo.template import without_value
from toposcope.integrations.osmo.topology import is_topology_of, topology_of

_DEFAULT: Final = "default"
"""The resource of a task, and the group of a requirement, that name none."""
_TYPES: Final = ("required", "preferred")
_FIELDS: Final = ("key", "group", "requirementType")
_RESOURCES: Final = {
    "cpu": "cpu",
    "memory": "memory",
    "storage": "ephemeral-storage",
    "gpu": ALLOCATABLE_GPUS,
}
_ANY_NODES: Final = (
    "OSMO's pod templates may restrict the pool's platforms to some nodes; they are unknown "
    "here, so all nodes count"
)
_BY_ITSELF: Final = (
    "OSMO places each group of tasks separately; this is the group that is hardest to place"
)


def _claims(document: Mapping[str, Any]) -> bool:
    """Whether it is a workflow, which is not a Kubernetes object and has one property."""
    return "kind" not in document and isinstance(document.get("workflow"), dict)


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    del before  # a workflow is never updated
    workloads = _Workflow(root, cluster).workloads()
    if not workloads:
        return Reading(None)
    first, *others = workloads
    return Reading(first, stages=tuple(others))


SYSTEM: Final = System("OSMO", _claims, _read, scheduler.TOPOLOGIES.option)
READERS: Final = (SYSTEM,)


@dataclass(frozen=True, slots=True)
class _Pool:
    """What is known about the pool of a workflow."""

    levels: TopologyLevels | None = None
    is_stand_in: bool = False
    """Whether these are the levels of the cluster's only topology, because the pool's are unknown.
    """

    @property
    def configured(self) -> TopologyLevels | None:
        """The pool's own levels, if they are known."""
        return None if self.is_stand_in else self.levels


@dataclass(frozen=True, slots=True)
class _TaskGroup:
    """Tasks that OSMO puts into one PodGroup."""

    name: str
    field: Field
    """The field with its tasks."""
    tasks: tuple[Field, ...]


class _Workflow:
    """One workflow with the pool that it is for."""

    def __init__(self, root: Field, cluster: ClusterFacts) -> None:
        self._cluster = cluster
        self._flow = root / "workflow"
        self._pool = _pool(self._flow, cluster)
        if self._pool.configured:
            self._pool_name: str | None = self._pool.configured.name
        else:
            self._pool_name = (self._flow / "pool").text()
        self._made_topology = self._find_made_topology()
        self._resources = self._read_resources(root)

        self._requirements = {}
        for name, field in self._resources.items():
            self._requirements[name] = self._read_topology(name, field)
        self._pods = {}
        for name, field in self._resources.items():
            self._pods[name] = _pods(name, field)

    def _find_made_topology(self) -> str | None:
        """The name of the Topology that OSMO has created for the pool."""
        if self._pool.levels and self._pool.is_stand_in:
            return self._pool.levels.name
        for name in self._cluster.topologies:
            if is_topology_of(name, self._pool_name):
                return name
        return None

    def _read_resources(self, root: Field) -> dict[str, Field]:
        resources = dict((self._flow / "resources").properties())
        misplaced = root / "resources"
        if resources or not misplaced:
            return resources
        text = "OSMO reads resources inside workflow only"
        misplaced.warn("osmo/resources", text, "indent them below workflow")
        return dict((root / "resources").properties())

    def workloads(self) -> list[Workload]:
        """A workload for each group of tasks; a task outside of groups is a group of its own."""
        groups = self._groups()
        topology_ready = self._check_made_topology()
        workloads = []
        for group in groups:
            tasks = [self._task(task) for task in group.tasks]
            workload = self._workload(
                group,
                tasks,
                is_only_group=len(groups) == 1,
                is_topology_ready=topology_ready,
            )
            workloads.append(workload)

        if self._has_requirements and self._pool.configured is None:
            self._advise_pool()
        return workloads

    @property
    def _has_requirements(self) -> bool:
        return any(self._requirements.values())

    def _groups(self) -> list[_TaskGroup]:
        groups = []
        for group in (self._flow / "groups").items():
            name = (group / "name").text() or group.path
            tasks = group / "tasks"
            groups.append(_TaskGroup(name, tasks, tuple(tasks.items())))

        for task in (self._flow / "tasks").items():
            name = (task / "name").text() or task.path
            groups.append(_TaskGroup(name, task, (task,)))
        return groups

    def _check_made_topology(self) -> bool:
        """Whether the pool's Topology has all requested levels; True if unknown."""
        if not self._has_requirements or not self._cluster.knows_topologies:
            return True

        if self._made_topology is None:
            of = f" of pool {self._pool_name}" if self._pool_name else ""
            text = f"{scheduler.TITLE} has no Topology{of} ({topology_of(self._pool_name or '*')})"
            fix = self._fix_of_missing_topology()
        else:
            missing = self._missing_keys(self._made_topology)
            if not missing:
                return True
            text = f"{scheduler.TITLE}'s Topology {self._made_topology} lacks {', '.join(missing)}"
            fix = (
                "OSMO creates it again when the pool's topology_keys change: osmo config show "
                "POOL NAME"
            )

        text += ", so it starts no task with a requirement"
        (self._flow / "pool").error(scheduler.TOPOLOGY_RULE, text, fix)
        return False

    def _fix_of_missing_topology(self) -> str:
        cluster = self._cluster
        if cluster.read[cluster.reads].is_served:
            return "OSMO creates it from the pool's topology_keys: osmo config show POOL NAME"
        return cluster.missing("")

    def _missing_keys(self, made_topology: str) -> list[str]:
        """The requested label keys that are no level of the Topology."""
        topology = self._cluster.topologies[made_topology]
        missing = set()
        for requirements in self._requirements.values():
            for requirement in requirements:
                level = requirement.level
                if level and not topology.by_key(level.key):
                    missing.add(level.key)
        return sorted(missing)

    def _advise_pool(self) -> None:
        pool, pools = self._flow / "pool", self._cluster.pools
        if pools:
            text = "it is unknown which of the given pools the workflow is for"
            pool.advise("osmo/pool-unknown", text, did_you_mean(str(pool.value), pools))
            return
        fix = "give its configuration with -f too: osmo config show POOL NAME > pool.json"
        self._flow.advise("osmo/pool-unknown", "the topology keys of the pool are unknown", fix)

    def _workload(
        self,
        group: _TaskGroup,
        tasks: Sequence[OsmoTask],
        *,
        is_only_group: bool,
        is_topology_ready: bool,
    ) -> Workload:
        """The workload of one group; `is_only_group` if it is the workflow's only group."""
        same_keys = _check_same_keys(group.field, tasks)
        has_requirements = any(task.requirements for task in tasks)
        readable = same_keys and _have_levels(tasks)
        pool = self._pool.levels or TopologyLevels("", ())
        workflow_name = (self._flow / "name").text() or "?"
        handle = f"workflow/{workflow_name}"
        if not is_only_group:
            handle += f", group {group.name}"

        if readable:
            root = tree_of(tasks, pool)
            check_differences(group.field, group.name, root)
        else:
            root = tree_of(_without_requirements(tasks), pool)

        is_placeable = readable and (is_topology_ready or not has_requirements)
        workload = Workload(
            "OSMO",
            handle,
            (group_of(root, f"group {group.name}"),),
            is_placeable=is_placeable,
            notes=self._notes(
                has_requirements=has_requirements,
                is_only_group=is_only_group,
                is_placeable=is_placeable,
            ),
            gang=True,
        )
        if not has_requirements:
            return workload
        return replace(workload, topology=self._made_topology, levels=pool.levels)

    def _notes(
        self, *, has_requirements: bool, is_only_group: bool, is_placeable: bool
    ) -> tuple[str, ...]:
        notes = []
        if self._resources:
            notes.append(_ANY_NODES)
        if self._pool.levels and self._pool.is_stand_in and has_requirements:
            notes.append(
                "the pool's keys are unknown, so the levels of topology "
                f"{self._pool.levels.name!r} are assumed"
            )
        if not is_only_group:
            notes.append(_BY_ITSELF)
        if not is_placeable:
            notes += self._cluster.levels_first
        missing = without_value(self._flow.value)
        if missing:
            names = ", ".join(missing)
            notes.append(
                f"to submit this template, also --set {names}, which does not affect placement"
            )
        return tuple(notes)

    def _task(self, task: Field) -> OsmoTask:
        resource = task / "resource"
        name = resource.text() or _DEFAULT
        # Without a section there is one resource, the default one, that requests nothing.
        if self._resources and name not in self._resources:
            text = f"resource {name!r} is not in workflow.resources"
            fix = did_you_mean(name, self._resources)
            if not resource:
                fix = f"add a resource {name}, or name one for task {(task / 'name').text()}"
            resource.error("osmo/resource-found", text, fix)
        elif not self._resources and name != _DEFAULT:
            text = f"resource {name!r} does not exist: the workflow has no resources"
            resource.error("osmo/resource-found", text, "add it to workflow.resources")

        without_requests = Pods(name, 1, ())
        return OsmoTask(
            name=(task / "name").text() or task.path,
            pods=self._pods.get(name, without_requests),
            requirements=self._requirements.get(name, ()),
        )

    def _read_topology(self, resource: str, field: Field) -> tuple[TopologyRequirement, ...]:
        requirements = []
        keys: set[str] = set()
        for entry in (field / "topology").items():
            _check_fields(entry)
            key_field = entry / "key"
            key = key_field.text()
            if key is None:
                fix = "name a topology key of the pool"
                (entry / "key").error("osmo/topology-key", "Field required", fix)
                continue

            if key in keys:
                text = f"{key!r} is listed twice; OSMO creates a group within its group"
                key_field.warn("osmo/key-twice", text, "name each key once")
            keys.add(key)
            requirements.append(self._requirement(entry, key, resource))
        return tuple(requirements)

    def _requirement(self, entry: Field, key: str, resource: str) -> TopologyRequirement:
        kind = entry / "requirementType"
        if kind and kind.value not in _TYPES:
            text = "Input should be 'required' or 'preferred'"
            kind.error("osmo/requirement-type", text, did_you_mean(str(kind.value), _TYPES))
        return TopologyRequirement(
            field=entry,
            key=key,
            group=(entry / "group").text() or _DEFAULT,
            is_required=kind.value != "preferred",
            level=self._level(entry / "key", key, resource),
        )

    def _level(self, field: Field, key: str, resource: str) -> Level | None:
        """The level of a topology key; None if the pool does not have it, or is unknown."""
        if self._pool.levels is None:
            return None

        level = self._pool.levels.level(key)
        pool = self._pool.configured
        if pool is None or (level and level.domain == key):
            return level

        available = sorted(set(pool.domains))
        field.error(
            "osmo/key-available",
            f'Topology key "{key}" in resource "{resource}" is not available in pool '
            f'"{pool.name}". '
            f"Available topology keys: {available}",
            did_you_mean(key, available),
        )
        return None


def _have_levels(tasks: Sequence[OsmoTask]) -> bool:
    """Whether the level of each requirement is known."""
    for task in tasks:
        for requirement in task.requirements:
            if requirement.level is None:
                return False
    return True


def _without_requirements(tasks: Sequence[OsmoTask]) -> list[OsmoTask]:
    return [OsmoTask(task.name, task.pods, ()) for task in tasks]


def _check_fields(entry: Field) -> None:
    for name, extra in entry.properties():
        if name not in _FIELDS:
            fix = did_you_mean(name, _FIELDS)
            extra.error("osmo/topology-fields", "Extra inputs are not permitted", fix)


def _pool(flow: Field, cluster: ClusterFacts) -> _Pool:
    """The pool. If none is given, uses the levels of the cluster's only topology."""
    name = (flow / "pool").text()
    pools = list(cluster.pools.values())
    if name is None and len(pools) == 1:
        return _Pool(pools[0])
    if pools:
        return _Pool(cluster.pools.get(name) if name else None)

    made_of_pool = []
    for topology_name, topology in cluster.topologies.items():
        if is_topology_of(topology_name, name):
            made_of_pool.append(topology)
    if len(made_of_pool) == 1:
        return _Pool(made_of_pool[0], is_stand_in=True)
    if cluster.knows_topologies:
        return _Pool()
    return _Pool(cluster.only_topology, is_stand_in=True)


def _pods(name: str, resource: Field) -> Pods:
    values = {}
    for key, field in resource.properties():
        if key in _RESOURCES:
            values[key] = field.value

    requests = {}
    amounts = amounts_of(Field(values, resource.path, resource.findings))
    for key, amount in amounts.items():
        if amount:
            requests[_RESOURCES[key]] = amount

    return Pods(name, 1, tuple(sorted(requests.items())), _nodes(resource))


def _nodes(resource: Field) -> NodeFilter:
    """The nodes that the resource does not exclude."""
    excluded = []
    for node in (resource / "nodesExcluded").items():
        name = node.text()
        if name:
            excluded.append(name)
    if not excluded:
        return ANY_NODE

    expression = Expression(NODE_NAME, "NotIn", tuple(excluded), is_field=True)
    return NodeFilter(terms=((expression,),))


def _check_same_keys(field: Field, tasks: Sequence[OsmoTask]) -> bool:
    key_sets = set()
    for task in tasks:
        keys = sorted([requirement.key for requirement in task.requirements])
        if keys:
            key_sets.add(", ".join(keys))
    if len(key_sets) <= 1:
        return True

    field.error(
        "osmo/same-keys",
        "Topology validation failed: All tasks must use the same topology keys. "
        f"Found different key sets: {sorted(key_sets)}. "
        "Either all tasks should have topology requirements with the same "
        "keys, or no tasks should have topology requirements.",
        "name the same keys in the resource of every task; to keep a task apart, give it a group "
        "of its own",
    )
    return False
