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
    """The messages of our errors, but for those that the server does not know of."""
    reading = table.read(row)
    assert reading
    messages = []
    for finding in reading.findings:
        if finding.severity == "error" and finding.rule not in LATER:
            messages.append(finding.message)
    return messages


def test_what_we_call_valid_is_accepted(served: ApiUnderTest) -> None:
    accepted = set()
    for table, sample, row in ROWS:
        if sample in COLLECTIONS and not row.findings:
            document = table.document(sample, row.edits)
            code, answer = served.request("POST", COLLECTIONS[sample] + STRICT, document)
            assert code == 201, answer
            accepted.add(sample)
    assert accepted == set(COLLECTIONS)


def messages_of(document: dict[str, Any]) -> list[str]:
    """Everything that we find in a document."""
    messages: list[str] = []
    for reading in readings(document, KNOWN):
        messages.extend(finding.message for finding in reading.findings)
    return messages


@pytest.mark.real_api("the embedded server has no Jobs")
def test_annotations_that_we_call_valid_are_accepted(api: ApiUnderTest) -> None:
    create_namespace(api, "ml")
    kai = {
        "kai.scheduler/batch-min-member": "2",
        "kai.scheduler/topology": "cluster",
        "kai.scheduler/topology-required-placement": RACK.key,
    }
    kueue = {"kueue.x-k8s.io/podset-required-topology": RACK.key}
    document = job(2, kai, kueue)
    document["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "gpus"}
    document["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    assert messages_of(document) == []
    code, answer = api.request("POST", JOBS + STRICT, document)
    assert code == 201, answer


@pytest.mark.real_api("the embedded server has no Jobs")
def test_annotation_that_is_a_number_is_refused(api: ApiUnderTest) -> None:
    create_namespace(api, "ml")
    document = job(2, {"kai.scheduler/topology": 7})
    code, _ = api.request("POST", JOBS + STRICT, document)
    assert code == 400
    first, *_ = messages_of(document)
    assert first == "is 7, expected a string"


@pytest.mark.real_api("the rules are CEL")
def test_what_the_server_refuses_we_refuse_in_its_words(served: ApiUnderTest) -> None:
    for table, sample, row in ROWS:
        if sample not in COLLECTIONS or sample == "PodGroup":
            continue
        path = COLLECTIONS[sample]
        document = table.document(sample, row.edits)
        our_messages = errors(table, row)
        if isinstance(row.before, dict):
            metadata = served.create(path, table.document(sample, row.before))["metadata"]
            document["metadata"]["resourceVersion"] = metadata["resourceVersion"]
            code, answer = served.request("PUT", f"{path}/{metadata['name']}?dryRun=All", document)
            deleted, _ = served.request("DELETE", f"{path}/{metadata['name']}")
            assert deleted == 200
        else:
            code, answer = served.request("POST", f"{path}?dryRun=All", document)
        expected = {422} if our_messages else {200, 201}
        assert code in expected, (row, answer)
        for message in our_messages:
            if message != PATTERN:
                assert message in answer["message"], (row, answer)


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
