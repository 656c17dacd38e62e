"""kube-scheduler's own gangs.

What PodGroups and the pods that name them ask for, for `check` and `explain`. Rules and messages:
Kubernetes 1.36 (TopologyPlacementGenerator, GangScheduling, the validation of scheduling.k8s.io).
Of all nodes with the constraint's label those of one value are a placement, and nodes without it
are in none. In each placement pods are taken one by one, none is taken back, and `minCount` of them
must find a node.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Group, PodGroupName, Pods, Workload
from toposcope.integrations.framework.document import (
    Field,
    handle_of,
    kind_of,
    name_of,
    namespace_of,
)
from toposcope.integrations.framework.exclusive import exclusive_level
from toposcope.integrations.framework.levels import did_you_mean
from toposcope.integrations.framework.node_affinity import NodeFilter
from toposcope.integrations.framework.pods import Structure, structure_of
from toposcope.integrations.framework.system import ClusterFacts, Reading, System
from toposcope.integrations.kubernetes.api import (
    COMPOSITES,
    POD_GROUPS,
    WORKLOADS,
    keys_of,
    templates_of,
)
from toposcope.integrations.kubernetes.hierarchy import Tree, around, parent_of

NAME: Final = "kube-scheduler"
NO_PLACEMENT: Final = "no feasible placements found"
GATES: Final = (
    "switch on the feature gates GenericWorkload, GangScheduling and TopologyAwareWorkloadScheduling of kube-apiserver "
    "and kube-scheduler, and serve the API: --runtime-config=scheduling.k8s.io/v1alpha2=true"
)
_JOB: Final = ("batch", "Job")
_ONE_BY_ONE: Final = "kube-scheduler takes pods of different sizes one by one and takes none back, so it may miss a place"
_BASIC: Final = (
    "with schedulingPolicy.basic kube-scheduler may take a domain that has room for some of the pods only, and the "
    "others wait for it: say gang with minCount"
)


def group_of(spec: Field) -> str:
    """The PodGroup that a pod spec names; empty: none."""
    return (spec / "schedulingGroup" / "podGroupName").text() or ""


def members_of_documents(
    documents: Iterable[Mapping[str, Any]],
) -> dict[PodGroupName, tuple[Pods, ...]]:
    """The pods of workloads whose templates name a PodGroup, by PodGroup."""
    groups: dict[PodGroupName, tuple[Pods, ...]] = {}
    for document in documents:
        # most have none, and reading a workload takes longer than this
        if "schedulingGroup" in str(document):
            for name, pods in _named(Field(document)).items():
                groups[name] = (*groups.get(name, ()), *pods)
    return groups


def _named(root: Field) -> dict[PodGroupName, tuple[Pods, ...]]:
    groups: dict[PodGroupName, tuple[Pods, ...]] = {}
    structure = structure_of(root) or Structure(())
    for pod_set in structure.sets:
        if name := group_of(pod_set.template / "spec"):
            known = groups.setdefault((namespace_of(root), name), ())
            groups[namespace_of(root), name] = (
                *known,
                pod_set.some(pod_set.count * structure.copies),
            )
    return groups


def _claims(document: Mapping[str, Any]) -> bool:
    """The kinds of scheduling.k8s.io, Jobs with `spec.scheduling`.

    And whatever has pods that name a PodGroup.
    """
    kind = kind_of(document)
    if kind in (POD_GROUPS.key, COMPOSITES.key, WORKLOADS.key):
        return True
    root = Field(document)
    if kind == _JOB and root / "spec" / "scheduling":
        return True
    return "schedulingGroup" in str(document) and bool(_named(root))


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    del before  # PodGroups are immutable, and pods keep theirs
    kind = kind_of(root.value)
    if kind == WORKLOADS.key:
        for template in templates_of(root):
            _level(template, cluster)
        return Reading(subject=f"a Workload of {NAME}")
    if POD_GROUPS.name in cluster.unserved:
        text = f"the cluster does not serve {POD_GROUPS.name}, and the API server silently drops fields that ask for it"
        root.error("kube-scheduler/served", text, GATES)
    if kind == COMPOSITES.key:
        return Reading(_tree(root, root, cluster))
    if kind == POD_GROUPS.key:
        return Reading(
            _tree(root, root, cluster) if parent_of(root) else _of_group(root, root, cluster)
        )
    structure = structure_of(root) or Structure(())
    if kind == _JOB and root / "spec" / "scheduling":
        scheduling = root / "spec" / "scheduling"
        return Reading(
            _gang(root, name_of(root, "Job"), scheduling, structure.whole, cluster, structure.whole)
        )
    first, *others = [_of_named(root, name, pods, cluster) for name, pods in _named(root).items()]
    return Reading(first, stages=tuple(others))


SYSTEM: Final = System(NAME, _claims, _read)


def _of_named(
    root: Field, name: PodGroupName, own: Sequence[Pods], cluster: ClusterFacts
) -> Workload:
    """The pods of a PodGroup that a document names."""
    known = cluster.objects.get(POD_GROUPS.key)
    found = next(
        (item for item in known or () if (namespace_of(Field(item)), name_of(Field(item))) == name),
        None,
    )
    if found is not None:
        named = Field(found)
        if name not in cluster.gangs:
            cluster = replace(cluster, gangs={**cluster.gangs, name: tuple(own)})
        return _tree(root, named, cluster) if parent_of(named) else _of_group(root, named, cluster)
    group = Group(name[1], tuple(own))
    if known is None:
        return _workload(
            root,
            group,
            (),
            f"PodGroup {name[1]} is not known: room is not checked; give its file, too",
        )
    text = f'waiting for pods\'s pod group "{name[1]}" to appear in scheduling queue'
    names = [name_of(Field(item)) for item in known if namespace_of(Field(item)) == name[0]]
    root.error(
        "kube-scheduler/pod-group",
        text,
        did_you_mean(name[1], names) or f"create the PodGroup {name[1]} first",
    )
    return _workload(root, group, (), "room is not checked before there is its PodGroup")


def _of_group(root: Field, group: Field, cluster: ClusterFacts) -> Workload:
    """One PodGroup, for the document that it, or its pods, are in."""
    name = name_of(group, "PodGroup")
    return _gang(
        root, name, group / "spec", cluster.gangs.get((namespace_of(group), name), ()), cluster
    )


def _tree(root: Field, group: Field, cluster: ClusterFacts) -> Workload:
    """The whole tree of a PodGroup or CompositePodGroup, which starts as one."""
    namespace = namespace_of(root)
    composites, pod_groups = (
        {
            name_of(raw): raw
            for raw in map(Field, cluster.objects.get(kind.key, ()))
            if namespace_of(raw) == namespace
        }
        for kind in (COMPOSITES, POD_GROUPS)
    )
    (composites if kind_of(group.value) == COMPOSITES.key else pod_groups)[name_of(group)] = group
    top, missing = around(group, composites)
    if missing:
        field = group / "spec" / "parentCompositePodGroupName"
        if COMPOSITES.key in cluster.objects:
            text = (
                f"there is no tree with CompositePodGroup {missing}, and nothing is bound without"
            )
            field.error(
                "kube-scheduler/parent",
                text,
                did_you_mean(missing, composites) or "create it first",
            )
        workload = _of_group(root, group, cluster)
        return replace(
            workload,
            notes=(*workload.notes, f"what CompositePodGroup {missing} asks for is left aside"),
        )
    tree = Tree(
        composites,
        pod_groups,
        lambda spec: _level(spec, cluster),
        lambda one: _of_group(root, one, cluster),
    )
    groups, levels = (tree.group(top),), tree.levels
    unknown = [why if ": room is" in why else f"{why}: room is not checked" for why in tree.unknown]
    notes, doubt = (*tree.notes, *unknown), tree.doubt
    return Workload(NAME, handle_of(root), groups, None, levels, not unknown, notes, doubt=doubt)


def _level(group: Field, cluster: ClusterFacts) -> Level | None:
    """The label of a group's constraint, as a level; None where it has none."""
    keys = list(keys_of(group))
    if len(keys) > 1:
        field = group / "schedulingConstraints" / "topology"
        field.error(
            "kube-scheduler/one-constraint",
            f"Too many: {len(keys)}: must have at most 1 item",
            "keep one key",
        )
    return (
        exclusive_level(keys[0], cluster, "kube-scheduler/label-exists", NO_PLACEMENT)
        if keys
        else None
    )


