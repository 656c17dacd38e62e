"""Every row of tests/fixtures/integrations/: a document, what is wrong with it, and what it asks for."""

from typing import Any

import pytest
from tests.support.readings import CLUSTERS, TABLES, Row, Table, findings, understood
from tests.support.tables import each_case
from tests.support.workloads import accepted
from toposcope.integrations.documents import with_documents
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.grove.schedulers import profiles_of
from toposcope.integrations.readings import readings

ROWS = [
    pytest.param(table, row, id=f"{name}: {case} {number}")
    for name, table in TABLES.items()
    for case, rows in table.cases.items()
    for number, row in enumerate(rows, 1)
]

NODE_POOL = CLUSTERS["a node pool"]
RACK = "cloud.provider.com/topology-rack"


@pytest.mark.regression
@pytest.mark.parametrize(("table", "row"), ROWS)
def test_what_comes_of_a_document(table: Table, row: Row) -> None:
    reading = table.read(row)
    assert findings(reading, fixes="\n  fix: " in row.findings) == row.findings
    assert row.workload is None or understood(reading) == row.workload
    assert all(finding.fix for finding in (reading.findings if reading else ()) if finding.rule != "type")


def test_sub_groups_inside_each_other_without_end() -> None:
    chain = [{"name": f"s{n}", **({"parent": f"s{n - 1}"} if n else {})} for n in range(3000)]
    reading = TABLES["kai"].read(Row("PodGroup", {"spec": {"subGroups": chain}}))
    assert findings(reading).startswith("error kai/sub-group-depth")


@each_case("tables/integrations.yaml")
def test_the_schedulers_of_a_configuration(scheduler: dict[str, Any], cluster: str) -> None:
    known, configured = CLUSTERS[cluster].profiles, profiles_of({"scheduler": scheduler})
    assert known
    assert (configured.enabled, configured.default) == (known.enabled, known.default)


def test_a_network_topology_counts_for_the_workloads_of_the_run() -> None:
    network = {"levels": list(NODE_POOL.topologies["pool-a"].keys), "name": "default-topology", "clusterId": "71f69d83"}
    annotations = {"kai.scheduler/topology": "default-topology", "kai.scheduler/topology-required-placement": RACK}
    document = TABLES["runai"].document("PyTorchJob", {"metadata.annotations": annotations})
    known = with_documents(ClusterFacts(node_labels=NODE_POOL.node_labels), [network, document])
    (reading,) = readings(document, known)
    (whole,) = accepted(reading).groups
    assert whole.required
    assert whole.required.key == RACK


def test_the_annotations_of_kai_in_a_project_are_read_by_run_ai_alone() -> None:
    (reading,) = readings(TABLES["runai"].document("PyTorchJob", {}), NODE_POOL)
    assert accepted(reading).system == "Run:ai"
