"""The `topologyConstraint`s of a PodCliqueSet as Grove reads them, and their topology.

Rules and messages: Grove's CRD and webhook, main of 2026-08-19; v0.1.0-alpha.10 to alpha.12 have
the same.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from toposcope.integrations.framework.document import Field, FixSuggestion, Note
from toposcope.integrations.framework.levels import TopologyLevels, did_you_mean
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.grove.api import clique_names

_DOMAIN: Final = re.compile(r"[a-z][a-z0-9-]*", re.ASCII)
_MAX_DOMAIN_BYTES: Final = 63
_ONE_NAME: Final = (
    "all topologyConstraint.topologyName values within a PodCliqueSet must match "
    "in the current implementation"
)


@dataclass(frozen=True, slots=True)
class TopologyConstraint:
    """One `topologyConstraint`, with empty strings for unset fields."""

    owner: str
    """Its owner, as in Grove's messages: `PodCliqueSet`, `PodClique 'decode'`."""
    name: str
    """The name of the clique or scaling group; empty for the set."""
    field: Field
    topology: str
    pack_domain: str
    pack_required: str
    preferred: str

    @property
    def required(self) -> str:
        """The required domain, from the new field or the old one."""
        return self.pack_required or self.pack_domain

    @property
    def required_field(self) -> Field:
        """The field with the required domain."""
        if self.pack_required:
            return self.field / "pack" / "required"
        return self.field / "packDomain"

    @property
    def preferred_field(self) -> Field:
        """The field with the preferred domain."""
        return self.field / "pack" / "preferred"

    def __bool__(self) -> bool:
        return bool(self.field)


def constraint_of(owner: str, name: str, field: Field) -> TopologyConstraint:
    """The constraint in a field, which may be unset; `name` is the owner's."""
    pack = field / "pack"
    full_owner = owner
    if name:
        full_owner = f"{owner} '{name}'"
    return TopologyConstraint(
        owner=full_owner,
        name=name,
        field=field,
        topology=(field / "topologyName").text() or "",
        pack_domain=(field / "packDomain").text() or "",
        pack_required=(pack / "required").text() or "",
        preferred=(pack / "preferred").text() or "",
    )


@dataclass(frozen=True)
class GroveConstraints:
    """All places of a PodCliqueSet that can have one."""

    top: TopologyConstraint
    groups: Sequence[TopologyConstraint]
    members: Sequence[Sequence[str]]
    """The cliques of each of the groups."""
    cliques: Sequence[TopologyConstraint]

    @classmethod
    def of(cls, template: Field) -> "GroveConstraints":
        """The constraints of a set's template."""
        groups = list((template / "podCliqueScalingGroups").items())
        cliques = (template / "cliques").items()
        return cls(
            top=constraint_of("PodCliqueSet", "", template / "topologyConstraint"),
            groups=[_constraint_of_part("PodCliqueScalingGroup", group) for group in groups],
            members=[clique_names(group) for group in groups],
            cliques=[_constraint_of_part("PodClique", clique) for clique in cliques],
        )

    def __iter__(self) -> Iterator[TopologyConstraint]:
        """The constraints that are set, in the order of Grove's checks."""
        for constraint in (self.top, *self.cliques, *self.groups):
            if constraint:
                yield constraint

    def clique(self, name: str) -> TopologyConstraint | None:
        """The place of a clique."""
        for clique in self.cliques:
            if clique.name == name:
                return clique
        return None

    def topology(self, note: Note, fix: str = "") -> str | None:
        """The topology that all constraints name or inherit; None if they name none or disagree."""
        names = _Names(note, fix)
        top = names.resolve(self.top, "")
        of_group: dict[str, str] = {}
        for group, members in zip(self.groups, self.members, strict=True):
            name = names.resolve(group, top)
            if name:
                for member in members:
                    of_group.setdefault(member, name)
        for clique in self.cliques:
            inherited = of_group.get(clique.name, top)
            names.resolve(clique, inherited)

        different = set(names.resolved)
        if len(different) > 1:
            self._note_several(note)
            return None
        if names.problems or not names.resolved:
            return None
        return names.resolved[0]

    def _note_several(self, note: Note) -> None:
        """Note every field that names a topology."""
        fix = "use one name everywhere, or create two PodCliqueSets"
        for constraint in self:
            if constraint.topology:
                note(constraint.field / "topologyName", "grove/one-topology", _ONE_NAME, fix)

    def check_levels(self, topology: TopologyLevels, note: Note) -> None:
        """Note domains that are not levels of the topology, or are broader than the one above."""
        all_exist = True
        for constraint in self:
            if not _check_domains(constraint, topology, note):
                all_exist = False
        if not all_exist:  # Grove stops here
            return

        for outer, part in self._nested():
            if outer and part:
                _check_order(outer, part, topology, note)

    def _nested(self) -> Iterator[tuple[TopologyConstraint, TopologyConstraint]]:
        """The constraints with those inside of them, in the order of Grove's checks."""
        for part in (*self.cliques, *self.groups):
            yield self.top, part
        for group, members in zip(self.groups, self.members, strict=True):
            for name in members:
                clique = self.clique(name)
                if clique is not None:
                    yield group, clique


