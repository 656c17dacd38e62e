"""Workloads checked without a cluster: fields and hierarchy, by the levels of the catalogue."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from toposcope.api.levels import Level
from toposcope.hierarchy.catalogue import Catalogue
from toposcope.integrations.documents import with_documents
from toposcope.integrations.framework.constraints import Workload
from toposcope.integrations.framework.document import Finding
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.system import (
    LEVELS_FIRST,
    ClusterFacts,
    Reading,
    ReadTopologies,
)
from toposcope.integrations.readings import READS, readings
from toposcope.placement.check import Checked

NOT_CHECKED: Final = (
    "not checked without a cluster: topologies, levels, queues, what exists already, and room"
)
_OF_LEVELS: Final = frozenset({"level-exists", "domain-exists", "transfer-domain"})
_EXISTENCE: Final = frozenset(
    {"topology-exists", "transfer-topology", "queue-exists", "flavor-exists"}
)
"""Rules about what is in the cluster, by their names without the system's."""
_BETTER: Final = ("did you mean", "label keys", "Grove takes", "Dynamo takes")


class _AnyTopology(dict[str, TopologyLevels]):
    """Those that are known, and for any other name one with all levels of the catalogue."""

    def __init__(self, known: Mapping[str, TopologyLevels], levels: tuple[Level, ...]) -> None:
        super().__init__(known)
        self._levels = levels

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)

    def __missing__(self, name: str) -> TopologyLevels:
        return TopologyLevels(name, self._levels)

    def get(self, name: str, default: Any = None) -> Any:
        """The topology of this name; there is one of any name."""
        return self[name] if name else default


class WithoutCluster:
    """Checks documents against each other and the catalogue.

    Topologies among them count as applied.
    """

    def __init__(self, catalogue: Catalogue, documents: Iterable[Mapping[str, Any]]) -> None:
        """`documents` are all documents of this run."""
        levels = tuple(Level(domain, key) for key, domain in catalogue.domain_of.items())
        facts = with_documents(ClusterFacts(domain_of=catalogue.domain_of), list(documents))
        self._documented = {option: topologies.by_name for option, topologies in facts.read.items()}
        known = {option: self._documented.get(option, {}) for option in READS.values()}
        # which one, the flavor says
        known["kueue"] = known["kueue"] or {"": TopologyLevels("", levels)}
        read = {
            option: ReadTopologies(_AnyTopology(named, levels), "no cluster")
            for option, named in known.items()
        }
        self._facts = replace(facts, read=read)

    def check(self, document: Mapping[str, Any]) -> tuple[Checked, ...]:
        """As `Checker.check`, with no verdict, and a note of what was not checked. Never raises."""
        return tuple(
            Checked(self._known(reading), None) for reading in readings(document, self._facts)
        )

    def _known(self, reading: Reading) -> Reading:
        workload = reading.workload
        found = (self._finding(finding, workload) for finding in reading.findings)
        reading = replace(reading, findings=tuple(finding for finding in found if finding))
        if workload is None:
            return reading
        notes = tuple(note for note in workload.notes if note != LEVELS_FIRST)
        topology = workload.topology or None
        return replace(
            reading, workload=replace(workload, topology=topology, notes=(*notes, NOT_CHECKED))
        )

    def _finding(self, finding: Finding, workload: Workload | None) -> Finding | None:
        """What holds in any cluster; None for what only a cluster can say."""
        name = finding.rule.partition("/")[2]
        if name in _EXISTENCE:
            return None
        if (
            name not in _OF_LEVELS
            or self._documents(workload)
            or finding.message.endswith(("Required value", "'"))
        ):
            return finding
        text = "names no level of the catalogue; whether the cluster has it was not checked"
        fix = finding.fix.partition(": write '")[0] if finding.fix.startswith(_BETTER) else ""
        return replace(finding, severity="advice", message=text, fix=fix)

    def _documents(self, workload: Workload | None) -> bool:
        """Whether they have the topology that it asks for, or, where the flavor says which one, any of its kind."""
        named = self._documented.get(READS.get(workload.system, ""), {}) if workload else {}
        return bool(named) and (not workload or not workload.topology or workload.topology in named)
