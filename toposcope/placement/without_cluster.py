"""Workloads checked without a cluster: fields and hierarchy, by the levels of the catalogue."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from toposcope.integrations.framework.document import Finding
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.system import LEVELS_FIRST, ClusterFacts, Reading, ReadTopologies
from toposcope.integrations.registry import READS, readings, with_documents
from toposcope.placement.check import Checked
from toposcope.topology.catalogue import Catalogue
from toposcope.topology.levels import Level

NOT_CHECKED: Final = "not checked without a cluster: topologies, levels, queues, what exists already, and room"
_OF_LEVELS: Final = frozenset({"level-exists", "domain-exists", "transfer-domain"})
_EXISTENCE: Final = frozenset({"topology-exists", "transfer-topology", "queue-exists", "flavor-exists"})
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
    """Checks documents against each other and the catalogue. Topologies among them count as applied."""

    def __init__(self, catalogue: Catalogue, documents: Iterable[Mapping[str, Any]] = ()) -> None:
        """`documents` are all documents of this run."""
        levels = tuple(Level(domain, key) for key, domain in catalogue.domain_of.items())
        facts = with_documents(ClusterFacts(domain_of=catalogue.domain_of), list(documents))
        self._some_known = bool(facts.topologies or facts.read)
        options = {*READS.values(), *facts.read}
        known = {option: facts.read[option].by_name if option in facts.read else {} for option in options}
        known["kueue"] = known.get("kueue") or {"": TopologyLevels("", levels)}  # which one, the flavor says
        read = {option: ReadTopologies(_AnyTopology(named, levels), "no cluster") for option, named in known.items()}
        self._facts = replace(facts, topologies=_AnyTopology(facts.topologies, levels), read=read)

    def check(self, document: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> tuple[Checked, ...]:
        """As `Checker.check`, with no verdict, and a note of what was not checked. Never raises."""
        return tuple(Checked(self._known(reading), None) for reading in readings(document, self._facts, before))

    def _known(self, reading: Reading) -> Reading:
        found = (self._finding(finding) for finding in reading.findings)
        reading = replace(reading, findings=tuple(finding for finding in found if finding))
        workload = reading.workload
        if workload is None:
            return reading
        notes = tuple(note for note in workload.notes if note != LEVELS_FIRST)
        topology = workload.topology or None
        return replace(reading, workload=replace(workload, topology=topology, notes=(*notes, NOT_CHECKED)))

    def _finding(self, finding: Finding) -> Finding | None:
        """What holds in any cluster; None for what only a cluster can say."""
        name = finding.rule.partition("/")[2]
        if name in _EXISTENCE:
            return None
        if name not in _OF_LEVELS or self._some_known or finding.message.endswith(("Required value", "'")):
            return finding
        text = "names no level of the catalogue; whether the cluster has it was not checked"
        fix = finding.fix.partition(": write '")[0] if finding.fix.startswith(_BETTER) else ""
        return replace(finding, severity="advice", message=text, fix=fix)
