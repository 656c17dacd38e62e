"""What the page of metrics says about the values of a label."""

import re
from collections.abc import Collection
from typing import get_args

import pytest
from tools.docgen.metrics import notes
from toposcope.agent.metrics import REASONS, Outcome
from toposcope.kube.reflector import RELIST_REASONS

VALUE = re.compile(r"`([a-z-]+)`:")


@pytest.mark.regression
@pytest.mark.parametrize(
    ("metric", "values"),
    [
        pytest.param("toposcope_agent_probe_failures_total", REASONS, id="probe-failures"),
        pytest.param("toposcope_agent_publishes_total", get_args(Outcome), id="publishes"),
        pytest.param("toposcope_lists_total", RELIST_REASONS, id="lists"),
    ],
)
def test_only_values_that_exist_are_explained(metric: str, values: Collection[str]) -> None:
    explained = set(VALUE.findall(notes()[metric]["more"]))
    assert explained - set(values) == set()


@pytest.mark.regression
def test_each_reason_of_a_list_but_the_first_is_explained() -> None:
    explained = VALUE.findall(notes()["toposcope_lists_total"]["more"])
    assert sorted(explained) == sorted(set(RELIST_REASONS) - {"first"})
