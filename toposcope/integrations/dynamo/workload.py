"""Dynamo's DynamoGraphDeployment: one topology, a level for it and for each component.

Rules and messages: the CRDs of v1alpha1 and v1beta1 and the newest webhook (main, 2026-08), which
is the same for both versions. v1alpha1 has resources in Dynamo's own form and the rest of the pod
in `extraPodSpec`; v1beta1 has a whole pod template, or one for each role. The topology is looked up
on the pathway of `provider` only, and when the deployment is created: changes are accepted even if
levels have disappeared since. Dynamo creates a clique for each component, and a scaling group for
one with several nodes, so that each of its replicas is kept together separately.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS, HOSTNAME
from toposcope.api.levels import Level
from toposcope.integrations.dynamo import disaggregated, provider
from toposcope.integrations.dynamo.api import DEPLOYMENTS, TOPOLOGY_NAMES, components
from toposcope.integrations.dynamo.devices import DeviceFields
from toposcope.integrations.dynamo.groups import KIND as GROUP_KIND
from toposcope.integrations.dynamo.groups import component_groups
from toposcope.integrations.dynamo.names import NamedPart, check_names
from toposcope.integrations.dynamo.overrides import (
    SUFFIXES,
    Overridden,
    OverriddenConstraint,
    Overrides,
    check_overrides,
    check_overrides_unchanged,
    gangs_of,
    notes_on,
    override_of_root,
    overrides_of,
    read_overrides,
)
from toposcope.integrations.dynamo.pathway import Pathway, pathway_of
from toposcope.integrations.dynamo.roles import check_roles, pods_of_role, roles_of
from toposcope.integrations.dynamo.transfer import check_transfer, check_transfer_unchanged
from toposcope.integrations.dynamo.volumes import claimed_volumes, with_volumes
from toposcope.integrations.framework.constraints import Group, Pods, Workload
from toposcope.integrations.framework.containers import amounts_of, requests_of
from toposcope.integrations.framework.document import (
    Field,
    FixSuggestion,
    Note,
    handle_of,
    kind_of,
    name_of,
)
from toposcope.integrations.framework.levels import TopologyLevels, did_you_mean
from toposcope.integrations.framework.pods import pods_of
from toposcope.integrations.framework.system import (
    ClusterFacts,
    Reading,
    System,
    is_change,
)
from toposcope.integrations.framework.unknown_fields import check_fields, schema

_LEVEL_RULES: Final = frozenset({"dynamo/override", "dynamo/override-level", "dynamo/field"})
"""Rules whose violation makes it unknown what must stay together."""
_DOMAIN: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", re.ASCII)
_OLDER_NAME, _NEWEST_NAME = TOPOLOGY_NAMES
_IMMUTABLE: Final = (
    "is immutable and cannot be added, removed, or changed after creation; "
    "delete and recreate the DynamoGraphDeployment to change topology constraints"
)
_TOP_KIND: Final = "ClusterTopologyBinding"
_COMPONENT_KIND: Final = "ClusterTopology"
"""Dynamo's word for the topology in its messages about a component."""


@dataclass(frozen=True, slots=True)
class _Component:
    """A component, whose replicas are `nodes` pods each."""

    name: str
    field: Field
    is_service: bool
    """Whether it is a service of v1alpha1."""
    replicas: int
    nodes: int
    pods: Mapping[str, Pods]
    """The pods of one replica by role; pods without a role have an empty name."""
    overridden: Overridden

    @property
    def least(self) -> int:
        """How many replicas start together; Dynamo's webhook defaults to 1."""
        min_available = self.field / "minAvailable"
        return min_available.number(1, least=1)

    @property
    def constraint(self) -> Field:
        return self.field / "topologyConstraint"


