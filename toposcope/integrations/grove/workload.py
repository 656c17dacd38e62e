"""Grove's PodCliqueSet: constraints on the set, its scaling groups and its cliques.

Rules and messages: Grove's CRD (CEL) and webhook, 0.1.0-alpha.10 and later. A constraint holds for each replica of the
object that has it; a clique or scaling group may not be kept together more broadly than what it belongs to.
"""

from dataclasses import dataclass
from typing import Any, Final

from toposcope.integrations.framework.constraints import Group, Workload
from toposcope.integrations.framework.document import Field, handle_of, kind_of, name_of
from toposcope.integrations.framework.levels import TopologyLevels, did_you_mean
from toposcope.integrations.framework.pods import pods_of
from toposcope.integrations.framework.system import LEVELS_FIRST, ClusterFacts, Reading, System
from toposcope.integrations.grove.api import POD_CLIQUE_SETS, clique_names, constrained
from toposcope.topology.levels import Level

_LEVEL_RULES: Final = frozenset(
    {"grove/topology-exists", "grove/topology-name", "grove/one-topology", "grove/domain-exists"}
)
"""Where one of these is broken, it is not known what has to stay together."""


@dataclass(frozen=True, slots=True)
class _Constraint:
    owner: str
    """What has the constraint, as Grove's messages call it."""
    field: Field
    required: Level | None = None
    preferred: Level | None = None


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    template = root / "spec" / "template"
    name, topology = _topology(template, cluster)
    if before is not None:
        _check_unchanged(template, before / "spec" / "template")
    group = _Tree(template, topology, is_new=before is None).group(root)
    invalid = not _LEVEL_RULES.isdisjoint(finding.rule for finding in root.findings)
    notes = (LEVELS_FIRST,) if invalid else ()
    return Reading(Workload("Grove", handle_of(root), (group,), name, placeable=not invalid, notes=notes))


SYSTEM: Final = System("Grove", lambda document: kind_of(document) == POD_CLIQUE_SETS.key, _read, "grove")


class _Tree:
    """Builds the tree of one set. `topology` is None when it is not known."""

    def __init__(self, template: Field, topology: TopologyLevels | None, *, is_new: bool) -> None:
        self._template = template
        self._topology = topology
        self._is_new = is_new
        self._cliques = {(clique / "name").text() or clique.path: clique for clique in (template / "cliques").items()}

    def group(self, root: Field) -> Group:
        """The whole set; each of its replicas is kept together by itself."""
        top = self._constraint(POD_CLIQUE_SETS.kind, self._template)
        scaling = list((self._template / "podCliqueScalingGroups").items())
        below = [self._scaling_group(group, top) for group in scaling]
        grouped = {name for group in scaling for name in clique_names(group)}
        below += [self._clique(clique, top) for name, clique in self._cliques.items() if name not in grouped]
        copies = (root / "spec" / "replicas").number(1)
        return Group(name_of(root, POD_CLIQUE_SETS.kind), (), tuple(below), top.required, top.preferred, copies)

    def _scaling_group(self, group: Field, top: _Constraint) -> Group:
        name = (group / "name").text() or group.path
        own = self._constraint(f"PodCliqueScalingGroup '{name}'", group)
        self._check_order(top, own)
        inner = []
        for clique in clique_names(group):
            if clique in self._cliques:
                inner.append(self._clique(self._cliques[clique], own if own.required else top))
            else:
                text = f"clique {clique!r} is not in spec.template.cliques"
                (group / "cliqueNames").error("grove/clique-found", text, did_you_mean(clique, self._cliques))
        copies = (group / "replicas").number(1)
        return Group(f"scaling group {name}", (), tuple(inner), own.required, own.preferred, copies)

    def _clique(self, clique: Field, above: _Constraint) -> Group:
        name, spec = (clique / "name").text() or clique.path, clique / "spec"
        own = self._constraint(f"PodClique '{name}'", clique)
        self._check_order(above, own)
        pods = pods_of(name, (spec / "replicas").number(1), spec / "podSpec")
        return Group(f"clique {name}", (pods,), (), own.required, own.preferred)

    def _constraint(self, owner: str, constrained_field: Field) -> _Constraint:
        field = constrained_field / "topologyConstraint"
        if not field:
            return _Constraint(owner, field)
        pack, deprecated = field / "pack", field / "packDomain"
        required, preferred = pack / "required", pack / "preferred"
        if not pack and not deprecated.text():
            text = "topologyConstraint must specify pack or deprecated packDomain"
            field.error("grove/pack", text, "set pack.required")
        if pack and not (required.text() or preferred.text()):
            text = "pack must specify at least one of required or preferred"
            pack.error("grove/pack", text, "name a level, or remove it")
        if deprecated.text() and required.text():
            text = "must not set both pack.required and deprecated packDomain"
            field.error("grove/pack", text, "remove packDomain")
        elif deprecated.text() and self._is_new:
            deprecated.error(
                "grove/pack-domain",
                "packDomain is deprecated and cannot be used on new workloads; use pack.required",
                f"write pack: {{required: {deprecated.value}}} (only Grove before 0.1.0-alpha.10 needs packDomain)",
            )
        must = self._level(required if required.text() else deprecated)
        return _Constraint(owner, field, must, self._preferred(preferred, must))

    def _level(self, name: Field) -> Level | None:
        domain = name.text()
        if domain is None or self._topology is None:
            return None
        level = self._topology.by_domain(domain)
        if level is None:
            by_key, domains = self._topology.level(domain), self._topology.domains
            message = f"topology domain '{domain}' does not exist in cluster topology [{' '.join(domains)}]"
            fix = f"Grove takes the domain: write {by_key.domain!r}" if by_key else did_you_mean(domain, domains)
            name.error("grove/domain-exists", message, fix)
        return level

    def _preferred(self, name: Field, required: Level | None) -> Level | None:
        level = self._level(name)
        if level and required and self._topology and self._topology.rank(level) <= self._topology.rank(required):
            name.warn(
                "grove/preferred-no-effect",
                f"preferred {level.domain!r} is not narrower than required {required.domain!r}, so it has no effect",
                "name a narrower level, or remove it",
            )
            return None
        return level

    def _check_order(self, above: _Constraint, own: _Constraint) -> None:
        if not (self._topology and above.required and own.required):
            return
        if self._topology.rank(above.required) > self._topology.rank(own.required):
            own.field.error(
                "grove/hierarchy",
                f"{above.owner} topology constraint domain '{above.required.domain}' is narrower than "
                f"{own.owner} topology constraint domain '{own.required.domain}'",
                f"use {above.required.domain!r} or something narrower here",
            )


