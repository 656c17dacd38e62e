"""Grove's PodCliqueSet: constraints on the set, its scaling groups and its cliques.

A constraint holds for each replica of the object that has it. Rules: `constraint`, `admission`,
`schedulers` and, for changes, `update`.

KAI places each PodGang at once. Source: Grove v0.1.0-alpha.12
(podcliqueset/components/podgang/syncflow.go), KAI 0.17. The base PodGang of a replica of the set
holds its cliques and, of each scaling group, `minAvailable` replicas; every further replica is a
PodGang of its own, with the scaling group's constraint or else the set's. A PodGang starts with
`minAvailable` pods of each clique; KAI adds the others one by one, where the clique's constraint
leaves room.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Group, Workload
from toposcope.integrations.framework.document import Field, handle_of, kind_of, name_of
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.pods import pods_of
from toposcope.integrations.framework.system import (
    LEVELS_FIRST,
    ClusterFacts,
    Reading,
    System,
    is_change,
)
from toposcope.integrations.framework.unknown_fields import check_fields, schema
from toposcope.integrations.grove.admission import check_parts
from toposcope.integrations.grove.api import POD_CLIQUE_SETS, clique_names
from toposcope.integrations.grove.constraint import (
    Constraint,
    Constraints,
    check_schema,
    known_topology,
)
from toposcope.integrations.grove.schedulers import KUBE_SCHEDULER, check_schedulers
from toposcope.integrations.grove.update import check_unchanged, is_repair
from toposcope.integrations.kai.api import KAI_SCHEDULER
from toposcope.integrations.kai.gang_size import starts_with

_SCALED: Final = "KAI places replicas of a scaling group beyond its minAvailable by themselves: not always in the {} of the others"


def pod_gangs(whole: Group, least: Mapping[str, int], pods: Mapping[str, int]) -> Iterator[Group]:
    """What starts together; `least` is `minAvailable` of scaling groups, `pods` that of cliques, by name of group."""
    base, scaled = [], []
    for group in (_started(below, pods) for below in whole.groups):
        first = min(least.get(group.name, group.copies), group.copies)
        base.append(replace(group, copies=first))
        required, preferred = group.required, group.preferred
        if not (required or preferred):
            required, preferred = whole.required, whole.preferred
        copies = (group.copies - first) * whole.copies
        scaled.append(replace(group, required=required, preferred=preferred, copies=copies))
    yield replace(whole, groups=tuple(sorted(base, key=_name)))
    yield from (group for group in scaled if group.copies)


def notes_of(whole: Group, gangs: Sequence[Group]) -> Iterator[str]:
    """What `check` says of a set whose parts do not all start together."""
    minimum, total = (
        sum(group.total().get("pods", 0) * group.copies for group in groups)
        for groups in (gangs, (whole,))
    )
    if minimum < total:
        yield starts_with(minimum, total)
    if len(gangs) > 1 and whole.required:
        yield _SCALED.format(whole.required.domain)


def _started(group: Group, pods: Mapping[str, int]) -> Group:
    """The same with the pods of each clique that start together."""
    some = tuple(
        replace(kind, count=min(kind.count, pods.get(group.name, kind.count)))
        for kind in group.pods
    )
    return replace(group, pods=some, groups=tuple(_started(below, pods) for below in group.groups))


def _name(group: Group) -> str:
    return group.name.rpartition(" ")[2]


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
"""Where one of these is broken, it is not known what has to stay together."""
_NOT_KEPT: Final = (
    f"{KUBE_SCHEDULER} keeps no topology constraint: where its pods would land is not known"
)
_NEVER_BY_KAI: Final = (
    "KAI 0.17 schedules nothing whose preferred level is broader than its required one"
)
_DISABLED: Final = "topology constraints are not allowed when Topology Aware Scheduling is disabled"


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    template = root / "spec" / "template"
    check_fields(
        root, schema("grove", POD_CLIQUE_SETS.kind), "grove/field", "Grove v0.1.0-alpha.12"
    )
    constraints = Constraints.of(template)
    old = None if before is None else Constraints.of(before / "spec" / "template")
    # Of a change to an object Grove checks no levels, unless they lacked their topology's name.
    note = (
        Field.error if old is None or is_repair(old) or not is_change(root, before) else Field.warn
    )
    name, topology = known_topology(constraints, cluster, note)
    values = [] if old is None else [constraint.field.value for constraint in old]
    check_schema(constraints, topology, values, is_new=old is None)
    if topology:
        constraints.check_levels(topology, note)
    if cluster.grove and not cluster.grove.topology_aware:
        for constraint in constraints:
            fix = "enable it in Grove's chart: config.topologyAwareScheduling.enabled: true"
            note(constraint.field, "grove/disabled", _DISABLED, fix)
    check_parts(root, is_new=before is None)
    if before is not None and old is not None:
        check_unchanged(template, before / "spec" / "template", constraints, old)
    constrained = any(True for _ in constraints)
    submitted = before is None or is_change(root, before)
    scheduler = check_schedulers(root, cluster.grove, constrained=constrained, submitted=submitted)
    redundant = _check_preferred(constraints, topology)
    group = _tree(root, constraints, topology)
    notes: tuple[str, ...] = ()
    if not _LEVEL_RULES.isdisjoint(finding.rule for finding in root.findings):
        notes = (LEVELS_FIRST,)
    elif constrained and scheduler == KUBE_SCHEDULER:
        notes = (_NOT_KEPT,)
    elif redundant:
        notes = (_NEVER_BY_KAI,)
    placeable = not notes
    gangs: tuple[Group, ...] = ()
    nested = all(finding.rule != "grove/hierarchy" for finding in root.findings)
    if scheduler == KAI_SCHEDULER and nested:
        groups, cliques = (
            _least(template, "podCliqueScalingGroups", "scaling group"),
            _least(template, "cliques", "clique"),
        )
        gangs = tuple(pod_gangs(group, groups, cliques))
        notes = notes or tuple(notes_of(group, gangs))
    gang = True if gangs else None
    return Reading(
        Workload(
            "Grove",
            handle_of(root),
            (group,),
            name,
            placeable=placeable,
            notes=notes,
            gang=gang,
            pod_groups=gangs,
        )
    )


SYSTEM: Final = System(
    "Grove", lambda document: kind_of(document) == POD_CLIQUE_SETS.key, _read, "grove"
)
READERS: Final = (SYSTEM,)


def _check_preferred(constraints: Constraints, topology: TopologyLevels | None) -> bool:
    """Warn of preferred levels that are not narrower than the required one; whether one is broader."""
    redundant = False
    for constraint in constraints:
        required, preferred = (
            _level(topology, domain) for domain in (constraint.required, constraint.preferred)
        )
        if topology is None or required is None or preferred is None:
            continue
        field, broader = (
            constraint.preferred_field,
            topology.rank(preferred) - topology.rank(required),
        )
        if broader < 0:
            redundant = True
            text = f"{field.path} is coarser than {constraint.required_field.path} and is redundant"
            field.warn(
                "grove/preferred-no-effect",
                text,
                f"remove it, or name a narrower level: {_NEVER_BY_KAI}",
            )
        elif not broader:
            text = f"preferred {preferred.domain!r} is not narrower than the required level, so it has no effect"
            field.warn("grove/preferred-no-effect", text, "name a narrower level, or remove it")
    return redundant


def _level(topology: TopologyLevels | None, domain: str) -> Level | None:
    return topology.by_domain(domain) if topology else None


def _tree(root: Field, constraints: Constraints, topology: TopologyLevels | None) -> Group:
    """The whole set; each of its replicas is kept together by itself."""

    def group(name: str, own: Constraint, *below: Group, copies: int = 1) -> Group:
        required, preferred = _level(topology, own.required), _level(topology, own.preferred)
        if (
            topology
            and required
            and preferred
            and topology.rank(preferred) < topology.rank(required)
        ):
            preferred = None
        return Group(name, (), below, required, preferred, copies)

    def clique(own: Constraint, place: Field) -> Group:
        name, spec = (place / "name").text() or place.path, place / "spec"
        pods = pods_of(name, (spec / "replicas").number(1), spec / "podSpec")
        kept = group(f"clique {name}", own)
        return Group(kept.name, (pods,), (), kept.required, kept.preferred)

    template = root / "spec" / "template"
    places = zip(constraints.cliques, (template / "cliques").items(), strict=True)
    cliques = {own.name or place.path: clique(own, place) for own, place in places}
    below = []
    grouped: set[str] = set()
    for own, place in zip(
        constraints.groups, (template / "podCliqueScalingGroups").items(), strict=True
    ):
        members = [name for name in clique_names(place) if name in cliques and name not in grouped]
        grouped.update(members)
        inner = (cliques[name] for name in members)
        name = f"scaling group {own.name or place.path}"
        below.append(group(name, own, *inner, copies=(place / "replicas").number(1)))
    below += [clique for name, clique in cliques.items() if name not in grouped]
    copies = (root / "spec" / "replicas").number(1)
    return group(name_of(root, POD_CLIQUE_SETS.kind), constraints.top, *below, copies=copies)


def _least(template: Field, places: str, of: str) -> dict[str, int]:
    """`minAvailable` of each scaling group or clique, by the name of its group."""
    named = (
        ((place / "name").text() or place.path, place) for place in (template / places).items()
    )
    specs = {name: place / "spec" if of == "clique" else place for name, place in named}
    # Its default is 1 of a scaling group, and all replicas of a clique.
    least = {name: (spec / "minAvailable").number(0) for name, spec in specs.items()}
    return {
        f"{of} {name}": number or 1 for name, number in least.items() if number or of != "clique"
    }
