"""Dynamo's DynamoGraphDeployment.

One topology for the deployment, a level for it and for each component. Rules and messages: the CRDs
of v1alpha1 and v1beta1 and the newest webhook (main, 2026-08), which says the same of both
versions. v1alpha1 has resources in Dynamo's own form and the rest of the pod in `extraPodSpec`;
v1beta1 has a whole pod template, or one for each role. The topology is looked up on the Grove
pathway only, and when the deployment is created: levels that go later keep no change from being
accepted. Dynamo makes a clique of each component, and a scaling group of one with several nodes, so
that each of its replicas is kept together by itself.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS, HOSTNAME
from toposcope.api.levels import Level
from toposcope.integrations.dynamo.api import DEPLOYMENTS, TOPOLOGY_NAMES, components
from toposcope.integrations.dynamo.names import check_names
from toposcope.integrations.dynamo.overrides import (
    SUFFIXES,
    Overridden,
    Overrides,
    check_overrides,
    check_overrides_unchanged,
    override_of_root,
    overrides_of,
    read_overrides,
)
from toposcope.integrations.dynamo.pathway import Pathway, pathway_of
from toposcope.integrations.dynamo.roles import check_roles, pods_of_role, roles_of
from toposcope.integrations.dynamo.transfer import check_transfer, check_transfer_unchanged
from toposcope.integrations.framework.constraints import Group, Pods, Workload
from toposcope.integrations.framework.document import Field, Suggestion, handle_of, kind_of, name_of
from toposcope.integrations.framework.levels import TopologyLevels, did_you_mean
from toposcope.integrations.framework.pods import amounts_of, pods_of, requests_of
from toposcope.integrations.framework.system import (
    LEVELS_FIRST,
    ClusterFacts,
    Reading,
    System,
    is_change,
)
from toposcope.integrations.framework.unknown_fields import check_fields, schema
from toposcope.integrations.grove.constraint import Constraint, Note
from toposcope.integrations.grove.workload import notes_of, pod_gangs

_LEVEL_RULES: Final = frozenset({"dynamo/override", "dynamo/override-level", "dynamo/field"})
"""Where one of these is broken, it is not known what has to stay together."""
_DOMAIN: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", re.ASCII)
_OLDER_NAME, _NEWEST_NAME = TOPOLOGY_NAMES
_IMMUTABLE: Final = (
    "is immutable and cannot be added, removed, or changed after creation; "
    "delete and recreate the DynamoGraphDeployment to change topology constraints"
)


@dataclass(frozen=True, slots=True)
class _Component:
    """One component: its replicas are `nodes` pods each."""

    name: str
    field: Field
    replicas: int
    nodes: int
    pods: Mapping[str, Pods]
    """The pods of one replica, by role; those of no role under an empty name."""
    overridden: Overridden

    @property
    def least(self) -> int:
        """How many replicas start together; Dynamo's webhook sets 1 where nothing is set."""
        return (self.field / "minAvailable").number(1, least=1)

    @property
    def constraint(self) -> Field:
        return self.field / "topologyConstraint"


def _components(spec: Field) -> Iterator[_Component]:
    for name, field in components(spec):
        older = field.path.startswith("spec.services")
        pod = field / "extraPodSpec" if older else field / "podTemplate" / "spec"
        nodes = (field / "multinode" / "nodeCount").number(1, least=1)
        roles = roles_of(field) if nodes > 1 else {}
        templates = {
            role: own / "podTemplate" / "spec" for role, own in roles.items() if role in SUFFIXES
        }
        added = [_main_container(field)] if older else []
        if len(templates) == len(SUFFIXES):
            pods = {
                role: pods_of(f"{name} {role}", pods_of_role(role, nodes), own or pod, *added)
                for role, own in templates.items()
            }
        else:
            pods = {"": pods_of(name, nodes, pod, *added)}
        replicas = (field / "replicas").number(1)
        yield _Component(name, field, replicas, nodes, pods, overrides_of(name, field, nodes))


def _main_container(service: Field) -> dict[str, int]:
    """The requests of the container that Dynamo adds.

    `extraPodSpec.mainContainer` overrides the rest.
    """
    resources = service / "resources"
    override = requests_of(service / "extraPodSpec" / "mainContainer" / "resources")
    return _amounts(resources / "limits") | _amounts(resources / "requests") | override


