"""What `toposcope check` says of KAI's and Kueue's objects, and what an API server with their CRDs does with them.

The documents are those that tests/integrations/test_topologies.py and tests/integrations/kai/test_pod_groups.py read.
"""

from typing import Any

import pytest
from tests.integrations.clusters import CLUSTER
from tests.support.api import ApiUnderTest, create_namespace
from tests.support.checking import read, reading_of
from tests.support.documents import document
from tests.support.paths import ROOT
from tests.support.recorded import ReadQuestion, record_questions, recorded
from tests.support.upstream_crds import described, upstream_crd
from tests.support.workloads import CLUSTER_FACTS, RACK, job
from toposcope.integrations.readings import readings

pytestmark = pytest.mark.slow

CRDS = ("kai-topologies-v0.17", "kai-podgroups-v0.17", "kueue-topologies-v0.19", "kueue-resourceflavors-v0.19")
ASKING = [
    str(ROOT / "tests" / "integrations" / "test_topologies.py"),
    str(ROOT / "tests" / "integrations" / "kai" / "test_pod_groups.py"),
]
PATHS = {
    ("kai.scheduler/v1alpha1", "Topology"): "/apis/kai.scheduler/v1alpha1/topologies",
    ("kueue.x-k8s.io/v1beta2", "Topology"): "/apis/kueue.x-k8s.io/v1beta2/topologies",
    ("kueue.x-k8s.io/v1beta2", "ResourceFlavor"): "/apis/kueue.x-k8s.io/v1beta2/resourceflavors",
    ("scheduling.run.ai/v2alpha2", "PodGroup"): "/apis/scheduling.run.ai/v2alpha2/namespaces/ml/podgroups",
}
JOBS = "/apis/batch/v1/namespaces/ml/jobs"
STRICT = "?fieldValidation=Strict&dryRun=All"
RULES_OF_WEBHOOKS = {"kueue/topology-exists", "kai/topology-alias"}
PATTERN = "should be the key of a node label"
"""Here the server quotes its regular expression."""


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> list[ReadQuestion]:
    """The documents that the CRDs are for, each as a test had it read."""
    file = tmp_path_factory.mktemp("questions") / "asked"
    record_questions(file, ASKING)
    asked = []
    for question in recorded(file).values():
        if isinstance(question, ReadQuestion) and path_of(question.document):
            asked.append(question)
    return asked


@pytest.fixture(params=[described, upstream_crd])
def served(request: pytest.FixtureRequest, api: ApiUnderTest) -> ApiUnderTest:
    """The server with the CRDs of KAI and Kueue, in our words and in theirs, and a namespace."""
    for name in CRDS:
        api.install_crd(request.param(name))
    create_namespace(api, "ml")
    return api


def path_of(resource: Any) -> str | None:
    """Where the server keeps the objects of its kind; None: these CRDs are not for it."""
    return PATHS.get((resource.get("apiVersion"), resource.get("kind")))


def errors_of(question: ReadQuestion) -> list[str]:
    """What `check` calls an error that the CRD is to refuse."""
    reading = reading_of(
        question.systems,
        question.document,
        question.cluster,
        question.before,
    )
    assert reading
    errors = []
    for finding in reading.findings:
        if finding.severity == "error" and finding.rule not in RULES_OF_WEBHOOKS:
            errors.append(finding.message)
    return errors


def is_without_findings(question: ReadQuestion) -> bool:
    reading = reading_of(
        question.systems,
        question.document,
        question.cluster,
        question.before,
    )
    return reading is not None and not reading.findings


def test_document_without_findings_is_accepted(served: ApiUnderTest, questions: list[ReadQuestion]) -> None:
    accepted = set()
    for question in questions:
        if not is_without_findings(question):
            continue
        path = path_of(question.document)
        code, answer = served.request("POST", f"{path}{STRICT}", question.document)
        assert code == 201, answer
        accepted.add(path)
    assert accepted == set(PATHS.values())


