"""What one pass found out about one topology: what metrics show of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from controller.assess import Assessment
from controller.conditions import Condition
from controller.health import Health
from controller.publishers.target import Published
from topology.hierarchy import Coverage
from topology.sizes import LevelSize, level_sizes


@dataclass(frozen=True, slots=True)
class Report:
    """The numbers, without the nodes behind them."""

    nodes: int
    gpus: int
    coverage: tuple[Coverage, ...]
    sizes: tuple[LevelSize, ...]
    health: Health
    conditions: tuple[Condition, ...]
    published: tuple[Published, ...]
    required: Mapping[str, int]
    """By domain: workloads that ask for it; 0 where only the spec does."""
    unavailable: tuple[str, ...]


def report(
    assessment: Assessment,
    conditions: Sequence[Condition],
    published: Sequence[Published],
    required: Mapping[str, int],
) -> Report:
    """Count what no status needs, and let go of the nodes."""
    return Report(
        nodes=assessment.nodes,
        gpus=assessment.gpus,
        coverage=_once(assessment.coverage),
        sizes=_once(level_sizes(assessment.effective.levels, assessment.selected)),
        health=assessment.health,
        conditions=tuple(conditions),
        published=tuple(published),
        required=required,
        unavailable=assessment.unavailable,
    )


Measure = TypeVar("Measure", Coverage, LevelSize)


def _once(measures: Sequence[Measure]) -> tuple[Measure, ...]:
    """The first of each domain: a spec that names one twice is reported, and must not make two series of one name."""
    return tuple({each.level.domain: each for each in reversed(measures)}.values())[::-1]
