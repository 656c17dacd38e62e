"""One document to whoever is concerned with it.

What documents of one run say to each other: some configure what others ask for.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from toposcope.integrations.dynamo.workload import Dynamo
from toposcope.integrations.framework.system import ClusterFacts, Finding, Reading, System
from toposcope.integrations.grove.workload import Grove
from toposcope.integrations.jobset.workload import JobSet
from toposcope.integrations.kai.pod_group import KaiPodGroup, members_of_documents
from toposcope.integrations.kai.topology import KaiTopology
from toposcope.integrations.kai.workload import Kai
from toposcope.integrations.kubernetes.workload import Plain
from toposcope.integrations.kueue.topology import KueueFlavor, KueueTopology
from toposcope.integrations.kueue.workload import Kueue
from toposcope.integrations.lws.workload import LeaderWorkerSet
from toposcope.integrations.osmo.pool import OsmoPool, pools_of, schedulers_of
from toposcope.integrations.osmo.workload import Osmo
from toposcope.integrations.runai.topology import RunAiTopology, ladder_of
from toposcope.integrations.runai.workload import RunAi


def with_documents(known: ClusterFacts, documents: Collection[Mapping[str, Any]]) -> ClusterFacts:
    """The same, with OSMO's pools and backends and Run:ai's network topologies that stand in the documents.

    What the cluster itself says of a topology counts more than a document of the same name; of the pods of a PodGroup
    those of documents count.
    """
    pools, schedulers, ladders = dict(known.pools), dict(known.schedulers), dict(known.ladders)
    for document in documents:
        if OsmoPool().claims(document):
            pools.update((pool.name, pool) for pool in pools_of(document))
            schedulers.update(schedulers_of(document))
        elif RunAiTopology().claims(document):
            ladder = ladder_of(document, known.domain_of)
            ladders.setdefault(ladder.name, ladder)
    members = {**known.members, **members_of_documents(documents)}
    return replace(known, pools=pools, schedulers=schedulers, ladders=ladders, members=members)


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


def readings(
    document: Mapping[str, Any], known: ClusterFacts, before: Mapping[str, Any] | None = None
) -> tuple[Reading, ...]:
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
            replace(finding, field=f"{path}.{finding.field}" if finding.field else path) for finding in reading.findings
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