@dataclass(frozen=True, slots=True)
class _Counted:
    """The pods that must start together.

    `doubt`: why these may find no place where there is one for all.
    """

    pods: tuple[Pods, ...] = ()
    note: str = ""
    doubt: str = ""


def _gang(
    root: Field,
    name: str,
    spec: Field,
    members: Sequence[Pods],
    cluster: ClusterFacts,
    alike: Sequence[Pods] | None = None,
) -> Workload:
    """One PodGroup, or a Job's own; `alike`: all of its pods, which minCount defaults to."""
    level = _level(spec, cluster)
    gang = spec / "schedulingPolicy" / "gang"
    total = sum(pods.count for pods in members)
    least = (gang / "minCount").number(total if alike is not None else 1, least=1) if gang else None
    if members and least and total < least:
        text = "waiting for minCount pods from a gang to appear in scheduling queue"
        fix = f"{total} of {least} pods of PodGroup {name} are known"
        (gang / "minCount").warn("kube-scheduler/min-count", text, fix)
    counted = _counted(members, total, least, level)
    group = Group(name, counted.pods, required=level)
    workload = _workload(root, group, counted.pods, counted.note)
    certain = (
        (replace(group, pods=(largest(counted.pods),)),) if counted.doubt == _ONE_BY_ONE else ()
    )
    return replace(workload, certain=certain, doubt=counted.doubt)


