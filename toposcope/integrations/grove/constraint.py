"""The `topologyConstraint`s of a PodCliqueSet as Grove reads them, and the topology that they agree on.

Rules and messages: Grove's CRD and webhook, main of 2026-08-19; v0.1.0-alpha.10 to alpha.12 have the same.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from toposcope.integrations.framework.document import Field, Suggestion
from toposcope.integrations.framework.levels import TopologyLevels, did_you_mean
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.grove.api import clique_names

Note = Callable[[Field, str, str, str], None]
"""`Field.error`, or `Field.warn` where Grove accepts what it would refuse of a new set."""

_DOMAIN: Final = re.compile(r"[a-z][a-z0-9-]*", re.ASCII)
_MAX_DOMAIN: Final = 63
_ONE_NAME: Final = "all topologyConstraint.topologyName values within a PodCliqueSet must match in the current implementation"


@dataclass(frozen=True, slots=True)
class Constraint:
    """One `topologyConstraint`; empty strings for what it does not say."""

    owner: str
    """What has it, as Grove's messages call it: `PodCliqueSet`, `PodClique 'decode'`."""
    name: str
    """Of the clique or scaling group; empty for the set."""
    field: Field
    topology: str
    pack_domain: str
    pack_required: str
    preferred: str

    @property
    def required(self) -> str:
        """The domain that is required, in the new field or in the old one."""
        return self.pack_required or self.pack_domain

    @property
    def required_field(self) -> Field:
        """The field that names it."""
        return self.field / "pack" / "required" if self.pack_required else self.field / "packDomain"

    @property
    def preferred_field(self) -> Field:
        """The field that names the domain that is preferred."""
        return self.field / "pack" / "preferred"

    def __bool__(self) -> bool:
        return bool(self.field)


def constraint_of(owner: str, name: str, field: Field) -> Constraint:
    """The constraint in a field, which may not be set; `name` is that of the clique or scaling group."""
    pack = field / "pack"
    places = (field / "topologyName", field / "packDomain", pack / "required", pack / "preferred")
    texts = [place.text() or "" for place in places]
    return Constraint(f"{owner} '{name}'" if name else owner, name, field, *texts)


@dataclass(frozen=True)
class Constraints:
    """All places of a PodCliqueSet that can have one; `members` are the cliques of each scaling group."""

    top: Constraint
    groups: Sequence[Constraint]
    members: Sequence[Sequence[str]]
    cliques: Sequence[Constraint]

    @classmethod
    def of(cls, template: Field) -> "Constraints":
        """Those of a set's template."""

        def parts(kind: str, fields: Iterable[Field]) -> list[Constraint]:
            return [
                constraint_of(kind, (part / "name").text() or "", part / "topologyConstraint")
                for part in fields
            ]

        groups = list((template / "podCliqueScalingGroups").items())
        return cls(
            constraint_of("PodCliqueSet", "", template / "topologyConstraint"),
            parts("PodCliqueScalingGroup", groups),
            [clique_names(group) for group in groups],
            parts("PodClique", (template / "cliques").items()),
        )

    def __iter__(self) -> Iterator[Constraint]:
        """Those that are set, in the order of Grove's checks."""
        yield from filter(None, (self.top, *self.cliques, *self.groups))

    def clique(self, name: str) -> Constraint | None:
        """The place of a clique."""
        return next((clique for clique in self.cliques if clique.name == name), None)

    def topology(self, note: Note, fix: str = "") -> str | None:
        """The topology that all constraints name or inherit; None where they name none, or do not agree."""
        problems = 0
        names: list[str] = []

        def resolved(constraint: Constraint, inherited: str) -> str:
            nonlocal problems
            name = constraint.topology or inherited
            if not name:
                text = "topologyName is required when topologyConstraint is set and cannot be inherited"
                advice = "; ".join(
                    filter(None, ("set it on spec.template.topologyConstraint", fix))
                )
                note(constraint.field / "topologyName", "grove/topology-name", text, advice)
            elif inherited and name != inherited:
                note(
                    constraint.field / "topologyName",
                    "grove/one-topology",
                    _ONE_NAME,
                    f"use {inherited!r} everywhere",
                )
            else:
                names.append(name)
                return name
            problems += 1
            return ""

        top = resolved(self.top, "") if self.top else ""
        of_group: dict[str, str] = {}
        for group, members in zip(self.groups, self.members, strict=True):
            if group and (name := resolved(group, top)):
                of_group = dict.fromkeys(members, name) | of_group
        for clique in filter(None, self.cliques):
            resolved(clique, of_group.get(clique.name, top))
        if len(set(names)) > 1:
            for constraint in self:
                if constraint.topology:
                    fix = "use one name everywhere, or make two PodCliqueSets"
                    note(constraint.field / "topologyName", "grove/one-topology", _ONE_NAME, fix)
            return None
        return names[0] if names and not problems else None

    def check_levels(self, topology: TopologyLevels, note: Note) -> None:
        """Every domain is a level of the topology, and no part is kept together more broadly than the whole."""
        unknown = False
        for constraint in self:
            places = (
                constraint.field / "packDomain",
                constraint.field / "pack" / "required",
                constraint.preferred_field,
            )
            for place in places:
                domain = place.text()
                if domain and _legal(domain) and not topology.by_domain(domain):
                    unknown = True
                    levels = " ".join(topology.domains)
                    message = (
                        f"topology domain '{domain}' does not exist in cluster topology [{levels}]"
                    )
                    note(place, "grove/domain-exists", message, _fix(domain, topology))
        if unknown:  # Grove stops here
            return
        if self.top:
            for part in filter(None, (*self.cliques, *self.groups)):
                _check_order(self.top, part, topology, note)
        for group, members in zip(self.groups, self.members, strict=True):
            for clique in filter(None, map(self.clique, members if group else ())):
                _check_order(group, clique, topology, note)


