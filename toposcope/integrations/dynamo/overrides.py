"""Dynamo's `providerOverride`s: constraints that it copies unchanged into Grove's PodCliqueSet.

They are set on the deployment, on a component, or on a role of a component that spans several
nodes. Dynamo's webhook checks their form but not their levels: Grove checks those later, when
Dynamo creates the PodCliqueSet. Rules and messages: Dynamo's webhook and Grove's, main of 2026-08.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from toposcope.integrations.dynamo.pathway import Pathway
from toposcope.integrations.framework.constraints import Group
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.framework.unknown_fields import check_fields, schema
from toposcope.integrations.grove.constraint import (
    GroveConstraints,
    TopologyConstraint,
    check_schema,
    constraint_of,
    known_topology,
)
from toposcope.integrations.grove.update import RECREATE, change
from toposcope.integrations.grove.workload import notes_of, pod_gangs

LEADER, WORKER = "leader", "worker"
SUFFIXES: Final = {LEADER: "ldr", WORKER: "wkr"}
"""The suffix of the name of a role's clique."""
_GROVE: Final = "grove.io/v1alpha1"
OverriddenConstraint: TypeAlias = TopologyConstraint
_SET, _CLIQUE, _GROUP = "PodCliqueSet", "PodCliqueTemplateSpec", "PodCliqueScalingGroupConfig"
_COMBINED: Final = (
    "cannot be combined with spec.topologyConstraint or components[].topologyConstraint; "
    "use either the typed topology "
    "API or provider-native Grove topology overrides"
)
_LATER: Final = "Grove's webhook refuses the PodCliqueSet later"


@dataclass(frozen=True, slots=True)
class Override:
    """A `providerOverride`."""

    field: Field
    target: str
    """The Grove type that it is a part of."""
    scope: str = ""
    """`roles.leader`; empty unless it is set on a role."""
    is_multinode: bool = False

    @property
    def constraint(self) -> Field:
        """The topology constraint in it."""
        owner = self.field / "value"
        if self.target == _SET:
            owner = owner / "spec" / "template"
        return owner / "topologyConstraint"


@dataclass(frozen=True, slots=True)
class Overridden:
    """The overrides of one component."""

    name: str
    own: Override
    roles: dict[str, Override]
    """The overrides by role; empty for a component on a single node."""


def override_of_root(spec: Field) -> Override:
    """The deployment's own override."""
    return Override(spec / "providerOverride", _SET)


def overrides_of(name: str, component: Field, nodes: int) -> Overridden:
    """The overrides of a component, whose name is lower-case in Grove."""
    multinode = nodes > 1
    target = _CLIQUE
    if multinode:
        target = _GROUP
    own = Override(component / "providerOverride", target)
    roles = {}
    for role in (component / "roles").items():
        of = (role / "name").text() or ""
        roles[of] = Override(
            field=role / "providerOverride",
            target=_CLIQUE,
            scope=f"roles.{of}",
            is_multinode=multinode,
        )
    return Overridden(name.lower(), own, roles)


def _all(root: Override, components: list[Overridden]) -> Iterator[Override]:
    overrides = [root]
    for part in components:
        overrides += [part.own, *part.roles.values()]
    for override in overrides:
        if override.field:
            yield override


def check_overrides(
    root: Override, components: list[Overridden], pathway: Pathway, *, has_typed_constraints: bool
) -> None:
    """Note what Dynamo rejects in new ones."""
    for override in _all(root, components):
        if pathway.provider != "grove":
            text = f'requires workload provider "grove", but "{pathway.provider}" is selected'
            fix = "let Grove place the pods, or remove it"
            override.field.error("dynamo/override", text, fix)
            continue
        if has_typed_constraints and override.constraint:
            value = override.field / "value"
            value.error("dynamo/override-combined", _COMBINED, "keep one of the two")
        _check_frame(override)


def _check_frame(override: Override) -> None:
    rule = "dynamo/override"
    field = override.field
    version = field / "apiVersion"
    target = field / "target"
    if not version.text():
        version.error(rule, "is required", f"write {_GROVE}")
    elif version.value != _GROVE:
        text = f'Unsupported value: "{version.value}": supported values: "{_GROVE}"'
        version.error(rule, text, f"write {_GROVE}")
    elif override.scope and not override.is_multinode:
        text = f'scope "{override.scope}" requires a multinode component'
        field.error(rule, text, "set it on the component")
    elif target.text() and target.value != override.target:
        text = f'must match the provider-context target "{override.target}"'
        target.error(rule, text, "remove it")
    else:
        _check_value(override)


def _check_value(override: Override) -> None:
    value = override.field / "value"
    if not isinstance(value.value, dict):
        fix = "set the part of Grove's object that it replaces"
        value.error("dynamo/override", "must be a JSON object", fix)
    elif override.target == _SET:
        _check_path(value, ("spec", "template", "topologyConstraint"))
    else:
        _check_part(override)


