"""kube-scheduler's own gangs.

The requests of PodGroups and of the pods that name them, for `check` and `explain`. Rules and
messages: Kubernetes 1.36 (TopologyPlacementGenerator, GangScheduling, the validation of
scheduling.k8s.io). The nodes with one value of the constraint's label are a placement; nodes
without the label are in none. In each placement pods are placed one by one without backtracking,
and `minCount` of them must find a node.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any, Final

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import (
    Group,
    PodGroupName,
    Pods,
    Workload,
    pods_in,
)
from toposcope.integrations.framework.document import (
    Field,
    handle_of,
    kind_of,
    name_of,
    namespace_of,
)
from toposcope.integrations.framework.exclusive import exclusive_level
from toposcope.integrations.framework.levels import did_you_mean
from toposcope.integrations.framework.node_affinity import (
    Expression,
    NodeFilter,
    VolumePlace,
)
from toposcope.integrations.framework.pods import Structure, structure_of
from toposcope.integrations.framework.surroundings import Surroundings
from toposcope.integrations.framework.system import ClusterFacts, Reading, System
from toposcope.integrations.kubernetes.api import (
    COMPOSITES,
    POD_GROUPS,
    WORKLOADS,
    keys_of,
    templates_of,
)
from toposcope.integrations.kubernetes.gang_priority import check_priorities
from toposcope.integrations.kubernetes.hierarchy import TreeBuilder, around, parent_of
from toposcope.kube.discovery import Kind

NAME: Final = "kube-scheduler"
NO_PLACEMENT: Final = "no feasible placements found"
GATES: Final = (
    "enable the feature gates GenericWorkload and TopologyAwareWorkloadScheduling (and "
    "GangScheduling in 1.36) of kube-apiserver and kube-scheduler, and serve the API: "
    "--runtime-config=scheduling.k8s.io/v1beta1=true (v1alpha2 in 1.36)"
)
_JOB: Final = ("batch", "Job")
_Terms = tuple[tuple[Expression, ...], ...]
_MOST_TERMS: Final = 1000
"""Combinations of node affinities that are compared with each node."""
_ONE_BY_ONE: Final = (
    "kube-scheduler places pods of different sizes one by one without backtracking, so it may "
    "miss a valid placement"
)
_BASIC: Final = (
    "with schedulingPolicy.basic kube-scheduler may choose a domain with room for only some of "
    "the pods, and the others wait for it: use gang with minCount"
)


def group_of(spec: Field) -> str:
    """The PodGroup that a pod spec names; empty if none."""
    return (spec / "schedulingGroup" / "podGroupName").text() or ""


def members_of_documents(
    documents: Iterable[Mapping[str, Any]], surroundings: Surroundings
) -> dict[PodGroupName, tuple[Pods, ...]]:
    """The pods of workloads whose templates name a PodGroup, by PodGroup."""
    groups: dict[PodGroupName, tuple[Pods, ...]] = {}
    for document in documents:
        if "schedulingGroup" not in str(document):
            continue  # most have none, and reading a workload takes longer than this
        root = Field(document, surroundings=surroundings)
        for name, pods in _named(root).items():
            before = groups.get(name, ())
            groups[name] = before + pods
    return groups


def _named(root: Field) -> dict[PodGroupName, tuple[Pods, ...]]:
    """The pods of each PodGroup that the templates of a workload name."""
    groups: dict[PodGroupName, tuple[Pods, ...]] = {}
    structure = structure_of(root) or Structure(())
    for pod_set in structure.sets:
        spec = pod_set.template / "spec"
        group = group_of(spec)
        if not group:
            continue
        name = namespace_of(root), group
        count = pod_set.count * structure.copies
        before = groups.get(name, ())
        groups[name] = (*before, pod_set.some(count))
    return groups


def _claims(document: Mapping[str, Any]) -> bool:
    """The kinds of scheduling.k8s.io, Jobs with `spec.scheduling`, pods that name a PodGroup."""
    kind = kind_of(document)
    if kind in (POD_GROUPS.key, COMPOSITES.key, WORKLOADS.key):
        return True
    root = Field(document)
    if kind == _JOB and root / "spec" / "scheduling":
        return True
    if "schedulingGroup" not in str(document):
        return False
    return bool(_named(root))


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    del before  # PodGroups are immutable, and pods keep theirs
    kind = kind_of(root.value)
    if kind == WORKLOADS.key:
        for template in templates_of(root):
            _level(template, cluster)
        return Reading(subject=f"a Workload of {NAME}")

    _check_served(root, cluster)
    if kind in (COMPOSITES.key, POD_GROUPS.key):
        _check_accepted(root)
        return Reading(_of_object(root, root, cluster))
    if kind == _JOB and root / "spec" / "scheduling":
        return Reading(_of_job(root, cluster))

    workloads: list[Workload] = []
    for name, pods in _named(root).items():
        workload = _of_named(root, name, pods, cluster)
        workloads.append(workload)
    return Reading(workloads[0], stages=tuple(workloads[1:]))


def _of_job(root: Field, cluster: ClusterFacts) -> Workload:
    """Read a Job that is a gang of its own."""
    structure = structure_of(root) or Structure(())
    parallelism = (root / "spec" / "parallelism").number(1)
    members = _Members(structure.whole, least=parallelism, are_of_job=True)
    name = name_of(root, "Job")
    scheduling = root / "spec" / "scheduling"
    _check_min_count(scheduling, parallelism)
    return _gang(root, name, scheduling, members, cluster)


def _check_min_count(scheduling: Field, parallelism: int) -> None:
    """Note a gang larger than its Job, which the API server rejects."""
    field = scheduling / "schedulingPolicy" / "gang" / "minCount"
    if isinstance(field.value, int) and field.value > parallelism:
        field.error(
            "kube-scheduler/min-count",
            f"must not be greater than parallelism ({parallelism})",
            f"set at most {parallelism}, or remove it for all pods",
        )


def _check_served(root: Field, cluster: ClusterFacts) -> None:
    """Note a cluster that does not serve PodGroups."""
    if POD_GROUPS.name in cluster.unserved:
        text = (
            f"the cluster does not serve {POD_GROUPS.name}, "
            "so the API server silently drops fields that request it"
        )
        root.error("kube-scheduler/served", text, GATES)


def _check_accepted(group: Field) -> None:
    """Note what the API server rejects in a PodGroup or CompositePodGroup."""
    spec = group / "spec"
    is_composite = kind_of(group.value) == COMPOSITES.key
    _check_policy(spec / "schedulingPolicy", "minGroupCount" if is_composite else "minCount")
    if spec / "workloadRef":
        return
    if is_composite:
        text = "Required value"
    elif parent_of(group):
        text = "Required value: must be set when parentCompositePodGroupName is set"
    else:
        return
    fix = "name the Workload and the template that the group is created from"
    (spec / "workloadRef").error("kube-scheduler/workload-ref", text, fix)


def _check_policy(policy: Field, least: str) -> None:
    """Note a policy that is neither `basic` nor `gang`, or a gang without the field `least`."""
    if policy and not isinstance(policy.value, dict):
        return  # whoever reads the policy says so
    basic = policy / "basic"
    gang = policy / "gang"
    if not (basic or gang):
        text = "must specify one of: `basic`, `gang`"
        policy.error("kube-scheduler/policy", text, "set one of them")
    elif basic and gang:
        text = "must specify exactly one of: `basic`, `gang`"
        policy.error("kube-scheduler/policy", text, "remove one of them")
    elif isinstance(gang.value, dict) and not gang / least:
        (gang / least).error("kube-scheduler/policy", "Required value", f"write {least}")


def _of_object(root: Field, group: Field, cluster: ClusterFacts) -> Workload:
    """A single group, or its tree, for the document that is read."""
    is_composite = kind_of(group.value) == COMPOSITES.key
    if is_composite or parent_of(group):
        return _tree(root, group, cluster)
    workload = _of_group(root, group, cluster)
    name = namespace_of(group), name_of(group, "PodGroup")
    return _of_one_priority(workload, root, group, cluster.gangs.get(name, ()))


SYSTEM: Final = System(NAME, _claims, _read)


def _of_named(
    root: Field, name: PodGroupName, pods: tuple[Pods, ...], cluster: ClusterFacts
) -> Workload:
    """The pods of a PodGroup that a document names."""
    namespace, group_name = name
    pod_groups = _first_of_each_name(namespace, cluster)
    if group_name in pod_groups:
        if name not in cluster.gangs:
            gangs = {**cluster.gangs, name: pods}
            cluster = replace(cluster, gangs=gangs)
        return _of_object(root, pod_groups[group_name], cluster)

    group = Group(group_name, pods)
    if POD_GROUPS.key not in cluster.objects:
        note = f"PodGroup {group_name} is unknown, so room is not checked; also give its file"
        return _workload(root, group, (), note)
    text = f'waiting for pods\'s pod group "{group_name}" to appear in scheduling queue'
    fix = did_you_mean(group_name, pod_groups) or f"create the PodGroup {group_name} first"
    root.error("kube-scheduler/pod-group", text, fix)
    return _workload(root, group, (), "room is not checked until its PodGroup exists")


def _first_of_each_name(namespace: str, cluster: ClusterFacts) -> dict[str, Field]:
    """The PodGroups in a namespace, the first of several with one name."""
    pod_groups: dict[str, Field] = {}
    for document in cluster.objects.get(POD_GROUPS.key, ()):
        pod_group = Field(document)
        if namespace_of(pod_group) == namespace:
            pod_groups.setdefault(name_of(pod_group), pod_group)
    return pod_groups


def _of_group(root: Field, group: Field, cluster: ClusterFacts) -> Workload:
    """The workload of a PodGroup, for its document or its pods' document."""
    name = name_of(group, "PodGroup")
    namespace = namespace_of(group)
    pods = cluster.gangs.get((namespace, name), ())
    return _gang(root, name, group / "spec", _Members(pods), cluster)


