"""Each cause from saved files: the page word for word, the answer for scripts, and what malformed objects do."""

import copy
import json
import random
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.explain.causes import CAUSES, QUESTIONS, Cause
from tests.explain.waiting import RACK, SUBJECT
from tests.support.paths import DOCS
from tests.support.saved import saved
from toposcope.api.label_keys import LEAF, LEAF_GROUP
from toposcope.cli.main import main

PAGES = Path(__file__).parent / "pages"
for_each_cause = pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.name)


def explain(cause: Cause, folder: Path, *flags: str) -> int:
    file = folder / "cluster.json"
    file.write_text(saved(cause.objects()), encoding="utf-8")
    return main(["explain", cause.subject, "--from", str(file), *flags])


@pytest.mark.regression
@for_each_cause
def test_the_page(cause: Cause, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(cause, tmp_path) == cause.code
    printed = capsys.readouterr()
    assert printed.out == (PAGES / f"{cause.name}.txt").read_text(encoding="utf-8")
    assert printed.err == ""


@for_each_cause
def test_the_answer_for_scripts(cause: Cause, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(cause, tmp_path, "-o", "json") == cause.code
    document = json.loads(capsys.readouterr().out)
    assert (document["answer"] or {"step": ""})["step"] == cause.step
    assert document["well"] == (cause.code == 0)
    assert [step["step"] for step in document["steps"]] == [
        "topology",
        "levels",
        "hierarchy",
        "rules",
        "labels",
        "availability",
        "room",
        "drift",
        "features",
    ]
    if document["answer"]:
        assert document["answer"]["next"]


@pytest.mark.regression
def test_a_wrong_cable_is_told_where_a_leaf_is_too_small(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = next(cause for cause in CAUSES if cause.name == "no-room-ever").objects()
    rail = {"node": "h200-5", "nic": "mlx5_2", "switch": "leaf-9", "port": "p1", "expected": "leaf-3"}
    next(obj for obj in objects if obj["kind"] == "ClusterTopology")["status"] = {"rails": {"miscabled": [rail]}}
    text = "a wrong cable may set h200-5 apart: mlx5_2 of h200-5 goes to leaf-9 port p1, expected leaf-3"
    for key, told in ((RACK, False), (LEAF_GROUP, True), (LEAF, True)):
        file = tmp_path / "cluster.json"
        file.write_text(saved(objects).replace(RACK, key), encoding="utf-8")
        assert main(["explain", SUBJECT, "--from", str(file)]) == 1
        assert (text in capsys.readouterr().out) == told


def found(value: Any, path: str) -> Any:
    """What is at a path of fields and positions; a step goes by its name."""
    for part in path.split("."):
        if isinstance(value, list):
            value = value[int(part)] if part.isdecimal() else next(step for step in value if step["step"] == part)
        else:
            value = value[part]
    return value


@pytest.mark.regression
@pytest.mark.parametrize(("cause", "gives"), QUESTIONS)
def test_the_answer_to_a_question(
    cause: Cause, gives: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(cause, tmp_path, "-o", "json") == cause.code
    document = json.loads(capsys.readouterr().out)
    assert {path: found(document, path) for path in gives} == gives


def test_every_page_belongs_to_a_cause() -> None:
    assert {page.stem for page in PAGES.iterdir()} == {cause.name for cause in CAUSES}


def test_the_page_in_the_docs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    cause = next(cause for cause in CAUSES if cause.name == "no-room")
    explain(replace(cause, subject="pod/llm-0-worker-2"), tmp_path)
    assert f"explain pod/llm-0-worker-2 -n ml\n{capsys.readouterr().out}```" in text


MALFORMED: tuple[Any, ...] = (None, 7, -1, True, "text", "", [], {}, [[]], [None], {"a": {"b": []}}, ["rack", {"x": 1}])
KEPT_KEYS = {"apiVersion", "kind"}


def corrupted(document: Any, rng: random.Random) -> Any:
    """The document with one value in it replaced."""
    changed = copy.deepcopy(document)
    here = changed
    while True:
        keys = [key for key in here if key not in KEPT_KEYS] if isinstance(here, dict) else list(range(len(here)))
        if not keys:
            return changed
        key = rng.choice(keys)
        if not isinstance(here[key], (dict, list)) or rng.random() < 0.2:
            here[key] = rng.choice(MALFORMED)
            return changed
        here = here[key]


@pytest.mark.regression
@for_each_cause
def test_malformed_objects_are_no_traceback(cause: Cause, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(cause.name)
    items = cause.objects()
    others = [number for number, item in enumerate(items) if item["kind"] != "Node"]
    for _ in range(15):
        number = rng.choice(others)
        broken = [corrupted(item, rng) if i == number else item for i, item in enumerate(items)]
        code = explain(replace(cause, objects=partial(list, broken)), tmp_path)
        printed = capsys.readouterr()
        assert code in {0, 1, 2}
        assert (code == 2) == (printed.out == ""), printed.err