def _amounts(resources: Field) -> dict[str, int]:
    """Dynamo's `gpu` counts what `gpuType` names; `custom` has other resources by their names."""
    plain = {
        name: field.value
        for name, field in resources.properties()
        if name not in ("gpuType", "custom")
    }
    amounts = amounts_of(Field(plain, resources.path, resources.findings))
    if "gpu" in amounts:
        amounts[(resources / "gpuType").text() or ALLOCATABLE_GPUS] = amounts.pop("gpu")
    return amounts | amounts_of(resources / "custom")


@dataclass(frozen=True, slots=True)
class _Top:
    """The deployment's own constraint."""

    field: Field
    name: str | None = None
    topology: TopologyLevels | None = None
    """None: not known, or not looked at."""
    level: Level | None = None


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    spec = root / "spec"
    known = schema(
        "dynamo",
        f"{DEPLOYMENTS.kind} {'v1beta1' if _name_field(root) == _NEWEST_NAME else 'v1alpha1'}",
    )
    check_fields(spec, known, "dynamo/field", "Dynamo (main, 2026-08)")
    parts = tuple(_components(spec))
    pathway = pathway_of(root, before)
    # Of a change Dynamo looks at nothing but what may not change.
    note = Field.warn if is_change(root, before) else Field.error
    top = _top(root, parts, cluster, note, look=pathway.grove)
    levels = {component.name: _component_level(component, top, root, note) for component in parts}
    check_transfer(spec, cluster, pathway, note, newest=_name_field(root) == _NEWEST_NAME)
    overrides = _overrides(spec, parts, cluster)
    if before is None:
        typed = bool(top.field) or any(component.constraint for component in parts)
        check_overrides(
            override_of_root(spec), [part.overridden for part in parts], pathway, typed=typed
        )
        for component in parts:
            check_roles(component.field, component.nodes)
        if pathway.grove:
            check_names(name_of(root), [(part.name, part.field, part.nodes) for part in parts])
    else:
        _check_unchanged(root, parts, before)
        old = before / "spec"
        check_overrides_unchanged(overrides, _overrides(old, tuple(_components(old)), cluster))
    if pathway.grove:
        _warn_of_host(top, parts, levels)
    else:
        _warn_not_enforced(pathway, top, parts)
    whole = _tree(root, top, parts, levels, overrides)
    topology = None
    if any(group.required for group, _ in whole.everything()):
        topology = top.name or overrides.name
    rules = {finding.rule for finding in root.findings if finding.severity == "error"}
    invalid = pathway.grove and (_misunderstood(top, parts, levels) or bool(rules & _LEVEL_RULES))
    # Each multinode component becomes a scaling group, each other one a clique (graph.go).
    named = [(group.name, part) for group, part in zip(whole.groups, parts, strict=True)]
    groups, cliques = (
        {name: part.least for name, part in named if (part.nodes > 1) is several}
        for several in (True, False)
    )
    gangs = tuple(pod_gangs(whole, groups, cliques)) if topology else (whole,)
    notes = [LEVELS_FIRST] if invalid else list(notes_of(whole, gangs))
    return Reading(
        Workload(
            "Dynamo",
            handle_of(root),
            (whole,),
            topology,
            placeable=not invalid,
            notes=tuple(notes),
            gang=True if topology else None,
            pod_groups=gangs if gangs != (whole,) else (),
        )
    )


SYSTEM: Final = System(
    "Dynamo", lambda document: kind_of(document) == DEPLOYMENTS.key, _read, "grove"
)
READERS: Final = (SYSTEM,)


def _overrides(spec: Field, parts: Sequence[_Component], cluster: ClusterFacts) -> Overrides:
    names = [component.name for component in parts]
    return read_overrides(
        override_of_root(spec), [component.overridden for component in parts], names, cluster
    )


def _name_field(root: Field) -> str:
    """What the version calls the field with the topology's name."""
    return _OLDER_NAME if str((root / "apiVersion").value).endswith("/v1alpha1") else _NEWEST_NAME