def _components(spec: Field) -> Iterator[_Component]:
    for written in components(spec):
        name, field, is_service = written
        pod_spec = _pod_spec(field, is_service=is_service)
        nodes = (field / "multinode" / "nodeCount").number(1, least=1)
        by_role = {}
        if nodes > 1:
            by_role = _role_specs(field)
        maker = _PodMaker(field, is_service=is_service)
        pods = {}
        if len(by_role) == len(SUFFIXES):
            for role, own_spec in by_role.items():
                count = pods_of_role(role, nodes)
                spec_of_role = own_spec or pod_spec
                labels = _pod_labels(field, is_service=is_service)
                if own_spec:
                    labels = own_spec.beside("metadata") / "labels"
                pods[role] = maker.pods(f"{name} {role}", count, spec_of_role, labels)
        else:
            labels = _pod_labels(field, is_service=is_service)
            pods[""] = maker.pods(name, nodes, pod_spec, labels)
        yield _Component(
            name=name,
            field=field,
            is_service=is_service,
            replicas=(field / "replicas").number(1),
            nodes=nodes,
            pods=pods,
            overridden=overrides_of(name, field, nodes),
        )


class _PodMaker:
    """Builds the pods of one component."""

    def __init__(self, component: Field, *, is_service: bool) -> None:
        self._main = _main_container(component) if is_service else None
        self._devices = DeviceFields(component, is_service)
        self._volumes = claimed_volumes(component)

    def pods(self, name: str, count: int, spec: Field, labels: Field) -> Pods:
        """Pods with this pod spec and these labels."""
        spec = with_volumes(spec, self._volumes)
        if self._devices.decide:
            self._devices.check(self._main, spec)
            return self._devices.pods(name, count, spec, self._main, labels=labels)
        added = [] if self._main is None else [self._main]
        return pods_of(name, count, spec, *added, labels=labels)


def _pod_spec(component: Field, *, is_service: bool) -> Field:
    if is_service:
        return component / "extraPodSpec"
    return component / "podTemplate" / "spec"


def _pod_labels(component: Field, *, is_service: bool) -> Field:
    if is_service:
        return component / "extraPodMetadata" / "labels"
    return component / "podTemplate" / "metadata" / "labels"


def _role_specs(component: Field) -> dict[str, Field]:
    """The pod specs of the roles that are known."""
    specs = {}
    for role, field in roles_of(component).items():
        if role in SUFFIXES:
            specs[role] = field / "podTemplate" / "spec"
    return specs


def _main_container(service: Field) -> dict[str, int]:
    """The requests of the container that Dynamo adds.

    `extraPodSpec.mainContainer` overrides the rest.
    """
    resources = service / "resources"
    main_container = service / "extraPodSpec" / "mainContainer"
    override = requests_of(main_container / "resources")
    limits = _amounts(resources / "limits")
    requests = _amounts(resources / "requests")
    return {**limits, **requests, **override}


def _amounts(resources: Field) -> dict[str, int]:
    """Amounts in Dynamo's form: `gpu` counts resource `gpuType`, `custom` has others by name."""
    plain = {}
    for name, field in resources.properties():
        if name not in ("gpuType", "custom"):
            plain[name] = field.value
    amounts = amounts_of(Field(plain, resources.path, resources.findings))
    if "gpu" in amounts:
        gpus = amounts.pop("gpu")
        resource = (resources / "gpuType").text() or ALLOCATABLE_GPUS
        amounts[resource] = gpus
    custom = amounts_of(resources / "custom")
    return amounts | custom


@dataclass(frozen=True, slots=True)
class _Top:
    """The deployment's own constraint."""

    field: Field
    name: str | None = None
    topology: TopologyLevels | None = None
    """None if unknown or not checked."""
    level: Level | None = None


