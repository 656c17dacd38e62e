"""Who reads which document: one system, several, or none."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.support.paths import FIXTURES
from tests.support.workloads import (
    GPU,
    KNOWN,
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
from toposcope.integrations.readings import readings

KAI = {"kai.scheduler/topology": "cluster", "kai.scheduler/topology-required-placement": ZONE.key}
KUEUE = {"kueue.x-k8s.io/podset-required-topology": ZONE.key}
EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": RACK.key}


def systems(document: Object) -> list[str]:
    return [reading.workload.system for reading in readings(document, KNOWN) if reading.workload]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (job(4), ["KAI"]),
        (job(4) | {"spec": {"template": {"spec": {}}}}, ["Kubernetes"]),
        (job(4, KAI), ["KAI"]),
        (job(4, None, KUEUE), ["Kueue"]),
        (jobset(replicated("a", 2, 2)), ["KAI"]),
        (jobset(replicated("a", 2, 2), annotations=EXCLUSIVE), ["JobSet"]),
        (jobset(replicated("a", 2, 2, on_pods=KUEUE), annotations=EXCLUSIVE), ["Kueue", "JobSet"]),
        (leader_worker_set(2, 2), ["KAI"]),
        (workload("grove.io/v1alpha1", "PodCliqueSet", {}), ["Grove"]),
        (workload("v1", "ConfigMap", None, KAI), []),
        ({}, []),
    ],
)
def test_who_reads_what(document: Object, expected: list[str]) -> None:
    assert systems(document) == expected


def test_each_answer_notes_that_it_ignores_the_others() -> None:
    document = jobset(replicated("a", 2, 2, on_pods=KUEUE), annotations=EXCLUSIVE)
    kueue, exclusive = readings(document, KNOWN)
    assert understood(kueue).notes[-1].startswith("JobSet asks for a placement of these pods too")
    assert understood(exclusive).notes[-1].startswith("Kueue asks for a placement of these pods too")
    (alone,) = readings(job(4, KAI), KNOWN)
    assert understood(alone).notes == ()


def test_a_finding_on_a_template_is_reported_once() -> None:
    document = job(1, KAI, KUEUE)
    document["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "gpus"}
    document["spec"]["template"]["spec"]["containers"] = "none"
    found = [finding.field for reading in readings(document, KNOWN) for finding in reading.findings]
    assert found == ["spec.template.spec.containers"]


@pytest.mark.parametrize("kind", ["List", "JobList", None])
def test_the_items_of_a_list(kind: str | None) -> None:
    wrong = job(4, {**KAI, "kai.scheduler/topology": "other"})
    document = {"apiVersion": "v1", "kind": kind, "items": [job(2), 7, workload("v1", "ConfigMap", {}), wrong]}
    plain, kai = readings(document, KNOWN)
    assert understood(plain).topology is None
    assert [finding.field for finding in kai.findings] == ["items[3].metadata.annotations[kai.scheduler/topology]"]


def test_plain_workloads_ask_for_room_and_nothing_else() -> None:
    (reading,) = readings(leader_worker_set(3, 5), KNOWN)
    workload = accepted(reading)
    assert (workload.topology, workload.handle) == (None, "leaderworkerset/train -n ml")
    (group,) = workload.groups
    assert (group.copies, group.unconstrained, group.total()) == (3, True, {"pods": 5, GPU: 33})


MALFORMED: tuple[Any, ...] = (None, 7, -3, 1.5, True, "", "text", [], [7], {}, {"a": 1}, {1: 2}, [[]], [{}], "9" * 5000)
VALID = [*yaml.safe_load_all((FIXTURES / "documents.yaml").read_bytes())]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a document, as an object or list and the key or index in it."""
    for key, below in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(below, dict | list):
            yield from places(below)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(VALID)))
def test_malformed_values_anywhere_in_a_document_raise_nothing(number: int) -> None:
    for place in range(len(list(places(VALID[number])))):
        for malformed in MALFORMED:
            document = copy.deepcopy(VALID[number])
            parent, key = list(places(document))[place]
            parent[key] = malformed
            known = with_documents(KNOWN, [document])
            readings(document, known, VALID[number])
            readings(VALID[number], known, document)


@pytest.mark.regression
def test_findings_show_control_characters() -> None:
    document = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "spec": {"template": {"cliques\x1b[2J": []}}}
    findings = [finding for reading in readings(document, KNOWN) for finding in reading.findings]
    texts = [text for finding in findings for text in (finding.field, finding.message, finding.fix)]
    assert any("cliques\\u001b[2J" in text for text in texts)
    assert all(text.isprintable() for text in texts)
