"""One document to whoever is concerned with it."""

from collections.abc import Mapping
from typing import Any, Final

from demand.reading import Known, Reading, System
from demand.systems.grove import Grove

SYSTEMS: Final[tuple[System, ...]] = (Grove(),)
"""Asked in this order; several may be concerned with one document."""


def readings(document: Mapping[str, Any], known: Known, before: Mapping[str, Any] | None = None) -> tuple[Reading, ...]:
    """What each system that is concerned with the document says; empty when none is. Never raises."""
    return tuple(system.read(document, known, before) for system in SYSTEMS if system.claims(document))