class _Deployment:
    """A DynamoGraphDeployment and its previous version."""

    def __init__(self, root: Field, cluster: ClusterFacts, before: Field | None) -> None:
        self._root = root
        self._spec = root / "spec"
        self._cluster = cluster
        self._before = before
        self._newest = _name_field(root) == _NEWEST_NAME
        version = "v1beta1" if self._newest else "v1alpha1"
        deployment_schema = schema("dynamo", f"{DEPLOYMENTS.kind} {version}")
        check_fields(self._spec, deployment_schema, "dynamo/field", "Dynamo (main, 2026-08)")

        self.parts = tuple(_components(self._spec))
        names = [part.name for part in self.parts]
        self.groups = component_groups(self._spec, names)
        self.pathway = pathway_of(root, before)
        self._note: Note = Field.error
        if is_change(root, before):
            # Of a change Dynamo looks at nothing but what may not change.
            self._note = Field.warn

        look = self.pathway.keeps_together
        self.top = _top(root, self.parts, cluster, self._note, is_looked_up=look)
        self.levels: dict[str, Level | None] = {}
        for part in self.parts:
            level = _component_level(part, self.top, root, self._note)
            self.levels[part.name] = level

    def check(self) -> Overrides:
        """Note what else is wrong. Returns the constraints of the overrides."""
        pathway = self.pathway
        check_transfer(
            self._spec, self._cluster, pathway, self._note, is_newest_version=self._newest
        )
        overrides = _overrides(self._spec, self.parts, self._cluster)
        if pathway.provider == disaggregated.NAME:
            roles = [_role_of(part) for part in self.parts]
            disaggregated.check_roles(pathway.field, roles)
        if self._before is None:
            self._check_new()
        else:
            self._check_changed(self._before, overrides)

        if pathway.keeps_together:
            _warn_of_host(self.top, self.parts, self.levels)
        else:
            _warn_not_enforced(pathway, self.top, self.parts)
        return overrides

    def _check_new(self) -> None:
        typed = bool(self.top.field) or _any_constrained(self.parts)
        own = override_of_root(self._spec)
        overridden = [part.overridden for part in self.parts]
        check_overrides(own, overridden, self.pathway, has_typed_constraints=typed)

        named = []
        for part in self.parts:
            check_roles(part.field, part.nodes)
            named_part = NamedPart(
                name=part.name,
                field=part.field,
                nodes=part.nodes,
                has_name_field=not part.is_service,
            )
            named.append(named_part)
        if self.pathway.keeps_together:
            deployment = name_of(self._root)
            check_names(deployment, named)

    def _check_changed(self, before: Field, overrides: Overrides) -> None:
        _check_unchanged(self._root, self.parts, before)
        old_spec = before / "spec"
        old_parts = tuple(_components(old_spec))
        old_overrides = _overrides(old_spec, old_parts, self._cluster)
        check_overrides_unchanged(overrides, old_overrides)

    @property
    def is_misunderstood(self) -> bool:
        """Whether it is unknown what must stay together."""
        if not self.pathway.keeps_together:
            return False
        if _misunderstood(self.top, self.parts, self.levels):
            return True

        for finding in self._root.findings:
            if finding.severity == "error" and finding.rule in _LEVEL_RULES:
                return True
        return False

    def gangs(self, deployment: Group) -> tuple[Group, ...]:
        """The gangs: a scaling group or a clique for each component (graph.go).

        Components of several nodes become scaling groups, the others cliques.
        """
        scaling_groups = {}
        cliques = {}
        least = {part.name: part.least for part in self.parts}
        for group in deployment.groups:
            if group.kind == GROUP_KIND:
                scaling_groups[group.name] = 1
            elif group.part:
                scaling_groups[group.name] = least[group.own_name]
            else:
                cliques[group.name] = least[group.own_name]
        return gangs_of(deployment, scaling_groups, cliques)


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    deployment = _Deployment(root, cluster, before)
    overrides = deployment.check()
    deployment_group = _tree(root, deployment, overrides)
    topology = None
    has_required = any(group.required for group, _ in deployment_group.everything())
    if has_required:
        topology = deployment.top.name or overrides.name
    gangs: tuple[Group, ...] = (deployment_group,)
    if topology:
        gangs = deployment.gangs(deployment_group)

    invalid = deployment.is_misunderstood
    notes = list(cluster.levels_first)
    if not invalid:
        notes = notes_on(deployment_group, gangs)
    queue = root / "metadata" / "annotations" / provider.QUEUE
    workload = Workload(
        system="Dynamo",
        handle=handle_of(root),
        groups=(deployment_group,),
        topology=topology,
        is_placeable=not invalid,
        notes=tuple(notes),
        gang=True if topology else None,
        pod_groups=gangs if gangs != (deployment_group,) else (),
        least=gangs[:1] if topology else (),
        queue=queue.text() or "",
        queue_field=queue.path,
    )
    return Reading(workload)


