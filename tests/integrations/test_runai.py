"""Run:ai's network topologies count for its workloads. The rules are in tests/fixtures/integrations/runai.yaml."""

from tests.support.readings import CLUSTERS, TABLES
from tests.support.workloads import accepted
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.registry import readings, with_documents

RACK = "cloud.provider.com/topology-rack"
KNOWN = CLUSTERS["a node pool"]


def test_a_network_topology_counts_for_the_workloads_of_the_run() -> None:
    network = {"levels": list(KNOWN.topologies["pool-a"].keys), "name": "default-topology", "clusterId": "71f69d83"}
    annotations = {"kai.scheduler/topology": "default-topology", "kai.scheduler/topology-required-placement": RACK}
    document = TABLES["runai"].document("PyTorchJob", {"metadata.annotations": annotations})
    known = with_documents(ClusterFacts(node_labels=KNOWN.node_labels), [network, document])
    (reading,) = readings(document, known)
    (whole,) = accepted(reading).groups
    assert whole.required
    assert whole.required.key == RACK


def test_the_annotations_of_kai_in_a_project_are_read_by_run_ai_alone() -> None:
    (reading,) = readings(TABLES["runai"].document("PyTorchJob", {}), KNOWN)
    assert accepted(reading).system == "Run:ai"