def _topology(template: Field, cluster: ClusterFacts) -> tuple[str | None, TopologyLevels | None]:
    """The name of the topology that all constraints name, and its levels if it exists."""
    constraints = [field for place in constrained(template) if (field := place / "topologyConstraint")]
    if not constraints:
        return None, None
    named = [constraint / "topologyName" for constraint in constraints if (constraint / "topologyName").text()]
    if not (template / "topologyConstraint" / "topologyName").text():
        _check_inherited(template, did_you_mean("", cluster.topologies))
    if not named:
        return None, cluster.only_topology
    first = named[0].text() or ""
    for other in named[1:]:
        if other.value != first:
            text = "all topologyConstraint.topologyName values within a PodCliqueSet must match"
            fix = f"use {first!r} everywhere, or make two PodCliqueSets"
            other.error("grove/one-topology", f"{text} in the current implementation", fix)
    topology = cluster.topologies.get(first)
    if topology is None:
        text = f'ClusterTopologyBinding "{first}" not found'
        named[0].error("grove/topology-exists", text, cluster.missing(first))
    return first, topology


def _check_inherited(template: Field, topologies: str) -> None:
    """Without a name on the set, each constraint needs one of its own, or its scaling group's."""
    from_group: set[str] = set()
    for group in (template / "podCliqueScalingGroups").items():
        if (group / "topologyConstraint" / "topologyName").text():
            from_group.update(clique_names(group))
    for place in constrained(template):
        constraint = place / "topologyConstraint"
        inherited = (place / "name").text() in from_group and ".cliques[" in place.path
        if constraint and not (constraint / "topologyName").text() and not inherited:
            (constraint / "topologyName").error(
                "grove/topology-name",
                "topologyName is required when topologyConstraint is set and cannot be inherited",
                "; ".join(filter(None, ("set it on spec.template.topologyConstraint", topologies))),
            )


def _check_unchanged(template: Field, before: Field) -> None:
    """Constraints cannot change once the set exists."""

    def constraints(of: Field) -> dict[str, Any]:
        return {place.path: (place / "topologyConstraint").value for place in constrained(of)}

    now, then = constraints(template), constraints(Field(before.value, template.path))
    for place in constrained(template):
        if place.path in then and now[place.path] != then[place.path]:
            fix = "delete the PodCliqueSet and create it again"
            (place / "topologyConstraint").error("grove/immutable", "field is immutable", fix)
