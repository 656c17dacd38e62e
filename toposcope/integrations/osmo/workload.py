"""OSMO's workflows: what the resource of each task asks of the topology of a pool.

Rules and messages: OSMO 2026-08 (pydantic's words for the shape of a document, then those of the submission and of the
builder of PodGroups; the builder's own complaint about an unknown key is never reached, as the submission is first).
Each group of tasks is a PodGroup, placed by itself when the tasks that it waits for are done. The keys of the pool come
from its configuration, checked in the same run (`osmo_pool.py`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.integrations.framework.constraints import Pods, Workload
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import TopologyLevels, near
from toposcope.integrations.framework.node_affinity import ANY_NODE, NODE_NAME, Expression, NodeFilter
from toposcope.integrations.framework.pods import amounts_of
from toposcope.integrations.framework.system import LEVELS_FIRST, ClusterFacts, Reading, merged
from toposcope.integrations.osmo.pod_group import Requirement, Task, check_gaps, group_of, grow

_DEFAULT: Final = "default"
"""The resource of a task that names none, and the group of a requirement that names none."""
_TYPES: Final = ("required", "preferred")
_FIELDS: Final = ("key", "group", "requirementType")
_RESOURCES: Final = {"cpu": "cpu", "memory": "memory", "storage": "ephemeral-storage", "gpu": ALLOCATABLE_GPUS}
_ANY_NODES: Final = (
    "which nodes the platforms of the pool may use is set in OSMO's pod templates and not known here: all nodes count"
)
_BY_ITSELF: Final = "OSMO places each group of tasks by itself; of several groups this is the hardest one to place"


class Osmo:
    """Reads workflows."""

    name = "OSMO"

    def claims(self, document: Mapping[str, Any]) -> bool:
        """A workflow is no object of the Kubernetes API; it is told by its one member."""
        return "kind" not in document and isinstance(document.get("workflow"), dict)

    def read(
        self, document: Mapping[str, Any], known: ClusterFacts, before: Mapping[str, Any] | None = None
    ) -> Reading:
        """The demands of the workflow's groups of tasks; see System."""
        del before  # a workflow is submitted anew
        root = Field(document)
        found = _Workflow(root, known).groups()
        return Reading(found[0] if found else None, merged(root.findings), stages=tuple(found[1:]))


