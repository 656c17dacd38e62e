"""Each cause from saved files: the page word for word, the answer for scripts, and what malformed objects do."""

import copy
import random
from pathlib import Path
from typing import Any

import pytest
from tests.explain.causes import CAUSES, Cause, no_room_ever
from tests.explain.explained import Explain
from tests.explain.waiting import RACK, Object
from tests.support.pages import expected_page
from tests.support.paths import DOCUMENTS
from tests.support.saved import saved
from toposcope.api.label_keys import LEAF, LEAF_GROUP
from toposcope.cli.main import main

STEPS_OF_PODS = ["gates", "pinned", "suspended", "owner", "scheduler"]
STEPS_OF_TOPOLOGY = ["topology", "levels", "hierarchy", "rules", "labels", "availability", "room", "drift", "features"]
for_each_cause = pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.name)


@pytest.mark.regression
@for_each_cause
def test_cause_is_explained_by_its_page(cause: Cause, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = cause.build().save(tmp_path)
    code = main(["explain", cause.subject, "--from", str(file)])
    printed = capsys.readouterr()
    assert printed.out == expected_page(f"explain/pages/{cause.name}.txt", printed.out)
    assert printed.err == ""
    assert code == cause.code


@for_each_cause
def test_cause_is_the_step_that_answers(cause: Cause, explain: Explain) -> None:
    explained = explain(cause.build(), cause.subject)
    assert explained.code == cause.code
    assert explained.is_well == (cause.code == 0)
    assert [step["step"] for step in explained.document["steps"]] == STEPS_OF_PODS + STEPS_OF_TOPOLOGY
    if not cause.step:
        assert not explained.has_answer
        return
    assert explained.answer.name == cause.step
    assert explained.document["answer"]["next"]


@pytest.mark.regression
@pytest.mark.parametrize(
    ("key", "is_a_level_of_leaves"),
    [
        pytest.param(RACK, False, id="rack"),
        pytest.param(LEAF_GROUP, True, id="leaf-group"),
        pytest.param(LEAF, True, id="leaf"),
    ],
)
def test_wrong_cable_is_reported_where_a_leaf_is_too_small(
    key: str, *, is_a_level_of_leaves: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = no_room_ever()
    rail = {
        "node": "h200-5",
        "nic": "mlx5_2",
        "switch": "leaf-9",
        "port": "p1",
        "expected": "leaf-3",
    }
    cluster["ClusterTopology/cluster"]["status"] = {"rails": {"miscabled": [rail]}}
    file = cluster.save(tmp_path)
    file.write_text(file.read_text().replace(RACK, key), encoding="utf-8")
    code = main(["explain", "podcliqueset/llm", "--from", str(file)])
    text = "a wrong cable may set h200-5 apart: mlx5_2 of h200-5 goes to leaf-9 port p1, expected leaf-3"
    assert code == 1
    assert (text in capsys.readouterr().out) == is_a_level_of_leaves


def test_every_page_belongs_to_a_cause() -> None:
    pages = {page.stem for page in (DOCUMENTS / "explain" / "pages").iterdir()}
    assert pages == {cause.name for cause in CAUSES}


MALFORMED: tuple[Any, ...] = (None, 7, -1, True, "text", "", [], {}, [[]], [None], {"a": {"b": []}}, ["rack", {"x": 1}])
KEPT_KEYS = {"apiVersion", "kind"}


def corrupt(document: Object, rng: random.Random) -> Object:
    """The document with one value in it replaced."""
    changed = copy.deepcopy(document)
    place: Any = changed
    while True:
        keys = _keys(place)
        if not keys:
            return changed
        key = rng.choice(keys)
        if not isinstance(place[key], (dict, list)) or rng.random() < 0.2:
            place[key] = rng.choice(MALFORMED)
            return changed
        place = place[key]


def _keys(place: Any) -> list[Any]:
    if isinstance(place, list):
        return list(range(len(place)))
    return [key for key in place if key not in KEPT_KEYS]


@pytest.mark.regression
@pytest.mark.slow
@for_each_cause
def test_malformed_objects_cause_no_traceback(cause: Cause, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(cause.name)
    objects = cause.build().objects
    file = tmp_path / "cluster.json"
    positions = [number for number, document in enumerate(objects) if document["kind"] != "Node"]
    for _ in range(15):
        position = rng.choice(positions)
        broken = list(objects)
        broken[position] = corrupt(objects[position], rng)
        file.write_text(saved(broken), encoding="utf-8")
        code = main(["explain", cause.subject, "--from", str(file)])
        printed = capsys.readouterr()
        assert code in {0, 1, 2}
        assert (code == 2) == (printed.out == ""), printed.err
