"""Every label and level has taken the steps of docs/maintainers/new-system.md; a new one fails with their names."""

import pytest
from tests.support.label_recipe import missing_label_steps, missing_level_steps
from toposcope.agent.labels import ALL
from toposcope.hierarchy.platforms import KEYS


@pytest.mark.parametrize("key", sorted(ALL))
def test_label_has_taken_all_steps(key: str) -> None:
    assert missing_label_steps(key) == []


@pytest.mark.parametrize("domain", KEYS)
def test_level_has_taken_all_steps(domain: str) -> None:
    assert missing_level_steps(domain) == []


def test_new_label_is_told_its_steps() -> None:
    assert missing_label_steps("gpu.topology/coolant") == [
        "Label, step 1: its meaning: toposcope/api/label_keys.py does not say what gpu.topology/coolant means",
        "Label, step 2: its value: ALL in toposcope/agent/labels.py lacks gpu.topology/coolant",
        "Label, step 3: a machine that has it: no profile in EXAMPLES of tools/docgen has gpu.topology/coolant",
        "Label, step 4: a test: no test in tests/agent/ or tests/hardware/ names gpu.topology/coolant",
        "Label, step 5: the reference: docs/labels.md lacks gpu.topology/coolant: make reference",
    ]


def test_new_level_is_told_its_steps() -> None:
    assert missing_level_steps("aisle") == [
        "Level, step 1: the catalogue: toposcope/hierarchy/platforms.toml has no keys for aisle",
        "Level, step 2: a test: no test of tests/hierarchy/test_catalogue.py has a key of aisle",
        "Level, step 3: the reference: the catalogue in docs/ lacks aisle: make reference",
    ]