def _constraint_of_part(kind: str, part: Field) -> TopologyConstraint:
    name = (part / "name").text() or ""
    return constraint_of(kind, name, part / "topologyConstraint")


class _Names:
    """The names of topologies that the constraints of a set come to."""

    def __init__(self, note: Note, fix: str) -> None:
        self._note = note
        self._fix = fix
        self.resolved: list[str] = []
        self.problems = 0

    def resolve(self, constraint: TopologyConstraint, inherited: str) -> str:
        """The topology's name of one constraint, its own or inherited.

        Empty if the constraint is unset, has no name, or has another name than the one above.
        """
        if not constraint:
            return ""
        field = constraint.field / "topologyName"
        name = constraint.topology or inherited
        if not name:
            text = "topologyName is required when topologyConstraint is set and cannot be inherited"
            fix = "set it on spec.template.topologyConstraint"
            if self._fix:
                fix += f"; {self._fix}"
            self._note(field, "grove/topology-name", text, fix)
        elif inherited and name != inherited:
            fix = f"use {inherited!r} everywhere"
            self._note(field, "grove/one-topology", _ONE_NAME, fix)
        else:
            self.resolved.append(name)
            return name
        self.problems += 1
        return ""


def _check_domains(constraint: TopologyConstraint, topology: TopologyLevels, note: Note) -> bool:
    """Whether every domain of a constraint is a level of the topology. Notes those that are not."""
    all_exist = True
    pack_domain = constraint.field / "packDomain"
    required = constraint.field / "pack" / "required"
    levels = " ".join(topology.domains)
    for place in (pack_domain, required, constraint.preferred_field):
        domain = place.text()
        if not domain or not _is_legal(domain):
            continue
        if topology.by_domain(domain):
            continue
        all_exist = False
        message = f"topology domain '{domain}' does not exist in cluster topology [{levels}]"
        note(place, "grove/domain-exists", message, _fix(domain, topology))
    return all_exist


def _check_order(
    outer: TopologyConstraint, part: TopologyConstraint, topology: TopologyLevels, note: Note
) -> None:
    """Note parts with a broader level than the whole. Grove reports this on the whole.

    Required levels are compared with required ones, preferred with preferred ones.
    """
    pairs = (
        (outer.field, outer.required, part.required),
        (outer.preferred_field, outer.preferred, part.preferred),
    )
    for field, broad, narrow in pairs:
        above = topology.by_domain(broad)
        below = topology.by_domain(narrow)
        if above is None or below is None:
            continue
        if topology.rank(above) <= topology.rank(below):
            continue
        message = (
            f"{outer.owner} topology constraint domain '{broad}' is narrower than "
            f"{part.owner} topology constraint domain '{narrow}'"
        )
        fix = (
            f"use {narrow!r} or something broader here, "
            f"or {broad!r} or something narrower on {part.owner}"
        )
        note(field, "grove/hierarchy", message, fix)