SYSTEM: Final = System(
    "Dynamo", lambda document: kind_of(document) == DEPLOYMENTS.key, _read, provider.NAME
)
READERS: Final = (SYSTEM,)


def _overrides(spec: Field, parts: Sequence[_Component], cluster: ClusterFacts) -> Overrides:
    own = override_of_root(spec)
    names = [component.name for component in parts]
    overridden = [component.overridden for component in parts]
    return read_overrides(own, overridden, names, cluster)


def _any_constrained(parts: Sequence[_Component]) -> bool:
    return any(component.constraint for component in parts)


def _name_field(root: Field) -> str:
    """The version's field with the topology's name."""
    api_version = str((root / "apiVersion").value)
    if api_version.endswith("/v1alpha1"):
        return _OLDER_NAME
    return _NEWEST_NAME


def _top(
    root: Field,
    parts: Sequence[_Component],
    cluster: ClusterFacts,
    note: Note,
    *,
    is_looked_up: bool,
) -> _Top:
    constraint = root / "spec" / "topologyConstraint"
    name_field = _name_field(root)
    constrained = _any_constrained(parts)
    if not constraint:
        if constrained:
            _note_no_topology(constraint, name_field, cluster, note)
        return _Top(constraint)

    name = constraint / name_field
    _check_name(constraint, name, cluster, note, is_looked_up=is_looked_up)
    topology = None
    if is_looked_up:
        topology_name = name.text() or ""
        topology = cluster.topologies.get(topology_name)
    pack = constraint / "packDomain"
    if not pack.text() and not constrained:
        text = "is required when no component topologyConstraint is set"
        note(pack, "dynamo/some-domain", text, "name a level here or on a component")
    level = _level(pack, topology, note, kind=_TOP_KIND)
    return _Top(constraint, name.text(), topology, level)


def _note_no_topology(
    constraint: Field, name_field: str, cluster: ClusterFacts, note: Note
) -> None:
    text = "is required when any component topology constraint is set"
    fix = f"set the topology in spec.topologyConstraint.{name_field}"
    suggestion = did_you_mean("", cluster.topologies)
    if suggestion:
        fix += f"; {suggestion}"
    note(constraint, "dynamo/topology-constraint", text, fix)


def _check_name(
    constraint: Field, name: Field, cluster: ClusterFacts, note: Note, *, is_looked_up: bool
) -> None:
    topology = name.text()
    fix = cluster.missing(topology or "")
    if name.value is None:
        _, _, called = name.path.rpartition(".")
        for other_field in TOPOLOGY_NAMES:
            if constraint / other_field:
                fix = f"in this version, {other_field!r} is named {called!r}"
                break
        name.error("dynamo/topology-name", "Required value", fix)
    elif not name.value:
        text = f"{name.path} in body should be at least 1 chars long"
        name.error("dynamo/topology-name", text, fix)
    elif topology and is_looked_up and topology not in cluster.topologies:
        text = "references a ClusterTopologyBinding resource that was not found"
        note(name, "dynamo/topology-exists", text, fix)


def _level(pack: Field, topology: TopologyLevels | None, note: Note, *, kind: str) -> Level | None:
    """The requested level; `kind` is the message's word for the topology."""
    domain = pack.text()
    if domain is None and pack.value != "":
        return None
    domain = domain or ""
    if not _DOMAIN.fullmatch(domain):
        text = f"{pack.path} in body should match '^[a-z0-9]([a-z0-9-]*[a-z0-9])?$'"
        fix = _fix(domain, topology)
        if not fix:
            fix = "use lower-case letters, digits and '-', as in the topology's level names"
        pack.error("dynamo/domain-pattern", text, fix)
        return None
    return _existing_level(pack, domain, topology, note, kind=kind)


def _existing_level(
    pack: Field, domain: str, topology: TopologyLevels | None, note: Note, *, kind: str
) -> Level | None:
    if topology is None:
        return None
    level = topology.by_domain(domain)
    if level is None:
        available = " ".join(sorted(topology.domains))
        text = f'does not exist in {kind} "{topology.name}"; available domains: [{available}]'
        fix = _fix(domain, topology)
        note(pack, "dynamo/domain-exists", text, fix)
    return level


