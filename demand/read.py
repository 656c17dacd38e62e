"""One document to whoever is concerned with it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from demand.reading import Finding, Known, Reading, System
from demand.systems.dynamo import Dynamo
from demand.systems.grove import Grove
from demand.systems.jobset import JobSet
from demand.systems.kai import Kai
from demand.systems.kai_podgroup import KaiPodGroup
from demand.systems.kueue import Kueue
from demand.systems.leaderworkerset import LeaderWorkerSet
from demand.systems.osmo import Osmo
from demand.systems.osmo_pool import OsmoPool
from demand.systems.plain import Plain
from demand.systems.runai import RunAi
from demand.systems.runai_topology import RunAiTopology
from demand.systems.topologies import KaiTopology, KueueFlavor, KueueTopology

SYSTEMS: Final[tuple[System, ...]] = (
    Dynamo(),
    Grove(),
    RunAi(),
    RunAiTopology(),
    Kai(),
    KaiPodGroup(),
    KaiTopology(),
    Kueue(),
    KueueTopology(),
    KueueFlavor(),
    LeaderWorkerSet(),
    JobSet(),
    Osmo(),
    OsmoPool(),
)
"""Asked in this order; several may be concerned with one document."""

PLAIN: Final[System] = Plain()
"""Asked where nobody else is concerned: is there room at all?"""


def readings(document: Mapping[str, Any], known: Known, before: Mapping[str, Any] | None = None) -> tuple[Reading, ...]:
    """What each system that is concerned with the document says; empty when none is. Never raises.

    The items of a list are read one by one. What is wrong with pod templates is said once, not by every system.
    """
    items = document.get("items")
    if isinstance(items, list) and str(document.get("kind") or "List").endswith("List"):
        return tuple(
            _inside(f"items[{number}]", reading)
            for number, each in enumerate(items)
            if isinstance(each, dict)
            for reading in readings(each, known)
        )
    systems = [system for system in SYSTEMS if system.claims(document)]
    if any(isinstance(system, RunAi) for system in systems):
        # Run:ai's scheduler reads KAI's annotations itself.
        systems = [system for system in systems if not isinstance(system, Kai)]
    if not systems and PLAIN.claims(document):
        systems = [PLAIN]
    found = [system.read(document, known, before) for system in systems]
    said: set[Finding] = set()
    for number, reading in enumerate(found):
        news = tuple(finding for finding in reading.findings if finding not in said)
        said.update(news)
        found[number] = _beside(replace(reading, findings=news), [each.name for each in systems if len(systems) > 1])
    return tuple(found)


def _inside(path: str, reading: Reading) -> Reading:
    """The same, with fields as they are called in the list."""
    return replace(
        reading,
        findings=tuple(
            replace(each, field=f"{path}.{each.field}" if each.field else path) for each in reading.findings
        ),
    )


def _beside(reading: Reading, names: list[str]) -> Reading:
    """With a note that others place the same pods, which each verdict leaves aside."""
    if reading.workload is None:
        return reading
    others = [name for name in names if name != reading.workload.system]
    if not others:
        return reading
    note = f"{' and '.join(others)} asks for a placement of these pods too; each answer leaves the others aside"
    return replace(reading, workload=replace(reading.workload, notes=(*reading.workload.notes, note)))
