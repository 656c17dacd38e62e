"""Grove's PodCliqueSet: constraints on the set, its scaling groups and its cliques.

Rules and messages: Grove's CRD (CEL) and webhook, 0.1.0-alpha.10 and later. A constraint holds for each replica of what
it stands on; a clique or scaling group may not be kept together more broadly than what it belongs to.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from toposcope.integrations.framework.constraints import Group, Workload
from toposcope.integrations.framework.document import Field, handle_of, is_kind
from toposcope.integrations.framework.levels import TopologyLevels, near
from toposcope.integrations.framework.pods import pods_of
from toposcope.integrations.framework.system import LEVELS_FIRST, ClusterFacts, Reading, merged
from toposcope.topology.levels import Level

KIND: Final = "PodCliqueSet"
_GROUP: Final = "grove.io"
_SCALING_GROUP: Final = "PodCliqueScalingGroup"
_CLIQUE: Final = "PodClique"
_LEVELS: Final = frozenset(
    {"grove/topology-exists", "grove/topology-name", "grove/one-topology", "grove/domain-exists"}
)
"""Rules without which it is not known what has to stay together."""


@dataclass(frozen=True, slots=True)
class _Owner:
    """What a constraint stands on, as Grove's messages call it."""

    kind: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} '{self.name}'" if self.name else self.kind


@dataclass(frozen=True, slots=True)
class _Constraint:
    owner: _Owner
    part: Field
    required: Level | None = None
    preferred: Level | None = None


class Grove:
    """Reads PodCliqueSets."""

    name = "Grove"

    def claims(self, document: Mapping[str, Any]) -> bool:
        """Every PodCliqueSet is Grove's."""
        return is_kind(document, _GROUP, KIND)

    def read(
        self, document: Mapping[str, Any], known: ClusterFacts, before: Mapping[str, Any] | None = None
    ) -> Reading:
        """The set's demands; see System."""
        root = Field(document)
        template = root / "spec" / "template"
        topology, ladder = _topology(template, known)
        if before is not None:
            _check_unchanged(template, Field(before) / "spec" / "template")
        group = _Tree(template, ladder, isnew=before is None).group(root)
        wrong = not _LEVELS.isdisjoint(finding.rule for finding in root.findings)
        notes = (LEVELS_FIRST,) if wrong else ()
        workload = Workload(self.name, handle_of(root), (group,), topology, placeable=not wrong, notes=notes)
        return Reading(workload, merged(root.findings))


class _Tree:
    """Builds the tree of one set. `ladder` is None when its topology is not known."""

    def __init__(self, template: Field, ladder: TopologyLevels | None, *, isnew: bool) -> None:
        self._template = template
        self._ladder = ladder
        self._isnew = isnew
        self._cliques = {(clique / "name").text() or clique.path: clique for clique in (template / "cliques").items()}

    def group(self, root: Field) -> Group:
        """The whole set; each of its replicas is kept together by itself."""
        top = self._constraint(_Owner(KIND), self._template)
        scaling = list((self._template / "podCliqueScalingGroups").items())
        below = [self._scaling_group(each, top) for each in scaling]
        grouped = {name for each in scaling for name in _clique_names(each)}
        below += [self._clique(each, top) for name, each in self._cliques.items() if name not in grouped]
        return Group(
            (root / "metadata" / "name").text() or KIND,
            groups=tuple(below),
            required=top.required,
            preferred=top.preferred,
            copies=(root / "spec" / "replicas").number(1),
        )

    def _scaling_group(self, part: Field, top: _Constraint) -> Group:
        name = (part / "name").text() or part.path
        own = self._constraint(_Owner(_SCALING_GROUP, name), part)
        self._check_order(top, own)
        inner = []
        for clique in _clique_names(part):
            if clique in self._cliques:
                inner.append(self._clique(self._cliques[clique], own if own.required else top))
            else:
                text = f"clique {clique!r} is not in spec.template.cliques"
                (part / "cliqueNames").error("grove/clique-found", text, near(clique, self._cliques))
        copies = (part / "replicas").number(1)
        return Group(f"scaling group {name}", (), tuple(inner), own.required, own.preferred, copies)

    def _clique(self, part: Field, above: _Constraint) -> Group:
        name = (part / "name").text() or part.path
        own = self._constraint(_Owner(_CLIQUE, name), part)
        self._check_order(above, own)
        pods = pods_of(name, (part / "spec" / "replicas").number(1), part / "spec" / "podSpec")
        return Group(f"clique {name}", (pods,), (), own.required, own.preferred)

    def _constraint(self, owner: _Owner, holder: Field) -> _Constraint:
        part = holder / "topologyConstraint"
        if not part:
            return _Constraint(owner, part)
        pack, deprecated = part / "pack", part / "packDomain"
        required, preferred = pack / "required", pack / "preferred"
        if not pack and not deprecated.text():
            part.error(
                "grove/pack", "topologyConstraint must specify pack or deprecated packDomain", "set pack.required"
            )
        if pack and not (required.text() or preferred.text()):
            pack.error(
                "grove/pack", "pack must specify at least one of required or preferred", "name a level, or remove it"
            )
        if deprecated.text():
            if required.text():
                text = "must not set both pack.required and deprecated packDomain"
                part.error("grove/pack", text, "remove packDomain")
            elif self._isnew:
                deprecated.error(
                    "grove/pack-domain",
                    "packDomain is deprecated and cannot be used on new workloads; use pack.required",
                    f"write pack: {{required: {deprecated.value}}} (only Grove before 0.1.0-alpha.10 needs packDomain)",
                )
        must = self._level(required if required.text() else deprecated)
        return _Constraint(owner, part, must, self._preferred(preferred, must))

    def _level(self, term: Field) -> Level | None:
        text = term.text()
        if text is None or self._ladder is None:
            return None
        found = next((level for level in self._ladder.levels if level.domain == text), None)
        if found is None:
            by_key, domains = self._ladder.level(text), self._ladder.domains
            message = f"topology domain '{text}' does not exist in cluster topology [{' '.join(domains)}]"
            fix = f"Grove takes the domain: write {by_key.domain!r}" if by_key else near(text, domains)
            term.error("grove/domain-exists", message, fix)
        return found

    def _preferred(self, term: Field, required: Level | None) -> Level | None:
        found = self._level(term)
        if found and required and self._ladder and self._ladder.rank(found) <= self._ladder.rank(required):
            term.warn(
                "grove/preferred-no-effect",
                f"preferred {found.domain!r} is not narrower than required {required.domain!r}, so it has no effect",
                "name a narrower level, or remove it",
            )
            return None
        return found

    def _check_order(self, above: _Constraint, own: _Constraint) -> None:
        if not (self._ladder and above.required and own.required):
            return
        if self._ladder.rank(above.required) > self._ladder.rank(own.required):
            own.part.error(
                "grove/hierarchy",
                f"{above.owner} topology constraint domain '{above.required.domain}' is narrower than "
                f"{own.owner} topology constraint domain '{own.required.domain}'",
                f"use {above.required.domain!r} or something narrower here",
            )