class _Workflow:
    """One workflow with the pool that it is for."""

    def __init__(self, root: Field, known: ClusterFacts) -> None:
        self._known = known
        self._flow = root / "workflow"
        self._pool, self._guessed = _pool(self._flow, known)
        self._resources = dict((self._flow / "resources").members())
        if not self._resources and root / "resources":
            (root / "resources").warn(
                "osmo/resources", "OSMO reads resources inside workflow only", "indent them below workflow"
            )
            self._resources = dict((root / "resources").members())
        self._topology = {name: self._requirements(name, part) for name, part in self._resources.items()}
        self._pods = {name: _pod(name, part) for name, part in self._resources.items()}

    def groups(self) -> list[Workload]:
        """One workload for each group of tasks; a task outside of groups is a group of its own."""
        named = [
            ((group / "name").text() or group.path, group / "tasks", list((group / "tasks").items()))
            for group in (self._flow / "groups").items()
        ]
        named += [((task / "name").text() or task.path, task, [task]) for task in (self._flow / "tasks").items()]
        found = []
        for name, part, tasks in named:
            found.append(self._workload(name, part, [self._task(task) for task in tasks], alone=len(named) == 1))
        if any(self._topology.values()) and (self._pool is None or self._guessed):
            self._advise_pool()
        return found

    def _advise_pool(self) -> None:
        pools = self._known.pools
        if pools:
            text = "which of the pools given is meant is not known"
            (self._flow / "pool").advise("osmo/pool-unknown", text, near(str((self._flow / "pool").value), pools))
            return
        self._flow.advise(
            "osmo/pool-unknown",
            "the topology keys of the pool are not known",
            "give its configuration with -f too: osmo config show POOL NAME > pool.json",
        )

    def _workload(self, name: str, part: Field, tasks: Sequence[Task], *, alone: bool) -> Workload:
        same = _check_same_keys(part, tasks)
        wanted = [requirement for task in tasks for requirement in task.requirements]
        known = same and all(each.level for each in wanted)
        ladder = self._pool or TopologyLevels("", ())
        handle = f"workflow/{(self._flow / 'name').text() or '?'}"
        root = grow(tasks if known else [Task(each.name, each.pods, ()) for each in tasks], ladder)
        if known:
            check_gaps(part, name, root)
        notes = [_ANY_NODES] if self._resources else []
        notes += [self._guessed] if self._guessed and wanted else []
        notes += [] if alone else [_BY_ITSELF]
        notes += [] if known else [LEVELS_FIRST]
        return Workload(
            Osmo.name,
            handle if alone else f"{handle}, group {name}",
            (group_of(root, f"group {name}"),),
            levels=ladder.levels if wanted else (),
            placeable=known,
            notes=tuple(notes),
        )

    def _task(self, part: Field) -> Task:
        resource = part / "resource"
        name = resource.text() or _DEFAULT
        if name not in self._resources and resource:
            text = f"resource {name!r} is not in workflow.resources"
            resource.error("osmo/resource-found", text, near(name, self._resources))
        pods = self._pods.get(name, Pods(name, 1, ()))
        return Task((part / "name").text() or part.path, pods, self._topology.get(name, ()))

    def _requirements(self, resource: str, part: Field) -> tuple[Requirement, ...]:
        found = []
        keys: set[str] = set()
        for each in (part / "topology").items():
            for name, extra in each.members():
                if name not in _FIELDS:
                    extra.error("osmo/topology-fields", "Extra inputs are not permitted", near(name, _FIELDS))
            key = (each / "key").text()
            if key is None:
                (each / "key").error("osmo/topology-key", "Field required", "name a topology key of the pool")
                continue
            if key in keys:
                text = f"{key!r} stands here twice; OSMO makes a group within the group of it"
                (each / "key").warn("osmo/key-twice", text, "name each key once")
            keys.add(key)
            kind = each / "requirementType"
            if kind and kind.value not in _TYPES:
                text = "Input should be 'required' or 'preferred'"
                kind.error("osmo/requirement-type", text, near(str(kind.value), _TYPES))
            level = self._pool.level(key) if self._pool else None
            if self._pool and not self._guessed and (level is None or level.domain != key):
                self._refuse(each / "key", resource, self._pool)
                level = None
            group = (each / "group").text() or _DEFAULT
            found.append(Requirement(each, key, group, kind.value != "preferred", level))
        return tuple(found)

    def _refuse(self, key: Field, resource: str, pool: TopologyLevels) -> None:
        available = sorted(set(pool.domains))
        key.error(
            "osmo/key-available",
            f'Topology key "{key.value}" in resource "{resource}" is not available in pool "{pool.name}". '
            f"Available topology keys: {available}",
            near(str(key.value), available),
        )


def _pool(flow: Field, known: ClusterFacts) -> tuple[TopologyLevels | None, str]:
    """The pool, and a note where the cluster's only topology has to stand in for it."""
    named = (flow / "pool").text()
    pool = known.pools.get(named) if named else None
    if named is None and len(known.pools) == 1:
        pool = next(iter(known.pools.values()))
    if pool:
        return pool, ""
    if known.pools:
        return None, ""
    ladder = known.ladder(None)
    if ladder is None:
        return None, ""
    return ladder, f"the pool's keys are not known: the levels of topology {ladder.name!r} stand in for them"


def _pod(name: str, resource: Field) -> Pods:
    plain = {field: part.value for field, part in resource.members() if field in _RESOURCES}
    found = amounts_of(Field(plain, resource.path, resource.findings))
    requests = {_RESOURCES[field]: value for field, value in found.items() if value}
    excluded = tuple(text for each in (resource / "nodesExcluded").items() if (text := each.text()))
    choice = NodeFilter(terms=((Expression(NODE_NAME, "NotIn", excluded, field=True),),)) if excluded else ANY_NODE
    return Pods(name, 1, tuple(sorted(requests.items())), choice)


def _check_same_keys(part: Field, tasks: Sequence[Task]) -> bool:
    sets = {
        task.name: ", ".join(sorted(requirement.key for requirement in task.requirements))
        for task in tasks
        if task.requirements
    }
    different = sorted(set(sets.values()))
    if len(different) <= 1:
        return True
    part.error(
        "osmo/same-keys",
        "Topology validation failed: All tasks must use the same topology keys. "
        f"Found different key sets: {different}. Either all tasks should have topology requirements with the same "
        "keys, or no tasks should have topology requirements.",
        "name the same keys in the resource of every task; a group name of its own keeps a task apart",
    )
    return False
