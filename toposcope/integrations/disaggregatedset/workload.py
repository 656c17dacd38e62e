"""DisaggregatedSet: slices of all roles, each of which may have a domain of its own.

Rules and messages: webhook and controller of DisaggregatedSets, August 2026. Each role of each
slice becomes a set of groups of pods. A policy gives their pods affinity to those of their slice
and anti-affinity to other slices, over one node label, within the namespace. Slices are not placed
as a whole: the first pod chooses the domain.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from toposcope.api.levels import Level
from toposcope.integrations.disaggregatedset.api import (
    DISAGGREGATED_SETS,
    EXCLUSIVE_SLICE,
    EXCLUSIVE_TOPOLOGY,
    NONE,
    SET_OF,
    SLICE,
    policy_of,
)
from toposcope.integrations.framework.constraints import Group, Holder, Pods, Workload
from toposcope.integrations.framework.document import (
    Field,
    handle_of,
    kind_of,
    name_of,
    namespace_of,
)
from toposcope.integrations.framework.exclusive import exclusive_level, holders, kept_off
from toposcope.integrations.framework.levels import did_you_mean
from toposcope.integrations.framework.pods import leader_worker_set
from toposcope.integrations.framework.system import ClusterFacts, Reading, System

_TYPES: Final = (NONE, EXCLUSIVE_SLICE, EXCLUSIVE_TOPOLOGY)
_LEAST_ROLES: Final = 2
_EXTERNAL: Final = "External"
_EXCLUSIVE: Final = "exclusive-topology"
"""Suffix of the annotations by which groups, or parts of them, have a domain each."""


def _claims(document: Mapping[str, Any]) -> bool:
    return kind_of(document) == DISAGGREGATED_SETS.key


@dataclass(frozen=True, slots=True)
class _Role:
    """The replicas of one role in one slice."""

    name: str
    pods: tuple[Pods, ...]
    replicas: int

    @property
    def group(self) -> Group:
        """Its replicas, which nothing keeps together."""
        replica = Group.part_of(self.name, "replica", self.pods)
        return replace(replica, copies=self.replicas)


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    del before  # the same rules hold for a change
    spec = root / "spec"
    roles = tuple(_roles(spec))
    slices = (spec / "slices").number(1, least=1)
    _check_roles(spec, roles)
    level = _level(root, cluster)
    held = _held(root, cluster, level)
    workload = Workload(
        "DisaggregatedSet",
        handle_of(root),
        (_slice(roles, slices, level, held),),
        levels=(level,) if level else (),
        holders=held,
        once_left=(_slice(roles, slices, level, ()),) if held else (),
        unknown=_unknown(spec),
    )
    return Reading(workload)


SYSTEM: Final = System("DisaggregatedSet", _claims, _read)
READERS: Final = (SYSTEM,)


def _roles(spec: Field) -> Iterator[_Role]:
    roles = spec / "roles"
    for role in roles.items():
        structure = leader_worker_set(role)
        yield _Role(
            name=_name(role),
            pods=structure.whole,
            replicas=structure.copies,
        )


def _name(role: Field) -> str:
    name = role / "name"
    return name.text() or role.path


def _check_roles(spec: Field, roles: Sequence[_Role]) -> None:
    """Note what the webhook and the schema reject about roles."""
    field = spec / "roles"
    if len(roles) < _LEAST_ROLES:
        text = f"has {len(roles)} roles, must have at least {_LEAST_ROLES}"
        field.error("disaggregatedset/roles", text, "add a role")
        return
    running = 0
    for role in roles:
        if role.replicas:
            running += 1
    is_mixed = 0 < running < len(roles)
    if is_mixed and not _external_roles(spec):
        text = "replicas must be zero for all non-External roles or non-zero for all of them"
        field.error("disaggregatedset/roles", text, "scale all roles to zero, or none")


def _external_roles(spec: Field) -> list[str]:
    """The roles whose replicas another object sets."""
    names = []
    roles = spec / "roles"
    for role in roles.items():
        mode = role / "scaling" / "mode"
        if mode.text() == _EXTERNAL:
            name = _name(role)
            names.append(name)
    return names


def _unknown(spec: Field) -> str:
    """What is unknown about its pods; empty if nothing."""
    external = _external_roles(spec)
    if external:
        names = ", ".join(external)
        return f"a DisaggregatedSetRoleScaler sets the replicas of {names}, which is not read here"
    for role in (spec / "roles").items():
        for annotation in _exclusive_annotations(role):
            return f"{annotation.path} places groups within a slice, which is not read here"
    return ""


def _exclusive_annotations(role: Field) -> Iterator[Field]:
    """The annotations by which the groups of a role have a domain each."""
    template = role / "spec" / "leaderWorkerTemplate"
    leader = template / "leaderTemplate"
    worker = template / "workerTemplate"
    for place in (role, leader, worker):
        annotations = place / "metadata" / "annotations"
        for key, annotation in annotations.properties():
            if key.endswith(_EXCLUSIVE):
                yield annotation


def _level(root: Field, cluster: ClusterFacts) -> Level | None:
    """The level that each slice stays within; None if it may go anywhere."""
    policy = policy_of(root)
    type_field = policy / "type"
    kind = type_field.text() or NONE
    if kind not in _TYPES:
        text = f"Unsupported value: {kind!r}"
        type_field.error("disaggregatedset/policy", text, did_you_mean(kind, _TYPES))
        return None
    if kind == NONE:
        return None
    topology = policy / "topology"
    if not topology.text():
        text = "topology is required when type is not None"
        topology.error("disaggregatedset/policy", text, "set the node label of a domain")
        return None
    for role in (root / "spec" / "roles").items():
        for annotation in _exclusive_annotations(role):
            text = (
                "the annotation must not be combined with a non-None "
                f"spec.placementPolicy.type ({kind})"
            )
            annotation.error("disaggregatedset/policy", text, "remove one of them")
    message = "no pod of a slice finds a domain: no node has the label"
    return exclusive_level(topology, cluster, "disaggregatedset/label-exists", message)


def _held(root: Field, cluster: ClusterFacts, level: Level | None) -> tuple[Holder, ...]:
    """The domains that slices of other sets hold; empty if domains may be shared."""
    kind = policy_of(root) / "type"
    if level is None or kind.text() != EXCLUSIVE_TOPOLOGY:
        return ()
    own_name = name_of(root)
    namespace = namespace_of(root)
    others = []
    pods = cluster.exclusive_pods.get(SLICE, ())
    for pod in pods:
        is_own = pod.labels.get(SET_OF) == own_name
        if pod.namespace == namespace and not is_own:
            others.append(pod)
    of_others = replace(cluster, exclusive_pods={SLICE: tuple(others)})
    return holders(of_others, level, SLICE, "disaggregatedset", SET_OF)


def _slice(
    roles: Sequence[_Role], slices: int, level: Level | None, held: Sequence[Holder]
) -> Group:
    """The slice with all roles, once for each slice."""
    occupied = tuple(holder.domain for holder in held)
    below = []
    for role in roles:
        pods = []
        for kind in role.pods:
            kept = kept_off(kind, level.key, occupied) if level else kind
            pods.append(kept)
        in_slice = replace(role, pods=tuple(pods))
        below.append(in_slice.group)

    group = Group("slice", groups=tuple(below), required=level, copies=slices)
    if level is None:
        return group
    first = _first_pod(below)
    return replace(group, anti_affinity=SLICE, leader=first)


def _first_pod(roles: Sequence[Group]) -> Pods | None:
    """The pod of a slice that may be placed first; None without pods.

    It is the one with the smallest requests, which fits the most domains.
    """
    kinds = []
    for role in roles:
        kinds += [kind for kind in role.pods if kind.count and role.copies]
    if not kinds:
        return None
    first = min(kinds, key=_amounts)
    return replace(first, count=1)


def _amounts(pods: Pods) -> tuple[int, int]:
    """How many resources a pod requests besides CPU and memory, and how much of them."""
    devices = [amount for resource, amount in pods.requests if "/" in resource]
    return len(devices), sum(devices)