def _of_one_priority(
    workload: Workload, root: Field, top: Field, kinds: Iterable[Pods]
) -> Workload:
    """The workload of a gang, after checking the priorities of its pods.

    `top` is the group, or the outermost one of a tree.
    """
    needed = 1
    if workload.is_placeable:
        needed = sum(pods.count for pods in pods_in(workload.groups))
    doubt = check_priorities(_priority_class(root), top, kinds, needed)
    if not doubt or workload.doubt:
        return workload
    return replace(workload, doubt=doubt, certain=())


def _priority_class(root: Field) -> Field:
    """The field with the document's priority: of its group, or of the first template of a gang."""
    structure = structure_of(root) or Structure(())
    for pod_set in structure.sets:
        spec = pod_set.template / "spec"
        if group_of(spec):
            return spec / "priorityClassName"
    return root / "spec" / "priorityClassName"


def _in_namespace(kind: Kind, namespace: str, cluster: ClusterFacts) -> dict[str, Field]:
    """The objects of a kind in one namespace, by name."""
    named = {}
    for document in cluster.objects.get(kind.key, ()):
        root = Field(document)
        if namespace_of(root) == namespace:
            named[name_of(root)] = root
    return named


def _tree(root: Field, group: Field, cluster: ClusterFacts) -> Workload:
    """The whole tree of a PodGroup or CompositePodGroup, which starts as one."""
    namespace = namespace_of(root)
    composites = _in_namespace(COMPOSITES, namespace, cluster)
    pod_groups = _in_namespace(POD_GROUPS, namespace, cluster)
    named = composites if kind_of(group.value) == COMPOSITES.key else pod_groups
    named[name_of(group)] = group
    top, missing = around(group, composites)
    if missing:
        if COMPOSITES.key in cluster.objects:
            _refuse_without_parent(group, missing, composites)
        workload = _of_group(root, group, cluster)
        note = f"the request of CompositePodGroup {missing} is not checked"
        return replace(workload, notes=(*workload.notes, note))

    members: list[Pods] = []

    def leaf(pod_group: Field) -> Workload:
        members.extend(cluster.gangs.get((namespace, name_of(pod_group)), ()))
        return _of_group(root, pod_group, cluster)

    tree = TreeBuilder(
        composites,
        pod_groups,
        level=lambda spec: _level(spec, cluster),
        leaf=leaf,
    )
    top_group = tree.group(top)
    levels = tree.levels  # after the groups are read: the levels may be unknown, too
    workload = Workload(
        NAME,
        handle_of(root),
        groups=(top_group,),
        levels=levels,
        is_placeable=not tree.unknown,
        notes=(*tree.notes, *tree.unknown),
        doubt=tree.doubt,
    )
    return _of_one_priority(workload, root, top, members)


