"""Whatever stands in the objects: an answer or a word about the file, and never a traceback."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import pytest

from tests.explain.causes import CAUSES, Cause
from tests.support.saved import saved
from toposcope.cli.main import main

RUBBISH: tuple[Any, ...] = (None, 7, -1, True, "text", "", [], {}, [[]], [None], {"a": {"b": []}}, ["rack", {"x": 1}])
KEPT = {"apiVersion", "kind"}


def spoilt(document: Any, dice: random.Random) -> Any:
    """The document with one value in it replaced."""
    found = copy.deepcopy(document)
    here = found
    while True:
        keys = [key for key in here if key not in KEPT] if isinstance(here, dict) else list(range(len(here)))
        if not keys:
            return found
        key = dice.choice(keys)
        if not isinstance(here[key], (dict, list)) or dice.random() < 0.2:
            here[key] = dice.choice(RUBBISH)
            return found
        here = here[key]


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.name)
def test_any_object_may_be_spoilt(cause: Cause, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dice = random.Random(cause.name)
    items = cause.objects()
    others = [number for number, item in enumerate(items) if item["kind"] != "Node"]
    for _ in range(15):
        number = dice.choice(others)
        document = [spoilt(item, dice) if i == number else item for i, item in enumerate(items)]
        file = tmp_path / "cluster.json"
        file.write_text(saved(document), encoding="utf-8")
        code = main(["explain", cause.subject, "--from", str(file)])
        printed = capsys.readouterr()
        assert code in {0, 1, 2}
        assert (code == 2) == (printed.out == ""), printed.err
