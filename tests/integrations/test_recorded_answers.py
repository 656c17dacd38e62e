"""What webhooks and schedulers answered, recorded (tests/fixtures/answers); `check` says the same of every one.

Dynamo's webhook is main of 2026-08, from its own table and its source; Grove's main of 2026-08-19. KAI 0.17.0 and Kueue
0.19.2 met random gangs on random clusters.
"""

import gzip
import io
import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from tests.placement.contradictions import contradiction
from tests.support.paths import FIXTURES
from tests.support.sampling import slow_after
from tests.support.saved import saved
from toposcope.placement.check import Checked, Checker
from toposcope.placement.sentences import answer
from toposcope.snapshot.files import load_files
from toposcope.snapshot.model import Snapshot

Object = dict[str, Any]


def recording(system: str) -> Any:
    """What a system answered."""
    file = FIXTURES / "answers" / f"{system}.json.gz"
    return json.loads(gzip.decompress(file.read_bytes()))


DYNAMO = recording("dynamo")
GROVE = recording("grove")
KAI = recording("kai")
KUEUE = recording("kueue")
LEFT_OUT = "…"
AGREES = {
    "placed": {"fits"},
    "admitted": {"fits"},
    "partial": {"full", "never"},
    "pending": {"full", "never", "error"},
    "refused": {"error"},
}


def cluster(*objects: Object) -> Snapshot:
    return load_files(["-"], io.BytesIO(saved([*objects]).encode()))


def binding(name: str, domains: Iterable[str], prefix: str) -> Object:
    """A ClusterTopologyBinding."""
    levels = []
    for domain in domains:
        levels.append({"domain": domain, "key": f"{prefix}/{domain}"})
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "metadata": {"name": name},
        "spec": {"levels": levels},
    }


DYNAMOS = cluster(*(binding(name, domains, "topology.kubernetes.io") for name, domains in DYNAMO["binding"].items()))
GROVES = cluster(binding("cluster", GROVE["levels"], "example.com"))


def name_of(case: Object) -> str:
    return str(case["name"])


def seed_of(state: Object) -> str:
    return f"seed-{state['seed']}"


def checked(snapshot: Snapshot, document: Object, before: Object | None = None, *beside: Object) -> Checked:
    (answered,) = Checker(snapshot, [*beside, document]).check(document, before)
    return answered


@pytest.mark.regression
@pytest.mark.parametrize("case", DYNAMO["cases"], ids=name_of)
def test_check_says_what_dynamo_said(case: Object) -> None:
    errors = checked(DYNAMOS, case["object"], case["old"]).errors
    assert bool(errors) is not case["accepted"], errors
    shown = [f"{error.field}: {error.message}" for error in errors]
    for message in case["messages"]:
        words = last_words(message)
        assert any(words in text for text in shown), (message, shown)


def last_words(message: str) -> str:
    """What stands at the end of a message that is recorded with gaps."""
    parts = re.split(LEFT_OUT, message.strip("()"))
    for part in (parts[-1], parts[0]):
        words = part.rpartition(": ")[2].strip()
        if words:
            return words
    return ""


def is_cut_off(answer: str, field: str) -> bool:
    """Whether a long answer ends in the middle of what it says about the field."""
    return any(answer.endswith(field[:length]) for length in range(len("spec.template."), len(field)))


@pytest.mark.regression
@pytest.mark.parametrize("case", [*GROVE["create"], *GROVE["update"]], ids=name_of)
def test_check_says_what_grove_said(case: Object) -> None:
    """Both accept, or both refuse, and every message of ours is in Grove's answer."""
    answer = case["message"]
    ours = checked(GROVES, case.get("object") or case["new"], case.get("old"))
    assert bool(ours.errors) is not case["accepted"], (ours.errors, answer)
    for error in ours.errors:
        assert error.message in answer or is_cut_off(answer, error.field)

    redundant = [finding.message for finding in ours.reading.findings if "redundant" in finding.message]
    assert bool(redundant) is ("redundant" in answer)
    for message in redundant:
        assert message in answer


def pods_of(case: Object) -> list[Object]:
    """The pods of a PodGroup, which KAI has no template of."""
    pods = []
    for alike in case.get("pods", ()):
        for name in alike["names"]:
            metadata = {**alike["pod"]["metadata"], "name": name}
            pods.append({**alike["pod"], "metadata": metadata})
    return pods


def disagreement(ours: Checked, case: Object) -> str:
    """What `check` says where that is not what the scheduler did; empty where it is."""
    verdict: str = ours.verdict.kind if ours.verdict else ""
    if ours.errors:
        verdict = "error"
    if verdict in AGREES[case["answer"]]:
        return ""
    return f"{case['workload']['metadata']['name']}: {verdict}, not {case['answer']}: {case.get('message', '')}"


@pytest.mark.regression
@pytest.mark.parametrize("state", KAI["states"], ids=seed_of)
def test_check_says_what_kai_did(state: Object) -> None:
    for case in state["cases"]:
        objects = [*KAI["cluster"], *state["nodes"], *state["pods"], *pods_of(case)]
        ours = checked(cluster(*objects), case["workload"])
        assert disagreement(ours, case) == ""


@pytest.mark.regression
@pytest.mark.parametrize("state", slow_after(5, KUEUE["states"]), ids=seed_of)
def test_check_says_what_kueue_did(state: Object) -> None:
    snapshot = cluster(*KUEUE["cluster"], *state["nodes"], *state["pods"])
    for case in state["cases"]:
        ours = checked(snapshot, case["workload"], None, *KUEUE["cluster"])
        assert disagreement(ours, case) == ""
        if ours.verdict and ours.verdict.kind in {"full", "never"}:
            assert not contradiction(answer(ours.verdict))


@pytest.mark.parametrize(
    ("cases", "accepted", "total"),
    [
        pytest.param(DYNAMO["cases"], 5, 24, id="dynamo"),
        pytest.param(GROVE["create"], 7, 25, id="grove-create"),
        pytest.param(GROVE["update"], 6, 13, id="grove-update"),
    ],
)
def test_recordings_hold_every_answer_of_a_webhook(cases: list[Object], accepted: int, total: int) -> None:
    assert sum(case["accepted"] for case in cases) == accepted
    assert len(cases) == total


def answers_of(states: list[Object]) -> Counter[str]:
    answers: Counter[str] = Counter()
    for state in states:
        for case in state["cases"]:
            answers[case["answer"]] += 1
    return answers


def test_recordings_hold_every_answer_of_a_scheduler() -> None:
    """Without one that KAI was never asked: a PyTorchJob of that name existed."""
    assert answers_of(KAI["states"]) == {"placed": 28, "partial": 5, "pending": 38}
    assert answers_of(KUEUE["states"]) == {"admitted": 80, "pending": 156, "refused": 2}
