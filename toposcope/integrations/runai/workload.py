"""Run:ai: KAI's annotations, and what Run:ai adds to distributed workloads that have none.

Those get a preferred placement at the lowest level of the node pool's network topology, from where
the scheduler goes upward; each segment gets the same. A LeaderWorkerSet is placed replica by
replica. Source: Run:ai's documentation (workload-based and segment-based topology placement, 2.23
to 3.0). Network topologies: `topology`.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final

from toposcope.integrations.framework.document import Field, kind_of
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.pods import JOBSET, LEADER_WORKER_SET, Structure, structure_of
from toposcope.integrations.framework.system import ClusterFacts, Reading, System
from toposcope.integrations.kai import api
from toposcope.integrations.kai import workload as kai

SCHEDULER: Final = "runai-scheduler"
_PROJECT: Final = "runai-"
"""The namespace of a project is called `runai-<project>`; Run:ai sets the scheduler of every
workload in it.
"""
_POOL_LABELS: Final = ("kai.scheduler/node-pool", "runai/node-pool")
_DISTRIBUTED: Final = frozenset({"kubeflow.org", "ray.io", JOBSET[0], LEADER_WORKER_SET[0]})
"""API groups of the workloads that Run:ai treats as distributed."""
_KAI_ALONE: Final = frozenset({"kai/scheduler-name", "kai/no-level"})
"""Rules of KAI that do not hold where Run:ai sets the scheduler, and adds levels where there are
none.
"""


def _claims(document: Mapping[str, Any]) -> bool:
    """Workloads in a project's namespace, and those that name Run:ai's scheduler."""
    root = Field(document)
    structure = structure_of(root)
    if structure is None:
        return False
    namespace = (root / "metadata" / "namespace").text() or ""
    schedulers = {
        (pod_set.template / "spec" / "schedulerName").text() for pod_set in structure.sets
    }
    return SCHEDULER in schedulers or (namespace.startswith(_PROJECT) and schedulers <= {None})


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    structure = structure_of(root) or Structure(())
    _check_one_pool(structure)
    topology = _topology(root, cluster) if _is_distributed(root.value, structure) else None
    document = _completed(root.value, topology) if topology else root.value
    reading = kai.SYSTEM.read(document, cluster, before.value if before is not None else None)
    root.findings += [finding for finding in reading.findings if finding.rule not in _KAI_ALONE]
    workload = reading.workload
    if workload:
        workload = replace(
            workload, system=SYSTEM.name, queue="", notes=(*workload.notes, *_notes(root, topology))
        )
    return Reading(workload)


SYSTEM: Final = System("Run:ai", _claims, _read, "kai", instead_of=kai.SYSTEM.name)
"""Its scheduler reads KAI's annotations itself."""
READERS: Final = (SYSTEM,)


def _is_distributed(document: Mapping[str, Any], structure: Structure) -> bool:
    return (
        kind_of(document)[0] in _DISTRIBUTED
        and sum(pod_set.count for pod_set in structure.sets) > 1
    )


def _asks(annotations: Field) -> bool:
    return any((annotations / key).text() for key in api.PLACEMENTS)


def _topology(root: Field, cluster: ClusterFacts) -> TopologyLevels | None:
    """The topology of the node pool.

    The one that the workload names, else the only one there is.
    """
    annotations = root / "metadata" / "annotations"
    named = annotations / api.TOPOLOGY
    if named.text():
        topology = cluster.topologies.get(named.text() or "")
        if topology is None and not _asks(annotations):  # else KAI's rules say so
            text = f"Requested topology {named.value} does not exist"
            named.error("runai/topology-exists", text, cluster.missing(str(named.value)))
        return topology
    if len(cluster.topologies) > 1:
        named.advise(
            "runai/topology-unknown",
            "which topology the workload's node pool has is not known "
            f"({', '.join(sorted(cluster.topologies))}), "
            "so the placement that Run:ai prefers by itself is left out",
            f"set {api.TOPOLOGY} to the node pool's network topology",
        )
    return cluster.only_topology


def _completed(document: Mapping[str, Any], topology: TopologyLevels) -> Mapping[str, Any]:
    """The workload with the annotations that Run:ai adds; what it asks for by itself stays."""
    if not topology.levels:
        return document
    copy = deepcopy(dict(document))
    root, lowest = Field(copy), topology.levels[-1].key
    own = root / "metadata" / "annotations"
    for pod_set in (structure_of(root) or Structure(())).sets:
        segments = [
            place / api.SEGMENT_SIZE
            for place in (pod_set.annotations, own)
            if place / api.SEGMENT_SIZE
        ]
        levels = [
            pod_set.annotations / key for key in (api.SEGMENT_REQUIRED, api.SEGMENT_PREFERRED)
        ]
        if segments and not any(level.text() for level in levels):
            _annotate(pod_set.template.value, {api.SEGMENT_PREFERRED: lowest})
    if not _asks(own):
        _annotate(copy, {api.TOPOLOGY: topology.name, api.PREFERRED: lowest})
    return copy


def _annotate(holder: Any, added: Mapping[str, str]) -> None:
    for name in ("metadata", "annotations"):
        if not isinstance(holder, dict):
            return
        if holder.get(name) is None:
            holder[name] = {}
        holder = holder[name]
    if isinstance(holder, dict):
        holder.update({key: value for key, value in added.items() if not holder.get(key)})


def _notes(root: Field, topology: TopologyLevels | None) -> list[str]:
    if topology is None or not topology.levels or _asks(root / "metadata" / "annotations"):
        return []
    lowest = topology.levels[-1].domain
    return [
        (
            f"Run:ai prefers the lowest level of topology {topology.name} by itself ({lowest}), "
            "then goes upward"
        )
    ]


def _check_one_pool(structure: Structure) -> None:
    """Pods in different node pools are under different topologies, which no placement spans."""
    first = ""
    for pod_set in structure.sets:
        places = (
            pod_set.template / "metadata" / "labels",
            pod_set.template / "spec" / "nodeSelector",
        )
        for pool in (place / label for label in _POOL_LABELS for place in places):
            name = pool.text() or first
            if first and name != first:
                text = (
                    f"node pool {name!r} beside {first!r}: "
                    "topology-aware placement does not span node pools"
                )
                pool.error(
                    "runai/one-pool", text, "choose one node pool for all pods of the workload"
                )
            first = first or name
