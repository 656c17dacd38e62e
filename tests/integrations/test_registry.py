"""Who reads which document: one system, several, or none."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.support.paths import FIXTURES
from tests.support.workloads import (
    CLUSTER_FACTS,
    GPU,
    RACK,
    ZONE,
    Object,
    accepted,
    job,
    jobset,
    leader_worker_set,
    replicated,
    understood,
    workload,
)
from toposcope.integrations.documents import with_documents
from toposcope.integrations.framework.document import Finding
from toposcope.integrations.readings import readings

KAI = {"kai.scheduler/topology": "cluster", "kai.scheduler/topology-required-placement": ZONE.key}
KUEUE = {"kueue.x-k8s.io/podset-required-topology": ZONE.key}
EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": RACK.key}


def systems(document: Object) -> list[str]:
    """The systems that find something to place in the document."""
    return [reading.workload.system for reading in readings(document, CLUSTER_FACTS) if reading.workload]


def findings(document: Object) -> list[Finding]:
    """Of all systems that read the document."""
    found: list[Finding] = []
    for reading in readings(document, CLUSTER_FACTS):
        found += reading.findings
    return found


TWO_JOBS = replicated("a", 2, 2)
TWO_JOBS_OF_KUEUE = replicated("a", 2, 2, on_pods=KUEUE)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(job(4), ["KAI"], id="job-of-kai"),
        pytest.param(job(4) | {"spec": {"template": {"spec": {}}}}, ["Kubernetes"], id="plain-job"),
        pytest.param(job(4, KAI), ["KAI"], id="job-with-topology-of-kai"),
        pytest.param(job(4, None, KUEUE), ["Kueue"], id="job-of-kueue"),
        pytest.param(jobset(TWO_JOBS), ["KAI"], id="jobset-of-kai"),
        pytest.param(jobset(TWO_JOBS, annotations=EXCLUSIVE), ["JobSet"], id="exclusive-jobset"),
        pytest.param(
            jobset(TWO_JOBS_OF_KUEUE, annotations=EXCLUSIVE), ["Kueue", "JobSet"], id="exclusive-jobset-of-kueue"
        ),
        pytest.param(leader_worker_set(2, 2), ["KAI"], id="leaderworkerset-of-kai"),
        pytest.param(workload("grove.io/v1alpha1", "PodCliqueSet", {}), ["Grove"], id="podcliqueset"),
        pytest.param(workload("v1", "ConfigMap", None, KAI), [], id="config-map"),
        pytest.param({}, [], id="empty"),
    ],
)
def test_document_is_read_by_the_systems_that_claim_it(document: Object, expected: list[str]) -> None:
    assert systems(document) == expected


def test_each_of_two_readings_notes_that_it_ignores_the_other() -> None:
    kueue, exclusive = readings(jobset(TWO_JOBS_OF_KUEUE, annotations=EXCLUSIVE), CLUSTER_FACTS)
    assert understood(kueue).notes[-1].startswith("JobSet also requests a placement of these pods")
    assert understood(exclusive).notes[-1].startswith("Kueue also requests a placement of these pods")


def test_only_reading_notes_nothing_of_others() -> None:
    (kai,) = readings(job(4, KAI), CLUSTER_FACTS)
    assert understood(kai).notes == ()


def test_finding_on_a_pod_template_is_reported_once() -> None:
    document = job(1, KAI, KUEUE)
    document["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "gpus"}
    document["spec"]["template"]["spec"]["containers"] = "none"
    assert [finding.field for finding in findings(document)] == ["spec.template.spec.containers"]


@pytest.mark.parametrize("kind", ["List", "JobList", None])
def test_items_of_a_list_are_read_each(kind: str | None) -> None:
    wrong = job(4, {**KAI, "kai.scheduler/topology": "other"})
    items = [job(2), 7, workload("v1", "ConfigMap", {}), wrong]
    plain, kai = readings({"apiVersion": "v1", "kind": kind, "items": items}, CLUSTER_FACTS)
    assert understood(plain).topology is None
    (finding,) = kai.findings
    assert finding.field == "items[3].metadata.annotations[kai.scheduler/topology]"


def test_plain_workload_asks_for_room_and_nothing_else() -> None:
    (reading,) = readings(leader_worker_set(3, 5), CLUSTER_FACTS)
    plain = accepted(reading)
    assert plain.topology is None
    assert plain.handle == "leaderworkerset/train -n ml"
    (group,) = plain.groups
    assert group.copies == 3
    assert group.is_unconstrained
    assert group.total() == {"pods": 5, GPU: 33}


MALFORMED: tuple[Any, ...] = (None, 7, -3, 1.5, True, "", "text", [], [7], {}, {"a": 1}, {1: 2}, [[]], [{}], "9" * 5000)
VALID = [*yaml.load_all((FIXTURES / "documents.yaml").read_bytes(), yaml.CSafeLoader)]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a document, as an object or list and the key or index in it."""
    children = value.items() if isinstance(value, dict) else enumerate(value)
    for key, child in list(children):
        yield value, key
        if isinstance(child, dict | list):
            yield from places(child)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(VALID)))
def test_malformed_value_anywhere_in_a_document_raises_nothing(number: int) -> None:
    valid = VALID[number]
    for place in range(len(list(places(valid)))):
        for value in MALFORMED:
            malformed = copy.deepcopy(valid)
            parent, key = list(places(malformed))[place]
            parent[key] = value
            known = with_documents(CLUSTER_FACTS, [malformed])
            readings(malformed, known, valid)
            readings(valid, known, malformed)


@pytest.mark.regression
def test_findings_show_control_characters() -> None:
    template: Object = {"cliques\x1b[2J": []}
    document = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "spec": {"template": template}}
    texts: list[str] = []
    for finding in findings(document):
        texts += [finding.field, finding.message, finding.fix]
    assert any("cliques\\u001b[2J" in text for text in texts)
    assert all(text.isprintable() for text in texts)
