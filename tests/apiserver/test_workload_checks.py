"""What `toposcope check` says of KAI's and Kueue's objects, and what an API server with their CRDs does with them."""

from typing import Any

import pytest
from tests.support.api import ApiUnderTest, create_namespace
from tests.support.readings import TABLES, Row, Table
from tests.support.upstream_crds import described, upstream_crd
from tests.support.workloads import KNOWN, RACK, job
from toposcope.integrations.readings import readings

CRDS = ("kai-topologies-v0.17", "kai-podgroups-v0.17", "kueue-topologies-v0.19", "kueue-resourceflavors-v0.19")
COLLECTIONS = {
    "Topology v1alpha1": "/apis/kai.scheduler/v1alpha1/topologies",
    "Topology v1beta2": "/apis/kueue.x-k8s.io/v1beta2/topologies",
    "ResourceFlavor": "/apis/kueue.x-k8s.io/v1beta2/resourceflavors",
    "PodGroup": "/apis/scheduling.run.ai/v2alpha2/namespaces/ml/podgroups",
}
JOBS = "/apis/batch/v1/namespaces/ml/jobs"
STRICT = "?fieldValidation=Strict&dryRun=All"
LATER = {"kueue/topology-exists", "kai/topology-alias"}  # a controller and a webhook report them
PATTERN = "should be the key of a node label"  # the server quotes its regular expression
ROWS = [
    (table, row.of or next(iter(table.samples)), row)
    for table in (TABLES["topologies"], TABLES["kai"])
    for rows in table.cases.values()
    for row in rows
]


@pytest.fixture(params=[described, upstream_crd])
def served(request: pytest.FixtureRequest, api: ApiUnderTest) -> ApiUnderTest:
    """The server with the CRDs of KAI and Kueue, in our words and in theirs, and a namespace."""
    for name in CRDS:
        api.install_crd(request.param(name))
    create_namespace(api, "ml")
    return api


def errors(table: Table, row: Row) -> list[str]:
    reading = table.read(row)
    assert reading
    return [
        finding.message for finding in reading.findings if finding.severity == "error" and finding.rule not in LATER
    ]


def test_what_we_call_valid_is_accepted(served: ApiUnderTest) -> None:
    accepted = set()
    for table, sample, row in ROWS:
        if sample in COLLECTIONS and not row.findings:
            document = table.document(sample, row.edits)
            code, answer = served.request("POST", COLLECTIONS[sample] + STRICT, document)
            assert code == 201, answer
            accepted.add(sample)
    assert accepted == set(COLLECTIONS)


@pytest.mark.real_api("the embedded server has no Jobs")
def test_annotations_that_we_call_valid_are_accepted(api: ApiUnderTest) -> None:
    create_namespace(api, "ml")
    annotations = {"batch-min-member": "2", "topology": "cluster", "topology-required-placement": RACK.key}
    kai = {f"kai.scheduler/{name}": value for name, value in annotations.items()}
    document = job(2, kai, {"kueue.x-k8s.io/podset-required-topology": RACK.key})
    document["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "gpus"}
    document["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    assert [finding.message for reading in readings(document, KNOWN) for finding in reading.findings] == []
    code, answer = api.request("POST", JOBS + STRICT, document)
    assert code == 201, answer
    wrong = job(2, {"kai.scheduler/topology": 7})
    assert api.request("POST", JOBS + STRICT, wrong)[0] == 400
    assert [finding.message for reading in readings(wrong, KNOWN) for finding in reading.findings][:1] == [
        "is 7, expected a string"
    ]


@pytest.mark.real_api("the rules are CEL")
def test_what_the_server_refuses_we_refuse_in_its_words(served: ApiUnderTest) -> None:
    for table, sample, row in ROWS:
        if sample not in COLLECTIONS or sample == "PodGroup":
            continue
        path, document, ours = COLLECTIONS[sample], table.document(sample, row.edits), errors(table, row)
        if isinstance(row.before, dict):
            made = served.create(path, table.document(sample, row.before))["metadata"]
            document["metadata"]["resourceVersion"] = made["resourceVersion"]
            code, answer = served.request("PUT", f"{path}/{made['name']}?dryRun=All", document)
            assert served.request("DELETE", f"{path}/{made['name']}")[0] == 200
        else:
            code, answer = served.request("POST", f"{path}?dryRun=All", document)
        assert code == 422 if ours else code in (200, 201), (row, answer)
        assert all(message in answer["message"] for message in ours if message != PATTERN), (row, answer)


@pytest.mark.real_api("the rules are CEL")
@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"minMember": 0}, id="no-members"),
        pytest.param({"subGroups": [{"name": "A", "minMember": 1}]}, id="upper-case-name"),
        pytest.param({"subGroups": [{"minMember": 1}]}, id="no-name"),
        pytest.param({"subGroups": [{"name": "a", "minMember": -1}]}, id="negative"),
    ],
)
def test_pod_group_that_both_refuse(served: ApiUnderTest, spec: dict[str, Any]) -> None:
    row = Row("PodGroup", {"spec": spec})
    document = TABLES["kai"].document(row.of, row.edits)
    code, answer = served.request("POST", f"{COLLECTIONS['PodGroup']}?dryRun=All", document)
    assert code == 422, answer
    assert errors(TABLES["kai"], row)
