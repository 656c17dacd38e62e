"""The simulation finds what it must, says the same of a seed each time, and what it once found stays mended."""

import contextlib
import logging
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest
import yaml
from tests.support.paths import ROOT
from tools.simulate import steps
from tools.simulate.__main__ import CORPUS
from tools.simulate.planted import PLANTED, planted
from tools.simulate.runs import run
from tools.simulate.world import ACTORS, SimulatedMachine, Worker, World
from toposcope.agent.nvml.supervisor import ProbeError

pytestmark = pytest.mark.slow

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


@dataclass(frozen=True, slots=True)
class Defect:
    """A defect of tools/simulate/planted.py, faults that show it, and words of the violation."""

    name: str
    first_seed: int
    faults: list[str]
    says: str

    def seeds(self) -> range:
        """A few, because which one finds it is another after each change of what programs ask for."""
        return range(self.first_seed, self.first_seed + 24)


DEFECTS = (
    Defect(
        "the fence is gone",
        14,
        ["sluggish@5+100:controller-0", "sluggish@5+100:controller-1", "crd-deleted-ours@10+5", "leader-stopped@18+60"],
        "its last claim was at",
    ),
    Defect(
        "a Lease is held after it has expired",
        13,
        ["sluggish@5+100:controller-0", "sluggish@5+100:controller-1", "crd-deleted-ours@10+5", "leader-stopped@18+60"],
        "its last claim was at",
    ),
    Defect(
        "a new Lease is used at once",
        7,
        ["sluggish@5+100:controller-0", "lease-deleted@10+1", "published-deleted@13+1"],
        "after another wrote",
    ),
    Defect(
        "labels go when NVML does not answer", 1, ["nvml-hung@5+70:agent-machine-1"], "disappeared without evidence"
    ),
    Defect("objects of others are adopted", 1, ["grove-edited@5+3"], "clustertopologybindings/taken became"),
    Defect("events are lost at 410", 8, ["etcd-compacted@10+25"], "a new Node was not noticed"),
    Defect(
        "a list that breaks off counts as empty",
        2,
        ["etcd-compacted@5+20", "flaky@5+90:controller-0", "flaky@5+90:controller-1"],
        "a new Node was not noticed",
    ),
    Defect("a restored etcd is not noticed", 8, ["etcd-restored@35+1"], "a new Node was not noticed"),
    Defect(
        "a list that expires between two pages counts as empty",
        5,
        ["paged@5+60:controller-0", "paged@5+60:controller-1"],
        "All 4 nodes",
    ),
    Defect(
        "a level goes before its grace period is over", 1, ["level-lost@5+25"], "status of cluster shows the levels"
    ),
)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name.replace(" ", "-"))
def test_planted_defect_is_found(defect: Defect) -> None:
    rounds = steps.read(",".join(defect.faults), ACTORS)
    violations = []
    with planted(defect.name) as invariant:
        for seed in defect.seeds():
            for violation in run(seed, rounds).violations:
                if violation.invariant == invariant and defect.says in violation.what:
                    return
                violations.append(violation.what)
    pytest.fail(f"no violation of {invariant} says '{defect.says}'; found {violations}")


@pytest.mark.parametrize("fault", ["resent", "dies-waiting"])
def test_fault_of_programs_happens(fault: str) -> None:
    """Requests come twice in a row, or a program that nobody else kills is started again."""
    served: list[Any] = []
    births: list[int] = []

    @contextlib.contextmanager
    def watched(world: World) -> Iterator[None]:
        serve = world.network.serve

        def noted(process: Any, request: Any) -> Any:
            served.append(request)
            return serve(process, request)

        with patch.object(world.network, "serve", noted):
            yield
        births.append(world.actors["controller-0"].program.births)

    rounds = steps.read(f"{fault}@1+60:controller-0", ACTORS)
    result = run(1, rounds, watched=watched)

    assert result.violations == []
    comes_twice = any(first is second for first, second in pairwise(served))
    assert comes_twice == (fault == "resent")
    assert births == ([1] if fault == "resent" else [2])


def _covered(seed: int, rounds: str) -> tuple[set[str], bool]:
    """What `LevelsCovered` said of the topology with the DRA driver's label, and whether an invariant was broken."""
    said: set[str] = set()

    @contextlib.contextmanager
    def watched(world: World) -> Iterator[None]:
        seen = world.observer.topologies.seen

        def noted(document: dict[str, Any]) -> None:
            if document["metadata"]["name"] == "cliques":
                status = document.get("status") or {}
                for condition in status.get("conditions") or ():
                    if condition["type"] == "LevelsCovered":
                        said.add(condition["status"])
            seen(document)

        with patch.object(world.observer.topologies, "seen", noted):
            yield

    result = run(seed, steps.read(rounds, ACTORS), watched=watched)
    return said, bool(result.violations)


_DRIVER = "driver-restarted@5+300;driver-restarted@5+14;driver-restarted@5+540"


def test_driver_that_restarts_and_takes_its_label_along_changes_nothing() -> None:
    assert _covered(1, _DRIVER) == ({"True"}, False)


def test_driver_that_restarts_shows_without_a_memory_of_labels() -> None:
    with patch("toposcope.controller.held_labels.HeldLabels.table", lambda _self, nodes, _grace: nodes):
        said, _ = _covered(1, _DRIVER)
    assert said == {"True", "False"}


def test_every_planted_defect_has_a_seed() -> None:
    assert {defect.name for defect in DEFECTS} == PLANTED.keys()


@pytest.mark.regression
@pytest.mark.parametrize(
    "row",
    yaml.load(CORPUS.read_text(encoding="utf-8"), yaml.CSafeLoader),
    ids=lambda row: f"seed {row['seed']}: {row['case']}",
)
def test_seed_that_once_found_a_defect_finds_none(row: dict[str, Any]) -> None:
    result = run(
        row["seed"],
        steps.read(row["steps"], ACTORS),
        settles=row.get("settles", inf),
    )
    assert result.violations == []


def test_seed_is_the_same_run_in_every_process() -> None:
    """Whatever order sets of strings have in it."""
    said = set()
    for number in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", _SEED],
            env={**os.environ, "PYTHONHASHSEED": number},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        said.add(done.stdout)
    assert len(said) == 1
    assert said.pop().endswith("False\n")


def test_other_seeds_are_other_runs_with_other_faults() -> None:
    rounds = steps.read("lagging@1+9:controller-0", ACTORS)
    first = run(1, rounds)
    second = run(2, rounds)
    assert first.trace != second.trace
    assert not second.states <= first.states


def test_faults_are_left_out_until_none_can_be() -> None:
    text = "refused@1+2:controller-0,lease-deleted@2+1;late@3+4:controller-1,erring@4+1:controller-1"

    def fails(tried: steps.Rounds) -> bool:
        faults = set()
        for schedule in tried:
            for step in schedule:
                faults.add(step.fault)
        return {"lease-deleted", "late"} <= faults

    smallest = steps.shrink(steps.read(text, ACTORS), fails)
    assert steps.written(smallest) == "lease-deleted@2+1;late@3+4:controller-1"


@pytest.mark.regression
def test_nvml_that_crashes_while_asked_fails_the_probe() -> None:
    machine = SimulatedMachine("n1", "t4-1", 1, Path())
    clock = Mock(rng=random.Random(1))

    def crash(_seconds: float) -> None:
        machine.set_faults("calls: [{call: nvmlDeviceGetCount, crash: true}]")

    clock.wait.side_effect = crash
    worker = Worker(clock, machine)
    with pytest.raises(ProbeError):
        worker.probe()