def _refuse_without_parent(group: Field, missing: str, composites: Collection[str]) -> None:
    """Note a parent that does not exist, or whose own parent does not."""
    if missing in composites:
        text = f"CompositePodGroup {missing} contains itself, so none of its pods is bound"
        fix = "name a parent outside of it, or remove the parent"
    else:
        text = (
            f"CompositePodGroup {missing} does not exist, and kube-scheduler binds no pods until "
            "it does"
        )
        fix = did_you_mean(missing, composites) or "create it first"
    parent = group / "spec" / "parentCompositePodGroupName"
    parent.error("kube-scheduler/parent", text, fix)


def _level(group: Field, cluster: ClusterFacts) -> Level | None:
    """The label of a group's constraint, as a level; None if it has none."""
    keys = list(keys_of(group))
    if not keys:
        return None
    count = len(keys)
    if count > 1:
        field = group / "schedulingConstraints" / "topology"
        text = f"Too many: {count}: must have at most 1 item"
        field.error("kube-scheduler/one-constraint", text, "keep one key")
    return exclusive_level(
        keys[0],
        cluster,
        "kube-scheduler/label-exists",
        NO_PLACEMENT,
    )


@dataclass(frozen=True, slots=True)
class _Members:
    """The pods of a group, as far as they are known."""

    pods: tuple[Pods, ...]
    least: int = 1
    """The default of minCount."""
    are_of_job: bool = False
    """Whether a Job creates them; then the API server rejects a larger minCount."""

    @property
    def count(self) -> int:
        return sum(pods.count for pods in self.pods)

    def kinds(self) -> dict[Pods, int]:
        """The number of pods of each kind."""
        kinds: Counter[Pods] = Counter()
        for pods in self.pods:
            kind = replace(pods, name="pods", count=1)
            kinds[kind] += pods.count
        return kinds


