"""The models hold, each of their claims can fail, and the election does only what its model allows."""

import pytest

from tests.tools.model.election_traces import module, trace
from tools.model.checker import MODELS, check

pytestmark = pytest.mark.thorough

PLANTED = {
    "a new Lease is written under at once": (
        "Leadership",
        "IF stored.create THEN Lease + 1 ELSE @",
        "@",
        "OneWriter",
    ),
    "a lost answer hides that the Lease is new": ("Leadership", "seen.holder = c /\\ seen.other", "FALSE", "OneWriter"),
    "a term counts from the answer": ("Leadership", "Renew - stored.since", "Renew", "OneWriter"),
    "a follower does not wait": ("Leadership", "age[c] > Lease", "age[c] > 1", "NoLateWrite"),
    "a write outlasts its term": ("Leadership", "o.since < Request", "o.since < Lease", "NoLateWrite"),
    "a follower never claims": ("LeadershipLive", "IF wants THEN Wants ELSE Idle", "Idle", "Temporal"),
    "a probe without answer removes the label": ("Labels", "THEN known.value ELSE", "THEN None ELSE", "Kept"),
    "an apply names no uid": ("Labels", "IF late.uid = node.uid", "IF TRUE", "True"),
    "a changed Node is not read again": ("Labels", "IF node /= known THEN NoNode ELSE known", "known", "Temporal"),
    "time without nodes counts": (
        "Levels",
        'memory\' = IF shown = "no" THEN Begun(memory) ELSE -1',
        'memory\' = IF shown = "no" THEN Begun(memory) ELSE IF shown = "none" THEN memory ELSE -1',
        "Evidence",
    ),
    "no nodes are evidence": ("Levels", 'IF shown = "none"\n', "IF FALSE\n", "InSight"),
    "workloads of Grove are forgotten": ("Levels", "~over \\/ Retain \\/ bound", "~over \\/ Retain", "Kept"),
    "Retain is forgotten": ("LevelsRetain", "~over \\/ Retain \\/ bound", "~over \\/ bound", "Kept"),
    "a level never goes": ("Levels", "(memory > Grace \\/ expired)", "expired", "Temporal"),
    "a delete names no version": ("Replacement", "object.version = seen.version", "TRUE", "NoHarm"),
    "what is held is deleted": ("Replacement", "seen.levels = asked \\/ seen.held", "seen.levels = asked", "NoHarm"),
    "a new object is not tried first": ("Replacement", 'ELSE "try"', 'ELSE "delete"', "NoGap"),
    "a replaced object is not made again": ("Replacement", '/\\ pc\' = "create"\n', '/\\ pc\' = "read"\n', "NoGap"),
    "a pass is the last one": (
        "Replacement",
        'pc\' = "read"\n  /\\ UNCHANGED <<wanted, seen',
        'pc\' = "over"\n  /\\ UNCHANGED <<wanted, seen',
        "Temporal",
    ),
}


@pytest.mark.parametrize("what", PLANTED)
def test_what_is_planted_is_found(what: str) -> None:
    """Each row: the model and its configuration, the text that is changed, and what must be broken then."""
    config, right, wrong, broken = PLANTED[what]
    name = next(file.name for file in MODELS.glob("*.tla") if config.startswith(file.stem))
    text = (MODELS / name).read_text(encoding="utf-8")
    assert right in text
    assert check(name.removesuffix(".tla"), config, {name: text.replace(right, wrong)}).broken == broken


def test_the_election_does_only_what_its_model_allows() -> None:
    """Runs at random, with crashes, lost answers, late claims and a Lease that somebody deletes."""
    records = [record for seed in range(60) for record in trace(seed, 100)]
    verdict = check("LeadershipTrace", sources={"Trace.tla": module(records)})
    assert verdict.broken == "NotAllowed", f"the model does not allow this step: {records[verdict.depth - 1]}"


def test_a_run_that_the_model_does_not_allow_is_not_accepted() -> None:
    """Here a follower leads while nobody has let it."""
    runs = (trace(seed, 100) for seed in range(60))
    records, wrong = next((run, i) for run in runs for i, step in enumerate(run) if 'leading |-> {"a"}' in step)
    records[wrong] = records[wrong].replace('leading |-> {"a"}', 'leading |-> {"b"}')
    verdict = check("LeadershipTrace", sources={"Trace.tla": module(records)})
    assert (verdict.broken, verdict.depth) == ("", wrong + 1)