def _fix(domain: str, topology: TopologyLevels | None) -> str:
    if topology is None:
        return ""
    by_key = topology.level(domain)
    if by_key:
        expected = "Dynamo requires the domain here"
        return FixSuggestion(f"{expected}: write {by_key.domain!r}", expected)
    return did_you_mean(domain.lower(), topology.domains)


def _component_level(component: _Component, top: _Top, root: Field, note: Note) -> Level | None:
    if not component.constraint:
        return None
    pack = component.constraint / "packDomain"
    if pack.value is None:
        if _name_field(root) == _NEWEST_NAME:
            _existing_level(pack, "", top.topology, note, kind=_COMPONENT_KIND)
        else:
            fix = "name a level, or remove topologyConstraint"
            pack.error("dynamo/component-domain", "Required value", fix)
        return None
    level = _level(pack, top.topology, note, kind=_COMPONENT_KIND)
    if level is None or top.level is None or top.topology is None:
        return level

    steps_down = top.topology.rank(level) - top.topology.rank(top.level)
    if steps_down < 0:
        broadest = top.level.domain
        text = f'must be equal to or narrower than the deployment-level domain "{broadest}"'
        fix = f"use {broadest!r} or something narrower here, or something broader on the deployment"
        note(pack, "dynamo/hierarchy", text, fix)
        return None
    return level


def _misunderstood(
    top: _Top, parts: Sequence[_Component], levels: Mapping[str, Level | None]
) -> bool:
    """Whether a constraint requests something that is not a level, or not an allowed one."""
    pack = top.field / "packDomain"
    if pack.value is not None and top.level is None:
        return True
    for component in parts:
        if component.constraint and levels[component.name] is None:
            return True
    return False


def _tree(root: Field, deployment: _Deployment, overrides: Overrides) -> Group:
    """The group that must stay together. A deployment has its own constraints or overrides."""
    by_name = {}
    for part in deployment.parts:
        own = deployment.levels[part.name]
        if part.nodes == 1:
            group = _of_one_node(part, own, overrides)
        else:
            group = _of_nodes(part, own, overrides)
        by_name[part.name] = group

    grouped = []
    for scaled in deployment.groups:
        members = tuple([by_name.pop(name) for name in scaled.members])
        group = Group.of_kind(GROUP_KIND, scaled.name)
        grouped.append(replace(group, groups=members, copies=scaled.replicas))

    name = name_of(root, DEPLOYMENTS.kind)
    deployment_group = Group(name, groups=(*by_name.values(), *grouped))
    return _kept(deployment_group, deployment.top.level, overrides.root, overrides)


def _role_of(part: _Component) -> disaggregated.Role:
    return disaggregated.Role(
        name=part.name,
        field=part.field,
        is_service=part.is_service,
        nodes=part.nodes,
        replicas=part.replicas,
    )


def _kept(
    group: Group, own: Level | None, constraint: OverriddenConstraint | None, overrides: Overrides
) -> Group:
    """The group with its own level and those of an override."""
    topology = overrides.topology
    if constraint is None or topology is None:
        return replace(group, required=own)
    required = topology.by_domain(constraint.required)
    preferred = topology.by_domain(constraint.preferred)
    return replace(group, required=own or required, preferred=preferred)


def _of_one_node(part: _Component, own: Level | None, overrides: Overrides) -> Group:
    """All replicas of a component with one pod each."""
    (pods,) = part.pods.values()
    count = pods.count * part.replicas
    all_pods = replace(pods, count=count)

    group = Group.of_kind("component", part.name, (all_pods,))
    constraint = overrides.components[part.name]
    return _kept(group, own, constraint, overrides)


