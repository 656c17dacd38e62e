"""All integrated systems: who reads a document, and how pods say what they belong to.

A new system is a folder beside this file, and its entries here and in the files next to it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from toposcope.integrations.dynamo import workload as dynamo
from toposcope.integrations.framework.document import Finding
from toposcope.integrations.framework.system import ClusterFacts, GangMark, Reading, System
from toposcope.integrations.grove import api as grove_api
from toposcope.integrations.grove import workload as grove
from toposcope.integrations.jobset import api as jobset_api
from toposcope.integrations.jobset import workload as jobset
from toposcope.integrations.kai import api as kai_api
from toposcope.integrations.kai import pod_group
from toposcope.integrations.kai import topology as kai_topology
from toposcope.integrations.kai import workload as kai
from toposcope.integrations.kubernetes import gangs
from toposcope.integrations.kubernetes import workload as kubernetes
from toposcope.integrations.kueue import queues
from toposcope.integrations.kueue import topology as kueue_topology
from toposcope.integrations.kueue import workload as kueue
from toposcope.integrations.lws import api as lws_api
from toposcope.integrations.lws import workload as lws
from toposcope.integrations.osmo import pool as osmo_pool
from toposcope.integrations.osmo import workload as osmo
from toposcope.integrations.runai import topology as runai_topology
from toposcope.integrations.runai import workload as runai
from toposcope.integrations.volcano import api as volcano_api
from toposcope.integrations.volcano import workload as volcano

SYSTEMS: Final[tuple[System, ...]] = (
    dynamo.SYSTEM,
    grove.SYSTEM,
    runai.SYSTEM,
    runai_topology.NETWORK_TOPOLOGY,
    kai.SYSTEM,
    pod_group.SYSTEM,
    kai_topology.TOPOLOGY,
    kueue.SYSTEM,
    kueue_topology.TOPOLOGY,
    kueue_topology.FLAVOR,
    lws.SYSTEM,
    jobset.SYSTEM,
    gangs.SYSTEM,
    volcano.SYSTEM,
    osmo.SYSTEM,
    osmo_pool.POOL,
)
"""In the order of their answers; several may read one document."""

READS: Final = {system.name: system.reads for system in SYSTEMS if system.reads}
"""By the name of a system: the kind of topology resource that it reads, as `spec.publish` names it."""

EXCLUSIVE_POD_LABELS: Final = (jobset_api.JOB_KEY, lws_api.GROUP_KEY, lws_api.SUBGROUP_KEY)
"""Pods with one of these labels keep pods of other groups out of their domain."""

GANG_MARKS: Final = (
    GangMark("PodGang", (grove_api.GANG_OF,)),
    GangMark("PodGroup", (kai_api.GROUP_OF,), annotation=True),
    GangMark("PodGroup", (volcano_api.GROUP_OF,), annotation=True, single=volcano_api.OF_NO_GROUP),
    GangMark("Workload", (queues.WORKLOAD_OF,), annotation=True),
    GangMark("Pod", (queues.POD_GROUP_OF,)),
    GangMark("LeaderWorkerSet", (lws_api.SET_OF, lws_api.GROUP_INDEX)),
    GangMark("JobSet", (jobset_api.SET_OF,)),
)
"""How pods say which gang they belong to: the innermost system first, as it is the one that schedules."""


def readings(
    document: Mapping[str, Any], cluster: ClusterFacts, before: Mapping[str, Any] | None = None
) -> tuple[Reading, ...]:
    """What each system that acts on the document makes of it; empty when none does. Never raises.

    The items of a list are read one by one. A finding about a pod template is reported once, not by
    every system.
    """
    items = document.get("items")
    if isinstance(items, list) and str(document.get("kind") or "List").endswith("List"):
        return tuple(
            _prefixed(f"items[{number}]", reading)
            for number, item in enumerate(items)
            if isinstance(item, dict)
            for reading in readings(item, cluster)
        )
    systems = [system for system in SYSTEMS if system.claims(document)]
    if runai.SYSTEM in systems:  # whose scheduler reads KAI's annotations itself
        systems = [system for system in systems if system is not kai.SYSTEM]
    if not systems and kubernetes.PODS_ONLY.claims(document):
        systems = [kai.SYSTEM if kai.is_for_kai(document) else kubernetes.PODS_ONLY]
    results = []
    reported: set[Finding] = set()
    for reading in [system.read(document, cluster, before) for system in systems]:
        new = tuple(finding for finding in reading.findings if finding not in reported)
        reported.update(new)
        results.append(_beside(replace(reading, findings=new), [system.name for system in systems]))
    return tuple(results)


def _prefixed(path: str, reading: Reading) -> Reading:
    """The same, with the paths of the fields in the list."""
    findings = (
        replace(finding, field=f"{path}.{finding.field}" if finding.field else path)
        for finding in reading.findings
    )
    return replace(reading, findings=tuple(findings))


def _beside(reading: Reading, names: list[str]) -> Reading:
    """With a note that other systems place the same pods too, which each verdict ignores."""
    workload = reading.workload
    others = [name for name in names if workload and name != workload.system]
    if workload is None or not others:
        return reading
    note = f"{' and '.join(others)} asks for a placement of these pods too; each answer leaves the others aside"
    return replace(reading, workload=replace(workload, notes=(*workload.notes, note)))
