"""Faults of the way between one program and the API server."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from tools.chaos.faults.model import Fault, Scope
from tools.chaos.proxy import Mode

if TYPE_CHECKING:
    from tools.chaos.world import World


def _switch(mode: Mode, world: World, target: str) -> None:
    world.switch(world.actors[target], mode)


def _fault(name: str, what: str, seconds: tuple[float, float], mode: Mode) -> Fault:
    heal = functools.partial(_switch, Mode.PASS)
    return Fault(name, what, Scope.PROGRAM, seconds, functools.partial(_switch, mode), heal)


FAULTS = (
    _fault("half-open", "connections stay open and never carry anything again", (2.0, 12.0), Mode.SILENT),
    _fault("stalled", "nothing moves for a while, then what waited goes on", (2.0, 12.0), Mode.STALL),
    _fault("slow", "20 kB a second", (4.0, 15.0), Mode.SLOW),
    _fault("cut-mid-line", "half of each answer arrives, then a reset", (2.0, 10.0), Mode.CUT),
    _fault("refused", "every connection reset", (2.0, 12.0), Mode.REFUSE),
    _fault("throttled", "429 with Retry-After to every request", (2.0, 12.0), Mode.THROTTLE),
)