@dataclass(frozen=True, slots=True)
class _Counted:
    """The pods that must start together. `doubt` is why they may miss a valid placement."""

    pods: tuple[Pods, ...] = ()
    note: str = ""
    doubt: str = ""
    is_one_by_one: bool = False
    """Whether they differ in size and are placed one after the other."""


def _gang(
    root: Field, name: str, spec: Field, members: _Members, cluster: ClusterFacts
) -> Workload:
    """The workload of a PodGroup, or of a Job's own gang."""
    level = _level(spec, cluster)
    gang = spec / "schedulingPolicy" / "gang"
    least = _min_count(name, gang, members)
    counted = _counted(members, least, level)
    group = Group(name, counted.pods, required=level)
    certain: tuple[Group, ...] = ()
    if counted.is_one_by_one:
        pods = largest(counted.pods)
        certain = (replace(group, pods=(pods,)),)
    workload = _workload(root, group, counted.pods, counted.note)
    return replace(
        workload,
        certain=certain,
        doubt=counted.doubt,
    )


def _min_count(name: str, gang: Field, members: _Members) -> int | None:
    """How many pods must start together; None if they are not a gang."""
    if not gang:
        return None
    field = gang / "minCount"
    least = field.number(members.least, least=1)
    if members.pods and members.count < least and not members.are_of_job:
        text = "waiting for minCount pods from a gang to appear in scheduling queue"
        fix = f"{members.count} of {least} pods of PodGroup {name} are known"
        field.warn("kube-scheduler/min-count", text, fix)
    return least