def _check_path(owner: Field, path: tuple[str, ...]) -> None:
    """Note every field but the one allowed at each step down to the constraint."""
    first, *further_steps = path
    _check_names(owner, {first})
    value = owner / first
    if not isinstance(value.value, dict):
        text = "must be a JSON object" if value else "is required"
        value.error("dynamo/override", text, "write an object")
    elif further_steps:
        _check_path(value, tuple(further_steps))


def _check_part(override: Override) -> None:
    value = override.field / "value"
    available = "minAvailable"
    if override.target == _CLIQUE:
        available = "spec"
    names = ("topologyConstraint", available, "rollingUpdate")
    _check_names(value, set(names))

    constraint = value / "topologyConstraint"
    if not any(value / name for name in names):
        text = "topologyConstraint, minAvailable or rollingUpdate is required"
        constraint.error("dynamo/override", text, "set one of them")
    elif constraint and not isinstance(constraint.value, dict):
        constraint.error("dynamo/override", "must be a JSON object", "write an object")


def _check_names(owner: Field, component_names: set[str]) -> None:
    allowed = " or ".join(sorted(component_names))
    for name, field in owner.properties():
        if name not in component_names:
            text = "is Dynamo-owned or not enabled for provider override"
            field.error("dynamo/override", text, f"set only {allowed}")


def gangs_of(
    deployment: Group, scaling_groups: Mapping[str, int], cliques: Mapping[str, int]
) -> tuple[Group, ...]:
    """The gangs, and the minimum of each scaling group or clique by name."""
    return tuple(pod_gangs(deployment, scaling_groups, cliques))


def notes_on(deployment: Group, gangs: Sequence[Group]) -> list[str]:
    """The notes of `check` on gangs that do not all start together."""
    return list(notes_of(deployment, gangs))


@dataclass(frozen=True, slots=True)
class Overrides:
    """The constraints in overrides, as Grove reads them."""

    name: str | None
    topology: TopologyLevels | None
    root: TopologyConstraint
    components: dict[str, TopologyConstraint]
    """Overrides by the component's name."""
    roles: dict[tuple[str, str], TopologyConstraint]
    """Overrides by the names of component and role."""


def read_overrides(
    root: Override, components: list[Overridden], names: list[str], cluster: ClusterFacts
) -> Overrides:
    """The constraints as Grove reads them. Notes what its webhook will reject.

    `names` are those of the components.
    """
    top = constraint_of("PodCliqueSet", "", root.constraint)
    own: dict[str, TopologyConstraint] = {}
    roles: dict[tuple[str, str], TopologyConstraint] = {}
    cliques: list[TopologyConstraint] = []
    groups: list[TopologyConstraint] = []
    members: list[list[str]] = []
    for name, part in zip(names, components, strict=True):
        field = part.own.constraint
        if part.own.target != _GROUP:
            clique = constraint_of("PodClique", part.name, field)
            own[name] = clique
            cliques.append(clique)
            continue

        group = constraint_of("PodCliqueScalingGroup", part.name, field)
        own[name] = group
        groups.append(group)
        names_of_members = [f"{part.name}-{suffix}" for suffix in SUFFIXES.values()]
        members.append(names_of_members)
        for role, suffix in SUFFIXES.items():
            override = part.roles.get(role)
            if override is not None:
                clique_name = f"{part.name}-{suffix}"
                clique = constraint_of("PodClique", clique_name, override.constraint)
                roles[name, role] = clique
                cliques.append(clique)

    constraints = GroveConstraints(
        top=top,
        groups=groups,
        members=members,
        cliques=cliques,
    )
    constraint_schema = schema("grove", "topologyConstraint")
    for constraint in constraints:
        check_fields(constraint.field, constraint_schema, "dynamo/field", "Grove v0.1.0-alpha.12")

    topology_name, topology = known_topology(constraints, cluster, _refused_later)
    check_schema(constraints, topology, (), is_new=True, note=_refused_later)
    if topology:
        constraints.check_levels(topology, _refused_later)
    return Overrides(
        name=topology_name,
        topology=topology,
        root=top,
        components=own,
        roles=roles,
    )


def _refused_later(field: Field, rule: str, message: str, fix: str) -> None:
    """Note everything that Grove rejects."""
    del rule
    field.error("dynamo/override-level", f"{_LATER}: {message}", fix)


def check_overrides_unchanged(now: Overrides, then: Overrides) -> None:
    """Note changes that Dynamo accepts and Grove rejects once they reach the PodCliqueSet."""
    _check_unchanged(then.root, now.root)
    for name, new in now.components.items():
        old = then.components.get(name)
        if old is not None:
            _check_unchanged(old, new)
    for key, new in now.roles.items():
        old = then.roles.get(key)
        if old is not None:
            _check_unchanged(old, new)


def _check_unchanged(old: TopologyConstraint, new: TopologyConstraint) -> None:
    difference = change(old, new)
    if difference:
        text = f"{_LATER}: {difference}"
        new.field.error("dynamo/override-level", text, RECREATE)