def _counted(
    members: Sequence[Pods], total: int, least: int | None, level: Level | None
) -> _Counted:
    kinds: Counter[Pods] = Counter()
    for pods in members:
        kinds[replace(pods, name="pods", count=1)] += pods.count
    if not kinds:
        return _Counted(
            note="no pods of the PodGroup are known: room is not checked; give the files of its pods, too"
        )
    if len(kinds) == 1:
        (only,) = kinds
        note = (
            f"room is for the {least} pods of minCount, of {total}"
            if least and least < total
            else ""
        )
        doubt = _BASIC if least is None and level and total > 1 else ""
        return _Counted((replace(only, count=least or total),), note, doubt)
    if least not in (None, total):
        note = f"minCount is {least} of {total} pods of several sizes: which of them count is not known"
        return _Counted(note=f"{note}: room is not checked")
    each = tuple(replace(pods, count=count) for pods, count in kinds.items())
    return _Counted(each, doubt=_BASIC if least is None and level else _ONE_BY_ONE)


def largest(kinds: Sequence[Pods]) -> Pods:
    """As many pods, each of which takes what the largest takes of everything.

    And goes where each of them may go. Where all of these fit, pods taken one by one always do: as
    long as one is left, some node has room for it.
    """
    requests: dict[str, int] = {}
    for resource, amount in (request for pods in kinds for request in pods.requests):
        requests[resource] = max(amount, requests.get(resource, 0))
    filters = [pods.node_filter for pods in kinds]
    terms = [[term for term in of.terms if term] or [()] for of in filters if of.terms]
    together = (
        tuple(sum(chosen, ()) if all(chosen) else () for chosen in product(*terms)) if terms else ()
    )
    tolerations = [
        shared
        for shared in filters[0].tolerations
        if all(shared in of.tolerations for of in filters)
    ]
    selector = tuple(sorted({pair for of in filters for pair in of.selector}))
    nodes = NodeFilter(selector, together, tuple(tolerations))
    return Pods("pods", sum(pods.count for pods in kinds), tuple(sorted(requests.items())), nodes)


def _workload(root: Field, group: Group, pods: Sequence[Pods], note: str) -> Workload:
    levels = (group.required,) if group.required else ()
    notes = (note,) if note else ()
    return Workload(
        NAME, handle_of(root), (group,), levels=levels, placeable=bool(pods), notes=notes
    )