def _counted(members: _Members, least: int | None, level: Level | None) -> _Counted:
    """The pods that must start together; `least` is minCount, None if they are not a gang."""
    kinds = members.kinds()
    if not kinds:
        note = (
            "no pods of the PodGroup are known, so room is not checked; also give the files of "
            "its pods"
        )
        return _Counted(note=note)

    is_basic = least is None and level is not None
    if len(kinds) == 1:
        (only,) = kinds
        return _counted_alike(only, members.count, least, is_basic=is_basic)

    total = members.count
    if least is not None and least != total:
        note = (
            f"minCount is {least} of {total} pods of several sizes; it is unknown which of them "
            "count, so room is not checked"
        )
        return _Counted(note=note)
    pods = [replace(kind, count=count) for kind, count in kinds.items()]
    doubt = _BASIC if is_basic else _ONE_BY_ONE
    return _Counted(tuple(pods), doubt=doubt, is_one_by_one=not is_basic)


def _counted_alike(kind: Pods, total: int, least: int | None, *, is_basic: bool) -> _Counted:
    """How many of identical pods must start together."""
    count = total
    note = ""
    if least is not None and least != total:
        count = least
        if least < total:
            note = f"room is counted for the {least} pods of minCount, of {total}"
    doubt = ""
    if is_basic and total > 1:
        doubt = _BASIC
    pods = replace(kind, count=count)
    return _Counted((pods,), note, doubt)


def largest(kinds: Sequence[Pods]) -> Pods:
    """As many pods, each with the largest request for every resource, on nodes open to all.

    If these fit, the real pods also fit one by one: as long as one is left, some node has room for
    it.
    """
    count = 0
    requests: dict[str, int] = {}
    filters: list[NodeFilter] = []
    for pods in kinds:
        count += pods.count
        filters.append(pods.node_filter)
        for resource, amount in pods.requests:
            before = requests.get(resource, 0)
            requests[resource] = max(amount, before)
    ordered = sorted(requests.items())
    nodes = _everybodys_nodes(filters)
    return Pods("pods", count, tuple(ordered), nodes)


def _everybodys_nodes(filters: Sequence[NodeFilter]) -> NodeFilter:
    """The nodes that each of these filters allows."""
    selector: set[tuple[str, str]] = set()
    alternatives: list[_Terms] = []
    volumes: dict[VolumePlace, None] = {}
    for node_filter in filters:
        selector.update(node_filter.selector)
        if node_filter.terms and node_filter.terms not in alternatives:
            alternatives.append(node_filter.terms)
        volumes.update(dict.fromkeys(node_filter.volumes))

    tolerations = []
    for toleration in filters[0].tolerations:
        if all(toleration in node_filter.tolerations for node_filter in filters):
            tolerations.append(toleration)
    return NodeFilter(
        tuple(sorted(selector)),
        _everybodys_terms(alternatives),
        tuple(tolerations),
        tuple(volumes),
    )


def _everybodys_terms(alternatives: Sequence[_Terms]) -> _Terms:
    """Terms that match where one of each of these matches; an empty one matches nothing.

    Nothing either where there are too many combinations: then it is unclear whether the pods fit.
    """
    if not alternatives:
        return ()
    matching = []
    for terms in alternatives:
        matching.append([term for term in terms if term] or [()])
    if prod(map(len, matching)) > _MOST_TERMS:
        return ((),)
    together = []
    for chosen in product(*matching):
        joined: tuple[Expression, ...] = ()
        if all(chosen):
            for term in chosen:
                joined += term
        together.append(joined)
    return tuple(together)


def _workload(root: Field, group: Group, pods: Sequence[Pods], note: str) -> Workload:
    levels: tuple[Level, ...] = ()
    if group.required is not None:
        levels = (group.required,)
    notes: tuple[str, ...] = ()
    if note:
        notes = (note,)
    return Workload(
        NAME,
        handle_of(root),
        (group,),
        levels=levels,
        is_placeable=bool(pods),
        notes=notes,
    )
