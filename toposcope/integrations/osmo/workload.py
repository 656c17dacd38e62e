"""OSMO's workflows: what the resource of each task asks of the topology of a pool.

Rules and messages: OSMO 2026-08 (pydantic's words for the shape of a document, then those of the
submission and of the builder of PodGroups; the builder's own complaint about an unknown key is
never reached, as the submission is first). Each group of tasks is a PodGroup, placed by itself when
the tasks that it waits for are done. The keys of the pool come from its configuration, checked in
the same run (`pool`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Pods, Workload
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import TopologyLevels, did_you_mean
from toposcope.integrations.framework.node_affinity import (
    ANY_NODE,
    NODE_NAME,
    Expression,
    NodeFilter,
)
from toposcope.integrations.framework.pods import amounts_of
from toposcope.integrations.framework.system import LEVELS_FIRST, ClusterFacts, Reading, System
from toposcope.integrations.osmo.pod_group import (
    Requirement,
    Task,
    check_differences,
    group_of,
    tree_of,
)
from toposcope.integrations.osmo.topology import is_topology_of, topology_of

_DEFAULT: Final = "default"
"""The resource of a task that names none, and the group of a requirement that names none."""
_TYPES: Final = ("required", "preferred")
_FIELDS: Final = ("key", "group", "requirementType")
_RESOURCES: Final = {
    "cpu": "cpu",
    "memory": "memory",
    "storage": "ephemeral-storage",
    "gpu": ALLOCATABLE_GPUS,
}
_ANY_NODES: Final = (
    "which nodes the platforms of the pool may use is set in OSMO's pod templates and not known "
    "here: all nodes count"
)
_BY_ITSELF: Final = (
    "OSMO places each group of tasks by itself; of several groups this is the hardest one to place"
)


def _claims(document: Mapping[str, Any]) -> bool:
    """A workflow is no object of the Kubernetes API; its one property tells it."""
    return "kind" not in document and isinstance(document.get("workflow"), dict)


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    del before  # a workflow is submitted anew
    workloads = _Workflow(root, cluster).workloads()
    return Reading(workloads[0] if workloads else None, stages=tuple(workloads[1:]))


SYSTEM: Final = System("OSMO", _claims, _read, "kai")
READERS: Final = (SYSTEM,)


class _Workflow:
    """One workflow with the pool that it is for."""

    def __init__(self, root: Field, cluster: ClusterFacts) -> None:
        self._cluster = cluster
        self._flow = root / "workflow"
        self._pool, self._assumed = _pool(self._flow, cluster)
        self._name = (
            self._pool.name if self._pool and not self._assumed else (self._flow / "pool").text()
        )
        made = (name for name in cluster.topologies if is_topology_of(name, self._name))
        self._made = self._pool.name if self._pool and self._assumed else next(made, None)
        self._resources = dict((self._flow / "resources").properties())
        if not self._resources and root / "resources":
            text = "OSMO reads resources inside workflow only"
            (root / "resources").warn("osmo/resources", text, "indent them below workflow")
            self._resources = dict((root / "resources").properties())
        self._requirements = {
            name: self._read_topology(name, field) for name, field in self._resources.items()
        }
        self._pods = {name: _pods(name, field) for name, field in self._resources.items()}

    def workloads(self) -> list[Workload]:
        """One workload for each group of tasks; a task outside of groups is a group of its own."""
        groups = [
            (
                (group / "name").text() or group.path,
                group / "tasks",
                list((group / "tasks").items()),
            )
            for group in (self._flow / "groups").items()
        ]
        groups += [
            ((task / "name").text() or task.path, task, [task])
            for task in (self._flow / "tasks").items()
        ]
        self._ready = self._check_made()
        workloads = [
            self._workload(
                name, field, [self._task(task) for task in tasks], alone=len(groups) == 1
            )
            for name, field, tasks in groups
        ]
        if any(self._requirements.values()) and (self._pool is None or self._assumed):
            self._advise_pool()
        return workloads

    def _check_made(self) -> bool:
        """Whether KAI has the pool's Topology with all levels that are asked for.

        Or is not known.
        """
        cluster = self._cluster
        levels = {
            need.level.key for asked in self._requirements.values() for need in asked if need.level
        }
        if not (levels or any(self._requirements.values())) or not cluster.knows_topologies:
            return True
        if self._made is None:
            of = f" of pool {self._name}" if self._name else ""
            text = f"KAI has no Topology{of} ({topology_of(self._name or '*')})"
            fix = "OSMO makes it of the pool's topology_keys: osmo config show POOL NAME"
            fix = fix if cluster.read[cluster.reads].served else cluster.missing("")
        elif lacks := sorted(
            key for key in levels if not cluster.topologies[self._made].by_key(key)
        ):
            text = f"KAI's Topology {self._made} lacks {', '.join(lacks)}"
            fix = (
                "OSMO makes it anew when the pool's topology_keys change: "
                "osmo config show POOL NAME"
            )
        else:
            return True
        text += ", so it starts no task with a requirement"
        (self._flow / "pool").error("osmo/kai-topology", text, fix)
        return False

    def _advise_pool(self) -> None:
        pool, pools = self._flow / "pool", self._cluster.pools
        if pools:
            text = "which of the pools given is meant is not known"
            pool.advise("osmo/pool-unknown", text, did_you_mean(str(pool.value), pools))
            return
        fix = "give its configuration with -f too: osmo config show POOL NAME > pool.json"
        self._flow.advise("osmo/pool-unknown", "the topology keys of the pool are not known", fix)

    def _workload(self, name: str, field: Field, tasks: Sequence[Task], *, alone: bool) -> Workload:
        same_keys = _check_same_keys(field, tasks)
        requirements = [requirement for task in tasks for requirement in task.requirements]
        known = same_keys and all(requirement.level for requirement in requirements)
        pool = self._pool or TopologyLevels("", ())
        handle = f"workflow/{(self._flow / 'name').text() or '?'}"
        root = tree_of(tasks if known else [Task(task.name, task.pods, ()) for task in tasks], pool)
        if known:
            check_differences(field, name, root)
        notes = [_ANY_NODES] if self._resources else []
        notes += [self._assumed] if self._assumed and requirements else []
        notes += [] if alone else [_BY_ITSELF]
        known &= self._ready or not requirements
        notes += [] if known else [LEVELS_FIRST]
        return Workload(
            "OSMO",
            handle if alone else f"{handle}, group {name}",
            (group_of(root, f"group {name}"),),
            self._made if requirements else None,
            levels=pool.levels if requirements else (),
            placeable=known,
            notes=tuple(notes),
            gang=True,
        )

    def _task(self, task: Field) -> Task:
        resource = task / "resource"
        name = resource.text() or _DEFAULT
        if name not in self._resources and resource:
            text = f"resource {name!r} is not in workflow.resources"
            resource.error("osmo/resource-found", text, did_you_mean(name, self._resources))
        pods = self._pods.get(name, Pods(name, 1, ()))
        return Task((task / "name").text() or task.path, pods, self._requirements.get(name, ()))

    def _read_topology(self, resource: str, field: Field) -> tuple[Requirement, ...]:
        requirements = []
        keys: set[str] = set()
        for entry in (field / "topology").items():
            for name, extra in entry.properties():
                if name not in _FIELDS:
                    extra.error(
                        "osmo/topology-fields",
                        "Extra inputs are not permitted",
                        did_you_mean(name, _FIELDS),
                    )
            key = (entry / "key").text()
            if key is None:
                (entry / "key").error(
                    "osmo/topology-key", "Field required", "name a topology key of the pool"
                )
                continue
            if key in keys:
                text = f"{key!r} is listed twice; OSMO makes a group within its group"
                (entry / "key").warn("osmo/key-twice", text, "name each key once")
            keys.add(key)
            kind = entry / "requirementType"
            if kind and kind.value not in _TYPES:
                text = "Input should be 'required' or 'preferred'"
                kind.error("osmo/requirement-type", text, did_you_mean(str(kind.value), _TYPES))
            group = (entry / "group").text() or _DEFAULT
            level = self._level(entry / "key", key, resource)
            requirements.append(Requirement(entry, key, group, kind.value != "preferred", level))
        return tuple(requirements)

    def _level(self, field: Field, key: str, resource: str) -> Level | None:
        level = self._pool.level(key) if self._pool else None
        if self._pool and not self._assumed and (level is None or level.domain != key):
            available = sorted(set(self._pool.domains))
            field.error(
                "osmo/key-available",
                f'Topology key "{key}" in resource "{resource}" is not available in pool '
                f'"{self._pool.name}". '
                f"Available topology keys: {available}",
                did_you_mean(key, available),
            )
            return None
        return level


def _pool(flow: Field, cluster: ClusterFacts) -> tuple[TopologyLevels | None, str]:
    """The pool, and a note where the cluster's only topology has to stand in for it."""
    name, pools = (flow / "pool").text(), cluster.pools
    pool = pools.get(name) if name else None
    if name is None and len(pools) == 1:
        (pool,) = pools.values()
    if pool or pools:
        return pool, ""
    made = [topology for key, topology in cluster.topologies.items() if is_topology_of(key, name)]
    topology = (
        made[0] if len(made) == 1 else None if cluster.knows_topologies else cluster.only_topology
    )
    if topology is None:
        return None, ""
    return (
        topology,
        (
            f"the pool's keys are not known: the levels of topology {topology.name!r} stand in for "
            "them"
        ),
    )


def _pods(name: str, resource: Field) -> Pods:
    known = {key: field.value for key, field in resource.properties() if key in _RESOURCES}
    amounts = amounts_of(Field(known, resource.path, resource.findings))
    requests = {_RESOURCES[key]: amount for key, amount in amounts.items() if amount}
    excluded = tuple(text for node in (resource / "nodesExcluded").items() if (text := node.text()))
    nodes = (
        NodeFilter(terms=((Expression(NODE_NAME, "NotIn", excluded, field=True),),))
        if excluded
        else ANY_NODE
    )
    return Pods(name, 1, tuple(sorted(requests.items())), nodes)


def _check_same_keys(field: Field, tasks: Sequence[Task]) -> bool:
    sets = {
        ", ".join(sorted(need.key for need in task.requirements))
        for task in tasks
        if task.requirements
    }
    if len(sets) <= 1:
        return True
    field.error(
        "osmo/same-keys",
        "Topology validation failed: All tasks must use the same topology keys. "
        f"Found different key sets: {sorted(sets)}. "
        "Either all tasks should have topology requirements with the same "
        "keys, or no tasks should have topology requirements.",
        "name the same keys in the resource of every task; "
        "a group name of its own keeps a task apart",
    )
    return False
