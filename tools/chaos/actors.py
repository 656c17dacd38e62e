"""The programs of a world with all that a fault may take hold of, and how fast their clocks run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

    from tools.chaos.machines import Machine
    from tools.chaos.processes import Program
    from tools.chaos.proxy import Proxy

_LEASE_SECONDS: Final = 8.0
"""How long a Lease lasts by the machine's clock: a busy one needs some seconds for a request."""
_SLOWEST: Final = 60.0
_SILENCE: Final = 180.0
"""Seconds, by the controller's clock, until a connection that says nothing is given up and made anew."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How large a world is, and how fast its programs' clocks run."""

    agents: int = 4
    agent_speed: float = 12.0
    controller_speed: float = 4.0

    @property
    def patience(self) -> float:
        """Seconds in which all has to be well once every fault is healed."""
        return _SLOWEST + max(_SLOWEST, _SILENCE / self.controller_speed)

    @property
    def lease(self) -> int:
        """Seconds that the controllers' Lease lasts, by their own clock."""
        return max(3, round(_LEASE_SECONDS * self.controller_speed))


@dataclass
class Actor:
    """One program with what a fault may take hold of."""

    program: Program
    proxy: Proxy
    token: Path
    wall: Path
    pod: dict[str, Any] = field(default_factory=dict)
    machine: Machine | None = None

    @property
    def name(self) -> str:
        """As schedules call it."""
        return self.program.name