def _topology(template: Field, known: ClusterFacts) -> tuple[str | None, TopologyLevels | None]:
    """The topology that all constraints name, and its levels if it exists."""
    constraints = [place / "topologyConstraint" for place in _places(template) if place / "topologyConstraint"]
    if not constraints:
        return None, None
    named = [part / "topologyName" for part in constraints if (part / "topologyName").text()]
    if not (template / "topologyConstraint" / "topologyName").text():
        _check_inherited(template, near("", known.ladders))
    if not named:
        return None, known.ladder(None)
    first = named[0].text() or ""
    for other in named[1:]:
        if other.value != first:
            text = "all topologyConstraint.topologyName values within a PodCliqueSet must match"
            other.error(
                "grove/one-topology",
                f"{text} in the current implementation",
                f"use {first!r} everywhere, or make two PodCliqueSets",
            )
    ladder = known.ladder(first)
    if ladder is None:
        text = f'ClusterTopologyBinding "{first}" not found'
        named[0].error("grove/topology-exists", text, near(first, known.ladders))
    return first, ladder


def _places(template: Field) -> Iterator[Field]:
    """Everything that a constraint can stand on, broadest first."""
    yield template
    yield from (template / "podCliqueScalingGroups").items()
    yield from (template / "cliques").items()


def _clique_names(scaling_group: Field) -> list[str]:
    return [text for part in (scaling_group / "cliqueNames").items() if (text := part.text())]


def _check_inherited(template: Field, offer: str) -> None:
    """Without a name on the set, each constraint needs one of its own, or its scaling group's."""
    from_group: set[str] = set()
    for group in (template / "podCliqueScalingGroups").items():
        if (group / "topologyConstraint" / "topologyName").text():
            from_group.update(_clique_names(group))
    for place in _places(template):
        constraint = place / "topologyConstraint"
        inherited = (place / "name").text() in from_group and ".cliques[" in place.path
        if constraint and not (constraint / "topologyName").text() and not inherited:
            (constraint / "topologyName").error(
                "grove/topology-name",
                "topologyName is required when topologyConstraint is set and cannot be inherited",
                "; ".join(part for part in ("set it on spec.template.topologyConstraint", offer) if part),
            )


def _check_unchanged(template: Field, before: Field) -> None:
    """Constraints cannot change once the set exists."""

    def constraints(of: Field) -> dict[str, Any]:
        return {place.path: (place / "topologyConstraint").value for place in _places(of)}

    now, then = constraints(template), constraints(Field(before.value, template.path))
    for place in _places(template):
        if place.path in then and now[place.path] != then[place.path]:
            (place / "topologyConstraint").error(
                "grove/immutable", "field is immutable", "delete the PodCliqueSet and create it anew"
            )