@pytest.mark.real_api("the embedded server has no Jobs")
def test_annotations_without_findings_are_accepted(api: ApiUnderTest) -> None:
    create_namespace(api, "ml")
    kai = {
        "kai.scheduler/batch-min-member": "2",
        "kai.scheduler/topology": "cluster",
        "kai.scheduler/topology-required-placement": RACK.key,
    }
    valid = job(2, kai, {"kueue.x-k8s.io/podset-required-topology": RACK.key})
    valid["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "gpus"}
    pod = valid["spec"]["template"]["spec"]
    pod["restartPolicy"] = "Never"
    assert messages(valid) == []
    code, answer = api.request("POST", JOBS + STRICT, valid)
    assert code == 201, answer

    wrong = job(2, {"kai.scheduler/topology": 7})
    assert messages(wrong)[0] == "is 7, expected a string"
    code, _ = api.request("POST", JOBS + STRICT, wrong)
    assert code == 400


def messages(workload: Any) -> list[str]:
    """Of the findings of all systems that read the workload."""
    found = []
    for reading in readings(workload, CLUSTER_FACTS):
        found += [finding.message for finding in reading.findings]
    return found


def is_changed_in_kueue(question: ReadQuestion) -> bool:
    """Whether an object of Kueue's is changed: releases before 0.20 refuse what later ones take."""
    if question.before is None or question.before == question.document:
        return False
    version: str = question.document["apiVersion"]
    return version.startswith("kueue.x-k8s.io/")


@pytest.mark.real_api("the rules are CEL")
def test_server_of_kueue_019_refuses_changes_that_are_warned_of(
    served: ApiUnderTest, questions: list[ReadQuestion]
) -> None:
    count = 0
    for question in questions:
        if not is_changed_in_kueue(question) or errors_of(question):
            continue
        reading = reading_of(question.systems, question.document, question.cluster, question.before)
        assert reading is not None
        code, answer = written(served, question)
        expected = (422,) if reading.findings else (200, 201)
        assert code in expected, (question, answer)
        count += 1
    assert count >= 3


@pytest.mark.real_api("the rules are CEL")
def test_server_refuses_in_the_words_of_the_findings(served: ApiUnderTest, questions: list[ReadQuestion]) -> None:
    count = 0
    for question in questions:
        if question.document["kind"] == "PodGroup":
            continue
        count += 1
        if is_changed_in_kueue(question):
            continue
        errors = errors_of(question)
        code, answer = written(served, question)
        expected = (422,) if errors else (200, 201)
        assert code in expected, (question, answer)
        for message in errors:
            if message != PATTERN:
                assert message in answer["message"], (question, answer)
    assert count >= 30


def written(served: ApiUnderTest, question: ReadQuestion) -> tuple[int, Any]:
    """What the server answers to the document, in place of the object in the cluster where it is one of its own."""
    path = path_of(question.document)
    document = question.document
    if question.before is None or question.before is document:
        return served.request("POST", f"{path}?dryRun=All", document)
    created = served.create(str(path), question.before)
    existing = created["metadata"]
    path = f"{path}/{existing['name']}"
    metadata = document["metadata"]
    metadata["resourceVersion"] = existing["resourceVersion"]
    answer = served.request("PUT", f"{path}?dryRun=All", document)
    del metadata["resourceVersion"]
    code, _ = served.request("DELETE", path)
    assert code == 200
    return answer


@pytest.mark.real_api("the rules are CEL")
def test_gang_without_members_is_refused_by_server_and_warned_of(served: ApiUnderTest) -> None:
    """The release after KAI 0.17 takes it."""
    pod_group = document("kai/podgroup", {"spec": {"minMember": 0}})
    reading = read("KAI", pod_group, CLUSTER)
    assert [finding.severity for finding in reading.findings] == ["warning"]
    path = path_of(pod_group)
    code, answer = served.request("POST", f"{path}?dryRun=All", pod_group)
    assert code == 422, answer


@pytest.mark.real_api("the rules are CEL")
@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"subGroups": [{"name": "A", "minMember": 1}]}, id="name-in-capitals"),
        pytest.param({"subGroups": [{"minMember": 1}]}, id="no-name"),
        pytest.param({"subGroups": [{"name": "a", "minMember": -1}]}, id="negative-members"),
    ],
)
def test_pod_group_is_refused_by_server_and_check(served: ApiUnderTest, spec: dict[str, Any]) -> None:
    pod_group = document("kai/podgroup", {"spec": spec})
    reading = read("KAI", pod_group, CLUSTER)
    severities = [finding.severity for finding in reading.findings]
    assert "error" in severities
    path = path_of(pod_group)
    code, answer = served.request("POST", f"{path}?dryRun=All", pod_group)
    assert code == 422, answer
