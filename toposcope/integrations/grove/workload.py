"""Grove's PodCliqueSet: constraints on the set, its scaling groups and its cliques.

A constraint applies to each replica of its object. Rules: `constraint`, `admission`,
`schedulers` and, for changes, `update`.

The backend places each PodGang at once. Source: Grove v0.1.0-alpha.12
(podcliqueset/components/podgang/syncflow.go), the backend's 0.17. The base PodGang of a replica of
the set holds its cliques and, of each scaling group, `minAvailable` replicas; every further replica
is a PodGang of its own, with the scaling group's constraint or else the set's. A PodGang starts
with `minAvailable` pods of each clique; the backend adds the others one by one, if the clique's
constraint leaves room. So a set starts once its base PodGangs fit.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import (
    Group,
    Pods,
    Workload,
    count_of_pods,
    starts_with,
)
from toposcope.integrations.framework.document import Field, Note, handle_of, kind_of, name_of
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.pod_creation import DEFAULT_SCHEDULER
from toposcope.integrations.framework.pods import pods_of
from toposcope.integrations.framework.system import (
    ClusterFacts,
    Reading,
    System,
    is_change,
)
from toposcope.integrations.framework.unknown_fields import check_fields, schema
from toposcope.integrations.grove import backend
from toposcope.integrations.grove.admission import check_parts
from toposcope.integrations.grove.api import (
    CLIQUE_GROUP,
    POD_CLIQUE_SETS,
    SCALED_GROUP,
    clique_names,
    clique_replicas,
)
from toposcope.integrations.grove.constraint import (
    GroveConstraints,
    TopologyConstraint,
    check_schema,
    known_topology,
)
from toposcope.integrations.grove.mnnvl import (
    channel_claim,
    check_groups,
    check_groups_unchanged,
    groups_of,
)
from toposcope.integrations.grove.schedulers import check_schedulers, queue_of
from toposcope.integrations.grove.sharing import check_sharing, shared_claims
from toposcope.integrations.grove.update import check_unchanged, is_repair

_SCALED: Final = (
    f"{backend.TITLE} places replicas of a scaling group beyond its minAvailable separately, so "
    "not always in the {} of the others"
)


def pod_gangs(
    pod_clique_set: Group, least: Mapping[str, int], pods: Mapping[str, int]
) -> Iterator[Group]:
    """The gangs of a set, each of which starts together; the first one is the base.

    `least` is `minAvailable` of scaling groups, `pods` that of cliques, by name of group.
    """
    base = []
    scaled = []
    for below in pod_clique_set.groups:
        group = _started(below, pods)
        least_copies = least.get(group.name, group.copies)
        first = min(least_copies, group.copies)
        base.append(replace(group, copies=first))

        copies = (group.copies - first) * pod_clique_set.copies
        if not copies:
            continue
        further = replace(group, copies=copies)
        if not (group.required or group.preferred):
            further = replace(
                further,
                required=pod_clique_set.required,
                preferred=pod_clique_set.preferred,
            )
        scaled.append(further)

    base.sort(key=_name)
    yield replace(pod_clique_set, groups=tuple(base))
    yield from scaled


def notes_of(pod_clique_set: Group, gangs: Sequence[Group]) -> Iterator[str]:
    """The notes of `check` on a set whose parts do not all start together."""
    minimum = count_of_pods(gangs)
    total = count_of_pods([pod_clique_set])
    if minimum < total:
        yield starts_with(backend.TITLE, minimum, total)
    if len(gangs) > 1 and pod_clique_set.required:
        yield _SCALED.format(pod_clique_set.required.domain)


def _started(group: Group, pods: Mapping[str, int]) -> Group:
    """The group with only the pods of each clique that start together."""
    kinds = []
    for kind in group.pods:
        started = pods.get(group.name, kind.count)
        count = min(kind.count, started)
        kinds.append(replace(kind, count=count))
    groups = []
    for below in group.groups:
        groups.append(_started(below, pods))
    return replace(group, pods=tuple(kinds), groups=tuple(groups))


def _name(group: Group) -> str:
    return group.own_name


_LEVEL_RULES: Final = frozenset(
    {
        "grove/topology-exists",
        "grove/topology-name",
        "grove/one-topology",
        "grove/domain-exists",
        "grove/domain-pattern",
        "grove/pack",
        "grove/field",
    }
)
"""Rules whose violation makes it unknown what must stay together."""
_NOT_KEPT: Final = (
    f"{DEFAULT_SCHEDULER} ignores topology constraints, so it is unknown where its pods would run"
)
_NEVER_PLACED: Final = (
    f"{backend.TITLE} 0.17 never schedules a group whose preferred level is broader than its "
    "required one"
)
_FOLLOWED: Final = ("", DEFAULT_SCHEDULER, backend.SCHEDULER, "volcano")
"""Schedulers for which room is checked; empty for Grove's default, which is unknown."""
_DISABLED: Final = "topology constraints are not allowed when Topology Aware Scheduling is disabled"


