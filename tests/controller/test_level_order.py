"""NVLink domains that span racks stand above the rack level, so that the levels nest; the order does not flap."""

from collections.abc import Mapping, Sequence

import pytest
from tests.support.cluster import RACK, History, fabric, gpu_node
from toposcope.api.label_keys import GPUS, LEAF, NVLINK_DOMAIN
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.hierarchy.effective_levels import inferred_levels
from toposcope.hierarchy.node import NodeFacts
from toposcope.hierarchy.table import Table

WITHIN = "zone > block > rack > nvlink-domain > host"
AROUND = "zone > block > nvlink-domain > rack > host"
GRACE = 600.0
CLIQUE = "nvidia.com/gpu.clique"


NO_MORE: Mapping[str, str | None] = {}


def trays(
    rack: str,
    number: int,
    labels: Mapping[str, str | None] = NO_MORE,
    *,
    count: int = 3,
    clique: int = 0,
) -> list[NodeFacts]:
    """The trays of a rack in the NVLink domain of a fabric and clique."""
    described = {
        "rack": rack,
        GPUS: "4",
        NVLINK_DOMAIN: fabric(number, clique),
        **labels,
    }
    nodes = []
    for i in range(count):
        name = f"{rack}-{number}-{clique}-t{i}"
        nodes.append(gpu_node(name, described, chassis=f"c-{rack}"))
    return nodes


def machines(rack: str, count: int = 3) -> list[NodeFacts]:
    """Nodes that NVLink does not leave."""
    nodes = []
    for i in range(count):
        nodes.append(gpu_node(f"{rack}-n{i}", {"rack": rack}))
    return nodes


def path(nodes: Sequence[NodeFacts]) -> str:
    """The levels of a new topology."""
    history = History()
    history.look(nodes)
    return str(history.status["levelPath"])


SPANNING = [*trays("r1", 1), *trays("r2", 1)]
"""One domain over two racks."""
A_DOMAIN_A_RACK = [*trays("r1", 1), *trays("r2", 2)]
ONE_RACK_BESIDE = trays("r3", 3)


@pytest.mark.regression
@pytest.mark.parametrize(
    ("nodes", "order"),
    [
        pytest.param(SPANNING, AROUND, id="domain-over-two-racks"),
        pytest.param([*SPANNING, *ONE_RACK_BESIDE], AROUND, id="domain-of-one-rack-beside-it"),
        pytest.param([*SPANNING, *ONE_RACK_BESIDE, *trays("r4", 3)], AROUND, id="pairs-of-racks"),
        pytest.param(A_DOMAIN_A_RACK, WITHIN, id="domain-a-rack"),
        pytest.param([*trays("r1", 1), *trays("r1", 2), *trays("r2", 3)], WITHIN, id="two-fabrics-in-a-rack"),
        pytest.param([*trays("r1", 1), *trays("r1", 1, clique=1)], WITHIN, id="partitions-of-a-rack"),
        pytest.param([*machines("r1"), *machines("r2")], WITHIN, id="machines-of-their-own"),
        pytest.param([*SPANNING, *machines("r3")], WITHIN, id="neither-nests"),
        pytest.param([*SPANNING, *trays("r2", 2)], WITHIN, id="both-span-each-other"),
        pytest.param([*trays("r1", 1), *trays("r2", 1, {"block": "c"})], WITHIN, id="domain-over-two-blocks"),
    ],
)
def test_the_order_of_a_new_topology(nodes: list[NodeFacts], order: str) -> None:
    assert path(nodes) == order


def test_the_levels_nest_where_a_domain_spans_racks() -> None:
    history = History()
    history.look([*SPANNING, *ONE_RACK_BESIDE])
    assert history.condition("HierarchyConsistent")["reason"] == "LevelsNest"
    assert history.level("nvlink-domain")["domains"] == 2
    assert history.level("rack")["domains"] == 3
    assert history.status["levelPath"] == AROUND


def test_another_writer_s_domain_spans_racks_too() -> None:
    theirs = {NVLINK_DOMAIN: None, CLIQUE: fabric(1)}
    first = trays("r1", 1, theirs)
    second = trays("r2", 1, theirs)
    assert path([*first, *second]) == AROUND


def test_a_partition_that_spans_racks_stands_between_its_domain_and_them() -> None:
    part = "accelerator.topograph.run/sub-domain"
    first = trays("r1", 1, {part: "p"})
    second = trays("r2", 1, {part: "p"})
    assert path([*first, *second]) == "zone > block > nvlink-domain > nvlink-partition > rack > host"


