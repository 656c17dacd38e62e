"""The simulation finds what it must, says the same of a seed each time, and what it once found stays mended."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from tests.support.tables import each_row
from tools.simulate import steps
from tools.simulate.__main__ import CORPUS
from tools.simulate.planted import PLANTED, planted
from tools.simulate.runs import run
from tools.simulate.world import ACTORS, World

ROOT = Path(__file__).parents[3]
_SEED = """
import logging; logging.disable(logging.CRITICAL)
import random
from tools.simulate import steps
from tools.simulate.runs import run
from tools.simulate.world import ACTORS
made = run(7, steps.draw(random.Random(7), ACTORS, 1))
print(made.trace, bool(made.violations))
"""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module", autouse=True)
def desired() -> None:
    """What is desired is worked out once, by programs without a defect."""
    with World(0):
        pass


class Defect(msgspec.Struct, forbid_unknown_fields=True):
    defect: str
    seed: int
    steps: str
    says: str


@each_row("planted_defects.yaml", Defect, ids=lambda row: f"seed {row.seed} finds: {row.defect}")
def test_a_planted_defect_is_found(row: Defect) -> None:
    with planted(row.defect) as invariant:
        found = run(row.seed, steps.read(row.steps, ACTORS)).violations
    assert any(violation.invariant == invariant and row.says in violation.what for violation in found), found


def test_every_planted_defect_has_a_seed() -> None:
    rows = yaml.safe_load((ROOT / "tests/fixtures/planted_defects.yaml").read_text(encoding="utf-8"))
    assert {row["defect"] for row in rows} == PLANTED.keys()


@pytest.mark.parametrize(
    "row", yaml.safe_load(CORPUS.read_text(encoding="utf-8")), ids=lambda row: f"seed {row['seed']}: {row['case']}"
)
def test_what_a_seed_once_showed_is_mended(row: dict[str, str]) -> None:
    assert run(int(row["seed"]), steps.read(row["steps"], ACTORS)).violations == []


def test_a_seed_is_the_same_run_in_every_process() -> None:
    """Whatever order sets of strings have in it."""
    said = {
        subprocess.run(
            [sys.executable, "-c", _SEED],
            env={**os.environ, "PYTHONHASHSEED": number},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for number in ("1", "2")
    }
    assert len(said) == 1
    assert said.pop().endswith("False\n")


def test_other_seeds_are_other_runs_with_other_faults() -> None:
    one, other = (run(seed, steps.read("lagging@1+9:controller-0", ACTORS)) for seed in (1, 2))
    assert one.trace != other.trace
    assert len(one.states | other.states) > len(one.states)


def test_faults_are_left_out_until_none_can_be() -> None:
    text = "refused@1+2:controller-0,lease-deleted@2+1;late@3+4:controller-1,erring@4+1:controller-1"

    def fails(tried: steps.Rounds) -> bool:
        faults = {step.fault for schedule in tried for step in schedule}
        return {"lease-deleted", "late"} <= faults

    assert steps.written(steps.shrink(steps.read(text, ACTORS), fails)) == "lease-deleted@2+1;late@3+4:controller-1"
