"""What a fault is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from tools.chaos.world import World


class Scope(Enum):
    """What a fault is aimed at, and what its target names."""

    CLUSTER = "cluster"
    """Everything: no target."""
    PROGRAM = "program"
    """An agent or a controller."""
    AGENT = "agent"
    CONTROLLER = "controller"


Action: TypeAlias = "Callable[[World, str], None]"
"""Do something in a world, to a target: the name of an actor, or nothing."""


def nothing(_world: World, _target: str) -> None:
    """It is over by itself, or the programs have to mend it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault. `seconds` is how long it lasts, at least and at most.

    `inject` may find the server broken by another fault: what it raises (OSError, AssertionError) means that it did not
    take place. `heal` runs again at the end of the round when it raises; doing it twice must do no harm.
    """

    name: str
    what: str
    scope: Scope
    seconds: tuple[float, float]
    inject: Action
    heal: Action = nothing
    missing: Callable[[], str] = str
    """Why this machine cannot do it; empty: it can."""
