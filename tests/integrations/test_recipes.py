"""What users run, in the form of the recipes that projects publish: all of it gets a verdict.

The fields that people write are read, or are known to decide nothing: `unclear` is for the rest.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.support.checking import snapshot_of
from tests.support.paths import DOCUMENTS
from toposcope.placement.check import Checker

RECIPES = DOCUMENTS / "recipes"
CLUSTER = "cluster"
NAMES = sorted(file.stem for file in RECIPES.glob("*.yaml") if file.stem != CLUSTER)


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.load_all((RECIPES / f"{name}.yaml").read_bytes(), yaml.CSafeLoader))


def verdicts() -> Iterator[tuple[str, str]]:
    """Each recipe by name, and what `check` says of it on an idle cluster."""
    snapshot = snapshot_of(documents(CLUSTER), {})
    for name in NAMES:
        recipe = documents(name)
        for document in recipe:
            for checked in Checker(snapshot, recipe).check(document):
                errors = [finding.message for finding in checked.errors]
                kind = checked.verdict.kind if checked.verdict else "no verdict"
                yield name, "; ".join(errors) or str(kind)


@pytest.fixture(scope="module")
def said() -> list[tuple[str, str]]:
    return list(verdicts())


def test_recipe_fits_on_an_idle_cluster(said: list[tuple[str, str]]) -> None:
    assert [(name, verdict) for name, verdict in said if verdict != "fits"] == []