def _check_order(whole: Constraint, part: Constraint, topology: TopologyLevels, note: Note) -> None:
    """Grove reports it on the whole.

    Required levels are compared with required ones, preferred with preferred ones.
    """
    pairs = (
        (whole.field, whole.required, part.required),
        (whole.preferred_field, whole.preferred, part.preferred),
    )
    for field, broad, narrow in pairs:
        levels = topology.by_domain(broad), topology.by_domain(narrow)
        if levels[0] and levels[1] and topology.rank(levels[0]) > topology.rank(levels[1]):
            message = (
                f"{whole.owner} topology constraint domain '{broad}' is narrower than "
                f"{part.owner} topology constraint domain '{narrow}'"
            )
            fix = f"use {narrow!r} or something broader here, or {broad!r} or something narrower on {part.owner}"
            note(field, "grove/hierarchy", message, fix)


def check_schema(
    constraints: Constraints,
    topology: TopologyLevels | None,
    old: Sequence[object],
    *,
    is_new: bool,
    note: Note = Field.error,
) -> None:
    """What the CRD's schema and CEL rules refuse; values that are in `old` too are not validated again."""
    for constraint in constraints:
        unknown = {
            finding.field
            for finding in constraint.field.findings
            if finding.rule.endswith("/field")
        }
        misspelt = any(field.startswith(f"{constraint.field.path}.") for field in unknown)
        if misspelt or constraint.field.value in old:
            continue
        field, pack = constraint.field, constraint.field / "pack"
        deprecated, required = field / "packDomain", pack / "required"
        for domain in (deprecated, required, constraint.preferred_field):
            _check_domain(domain, topology, note)
        if not pack and not deprecated:
            text = "topologyConstraint must specify pack or deprecated packDomain"
            note(pack, "grove/pack", text, "set pack.required")
        if pack and not (required or constraint.preferred_field):
            text = "pack must specify at least one of required or preferred"
            note(pack, "grove/pack", text, "name a level, or remove it")
        if deprecated and required:
            text = "must not set both pack.required and deprecated packDomain"
            note(required, "grove/pack", text, "remove packDomain")
        if deprecated and is_new:
            text = "packDomain is deprecated and cannot be used on new workloads; use pack.required"
            fix = f"write pack: {{required: {deprecated.value}}} (only Grove before 0.1.0-alpha.10 needs packDomain)"
            note(deprecated, "grove/pack-domain", text, fix)


def _check_domain(field: Field, topology: TopologyLevels | None, note: Note) -> None:
    domain = field.value
    if not isinstance(domain, str) or _legal(domain):
        return
    fits = f"should match '^{_DOMAIN.pattern}$'" if domain else "should be at least 1 chars long"
    text = (
        f"may not be more than {_MAX_DOMAIN} bytes"
        if _DOMAIN.fullmatch(domain)
        else f"{field.path} in body {fits}"
    )
    note(
        field,
        "grove/domain-pattern",
        text,
        _fix(domain.lower(), topology) or "write the domain of a level",
    )


def _legal(domain: str) -> bool:
    return bool(_DOMAIN.fullmatch(domain)) and len(domain) <= _MAX_DOMAIN


def _fix(domain: str, topology: TopologyLevels | None) -> str:
    if topology is None:
        return ""
    by_key = topology.level(domain)
    if by_key:
        taken = "Grove takes the domain"
        return Suggestion(f"{taken}: write {by_key.domain!r}", taken)
    return did_you_mean(domain, topology.domains)


def known_topology(
    constraints: Constraints, cluster: ClusterFacts, note: Note
) -> tuple[str | None, TopologyLevels | None]:
    """The name of the topology that all constraints name, and its levels if it exists."""
    if not any(True for _ in constraints):
        return None, None
    name = constraints.topology(note, cluster.missing(""))
    if name is None:
        named = {constraint.topology for constraint in constraints if constraint.topology}
        return None, None if named else cluster.only_topology
    topology = cluster.topologies.get(name)
    if topology is None:
        place = next(constraint.field for constraint in constraints if constraint.topology)
        text = f'ClusterTopologyBinding "{name}" not found'
        note(place / "topologyName", "grove/topology-exists", text, cluster.missing(name))
    return name, topology