def check_schema(
    constraints: GroveConstraints,
    topology: TopologyLevels | None,
    old: Sequence[object],
    *,
    is_new: bool,
    note: Note = Field.error,
) -> None:
    """Note what the CRD's schema and CEL rules reject.

    Values that `old` has too are not validated again.
    """
    for constraint in constraints:
        field = constraint.field
        if field.value in old or _is_misspelt(constraint):
            continue
        _check_domain(field / "packDomain", topology, note)
        _check_domain(field / "pack" / "required", topology, note)
        _check_domain(constraint.preferred_field, topology, note)
        _check_pack(constraint, is_new=is_new, note=note)


def _check_pack(constraint: TopologyConstraint, *, is_new: bool, note: Note) -> None:
    """Note a `pack` that is missing or empty, and a `packDomain` that is not allowed."""
    pack = constraint.field / "pack"
    required = pack / "required"
    deprecated = constraint.field / "packDomain"
    if pack and not (required or constraint.preferred_field):
        text = "pack must specify at least one of required or preferred"
        note(pack, "grove/pack", text, "name a level, or remove it")
    if not deprecated:
        if not pack:
            text = "topologyConstraint must specify pack or deprecated packDomain"
            note(pack, "grove/pack", text, "set pack.required")
        return

    if required:
        text = "must not set both pack.required and deprecated packDomain"
        note(required, "grove/pack", text, "remove packDomain")
    if is_new:
        text = "packDomain is deprecated and cannot be used on new workloads; use pack.required"
        fix = (
            f"set pack: {{required: {deprecated.value}}} "
            "(only Grove before 0.1.0-alpha.10 needs packDomain)"
        )
        note(deprecated, "grove/pack-domain", text, fix)


def _is_misspelt(constraint: TopologyConstraint) -> bool:
    """Whether it has unknown fields, one of which may be the missing one, misspelt."""
    inside = f"{constraint.field.path}."
    for finding in constraint.field.findings:
        if finding.rule.endswith("/field") and finding.field.startswith(inside):
            return True
    return False


def _check_domain(field: Field, topology: TopologyLevels | None, note: Note) -> None:
    domain = field.value
    if not isinstance(domain, str) or _is_legal(domain):
        return
    if _DOMAIN.fullmatch(domain):
        text = f"may not be more than {_MAX_DOMAIN_BYTES} bytes"
    elif domain:
        text = f"{field.path} in body should match '^{_DOMAIN.pattern}$'"
    else:
        text = f"{field.path} in body should be at least 1 chars long"
    fix = _fix(domain.lower(), topology) or "set it to the domain of a level"
    note(field, "grove/domain-pattern", text, fix)


def _is_legal(domain: str) -> bool:
    return bool(_DOMAIN.fullmatch(domain)) and len(domain) <= _MAX_DOMAIN_BYTES


def _fix(domain: str, topology: TopologyLevels | None) -> str:
    if topology is None:
        return ""
    by_key = topology.level(domain)
    if by_key:
        expected = "Grove requires the domain here"
        return FixSuggestion(f"{expected}: write {by_key.domain!r}", expected)
    return did_you_mean(domain, topology.domains)


def known_topology(
    constraints: GroveConstraints, cluster: ClusterFacts, note: Note
) -> tuple[str | None, TopologyLevels | None]:
    """The name of the topology that all constraints name, and its levels if it exists."""
    if not any(constraints):
        return None, None

    name = constraints.topology(note, cluster.missing(""))
    naming = [constraint for constraint in constraints if constraint.topology]
    if name is None and naming:
        return None, None
    if name is None:
        return None, cluster.only_topology

    topology = cluster.topologies.get(name)
    if topology is None:
        place = naming[0].field / "topologyName"
        text = f'ClusterTopologyBinding "{name}" not found'
        note(place, "grove/topology-exists", text, cluster.missing(name))
    return name, topology