def _top(
    root: Field, parts: Sequence[_Component], cluster: ClusterFacts, note: Note, *, look: bool
) -> _Top:
    constraint = root / "spec" / "topologyConstraint"
    name = constraint / _name_field(root)
    constrained = any(component.constraint for component in parts)
    if not constraint:
        if constrained:
            text = "is required when any component topology constraint is set"
            words = f"name the topology: spec.topologyConstraint.{_name_field(root)}"
            fix = (words, did_you_mean("", cluster.topologies))
            note(constraint, "dynamo/topology-constraint", text, "; ".join(filter(None, fix)))
        return _Top(constraint)
    _check_name(constraint, name, cluster, note, look=look)
    topology = cluster.topologies.get(name.text() or "") if look else None
    pack = constraint / "packDomain"
    if not pack.text() and not constrained:
        text = "is required when no component topologyConstraint is set"
        note(pack, "dynamo/some-domain", text, "name a level here or on a component")
    return _Top(constraint, name.text(), topology, _level(pack, topology, note))


def _check_name(
    constraint: Field, name: Field, cluster: ClusterFacts, note: Note, *, look: bool
) -> None:
    topology = name.text()
    fix = cluster.missing(topology or "")
    if name.value is None:
        other = next((other for other in TOPOLOGY_NAMES if constraint / other), "")
        renamed = f"this version calls {other!r} {name.path.rpartition('.')[2]!r}"
        name.error("dynamo/topology-name", "Required value", renamed if other else fix)
    elif not name.value:
        name.error(
            "dynamo/topology-name", f"{name.path} in body should be at least 1 chars long", fix
        )
    elif topology and look and topology not in cluster.topologies:
        note(
            name,
            "dynamo/topology-exists",
            "references a ClusterTopologyBinding resource that was not found",
            fix,
        )


def _level(pack: Field, topology: TopologyLevels | None, note: Note) -> Level | None:
    domain = pack.text()
    if domain is None and pack.value != "":
        return None
    domain = domain or ""
    if not _DOMAIN.fullmatch(domain):
        fix = (
            _fix(domain, topology)
            or "write lower-case letters, digits and '-', as the topology names its levels"
        )
        pack.error(
            "dynamo/domain-pattern",
            f"{pack.path} in body should match '^[a-z0-9]([a-z0-9-]*[a-z0-9])?$'",
            fix,
        )
        return None
    return _existing_level(pack, domain, topology, note)


def _existing_level(
    pack: Field, domain: str, topology: TopologyLevels | None, note: Note
) -> Level | None:
    if topology is None:
        return None
    level = topology.by_domain(domain)
    if level is None:
        available = " ".join(sorted(topology.domains))
        kind = (
            "ClusterTopologyBinding"
            if pack.path.startswith("spec.topologyConstraint")
            else "ClusterTopology"
        )
        text = f'does not exist in {kind} "{topology.name}"; available domains: [{available}]'
        note(pack, "dynamo/domain-exists", text, _fix(domain, topology))
    return level


def _fix(domain: str, topology: TopologyLevels | None) -> str:
    if topology is None:
        return ""
    by_key = topology.level(domain)
    if by_key:
        taken = "Dynamo takes the domain"
        return Suggestion(f"{taken}: write {by_key.domain!r}", taken)
    return did_you_mean(domain.lower(), topology.domains)


def _component_level(component: _Component, top: _Top, root: Field, note: Note) -> Level | None:
    if not component.constraint:
        return None
    pack = component.constraint / "packDomain"
    if pack.value is None:
        if _name_field(root) == _NEWEST_NAME:
            _existing_level(pack, "", top.topology, note)
        else:
            pack.error(
                "dynamo/component-domain",
                "Required value",
                "name a level, or remove topologyConstraint",
            )
        return None
    level = _level(pack, top.topology, note)
    if (
        level
        and top.level
        and top.topology
        and top.topology.rank(level) < top.topology.rank(top.level)
    ):
        text = f'must be equal to or narrower than the deployment-level domain "{top.level.domain}"'
        fix = f"use {top.level.domain!r} or something narrower here, or something broader on the deployment"
        note(pack, "dynamo/hierarchy", text, fix)
        return None
    return level


def _misunderstood(
    top: _Top, parts: Sequence[_Component], levels: Mapping[str, Level | None]
) -> bool:
    """Whether a constraint asks for something that is no level, or not a possible one."""
    if (top.field / "packDomain").value is not None and top.level is None:
        return True
    return any(component.constraint and levels[component.name] is None for component in parts)


