"""Groups of plain pods, which Kueue admits as one workload: a pod set for each shape of pod.

Source: Kueue 0.19 (pkg/controller/jobs/pod, pkg/util/pod: GenerateRoleHash). Kueue sorts the pod
sets by a hash of the shape, which is unknown until the API server has filled in its defaults.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from toposcope.integrations.framework.constraints import PodGroupName, Pods
from toposcope.integrations.framework.document import Field, kind_of, name_of, namespace_of
from toposcope.integrations.framework.placement import ViewedPod
from toposcope.integrations.framework.pods import PodSet, Structure, pods_of
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.kueue import api
from toposcope.text import plural

_POD: Final = ("", "Pod")
MEMBERS: Final = (api.GROUP, "Pod")
"""The key in `ClusterFacts.objects` of the pods of pod groups, as documents."""
_MOST_DIGITS: Final = 9
"""The longest number of pods that is read, in digits."""


@dataclass(frozen=True, slots=True)
class _Role:
    """What pods of one pod set have in common."""

    hash: str
    """The annotation; empty if unknown."""
    pods: Pods


def group_of(root: Field) -> PodGroupName | None:
    """Namespace and name of the pod group of a Pod; None if it is in none."""
    if kind_of(root.value) != _POD:
        return None
    metadata = root / "metadata"
    name = (metadata / "annotations" / api.POD_GROUP).text()
    name = name or (metadata / "labels" / api.POD_GROUP).text()
    return (namespace_of(root), name) if name else None


def with_members(cluster: ClusterFacts, pods: Iterable[Mapping[str, Any]]) -> ClusterFacts:
    """The facts with these Pods of pod groups; the later of two with one name."""
    documents = cluster.objects.get(MEMBERS, ())
    members: dict[tuple[str, str], Mapping[str, Any]] = {}
    for document in (*documents, *pods):
        root = Field(document)
        identity = namespace_of(root), name_of(root)
        members[identity] = document
    if not members:
        return cluster
    objects = dict(cluster.objects)
    objects[MEMBERS] = tuple(members.values())
    return replace(cluster, objects=objects)


def document_of(pod: ViewedPod) -> dict[str, Any]:
    """A pod of the cluster as a document with the relevant fields."""
    requests = {}
    for resource, amount in pod.requests.items():
        requests[resource] = f"{amount}m" if resource == "cpu" else str(amount)
    spec = {**pod.wants, "containers": [{"resources": {"requests": requests}}]}
    metadata = {
        "name": pod.name,
        "namespace": pod.namespace,
        "labels": dict(pod.labels),
        "annotations": dict(pod.annotations),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@dataclass(frozen=True, slots=True)
class Grouped:
    """The pods of a workload, which may be a pod group."""

    structure: Structure
    is_order_known: bool = True
    """Whether Kueue uses this order of pod sets."""
    note: str = ""


def grouped(root: Field, structure: Structure, cluster: ClusterFacts) -> Grouped:
    """The pod sets of the group of a Pod. Other workloads are returned unchanged."""
    group = group_of(root)
    if group is None:
        return Grouped(structure)
    total = _total(root)
    if not total:
        return Grouped(structure)

    members = _members(root, group, cluster)
    written = root / "metadata" / "annotations" / api.POD_GROUP_FAST
    if written.value == "true" or len(members) == 1:
        return _like_this_one(structure, total)
    return _by_shape(structure.sets[0], members[:total], total)


def _total(root: Field) -> int:
    """The number of pods in the group; 0 if malformed, which is recorded."""
    written = root / "metadata" / "annotations" / api.POD_GROUP_TOTAL
    total = whole_number(written.text() or "")
    if not total:
        fix = f"set {api.POD_GROUP_TOTAL} to a whole number in quotes"
        written.error("kueue/pod-group", "must be the number of pods in the group", fix)
    return total


def whole_number(text: str) -> int:
    """The number, from its first digits if there are too many; 0 if it is not a number."""
    if text.isascii() and text.isdigit():
        return int(text[:_MOST_DIGITS])
    return 0


def _members(root: Field, group: PodGroupName, cluster: ClusterFacts) -> list[Field]:
    """The pods of the group that are known, this one first."""
    members = [root]
    for document in cluster.objects.get(MEMBERS, ()):
        member = Field(document)
        if group_of(member) == group and name_of(member) != name_of(root):
            members.append(member)
    return members


def _like_this_one(structure: Structure, total: int) -> Grouped:
    pod = structure.sets[0]
    all_pods = pod.some(total)
    pod_set = PodSet("pod group", all_pods, pod.template)
    pods = plural(total, "pod")
    note = f"counted as {total} {pods} like this one: the whole pod group"
    return Grouped(Structure((pod_set,)), note=note)


def _by_shape(this: PodSet, members: Sequence[Field], total: int) -> Grouped:
    """A pod set for each shape. Pods that do not exist yet are assumed to be like this one."""
    roles: dict[_Role, list[Field]] = {}
    for member in members:
        roles.setdefault(_role_of(member), []).append(member)

    unknown = total - len(members)
    pod_sets = []
    for role, pods in sorted(roles.items(), key=_hash_first):
        first = pods[0]
        count = len(pods)
        template = first
        if members[0] in pods:
            count += unknown
            template = this.template
        name = "pod group"
        if len(roles) > 1:
            name = name_of(first, "pod")
        of_role = replace(role.pods, name=name, count=count)
        pod_sets.append(PodSet(name, of_role, template))

    all_pods = plural(total, "pod")
    note = f"checked as the {total} {all_pods} of the whole pod group"
    if unknown:
        are = plural(unknown, "is", "are")
        note += f", of which {unknown} {are} assumed to be like this one"
    is_order_known = len(roles) == 1 or all(role.hash for role in roles)
    return Grouped(Structure(tuple(pod_sets)), is_order_known, note)


def _hash_first(entry: tuple[_Role, list[Field]]) -> str:
    role, _ = entry
    return role.hash


def _role_of(pod: Field) -> _Role:
    written = pod / "metadata" / "annotations" / api.ROLE_HASH
    role_hash = written.text() or ""
    pods = pods_of("", 1, pod / "spec")
    return _Role(role_hash, pods)
