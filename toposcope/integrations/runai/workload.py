"""Run:ai: KAI's annotations, and what Run:ai adds to distributed workloads that have none.

Those get a preferred placement at the lowest level of the node pool's network topology, from where the scheduler goes
upward; each segment gets the same. A LeaderWorkerSet is placed replica by replica. Source: Run:ai's documentation
(workload-based and segment-based topology placement, 2.23 to 3.0). Network topologies: `runai_topology.py`.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import TopologyLevels, near
from toposcope.integrations.framework.pods import JOBSET, LEADER_WORKER_SET, PodSet, Structure, kind_of, structure_of
from toposcope.integrations.framework.system import ClusterFacts, Reading, merged
from toposcope.integrations.kai import workload as kai

SCHEDULER: Final = "runai-scheduler"
_PROJECT: Final = "runai-"
"""The namespace of a project is called `runai-<project>`; Run:ai sets the scheduler of whatever is created in it."""
_POOL_LABELS: Final = ("kai.scheduler/node-pool", "runai/node-pool")
_DISTRIBUTED: Final = frozenset({"kubeflow.org", "ray.io", JOBSET[0], LEADER_WORKER_SET[0]})
"""API groups of the workloads that Run:ai takes for distributed ones."""
_KAI_ALONE: Final = frozenset({"kai/scheduler-name", "kai/no-level"})
"""Rules of KAI that do not hold where Run:ai sets the scheduler, and levels where there are none."""


class RunAi:
    """Reads workloads that Run:ai schedules."""

    name = "Run:ai"

    def claims(self, document: Mapping[str, Any]) -> bool:
        """Workloads in a project's namespace, and those that name Run:ai's scheduler."""
        root = Field(document)
        structure = structure_of(root)
        if structure is None:
            return False
        namespace = (root / "metadata" / "namespace").text() or ""
        named = {(set_.template / "spec" / "schedulerName").text() for set_ in structure.sets}
        return SCHEDULER in named or (namespace.startswith(_PROJECT) and named <= {None})

    def read(
        self, document: Mapping[str, Any], known: ClusterFacts, before: Mapping[str, Any] | None = None
    ) -> Reading:
        """The workload's demands, with what Run:ai adds to them; see System."""
        root = Field(document)
        structure = structure_of(root) or Structure(())
        _check_one_pool(structure)
        ladder = _topology(root, known) if _is_distributed(document, structure) else None
        reading = kai.Kai().read(_completed(document, ladder) if ladder else document, known, before)
        findings = [finding for finding in reading.findings if finding.rule not in _KAI_ALONE]
        workload = reading.workload
        if workload:
            notes = (*workload.notes, *_notes(root, ladder))
            workload = replace(workload, system=self.name, notes=notes)
        return Reading(workload, merged([*root.findings, *findings]))


def _is_distributed(document: Mapping[str, Any], structure: Structure) -> bool:
    return kind_of(document)[0] in _DISTRIBUTED and sum(set_.count for set_ in structure.sets) > 1


def _asks(annotations: Field) -> bool:
    return any((annotations / key).text() for key in (kai.REQUIRED, kai.PREFERRED))


def _topology(root: Field, known: ClusterFacts) -> TopologyLevels | None:
    """The topology of the node pool: the one that the workload names, else the only one there is."""
    annotations = root / "metadata" / "annotations"
    named = annotations / kai.TOPOLOGY
    if named.text():
        found = known.ladders.get(named.text() or "")
        if found is None and not _asks(annotations):  # else KAI's rules say so
            text = f"Requested topology {named.value} does not exist"
            named.error("runai/topology-exists", text, near(str(named.value), known.ladders))
        return found
    if len(known.ladders) > 1:
        named.advise(
            "runai/topology-unknown",
            f"which topology the workload's node pool has is not known ({', '.join(sorted(known.ladders))}), "
            "so the placement that Run:ai prefers by itself is left out",
            f"set {kai.TOPOLOGY} to the node pool's network topology",
        )
    return known.ladder(None)


def _completed(document: Mapping[str, Any], ladder: TopologyLevels) -> Mapping[str, Any]:
    """The workload with the annotations that Run:ai adds; what it asks for by itself stays."""
    if not ladder.levels:
        return document
    copy = deepcopy(dict(document))
    root, lowest = Field(copy), ladder.levels[-1].key
    own = root / "metadata" / "annotations"
    for set_ in (structure_of(root) or Structure(())).sets:
        segments = [place / kai.SEGMENT_SIZE for place in (set_.annotations, own) if place / kai.SEGMENT_SIZE]
        levels = [set_.annotations / key for key in (kai.SEGMENT_REQUIRED, kai.SEGMENT_PREFERRED)]
        if segments and not any(level.text() for level in levels):
            _annotate(set_.template.value, {kai.SEGMENT_PREFERRED: lowest})
    if not _asks(own):
        _annotate(copy, {kai.TOPOLOGY: ladder.name, kai.PREFERRED: lowest})
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


def _notes(root: Field, ladder: TopologyLevels | None) -> list[str]:
    if ladder is None or not ladder.levels or _asks(root / "metadata" / "annotations"):
        return []
    lowest = ladder.levels[-1].domain
    return [f"Run:ai prefers the lowest level of topology {ladder.name} by itself ({lowest}), then goes upward"]


def _check_one_pool(structure: Structure) -> None:
    """Pods in different node pools are under different topologies, which no placement spans."""
    first = ""
    for set_ in structure.sets:
        for part in _pool_names(set_):
            name = part.text() or first
            if first and name != first:
                part.error(
                    "runai/one-pool",
                    f"node pool {name!r} beside {first!r}: topology-aware placement does not span node pools",
                    "choose one node pool for all pods of the workload",
                )
            first = first or name


def _pool_names(each: PodSet) -> Iterator[Field]:
    for label in _POOL_LABELS:
        yield each.template / "metadata" / "labels" / label
        yield each.template / "spec" / "nodeSelector" / label