def _tree(
    root: Field,
    top: _Top,
    parts: Sequence[_Component],
    levels: Mapping[str, Level | None],
    overrides: Overrides,
) -> Group:
    """What has to stay together; a deployment has constraints of its own, or overrides."""

    def level(domain: str) -> Level | None:
        return overrides.topology.by_domain(domain) if overrides.topology else None

    def kept(
        name: str, own: Level | None, pods: tuple[Pods, ...], constraint: Constraint | None
    ) -> Group:
        if constraint is None:
            return Group(name, pods, (), own)
        return Group(name, pods, (), own or level(constraint.required), level(constraint.preferred))

    groups = []
    for component in parts:
        own, constraint = levels[component.name], overrides.components[component.name]
        if component.nodes == 1:
            (pods,) = component.pods.values()
            all_pods = replace(pods, count=pods.count * component.replicas)
            groups.append(kept(f"component {component.name}", own, (all_pods,), constraint))
            continue
        replica = kept(f"replica of {component.name}", own, (), constraint)
        overridden = {
            role: overrides.roles[component.name, role]
            for role in SUFFIXES
            if (component.name, role) in overrides.roles
        }
        by_role = component.pods
        if any(overridden.values()) and "" in by_role:
            by_role = {
                role: replace(by_role[""], count=pods_of_role(role, component.nodes))
                for role in SUFFIXES
            }
        below = [
            kept(f"{role} of {component.name}", None, (pods,), overridden[role])
            for role, pods in by_role.items()
            if overridden.get(role)
        ]
        free = tuple(pods for role, pods in by_role.items() if not overridden.get(role))
        groups.append(replace(replica, pods=free, groups=tuple(below), copies=component.replicas))
    name, whole = name_of(root, DEPLOYMENTS.kind), overrides.root
    required, preferred = top.level or level(whole.required), level(whole.preferred)
    return Group(name, groups=tuple(groups), required=required, preferred=preferred)


def _warn_of_host(
    top: _Top, parts: Sequence[_Component], levels: Mapping[str, Level | None]
) -> None:
    """Several nodes on one host is a contradiction, unless the pods use a part of the node each."""
    for component in parts:
        own = levels[component.name]
        level, constraint = (own, component.constraint) if own else (top.level, top.field)
        if component.nodes > 1 and level and level.key == HOSTNAME:
            (constraint / "packDomain").warn(
                "dynamo/host-multinode",
                f"{level.domain!r} keeps all {component.nodes} nodes' pods of a replica of {component.name!r} on a "
                "single host",
                "use a broader level, such as the rack, for what spans several nodes",
            )


def _warn_not_enforced(pathway: Pathway, top: _Top, parts: Sequence[_Component]) -> None:
    if top.field or any(component.constraint for component in parts):
        annotation = pathway.field.path.rpartition("[")[2].rstrip("]")
        setting = f"{annotation}: {str(pathway.field.value).lower()!r}"
        text = f"with {setting} topology constraints are neither checked nor kept"
        pathway.field.warn(
            "dynamo/grove-pathway", text, "remove the annotation, or the constraints"
        )


def _check_unchanged(root: Field, parts: Sequence[_Component], before: Field) -> None:
    """Constraints cannot change once the deployment exists.

    The two may be in different versions.
    """
    then = _constraint(before)
    if _constraint(root) != then:
        fix = (
            f"it is topology {then[0]!r}, packDomain {then[1]!r} in the cluster"
            if then
            else "it is not set there"
        )
        (root / "spec" / "topologyConstraint").error("dynamo/immutable", _IMMUTABLE, fix)
    domains = {
        component.name: _domain(component.constraint) for component in _components(before / "spec")
    }
    for component in parts:
        if component.name in domains and domains[component.name] != _domain(component.constraint):
            domain = domains[component.name]
            shown = "not set" if domain is None else f"packDomain {domain[0]!r}"
            component.constraint.error(
                "dynamo/immutable", _IMMUTABLE, f"it is {shown} in the cluster"
            )
    check_transfer_unchanged(root / "spec", before / "spec")


def _constraint(root: Field) -> tuple[Any, Any] | None:
    constraint = root / "spec" / "topologyConstraint"
    return (
        ((constraint / _name_field(root)).text(), (constraint / "packDomain").text())
        if constraint
        else None
    )


def _domain(constraint: Field) -> tuple[Any] | None:
    return ((constraint / "packDomain").text(),) if constraint else None