class _Set:
    """A PodCliqueSet, its previous version, and its constraints."""

    def __init__(self, root: Field, cluster: ClusterFacts, before: Field | None) -> None:
        self._root = root
        self._template = root / "spec" / "template"
        self._cluster = cluster
        self._before = before
        self.constraints = GroveConstraints.of(self._template)
        self._old: GroveConstraints | None = None
        if before is not None:
            self._old = GroveConstraints.of(before / "spec" / "template")
        self.topology_name: str | None = None
        self.topology: TopologyLevels | None = None

    @property
    def levels_first(self) -> tuple[str, ...]:
        """The note on a set whose levels are wrong."""
        return self._cluster.levels_first

    @property
    def is_constrained(self) -> bool:
        """Whether any part of it has a constraint."""
        return any(True for _ in self.constraints)

    def check_constraints(self) -> None:
        """Note what is wrong with the constraints, and find the topology that they name."""
        note = self._note()
        constraints = self.constraints
        self.topology_name, self.topology = known_topology(constraints, self._cluster, note)
        old_values = []
        if self._old is not None:
            old_values = [constraint.field.value for constraint in self._old]
        check_schema(constraints, self.topology, old_values, is_new=self._before is None)
        if self.topology:
            constraints.check_levels(self.topology, note)

        operator = self._cluster.profiles
        if operator and not operator.is_topology_aware:
            fix = "enable it in Grove's chart: config.topologyAwareScheduling.enabled: true"
            for constraint in constraints:
                note(constraint.field, "grove/disabled", _DISABLED, fix)

    def _note(self) -> Note:
        """The severity of wrong levels.

        Grove does not check those of a change, unless they lacked the topology's name.
        """
        if self._old is None or not is_change(self._root, self._before):
            return Field.error
        if is_repair(self._old):
            return Field.error
        return Field.warn

    def check_rest(self) -> str:
        """Note what is wrong with everything else.

        Returns the scheduler of its pods, empty if unknown.
        """
        root = self._root
        before = self._before
        check_parts(root, is_new=before is None)
        check_sharing(root)
        if before is not None and self._old is not None:
            old_template = before / "spec" / "template"
            check_unchanged(self._template, old_template, self.constraints, self._old)
            check_groups_unchanged(root, before)
        else:
            check_groups(root, self._cluster.profiles)
        return check_schedulers(
            root,
            self._cluster.profiles,
            has_constraint=self.is_constrained,
            is_submitted=before is None or is_change(root, before),
        )


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    set_schema = schema("grove", POD_CLIQUE_SETS.kind)
    check_fields(root, set_schema, "grove/field", "Grove v0.1.0-alpha.12")
    clique_set = _Set(root, cluster, before)
    clique_set.check_constraints()
    scheduler = clique_set.check_rest()
    redundant = _check_preferred(clique_set.constraints, clique_set.topology)
    group = _tree(root, clique_set, scheduler)

    rules = {finding.rule for finding in root.findings}
    unplaced = _why_unplaced(clique_set, scheduler, rules, has_redundant_level=redundant)
    workload = Workload(
        system="Grove",
        handle=handle_of(root),
        groups=(group,),
        topology=clique_set.topology_name,
        is_placeable=unplaced is None,
        notes=unplaced or (),
    )
    if scheduler == backend.SCHEDULER and "grove/hierarchy" not in rules:
        workload = _with_gangs(root, workload, group)
    return Reading(workload)


def _why_unplaced(
    clique_set: _Set, scheduler: str, rules: Collection[str], *, has_redundant_level: bool
) -> tuple[str, ...] | None:
    """Why a set cannot be placed, as notes; None if it can."""
    if not _LEVEL_RULES.isdisjoint(rules):
        return clique_set.levels_first
    if clique_set.is_constrained and scheduler == DEFAULT_SCHEDULER:
        return (_NOT_KEPT,)
    if has_redundant_level:
        return (_NEVER_PLACED,)
    if scheduler not in _FOLLOWED:
        return (f"{scheduler} places its pods by its own rules, so room is not checked",)
    return None


def _with_gangs(root: Field, workload: Workload, group: Group) -> Workload:
    """The workload with its gangs and its queue."""
    template = root / "spec" / "template"
    gangs = _gangs_of(template, group)
    notes = workload.notes
    if workload.is_placeable:
        notes = tuple(notes_of(group, gangs))
    priority = (template / "priorityClassName").text() or ""
    queue = queue_of(root)
    return replace(
        workload,
        notes=notes,
        gang=True,
        pod_groups=gangs,
        least=gangs[:1],
        queue=str(queue.value) if queue else "",
        queue_field=queue.path if queue else "",
        is_preemptible=backend.PREEMPTIBLE.get(priority, True),
    )


def _gangs_of(template: Field, group: Group) -> tuple[Group, ...]:
    least_groups = _least(template, "podCliqueScalingGroups", SCALED_GROUP)
    least_pods = _least(template, "cliques", CLIQUE_GROUP)
    return tuple(pod_gangs(group, least_groups, least_pods))


