"""KAI's topology constraints, wherever they are set.

Checks that the topology exists, has the levels, and that preferred is not broader. Rules: the
scheduler of KAI 0.17.0 (pkg/scheduler/plugins/topology/job_filtering.go), which looks for the
levels from the narrowest up and stops at the required one.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from toposcope.api.levels import Level
from toposcope.integrations.framework.document import Field, FixSuggestion
from toposcope.integrations.framework.levels import TopologyLevels, did_you_mean, did_you_mean_key
from toposcope.integrations.framework.system import ClusterFacts


@dataclass(frozen=True, slots=True)
class WrittenConstraint:
    """A constraint as it was written.

    `owner` is what KAI's messages call it: `workload`, `sub-group 1`.
    """

    owner: str
    topology: Field
    required: Field
    preferred: Field


@dataclass(frozen=True, slots=True)
class KaiConstraint:
    """A constraint with its topology and levels."""

    required: Level | None = None
    preferred: Level | None = None


NONE: Final = KaiConstraint()


@dataclass(slots=True)
class KaiConstraints:
    """Reads the constraints of one workload, and keeps the topologies that they name."""

    cluster: ClusterFacts
    _topologies: dict[str, None] = field(default_factory=dict)
    _invalid: bool = False

    @property
    def topology(self) -> str | None:
        """The topology that all of them name, or the first of several."""
        return next(iter(self._topologies), None)

    @property
    def is_placeable(self) -> bool:
        """Whether all constraints are valid and on one topology: placement uses one hierarchy."""
        return len(self._topologies) <= 1 and not self._invalid

    @property
    def notes(self) -> tuple[str, ...]:
        """Why it is not placeable."""
        if self._invalid:
            return self.cluster.levels_first
        if self.is_placeable:
            return ()
        names = ", ".join(self._topologies)
        note = f"the constraints use several topologies ({names}), so room is not checked"
        return (note,)

    def read(
        self,
        written: WrittenConstraint,
        above: KaiConstraint = NONE,
        *,
        is_dropped_without_level: bool = False,
    ) -> KaiConstraint:
        """Read a constraint; `above` is that of the group around it.

        A topology without levels is an error of the scheduler's, except where the grouper drops it
        (`is_dropped_without_level`).
        """
        name = written.topology.text()
        placements = [level for level in (written.required, written.preferred) if level.text()]
        if not placements:
            if name and is_dropped_without_level:
                _warn_of_no_level(written.topology)
            elif name:
                self._refuse_no_level(written)
            return NONE

        topologies = self.cluster.topologies
        if name is None:
            _warn_of_no_topology(written.topology, placements[0], topologies)
            return NONE

        topology = topologies.get(name)
        if topology is None:
            self._invalid = True
            text = f"Requested topology {name} does not exist"
            written.topology.error("kai/topology-exists", text, self.cluster.missing(name))
            return NONE

        self._topologies[name] = None
        constraint = self._in_topology(written, topology)
        _check_against_parent(written, constraint, above, topology)
        return constraint

    def _refuse_no_level(self, written: WrittenConstraint) -> None:
        self._invalid = True
        text = (
            "KAI 0.17 never schedules pods with a topology and neither a required nor a "
            "preferred level"
        )
        fix = (
            f"set {written.required.path} or {written.preferred.path}, or remove the topology here"
        )
        written.topology.error("kai/no-level", text, fix)

    def _in_topology(self, written: WrittenConstraint, topology: TopologyLevels) -> KaiConstraint:
        """The levels that the constraint names. Records those that the topology lacks."""
        required = _level(written.owner, "required", written.required, topology)
        preferred = _level(written.owner, "preferred", written.preferred, topology)
        for name, level in ((written.required, required), (written.preferred, preferred)):
            if level is None and name.text():
                self._invalid = True

        if required is None or preferred is None:
            return KaiConstraint(required, preferred)
        if topology.rank(preferred) < topology.rank(required):
            self._invalid = True
            text = (
                f"KAI 0.17 never schedules pods whose preferred level ({preferred.key}) is "
                f"broader than the required one ({required.key}, in {written.required.path})"
            )
            fix = f"prefer {required.key} or a narrower level, or remove {written.preferred.path}"
            written.preferred.error("kai/preferred-broader", text, fix)
        return KaiConstraint(required, preferred)


def _warn_of_no_level(topology: Field) -> None:
    text = "a topology without a required or preferred level has no effect"
    topology.warn("kai/no-level", text, "name a level, or remove the topology")


def _warn_of_no_topology(topology: Field, level: Field, topology_names: Collection[str]) -> None:
    fix = f"set {topology.path}"
    suggestion = did_you_mean("", topology_names)
    if suggestion:
        fix += f"; {suggestion}"
    level.warn("kai/no-topology", "a level without a topology has no effect", fix)


def _check_against_parent(
    written: WrittenConstraint,
    constraint: KaiConstraint,
    above: KaiConstraint,
    topology: TopologyLevels,
) -> None:
    """Note a required level that is broader than that of the group around it."""
    required, outer = constraint.required, above.required
    if required is None or outer is None or outer not in topology.levels:
        return
    if topology.rank(required) >= topology.rank(outer):
        return
    rule = "kai/broader-than-parent"
    text = (
        f"{written.required.value!r} is broader than {outer.key!r}, "
        "which the group around it requires"
    )
    fix = "name a narrower level, or remove it"
    if constraint.preferred:
        written.required.warn(rule, f"{text}, so it has no effect", fix)
    else:
        written.required.error(rule, f"{text}: KAI 0.17 never schedules it", fix)


def _level(owner: str, kind: str, name: Field, topology: TopologyLevels) -> Level | None:
    key = name.text()
    if key is None:
        return None
    level = topology.by_key(key)
    if level is None:
        text = (
            f"topology constraint error: {owner} specified '{key}' as the {kind} topology "
            f"constraint level, but the topology tree '{topology.name}' does not contain a level "
            "with this name"
        )
        name.error("kai/level-exists", text, _meant(key, topology))
    return level


def _meant(key: str, topology: TopologyLevels) -> str:
    """The alias or the label key that was probably meant."""
    if topology.aliases:
        alias = did_you_mean(key, dict(topology.aliases))
        if isinstance(alias, FixSuggestion):
            return alias
    return did_you_mean_key(key, (topology,))
