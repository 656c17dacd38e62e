"""The spec of a ClusterTopology as an admin writes it."""

from typing import Any

import pytest
from tests.support.cluster import gpu_node, topology
from toposcope.api.cluster_topology import DEFAULT_GRACE_SECONDS, seconds
from toposcope.api.levels import Level
from toposcope.api.requirement import Requirement


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10m", 600),
        ("90s", 90),
        ("1h30m", 5400),
        ("1.5s", 1.5),
        ("250ms", 0.25),
    ],
)
def test_duration_reads_as_in_go(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("10", id="no-unit"),
        pytest.param("m", id="no-number"),
        pytest.param("10 m", id="blank"),
        pytest.param("1d", id="days"),
        pytest.param("-5m", id="negative"),
        pytest.param("10m!", id="rest"),
        pytest.param("\uff11m", id="other-digit"),
    ],
)
def test_text_that_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="as in '10m'"):
        seconds(text)


def test_empty_spec_selects_gpu_nodes_and_waits_ten_minutes() -> None:
    empty = topology()
    assert empty.levels is None
    assert empty.required == ()
    assert empty.grace_seconds == DEFAULT_GRACE_SECONDS
    assert DEFAULT_GRACE_SECONDS == 600
    assert empty.is_retaining is False
    assert empty.problems == ()
    with_gpus = gpu_node("n1")
    assert empty.selects(with_gpus)
    uncounted = gpu_node("n2", {"gpu.topology/gpus": None})
    assert not empty.selects(uncounted)


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    """A selector of one expression."""
    item: dict[str, Any] = {
        "key": key,
        "operator": operator,
    }
    if values:
        item["values"] = list(values)
    return {"matchExpressions": [item]}


@pytest.mark.parametrize(
    ("selector", "is_selected"),
    [
        pytest.param(
            {"matchLabels": {"pool": "h100"}},
            True,
            id="label",
        ),
        pytest.param(
            {"matchLabels": {"pool": "a100"}},
            False,
            id="other-label",
        ),
        pytest.param(
            expression("pool", "In", "h100", "h200"),
            True,
            id="in",
        ),
        pytest.param(
            expression("pool", "NotIn", "h100"),
            False,
            id="not-in",
        ),
        pytest.param(
            expression("other", "NotIn", "h100"),
            True,
            id="not-in-without-label",
        ),
        pytest.param(
            expression("pool", "Exists"),
            True,
            id="exists",
        ),
        pytest.param(
            expression("pool", "DoesNotExist"),
            False,
            id="does-not-exist",
        ),
        pytest.param(
            {"matchLabels": {"pool": "h100"}, **expression("x", "Exists")},
            False,
            id="label-and-expression",
        ),
    ],
)
def test_selector_selects_as_in_kubernetes(selector: dict[str, Any], is_selected: bool) -> None:
    node = gpu_node("n1", {"pool": "h100"})
    selecting = topology(nodeSelector=selector)
    assert selecting.selects(node) is is_selected


def test_bad_field_is_named_and_the_rest_stays_in_force() -> None:
    bad = topology(
        levels=[{"domain": "Rack", "key": "a/b"}],
        gracePeriod="soon",
        required=["rack"],
    )
    assert bad.grace_seconds == DEFAULT_GRACE_SECONDS
    assert bad.required == ("rack",)
    domain, grace = bad.problems
    assert domain.startswith("spec.levels[0].domain")
    assert "spec.gracePeriod" in grace


def test_spec_names_the_labels_that_must_be_kept() -> None:
    spec = topology(
        nodeSelector={"matchLabels": {"pool": "x"}},
        levels=[{"domain": "rack", "key": "a/rack"}],
    )
    assert spec.label_keys() == {"pool", "a/rack"}
    assert spec.levels == (Level("rack", "a/rack"),)
    in_pool = Requirement("pool", "In", frozenset({"x"}))
    assert in_pool in spec.selector