def _of_nodes(part: _Component, own: Level | None, overrides: Overrides) -> Group:
    """The replicas of a component that spans several nodes."""
    overridden = _overridden_roles(part, overrides)
    by_role = part.pods
    if overridden and "" in by_role:
        by_role = _parted(by_role[""], part.nodes)

    free = []
    constrained = []
    for role, pods in by_role.items():
        if role in overridden:
            group = Group.part_of(part.name, role, (pods,))
            kept = _kept(group, None, overridden[role], overrides)
            constrained.append(kept)
        else:
            free.append(pods)

    replica = Group.part_of(part.name, "replica", tuple(free))
    replica = replace(replica, groups=tuple(constrained), copies=part.replicas)
    constraint = overrides.components[part.name]
    return _kept(replica, own, constraint, overrides)


def _overridden_roles(part: _Component, overrides: Overrides) -> dict[str, OverriddenConstraint]:
    """The constraints set in overrides of a component's roles."""
    overridden = {}
    for role in SUFFIXES:
        constraint = overrides.roles.get((part.name, role))
        if constraint:
            overridden[role] = constraint
    return overridden


def _parted(pods: Pods, nodes: int) -> dict[str, Pods]:
    """Pods without a role, split by the roles that they will have."""
    by_role = {}
    for role in SUFFIXES:
        count = pods_of_role(role, nodes)
        by_role[role] = replace(pods, count=count)
    return by_role


def _warn_of_host(
    top: _Top, parts: Sequence[_Component], levels: Mapping[str, Level | None]
) -> None:
    """Warn about several nodes on one host, which works only if each pod uses part of the node."""
    for component in parts:
        level = levels[component.name]
        constraint = component.constraint
        if level is None:
            level = top.level
            constraint = top.field
        if component.nodes == 1 or level is None or level.key != HOSTNAME:
            continue
        text = (
            f"{level.domain!r} keeps all {component.nodes} nodes' pods of a replica of "
            f"{component.name!r} on a single host"
        )
        fix = "use a broader level, such as the rack, for a component that spans several nodes"
        (constraint / "packDomain").warn("dynamo/host-multinode", text, fix)


def _warn_not_enforced(pathway: Pathway, top: _Top, parts: Sequence[_Component]) -> None:
    if not top.field and not _any_constrained(parts):
        return
    annotation = pathway.field
    _, _, key = annotation.path.rpartition("[")
    written = str(annotation.value)
    value = written.lower()
    text = f"with {key.rstrip(']')}: {value!r} topology constraints are neither checked nor applied"
    fix = "remove the annotation, or the constraints"
    annotation.warn(provider.PATHWAY_RULE, text, fix)


def _check_unchanged(root: Field, parts: Sequence[_Component], before: Field) -> None:
    """Note changed constraints, which are immutable. The two may have different versions."""
    then = _constraint(before)
    if _constraint(root) != then:
        fix = "it is unset in the cluster"
        if then is not None:
            fix = f"it is topology {then.topology!r}, packDomain {then.domain!r} in the cluster"
        (root / "spec" / "topologyConstraint").error("dynamo/immutable", _IMMUTABLE, fix)

    domains = {}
    for component in _components(before / "spec"):
        domains[component.name] = _domain(component.constraint)
    for component in parts:
        if component.name not in domains:
            continue
        domain = domains[component.name]
        if domain == _domain(component.constraint):
            continue
        shown = "not set" if domain is None else f"packDomain {domain.name!r}"
        fix = f"it is {shown} in the cluster"
        component.constraint.error("dynamo/immutable", _IMMUTABLE, fix)
    check_transfer_unchanged(root / "spec", before / "spec")


@dataclass(frozen=True, slots=True)
class _WrittenConstraint:
    """A deployment's constraint as written."""

    topology: str | None
    domain: str | None


@dataclass(frozen=True, slots=True)
class _WrittenDomain:
    """A component's constraint as written."""

    name: str | None


def _constraint(root: Field) -> _WrittenConstraint | None:
    constraint = root / "spec" / "topologyConstraint"
    if not constraint:
        return None
    topology = constraint / _name_field(root)
    domain = constraint / "packDomain"
    return _WrittenConstraint(topology.text(), domain.text())


def _domain(constraint: Field) -> _WrittenDomain | None:
    if not constraint:
        return None
    domain = constraint / "packDomain"
    return _WrittenDomain(domain.text())
