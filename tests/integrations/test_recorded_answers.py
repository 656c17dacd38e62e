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
from tests.support.saved import saved
from toposcope.placement.check import Checked, Checker
from toposcope.placement.sentences import answer
from toposcope.snapshot.files import load_files
from toposcope.snapshot.model import Snapshot

Object = dict[str, Any]
DYNAMO, GROVE, KAI, KUEUE = (
    json.loads(gzip.decompress((FIXTURES / "answers" / f"{system}.json.gz").read_bytes()))
    for system in ("dynamo", "grove", "kai", "kueue")
)
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
    kind = {"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding", "metadata": {"name": name}}
    return {**kind, "spec": {"levels": [{"domain": domain, "key": f"{prefix}/{domain}"} for domain in domains]}}


DYNAMOS = cluster(*(binding(name, domains, "topology.kubernetes.io") for name, domains in DYNAMO["binding"].items()))
GROVES = cluster(binding("cluster", GROVE["levels"], "example.com"))


def name_of(case: Object) -> str:
    return str(case["name"])


def checked(snapshot: Snapshot, document: Object, before: Object | None = None, *beside: Object) -> Checked:
    (found,) = Checker(snapshot, [*beside, document]).check(document, before)
    return found


@pytest.mark.regression
@pytest.mark.parametrize("case", DYNAMO["cases"], ids=name_of)
def test_check_says_what_dynamo_says(case: Object) -> None:
    ours = checked(DYNAMOS, case["object"], case["old"]).errors
    assert bool(ours) is not case["accepted"], ours
    for message in case["messages"]:
        words = re.split(LEFT_OUT, message.strip("()"))
        shown = [f"{finding.field}: {finding.message}" for finding in ours]
        last = words[-1].rpartition(": ")[2].strip() or words[0].rpartition(": ")[2].strip()
        assert any(last in text for text in shown), (message, shown)


def is_cut_off(answer: str, field: str) -> bool:
    """Whether a long answer ends in the middle of what it says about the field."""
    return any(answer.endswith(field[:length]) for length in range(len("spec.template."), len(field)))


@pytest.mark.regression
@pytest.mark.parametrize("case", [*GROVE["create"], *GROVE["update"]], ids=name_of)
def test_check_says_what_grove_said(case: Object) -> None:
    """Both accept, or both refuse, and every message of ours is in Grove's answer."""
    said, found = case["message"], checked(GROVES, case.get("object") or case["new"], case.get("old"))
    assert bool(found.errors) is not case["accepted"], (found.errors, said)
    strange = [
        error.message for error in found.errors if error.message not in said and not is_cut_off(said, error.field)
    ]
    redundant = [finding.message for finding in found.reading.findings if "redundant" in finding.message]
    assert strange == []
    assert ("redundant" in said, *redundant) == (bool(redundant), *(text for text in redundant if text in said))


def pods_of(case: Object) -> list[Object]:
    """The pods of a PodGroup, which KAI has no template of."""
    return [
        {**alike["pod"], "metadata": {**alike["pod"]["metadata"], "name": name}}
        for alike in case.get("pods", ())
        for name in alike["names"]
    ]


def disagreement(found: Checked, case: Object) -> str:
    """What `check` says where that is not what the scheduler did; empty where it is."""
    verdict = "error" if found.errors else found.verdict.kind if found.verdict else ""
    if verdict not in AGREES[case["answer"]]:
        return f"{case['workload']['metadata']['name']}: {verdict}, not {case['answer']}: {case.get('message', '')}"
    return ""


@pytest.mark.regression
@pytest.mark.parametrize("state", KAI["states"], ids=lambda state: f"seed-{state['seed']}")
def test_check_says_what_kai_did(state: Object) -> None:
    for case in state["cases"]:
        snapshot = cluster(*KAI["cluster"], *state["nodes"], *state["pods"], *pods_of(case))
        assert disagreement(checked(snapshot, case["workload"]), case) == ""


@pytest.mark.regression
@pytest.mark.parametrize("state", KUEUE["states"], ids=lambda state: f"seed-{state['seed']}")
def test_check_says_what_kueue_did(state: Object) -> None:
    snapshot = cluster(*KUEUE["cluster"], *state["nodes"], *state["pods"])
    for case in state["cases"]:
        found = checked(snapshot, case["workload"], None, *KUEUE["cluster"])
        assert disagreement(found, case) == ""
        assert not (found.verdict and found.verdict.kind in {"full", "never"} and contradiction(answer(found.verdict)))


def test_the_records_hold_every_answer() -> None:
    """Without one that KAI was never asked: a PyTorchJob of that name existed."""
    webhooks = {"dynamo": DYNAMO["cases"], "create": GROVE["create"], "update": GROVE["update"]}
    accepted = {kind: (sum(case["accepted"] for case in cases), len(cases)) for kind, cases in webhooks.items()}
    assert accepted == {"dynamo": (5, 24), "create": (7, 25), "update": (6, 13)}
    kai, kueue = (
        Counter(case["answer"] for state in record["states"] for case in state["cases"]) for record in (KAI, KUEUE)
    )
    assert kai == {"placed": 28, "partial": 5, "pending": 38}
    assert kueue == {"admitted": 80, "pending": 156, "refused": 2}
