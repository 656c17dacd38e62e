"""A broadest level that says of each node what the host level says: Kueue 0.14 to 0.19.0 leaves such nodes out."""

import pytest
from tests.support.cluster import History, fabric, gpu_node, gpu_nodes
from toposcope.api.label_keys import NVLINK_DOMAIN
from toposcope.controller.assess.assessment import Assessment
from toposcope.hierarchy.node import NodeFacts

pytestmark = pytest.mark.regression
GRACE = 600.0
BARE = {"zone": None, "block": None, "rack": None}
HGX = gpu_nodes("h", 4, BARE)
HINT = ("OwnName", NVLINK_DOMAIN)


def trays(count: int) -> list[NodeFacts]:
    """Trays of one NVL72 rack."""
    return gpu_nodes("t", count, {**BARE, NVLINK_DOMAIN: fabric(1)})


def published(found: Assessment) -> list[str]:
    """The levels that lists of levels get."""
    return [level.domain for level in found.publishable or ()]


def test_nvlink_domains_of_one_node_are_not_published_as_the_top(history: History) -> None:
    found = history.look(HGX)
    assert found.effective.path == "nvlink-domain > host"
    assert published(found) == ["host"]
    assert [level.domain for level in found.bindable or ()] == ["nvlink-domain", "host"]
    assert history.hints[HINT]["message"] == (
        "gpu.topology/nvlink-domain of level 'nvlink-domain' is the node's own name on 4 of 4 nodes, "
        "so it adds nothing above host, and Kueue gets the levels without it: "
        "Kueue 0.14 to 0.19.0 leaves such nodes out of a topology that begins with it; "
        "to publish it all the same, name it in spec.required"
    )


def test_nvlink_domains_below_a_zone_are_published(history: History) -> None:
    found = history.look(gpu_nodes("h", 4, {"block": None, "rack": None}))
    assert published(found) == ["zone", "nvlink-domain", "host"]
    assert HINT not in history.hints


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"required": ["nvlink-domain"]}, id="required"),
        pytest.param(
            {
                "levels": [
                    {"domain": "nvlink-domain", "key": NVLINK_DOMAIN},
                    {"domain": "host", "key": "kubernetes.io/hostname"},
                ]
            },
            id="listed",
        ),
    ],
)
def test_top_that_the_spec_asks_for_is_published_with_a_hint(spec: dict[str, object]) -> None:
    history = History(**spec)
    found = history.look(HGX)
    assert published(found) == ["nvlink-domain", "host"]
    assert "update it, or give the nodes a label of a level above" in history.hints[HINT]["message"]


def test_top_that_spans_some_nodes_is_published_with_a_hint(history: History) -> None:
    found = history.look([*HGX, *trays(2)])
    assert published(found) == ["nvlink-domain", "host"]
    assert "is the node's own name on 4 of 6 nodes: Kueue 0.14" in history.hints[HINT]["message"]


def test_top_is_published_for_the_grace_period_after_its_last_fabric(history: History) -> None:
    history.look([*HGX, *trays(2)])
    assert published(history.look(HGX, 1)) == ["nvlink-domain", "host"]
    assert published(history.look(HGX, GRACE + 1)) == ["host"]
    assert published(history.look([*HGX, *trays(2)], 1)) == ["nvlink-domain", "host"]


def test_only_rack_with_a_name_of_its_own_is_published(history: History) -> None:
    """A second node may join it."""
    found = history.look([gpu_node("h0", {**BARE, "rack": "r1"}), gpu_node("h1", {**BARE, "rack": "r2"})])
    assert published(found) == ["rack", "nvlink-domain", "host"]
