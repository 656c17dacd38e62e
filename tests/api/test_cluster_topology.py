import pytest
from tests.support.cluster import gpu_node, topology
from tests.support.tables import each_case
from toposcope.api.cluster_topology import DEFAULT_GRACE, seconds
from toposcope.api.levels import Level
from toposcope.api.requirement import Requirement


@pytest.mark.parametrize(
    ("text", "value"), [("10m", 600), ("90s", 90), ("1h30m", 5400), ("1.5s", 1.5), ("250ms", 0.25)]
)
def test_go_durations(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "10", "m", "10 m", "1d", "-5m", "10m!", "\uff11m"])
def test_what_is_no_duration_is_refused_with_the_fix(text: str) -> None:
    with pytest.raises(ValueError, match="as in '10m'"):
        seconds(text)


def test_an_empty_spec_means_every_gpu_node_and_ten_minutes() -> None:
    empty = topology()
    assert (empty.levels, empty.required, empty.grace, empty.retain, empty.problems) == (
        None,
        (),
        DEFAULT_GRACE,
        False,
        (),
    )
    assert empty.selects(gpu_node("n1"))
    assert not empty.selects(gpu_node("n2", {"gpu.topology/gpus": None}))


@each_case("tables/api.yaml")
def test_selectors_select_as_in_kubernetes(selector: dict[str, object], selected: bool) -> None:
    assert topology(nodeSelector=selector).selects(gpu_node("n1", {"pool": "h100"})) is selected


def test_a_bad_part_is_named_and_the_rest_stays_in_force() -> None:
    bad = topology(levels=[{"domain": "Rack", "key": "a/b"}], gracePeriod="soon", required=["rack"])
    assert bad.grace == DEFAULT_GRACE
    assert bad.required == ("rack",)
    assert len(bad.problems) == 2
    assert bad.problems[0].startswith("spec.levels[0].domain")
    assert "spec.gracePeriod" in bad.problems[1]


def test_a_spec_names_the_labels_that_must_be_kept() -> None:
    spec = topology(nodeSelector={"matchLabels": {"pool": "x"}}, levels=[{"domain": "rack", "key": "a/rack"}])
    assert spec.label_keys() == {"pool", "a/rack"}
    assert spec.levels == (Level("rack", "a/rack"),)
    assert Requirement("pool", "In", frozenset({"x"})) in spec.selector
