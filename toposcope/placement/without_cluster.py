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
from toposcope.integrations.framework.system import ClusterFacts, Reading, ReadTopologies
from toposcope.integrations.readings import READS, readings
from toposcope.integrations.registry import PLUGINS
from toposcope.placement.check import Checked

NOT_CHECKED: Final = (
    "not checked without a cluster: topologies, levels, queues, existing objects, and room"
)
_OF_LEVELS: Final = frozenset({"level-exists", "domain-exists", "transfer-domain"})
_EXISTENCE: Final = frozenset(
    {
        "topology-exists",
        "transfer-topology",
        "queue-exists",
        "flavor-exists",
        "priority-class-exists",
        "runtime-class-exists",
    }
)
"""Rules about objects in the cluster, without the system's prefix."""
_INDIRECT: Final = frozenset([plugin.name for plugin in PLUGINS if not plugin.names_topology])
"""Systems in which another object names a workload's topology."""


class _AnyTopology(dict[str, TopologyLevels]):
    """The known topologies; any other name gets one with all levels of the catalogue."""

    def __init__(self, topologies: Mapping[str, TopologyLevels], levels: tuple[Level, ...]) -> None:
        super().__init__(topologies)
        self._levels = levels

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)

    def __missing__(self, name: str) -> TopologyLevels:
        return TopologyLevels(name, self._levels)

    def get(self, name: str, default: Any = None) -> Any:
        """The topology of this name; every name has one."""
        return self[name] if name else default


class WithoutCluster:
    """Checks documents against each other and the catalogue.

    Topologies among the documents count as applied.
    """

    def __init__(self, catalogue: Catalogue, documents: Iterable[Mapping[str, Any]]) -> None:
        """`documents` are all documents of this run."""
        levels = []
        for key, domain in catalogue.domain_of.items():
            levels.append(Level(domain, key))
        self._levels = tuple(levels)

        facts = with_documents(ClusterFacts(domain_of=catalogue.domain_of), list(documents))
        self._documented: dict[str, Mapping[str, TopologyLevels]] = {}
        """The topologies among the documents, by the option of `spec.publish`."""
        for option, topologies in facts.read.items():
            self._documented[option] = topologies.by_name

        read = {}
        for option in READS.values():
            read_topologies = _AnyTopology(self._documented_topologies(option), self._levels)
            read[option] = ReadTopologies(read_topologies, "no cluster")
        self._facts = replace(facts, read=read, is_room_checked=False)

    def _documented_topologies(self, option: str) -> Mapping[str, TopologyLevels]:
        """The topologies among the documents; a nameless one where another object names it."""
        documented = self._documented.get(option, {})
        if documented or option not in _INDIRECT:
            return documented
        return {"": TopologyLevels("", self._levels)}

    def check(self, document: Mapping[str, Any]) -> tuple[Checked, ...]:
        """As `Checker.check`, without a verdict and with a note on that. Never raises."""
        checked = []
        for reading in readings(document, self._facts):
            checked.append(Checked(self._without_existence(reading), None))
        return tuple(checked)

    def _without_existence(self, reading: Reading) -> Reading:
        """The reading with only those findings that hold in any cluster."""
        workload = reading.workload
        findings = []
        for finding in reading.findings:
            finding_anywhere = self._anywhere(finding, workload)
            if finding_anywhere:
                findings.append(finding_anywhere)
        reading = replace(reading, findings=tuple(findings))
        if workload is None:
            return reading

        workload = replace(
            workload,
            topology=workload.topology or None,
            notes=(*workload.notes, NOT_CHECKED),
        )
        return replace(reading, workload=workload)

    def _anywhere(self, finding: Finding, workload: Workload | None) -> Finding | None:
        """The finding as it holds in any cluster; None if it depends on the cluster."""
        _, _, rule = finding.rule.partition("/")
        if rule in _EXISTENCE:
            return None
        if rule not in _OF_LEVELS or finding.is_malformed or self._is_documented(workload):
            return finding
        return replace(
            finding,
            severity="advice",
            message=("is not a level of the catalogue; whether the cluster has it was not checked"),
            fix=finding.suggestion or "",
        )

    def _is_documented(self, workload: Workload | None) -> bool:
        """Whether the documents have the topology that the workload asks for.

        Any of its kind will do where another object names the topology.
        """
        if workload is None:
            return False
        documented = self._documented.get(READS.get(workload.system, ""), {})
        if not documented:
            return False
        return not workload.topology or workload.topology in documented