SYSTEM: Final = System(
    "Grove", lambda document: kind_of(document) == POD_CLIQUE_SETS.key, _read, "grove"
)
READERS: Final = (SYSTEM,)


def _check_preferred(constraints: GroveConstraints, topology: TopologyLevels | None) -> bool:
    """Warn about preferred levels that are not narrower than required ones.

    Returns whether one is broader.
    """
    redundant = False
    for constraint in constraints:
        required = _level(topology, constraint.required)
        preferred = _level(topology, constraint.preferred)
        if topology is None or required is None or preferred is None:
            continue

        field = constraint.preferred_field
        steps_down = topology.rank(preferred) - topology.rank(required)
        if steps_down < 0:
            redundant = True
            required_path = constraint.required_field.path
            text = f"{field.path} is coarser than {required_path} and is redundant"
            fix = f"remove it, or name a narrower level: {_NEVER_PLACED}"
            field.warn("grove/preferred-no-effect", text, fix)
        elif steps_down == 0:
            text = (
                f"preferred {preferred.domain!r} is not narrower than the required level, "
                "so it has no effect"
            )
            field.warn("grove/preferred-no-effect", text, "name a narrower level, or remove it")
    return redundant


def _level(topology: TopologyLevels | None, domain: str) -> Level | None:
    if topology is None:
        return None
    return topology.by_domain(domain)


def _tree(root: Field, clique_set: _Set, scheduler: str) -> Group:
    """The whole set; each of its replicas is kept together separately."""
    constraints = clique_set.constraints
    topology = clique_set.topology
    template = root / "spec" / "template"
    ungrouped: dict[str, Group] = {}
    claims = _Claims(root)
    places = (template / "cliques").items()
    for constraint, place in zip(constraints.cliques, places, strict=True):
        name = constraint.name or place.path
        pods = claims.added_to(_pods_of_clique(name, place, scheduler))
        clique = Group.of_kind(CLIQUE_GROUP, name, (pods,))
        ungrouped[name] = _constrained(clique, constraint, topology)

    below = []
    places = (template / "podCliqueScalingGroups").items()
    for constraint, place in zip(constraints.groups, places, strict=True):
        members = []
        for name in clique_names(place):
            if name in ungrouped:
                members.append(ungrouped.pop(name))
        scaling_group = Group.of_kind(SCALED_GROUP, constraint.name or place.path)
        copies = (place / "replicas").number(1)
        scaling_group = replace(scaling_group, groups=tuple(members), copies=copies)
        below.append(_constrained(scaling_group, constraint, topology))
    below += ungrouped.values()

    name = name_of(root, POD_CLIQUE_SETS.kind)
    replicas = root / "spec" / "replicas"
    set_group = Group(name, groups=tuple(below), copies=replicas.number(1))
    return _constrained(set_group, constraints.top, topology)


def _pods_of_clique(name: str, clique: Field, scheduler: str) -> Pods:
    spec = clique / "spec"
    pods = pods_of(name, clique_replicas(spec), spec / "podSpec", labels=clique / "labels")
    if scheduler != backend.SCHEDULER:
        return pods
    annotations = clique / "annotations"
    backend.check_shares(annotations, spec / "podSpec")
    return backend.with_share_at(pods, annotations)


class _Claims:
    """The claims that Grove adds to pods: shared claims, and claims for channels."""

    def __init__(self, root: Field) -> None:
        self._root = root
        self._shared = shared_claims(root)
        self._groups = groups_of(root)

    def added_to(self, pods: Pods) -> Pods:
        """The pods of a clique, under its name, with their claims."""
        claims = [*pods.claims, *self._shared.get(pods.name, ())]
        group = self._groups.get(pods.name)
        if group:
            channel = channel_claim(self._root, group, pods)
            if channel:
                claims.append(channel)
        return replace(pods, claims=tuple(claims))


def _constrained(
    group: Group, constraint: TopologyConstraint, topology: TopologyLevels | None
) -> Group:
    """The group with its levels. A broader preferred level has no effect."""
    if topology is None:
        return replace(group, required=None, preferred=None)
    required = topology.by_domain(constraint.required)
    preferred = topology.by_domain(constraint.preferred)
    if required and preferred:
        steps_down = topology.rank(preferred) - topology.rank(required)
        if steps_down < 0:
            preferred = None
    return replace(group, required=required, preferred=preferred)


def _least(template: Field, places: str, of: str) -> dict[str, int]:
    """`minAvailable` of each scaling group or clique, by the name of its group.

    The default is 1 for a scaling group, and all replicas for a clique.
    """
    least = {}
    for place in (template / places).items():
        name = (place / "name").text() or place.path
        if of == CLIQUE_GROUP:
            number = (place / "spec" / "minAvailable").number(0)
        else:
            number = (place / "minAvailable").number(0) or 1
        if number:
            least[f"{of} {name}"] = number
    return least