def test_a_partition_within_a_rack_stays_below_it() -> None:
    part = "accelerator.topograph.run/sub-domain"
    first = trays("r1", 1, {part: "p"})
    second = trays("r2", 1, {part: "q"})
    labels = {
        "rack": "r2",
        GPUS: "4",
        NVLINK_DOMAIN: fabric(1, 0),
        part: "s",
    }
    another = gpu_node("x", labels, chassis="c-r2")
    assert path([*first, *second, another]) == "zone > block > nvlink-domain > rack > nvlink-partition > host"


def test_commands_without_a_topology_show_the_same_order() -> None:
    nodes = Table(SPANNING)
    domains = [level.domain for level in inferred_levels(None, nodes, BUILT_IN)]
    assert domains[2:4] == ["nvlink-domain", "rack"]


def test_a_domain_that_no_order_makes_nest_is_reported() -> None:
    history = History()
    over_two_blocks = [*trays("r1", 1), *trays("r2", 1, {"block": "c"})]
    history.look(over_two_blocks)
    consistent = history.condition("HierarchyConsistent")
    assert consistent["reason"] == "LevelsDoNotNest"
    domain = fabric(1, 0)
    assert f"nvlink-domain {domain!r} lies under rack 'r1' and 'r2'" in consistent["message"]


def test_a_domain_that_spans_leaves_may_span_racks_too() -> None:
    first = trays("r1", 1, {LEAF: "l1"})
    second = trays("r2", 1, {LEAF: "l2"})
    assert path([*first, *second]) == "zone > block > leaf > nvlink-domain > rack > host"


def test_spec_levels_are_as_the_admin_wrote_them() -> None:
    levels = [
        {"domain": "rack", "key": RACK},
        {"domain": "nvlink-domain", "key": NVLINK_DOMAIN},
    ]
    history = History(levels=levels)
    history.look(SPANNING)
    assert history.status["levelPath"] == "rack > nvlink-domain"
    message = history.message("HierarchyConsistent")
    assert "list them in spec.levels the other way round" in message


def test_the_order_turns_after_the_grace_period() -> None:
    history = History()
    history.look(A_DOMAIN_A_RACK)
    joined = [*trays("r1", 3), *trays("r2", 3)]
    history.look(joined, 1)
    history.look(joined, GRACE)
    assert history.status["levelPath"] == WITHIN
    assert history.condition("HierarchyConsistent")["status"] == "True"
    history.look(joined, 1)
    assert history.status["levelPath"] == AROUND
    divided = [
        *trays("r1", 3),
        *trays("r1", 4),
        *trays("r2", 5),
        *trays("r2", 6),
    ]
    history.look(divided, 1)
    history.look(divided, GRACE)
    assert history.status["levelPath"] == AROUND
    assert history.condition("HierarchyConsistent")["status"] == "True"
    history.look(divided, 1)
    assert history.status["levelPath"] == WITHIN


@pytest.mark.regression
@pytest.mark.parametrize(
    "passing",
    [
        pytest.param(A_DOMAIN_A_RACK, id="domain-a-rack"),
        pytest.param([*trays("r1", 1), *machines("r2")], id="rack-without-a-fabric"),
        pytest.param(trays("r1", 1), id="one-rack-alone"),
        pytest.param([*trays("r1", 1), *trays("r1", 2), *trays("r2", 2)], id="middle-of-a-rebuild"),
    ],
)
def test_what_passes_within_the_grace_period_turns_nothing(passing: list[NodeFacts]) -> None:
    history = History()
    history.look(SPANNING)
    for _ in range(4):
        history.look(passing, 60)
        assert history.status["levelPath"] == AROUND
        history.look(SPANNING, GRACE)
        assert history.status["levelPath"] == AROUND


def test_a_restarted_controller_keeps_the_order() -> None:
    history = History()
    history.look(SPANNING)
    history.restart()
    history.look([*trays("r1", 1), *machines("r2")], 1)
    assert history.status["levelPath"] == AROUND


def test_without_a_grace_period_the_order_turns_at_once() -> None:
    history = History(gracePeriod="0s")
    history.look(A_DOMAIN_A_RACK)
    history.look([*trays("r1", 3), *trays("r2", 3)], 1)
    assert history.status["levelPath"] == AROUND
