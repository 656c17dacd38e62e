"""The models hold, each of their claims can fail, and the election does only what its model allows."""

import pytest
from tests.support.tables import each_case
from tests.tools.election_traces import module, trace
from tools.model.checker import MODELS, check

pytestmark = pytest.mark.slow


@pytest.mark.slow
@each_case("tables/models.yaml")
def test_what_is_planted_is_found(model: str, right: str, wrong: str, broken: str) -> None:
    name = next(file.name for file in MODELS.glob("*.tla") if model.startswith(file.stem))
    text = (MODELS / name).read_text(encoding="utf-8")
    assert right in text
    assert check(name.removesuffix(".tla"), model, {name: text.replace(right, wrong)}).broken == broken


def test_the_election_does_only_what_its_model_allows() -> None:
    """Runs at random, with crashes, lost answers, late claims and a Lease that somebody deletes."""
    records = [record for seed in range(60) for record in trace(seed, 100)]
    verdict = check("LeadershipTrace", sources={"Trace.tla": module(records)})
    assert verdict.broken == "NotAllowed", f"the model does not allow this step: {records[verdict.depth - 1]}"
