"""KAI's topology constraints, wherever they stand.

The topology exists, it has the levels, preferred is not broader. Rules: the scheduler of KAI 0.17.0
(pkg/scheduler/plugins/topology/job_filtering.go), which looks for the levels from the narrowest up
and stops at the required one.
"""

from dataclasses import dataclass, field
from typing import Final

from toposcope.api.levels import Level
from toposcope.integrations.framework.document import Field, Suggestion
from toposcope.integrations.framework.levels import TopologyLevels, did_you_mean, did_you_mean_key
from toposcope.integrations.framework.system import LEVELS_FIRST, ClusterFacts


@dataclass(frozen=True, slots=True)
class WrittenConstraint:
    """One constraint as it was written.

    `owner` is what KAI's messages call it: `workload`, `sub-group 1`.
    """

    owner: str
    topology: Field
    required: Field
    preferred: Field


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint, understood."""

    required: Level | None = None
    preferred: Level | None = None


NONE: Final = Constraint()


@dataclass(slots=True)
class Constraints:
    """Understands the constraints of one workload, and remembers the topologies that they name."""

    cluster: ClusterFacts
    _topologies: dict[str, None] = field(default_factory=dict)
    _invalid: bool = False

    @property
    def topology(self) -> str | None:
        """The topology that all of them name; of several the first."""
        return next(iter(self._topologies), None)

    @property
    def placeable(self) -> bool:
        """Whether all constraints are understood, and on one topology.

        The placement looks at one hierarchy.
        """
        return len(self._topologies) <= 1 and not self._invalid

    @property
    def notes(self) -> tuple[str, ...]:
        """Why it is not placeable."""
        if self._invalid:
            return (LEVELS_FIRST,)
        if self.placeable:
            return ()
        return (
            (
                f"the constraints are on several topologies ({', '.join(self._topologies)}): "
                "room is not checked"
            ),
        )

    def read(
        self,
        written: WrittenConstraint,
        above: Constraint = NONE,
        *,
        dropped_without_level: bool = False,
    ) -> Constraint:
        """One constraint; `above` is that of the group around it.

        A topology without levels is an error of the scheduler's, except where the grouper drops it
        (`dropped_without_level`).
        """
        name = written.topology.text()
        placements = [
            placement for placement in (written.required, written.preferred) if placement.text()
        ]
        if not placements:
            if name and dropped_without_level:
                text = "a topology without a required or preferred level has no effect"
                written.topology.warn("kai/no-level", text, "name a level, or remove the topology")
            elif name:
                self._invalid = True
                text = (
                    "KAI 0.17 never schedules pods with a topology and neither a required nor a "
                    "preferred level"
                )
                fix = (
                    f"set {written.required.path} or {written.preferred.path}, "
                    "or remove the topology here"
                )
                written.topology.error("kai/no-level", text, fix)
            return NONE
        topologies = self.cluster.topologies
        if name is None:
            fix = "; ".join(
                filter(None, (f"set {written.topology.path}", did_you_mean("", topologies)))
            )
            placements[0].warn("kai/no-topology", "a level without a topology has no effect", fix)
            return NONE
        topology = topologies.get(name)
        if topology is None:
            self._invalid = True
            text = f"Requested topology {name} does not exist"
            written.topology.error("kai/topology-exists", text, self.cluster.missing(name))
            return NONE
        self._topologies[name] = None
        required = _level(written.owner, "required", written.required, topology)
        preferred = _level(written.owner, "preferred", written.preferred, topology)
        self._invalid |= len(placements) > (required is not None) + (preferred is not None)
        if required and preferred and topology.rank(preferred) < topology.rank(required):
            self._invalid = True
            written.preferred.error(
                "kai/preferred-broader",
                f"KAI 0.17 never schedules pods whose preferred level ({preferred.key}) is "
                "broader than the required "
                f"one ({required.key}, in {written.required.path})",
                f"prefer {required.key} or a narrower level, or remove {written.preferred.path}",
            )
        if (
            required
            and above.required in topology.levels
            and topology.rank(required) < topology.rank(above.required)
        ):
            text = (
                f"{written.required.value!r} is broader than {above.required.key!r}, "
                "which the group around it requires"
            )
            fix = "name a narrower level, or remove it"
            if preferred:
                written.required.warn(
                    "kai/broader-than-parent", f"{text}, so it has no effect", fix
                )
            else:
                written.required.error(
                    "kai/broader-than-parent", f"{text}: KAI 0.17 never schedules it", fix
                )
        return Constraint(required, preferred)


def _level(owner: str, kind: str, name: Field, topology: TopologyLevels) -> Level | None:
    key = name.text()
    if key is None:
        return None
    level = topology.by_key(key)
    if level is None:
        alias = did_you_mean(key, dict(topology.aliases)) if topology.aliases else ""
        fix = alias if isinstance(alias, Suggestion) else did_you_mean_key(key, (topology,))
        name.error(
            "kai/level-exists",
            f"topology constraint error: {owner} specified '{key}' as the {kind} topology "
            "constraint level, "
            f"but the topology tree '{topology.name}' does not contain a level with this name",
            fix,
        )
    return level
