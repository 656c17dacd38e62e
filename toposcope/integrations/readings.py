"""The readings of a document by each system that acts on it, in the registry's order."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from toposcope.errors import ToposcopeError
from toposcope.integrations.framework.constraints import Workload
from toposcope.integrations.framework.document import (
    Field,
    Finding,
    UnreadField,
    handle_of,
    kind_of,
)
from toposcope.integrations.framework.making import Made
from toposcope.integrations.framework.plugin import PluginPart
from toposcope.integrations.framework.pods import suspension_of
from toposcope.integrations.framework.system import ClusterFacts, Reading, System
from toposcope.integrations.registry import PLUGINS, makers, readers
from toposcope.integrations.unread import unread_fields, unread_pods

READS: Final = {system.name: system.reads for system in readers() if system.reads}
"""The topology resource of each reader, by the reader's name, as `spec.publish` names it."""
_OTHERS_TOO: Final = "the other objects that are created with it need room too"
READERS_OF_PLAIN_PODS: Final = {
    system.name: system for system in readers() if system.reads_plain_pods
}
"""The readers, by name, that place the pods of documents that no system claims."""


def _names_of_admitting() -> Iterator[str]:
    for plugin in PLUGINS:
        module = plugin.part(PluginPart.WORKLOAD)
        if plugin.admits and module is not None:
            for system in module.READERS:
                yield system.name


_SUSPENDING: Final = frozenset(_names_of_admitting())
"""The names of the readers whose systems hold workloads back by suspending them."""


class IncompleteSystemError(ToposcopeError):
    """A system of the registry has not taken a step of docs/maintainers/new-system.md."""


def resource_read_for(workload: Workload) -> str:
    """The topology resource of a workload's levels, as `spec.publish` names it.

    Raises IncompleteSystemError if its reader declares none.
    """
    resource = READS.get(workload.system)
    if resource is None:
        raise IncompleteSystemError(
            f"no reader called {workload.system} declares which topology resource it reads, but "
            f"its workload names topology {workload.topology}: take step 2 of "
            "docs/maintainers/new-system.md"
        )
    return resource


def readings(
    document: Mapping[str, Any], cluster: ClusterFacts, before: Mapping[str, Any] | None = None
) -> tuple[Reading, ...]:
    """The reading of each system that acts on the document; empty if none does. Never raises.

    The items of a list are read one by one. A finding about a pod template is reported once, not by
    every system.
    """
    items = document.get("items")
    if isinstance(items, list):
        kind = str(document.get("kind") or "List")
        if kind.endswith("List"):
            return _of_items(items, cluster)

    systems = _acting_on(document)
    maker = makers().get(kind_of(document))
    if maker is not None:
        systems = _admitting(systems)
    if systems:
        return _by_systems(systems, document, cluster, before)
    if maker is not None:
        created = maker(Field(document), cluster)
        if created:
            return _of_made(document, created, cluster)
    return _of_unread_kind(document)


def _admitting(systems: Iterable[System]) -> list[System]:
    """The systems that queue the original workload; the others see the objects created from it."""
    return [system for system in systems if system.name in _SUSPENDING]


def _by_systems(
    systems: Sequence[System],
    document: Mapping[str, Any],
    cluster: ClusterFacts,
    before: Mapping[str, Any] | None,
) -> tuple[Reading, ...]:
    names = [system.name for system in systems]
    unread = unread_fields(document)
    results = []
    reported: set[Finding] = set()
    for system in systems:
        reading = system.read(document, cluster, before)
        reading = _without(reported, reading)
        reported.update(reading.findings)
        reading = _with_unread(reading, _all_unread(reading, unread))
        results.append(_beside(reading, names))
    return tuple(_suspended(reading, document, names) for reading in results)


def _suspended(reading: Reading, document: Mapping[str, Any], names: Collection[str]) -> Reading:
    """The reading with the field that suspends the workload, unless a queue manages that."""
    if reading.workload is None or not _SUSPENDING.isdisjoint(names):
        return reading
    field = suspension_of(Field(document))
    if not field:
        return reading
    workload = replace(reading.workload, suspended=field)
    stages = [replace(stage, suspended=field) for stage in reading.stages]
    alternatives = [replace(alternative, suspended=field) for alternative in reading.alternatives]
    return replace(
        reading, workload=workload, stages=tuple(stages), alternatives=tuple(alternatives)
    )


