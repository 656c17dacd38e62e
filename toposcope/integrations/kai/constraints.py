"""KAI's topology constraints, wherever they stand: the topology exists, it has the levels, preferred is narrower."""

from dataclasses import dataclass, field
from typing import Final

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import TopologyLevels, key_fix, near
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.topology.levels import Level


@dataclass(frozen=True, slots=True)
class WrittenConstraint:
    """One constraint as it was written. `who` asks, as KAI's messages call it: `workload`, `sub-group 1`."""

    who: str
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

    known: ClusterFacts
    _named: dict[str, None] = field(default_factory=dict)
    _wrong: bool = False

    @property
    def topology(self) -> str | None:
        """The topology that all of them name; of several the first."""
        return next(iter(self._named), None)

    @property
    def placeable(self) -> bool:
        """Whether all constraints are understood, and on one topology: the placement looks at one hierarchy."""
        return len(self._named) <= 1 and not self._wrong

    @property
    def notes(self) -> tuple[str, ...]:
        """Why not, where it is not."""
        if self._wrong:
            return ("room is not checked before the levels are right",)
        if self.placeable:
            return ()
        return (f"the constraints are on several topologies ({', '.join(self._named)}): room is not checked",)

    def of(self, asked: WrittenConstraint, above: Constraint = NONE, *, topology_alone: bool = False) -> Constraint:
        """One constraint; `above` is that of the group around it.

        A topology without levels is worth a warning unless `topology_alone`: others may inherit it.
        """
        name = asked.topology.text()
        placements = [part for part in (asked.required, asked.preferred) if part.text()]
        if not placements:
            if name and not topology_alone:
                asked.topology.warn(
                    "kai/no-level",
                    "a topology without a required or preferred level has no effect",
                    "name a level, or remove the topology",
                )
            return NONE
        if name is None:
            placements[0].warn(
                "kai/no-topology",
                "a level without a topology has no effect",
                "; ".join(filter(None, (f"set {asked.topology.path}", near("", self.known.ladders)))),
            )
            return NONE
        ladder = self.known.ladders.get(name)
        if ladder is None:
            self._wrong = True
            asked.topology.error(
                "kai/topology-exists", f"Requested topology {name} does not exist", near(name, self.known.ladders)
            )
            return NONE
        self._named[name] = None
        required = _level(asked.who, "required", asked.required, ladder)
        preferred = _level(asked.who, "preferred", asked.preferred, ladder)
        self._wrong |= len(placements) > (required is not None) + (preferred is not None)
        if required and preferred and ladder.rank(preferred) <= ladder.rank(required):
            asked.preferred.warn(
                "kai/preferred-no-effect",
                f"preferred {asked.preferred.value!r} is not narrower than required {asked.required.value!r}, "
                "so it has no effect",
                "name a narrower level, or remove it",
            )
            preferred = None
        if required and above.required in ladder.levels and ladder.rank(required) < ladder.rank(above.required):
            asked.required.warn(
                "kai/broader-than-parent",
                f"{asked.required.value!r} is broader than {above.required.key!r}, which the group around it must stay "
                "in already, so it has no effect",
                "name a narrower level, or remove it",
            )
        return Constraint(required, preferred)


def _level(who: str, how: str, term: Field, ladder: TopologyLevels) -> Level | None:
    text = term.text()
    if text is None:
        return None
    found = ladder.by_key(text)
    if found is None:
        aliases = near(text, dict(ladder.aliases)) if ladder.aliases else ""
        fix = aliases if aliases.startswith("did you mean") else key_fix(text, (ladder,))
        term.error(
            "kai/level-exists",
            f"topology constraint error: {who} specified '{text}' as the {how} topology constraint level, "
            f"but the topology tree '{ladder.name}' does not contain a level with this name",
            fix,
        )
    return found
