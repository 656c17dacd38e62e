"""Run:ai: its scheduler's annotations, and what it adds to distributed workloads without them.

Those get a preferred placement at the lowest level of the node pool's network topology, and the
scheduler falls back to broader levels; so does each segment. A LeaderWorkerSet is placed replica by
replica. Source: Run:ai's documentation (workload-based and segment-based topology placement, 2.23
to 3.0). Network topologies: `topology`.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final

from toposcope.integrations.framework.document import Field, kind_of
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.pods import (
    JOBSET,
    LEADER_WORKER_SET,
    TRAINING_OPERATOR,
    Structure,
    structure_of,
)
from toposcope.integrations.framework.system import ClusterFacts, Reading, System
from toposcope.integrations.runai import scheduler

SCHEDULER: Final = "runai-scheduler"
_PROJECT: Final = "runai-"
"""Prefix of a project's namespace. Run:ai sets the scheduler of every workload in it.
"""
_POOL_LABELS: Final = (scheduler.NODE_POOL, "runai/node-pool")
_DISTRIBUTED: Final = frozenset({TRAINING_OPERATOR, "ray.io", JOBSET[0], LEADER_WORKER_SET[0]})
"""API groups of the workloads that Run:ai treats as distributed."""


def _claims(document: Mapping[str, Any]) -> bool:
    """Workloads in a project's namespace, and those that name Run:ai's scheduler."""
    root = Field(document)
    structure = structure_of(root)
    if structure is None:
        return False

    namespace = (root / "metadata" / "namespace").text() or ""
    schedulers = set()
    for pod_set in structure.sets:
        named = pod_set.template / "spec" / "schedulerName"
        schedulers.add(named.text())

    if SCHEDULER in schedulers:
        return True
    return namespace.startswith(_PROJECT) and schedulers <= {None}


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    structure = structure_of(root) or Structure(())
    _check_one_pool(structure)
    topology = None
    if _is_distributed(root.value, structure):
        topology = _topology(root, cluster)
    document = root.value
    if topology:
        document = _completed(document, topology)

    reading = scheduler.system().read(document, cluster, None if before is None else before.value)
    for finding in reading.findings:
        if finding.rule not in scheduler.NOT_HERE:
            root.findings.append(finding)

    workload = reading.workload
    if workload is None:
        return Reading(None)

    notes = (*workload.notes, *_notes(root, topology))
    return Reading(replace(workload, system=SYSTEM.name, queue="", notes=notes))


SYSTEM: Final = System(
    "Run:ai",
    _claims,
    _read,
    scheduler.TOPOLOGIES.option,
    instead_of=scheduler.TITLE,
)
READERS: Final = (SYSTEM,)


def _is_distributed(document: Mapping[str, Any], structure: Structure) -> bool:
    group, _ = kind_of(document)
    if group not in _DISTRIBUTED:
        return False

    pods = 0
    for pod_set in structure.sets:
        pods += pod_set.count
    return pods > 1


def _asks(annotations: Field) -> bool:
    """Whether the workload's annotations request a placement."""
    return any((annotations / key).text() for key in scheduler.PLACEMENTS)


def _topology(root: Field, cluster: ClusterFacts) -> TopologyLevels | None:
    """The node pool's topology: the one that the workload names, else the only one."""
    annotations = root / "metadata" / "annotations"
    named = annotations / scheduler.TOPOLOGY
    name = named.text()
    if name:
        topology = cluster.topologies.get(name)
        if topology is None and not _asks(annotations):  # else the scheduler's rules say so
            text = f"Requested topology {name} does not exist"
            named.error("runai/topology-exists", text, cluster.missing(name))
        return topology

    if len(cluster.topologies) > 1:
        names = ", ".join(sorted(cluster.topologies))
        named.advise(
            "runai/topology-unknown",
            f"the topology of the workload's node pool is unknown ({names}), so Run:ai's default "
            "preferred placement is left out",
            f"set {scheduler.TOPOLOGY} to the node pool's network topology",
        )
    return cluster.only_topology


def _completed(document: Mapping[str, Any], topology: TopologyLevels) -> Mapping[str, Any]:
    """The workload with the annotations that Run:ai adds to its own."""
    if not topology.levels:
        return document

    copy = deepcopy(dict(document))
    root = Field(copy)
    lowest = topology.levels[-1].key
    own = root / "metadata" / "annotations"
    structure = structure_of(root) or Structure(())
    for pod_set in structure.sets:
        if _has_bare_segments(pod_set.annotations, own):
            _annotate(pod_set.template.value, {scheduler.SEGMENT_PREFERRED: lowest})

    if not _asks(own):
        _annotate(copy, {scheduler.TOPOLOGY: topology.name, scheduler.PREFERRED: lowest})
    return copy


def _has_bare_segments(of_pods: Field, of_workload: Field) -> bool:
    """Whether the pods are in segments that request no level."""
    if not (of_pods / scheduler.SEGMENT_SIZE or of_workload / scheduler.SEGMENT_SIZE):
        return False
    for key in (scheduler.SEGMENT_REQUIRED, scheduler.SEGMENT_PREFERRED):
        if (of_pods / key).text():
            return False

    return True


def _annotate(holder: Any, added: Mapping[str, str]) -> None:
    for name in ("metadata", "annotations"):
        if not isinstance(holder, dict):
            return
        if holder.get(name) is None:
            holder[name] = {}
        holder = holder[name]

    if not isinstance(holder, dict):
        return
    for key, value in added.items():
        if not holder.get(key):
            holder[key] = value


def _notes(root: Field, topology: TopologyLevels | None) -> list[str]:
    if topology is None or not topology.levels or _asks(root / "metadata" / "annotations"):
        return []

    lowest = topology.levels[-1].domain
    note = (
        f"Run:ai prefers the lowest level of topology {topology.name} by default ({lowest}), then "
        "broader levels"
    )
    return [note]


def _check_one_pool(structure: Structure) -> None:
    """Pods of different node pools have different topologies, and no placement spans both."""
    first = ""
    for pool in _node_pools(structure):
        name = pool.text()
        if not name:
            continue
        if not first:
            first = name
        elif name != first:
            text = (
                f"the pods use node pools {first!r} and {name!r}; topology-aware placement does "
                "not span node pools"
            )
            fix = "choose one node pool for all pods of the workload"
            pool.error("runai/one-pool", text, fix)


def _node_pools(structure: Structure) -> Iterator[Field]:
    """The fields in which pods may select a node pool."""
    for pod_set in structure.sets:
        labels = pod_set.template / "metadata" / "labels"
        selector = pod_set.template / "spec" / "nodeSelector"
        for label in _POOL_LABELS:
            yield labels / label
            yield selector / label