def _of_made(
    document: Mapping[str, Any], all_made: Sequence[Made], cluster: ClusterFacts
) -> tuple[Reading, ...]:
    """The readings of the objects created from one."""
    unread = unread_fields(document)
    results = []
    for created in all_made:
        of_sources: list[UnreadField] = []
        for name, source in created.sources:
            of_sources += _below(name, unread_fields(source))
        for reading in readings(created.document, cluster):
            own = reading.workload.unread if reading.workload and not created.is_copied else ()
            all_unread = (*unread, *of_sources, *_below(created.path, own))
            complete_reading = _with_unread(_prefixed(created.path, reading), all_unread)
            results.append(_suspended(complete_reading, document, ()))
    if len(results) > 1:
        results = [_beside_others(reading) for reading in results]
    return tuple(results)


def _below(path: str, fields: Iterable[UnreadField]) -> list[UnreadField]:
    """The fields, with their paths below another field."""
    return [replace(unread, field=f"{path}.{unread.field}") for unread in fields]


def _beside_others(reading: Reading) -> Reading:
    """The reading of one of several objects that need room together."""
    workload = reading.workload
    if workload is None or workload.doubt:
        return reading
    return replace(reading, workload=replace(workload, doubt=_OTHERS_TOO, certain=()))


def _of_unread_kind(document: Mapping[str, Any]) -> tuple[Reading, ...]:
    """The reading of an object that no system reads; empty if it creates no pods."""
    unread = unread_pods(document)
    if not unread:
        return ()
    handle = handle_of(Field(document))
    workload = Workload("", handle, groups=(), is_placeable=False, unread=unread)
    return (Reading(workload),)


def _without(reported: Collection[Finding], reading: Reading) -> Reading:
    """The reading without findings that were reported before."""
    new = []
    for finding in reading.findings:
        if finding not in reported:
            new.append(finding)
    return replace(reading, findings=tuple(new))


def _of_items(items: Sequence[Any], cluster: ClusterFacts) -> tuple[Reading, ...]:
    results = []
    for number, item in enumerate(items):
        if not isinstance(item, dict):
            continue
        path = f"items[{number}]"
        for reading in readings(item, cluster):
            results.append(_prefixed(path, reading))
    return tuple(results)


def _acting_on(document: Mapping[str, Any]) -> list[System]:
    """The systems that claim the document, else those that place its pods anyway."""
    claiming = []
    displaced = set()
    for system in readers():
        if system.claims(document):
            claiming.append(system)
            displaced.add(system.instead_of)

    acting = []
    for system in claiming:
        if system.name not in displaced:
            acting.append(system)
    if acting:
        return acting

    for system in readers():
        if system.places_plain_pods(document):
            return [system]
    return []


def _with_unread(reading: Reading, unread: tuple[UnreadField, ...]) -> Reading:
    """The reading, with the unread fields of its document in all of its workloads."""
    workload = reading.workload
    if workload is None or not unread:
        return reading
    return replace(
        reading,
        workload=replace(workload, unread=unread),
        alternatives=tuple(
            replace(alternative, unread=unread) for alternative in reading.alternatives
        ),
        stages=tuple(replace(stage, unread=unread) for stage in reading.stages),
    )


def _all_unread(reading: Reading, unread: Iterable[UnreadField]) -> tuple[UnreadField, ...]:
    """The unread fields of a document, and those that its system found in related objects."""
    around = reading.workload.unread if reading.workload else ()
    return (*unread, *around)


def _prefixed(path: str, reading: Reading) -> Reading:
    """The reading of a list's item, with the paths of fields in the list."""
    workload = reading.workload
    if workload is not None:
        unread = _below(path, workload.unread)
        if workload.queue_field:
            named = replace(workload, queue_field=f"{path}.{workload.queue_field}")
            reading = replace(reading, workload=named)
        reading = _with_unread(reading, tuple(unread))
    findings = []
    for finding in reading.findings:
        field = f"{path}.{finding.field}" if finding.field else path
        findings.append(replace(finding, field=field))
    return replace(reading, findings=tuple(findings))


def _beside(reading: Reading, names: Sequence[str]) -> Reading:
    """The reading with a note on other systems for the same pods, which each verdict ignores."""
    workload = reading.workload
    if workload is None:
        return reading
    others = [name for name in names if name != workload.system]
    if not others:
        return reading

    who = " and ".join(others)
    note = f"{who} also requests a placement of these pods; each answer ignores the others"
    noted = replace(workload, notes=(*workload.notes, note))
    return replace(reading, workload=noted)
