"""Faults of machines. A rack is an NVL72: 18 trays of 4 GPUs with a chassis and a fabric of its own."""

from typing import Any

import pytest
from tests.support.cluster import BLOCK, RACK, History, fabric, gpu_node, gpu_nodes
from tests.support.tables import says
from toposcope.api.label_keys import GPUS, NVLINK_DOMAIN
from toposcope.hierarchy.node import NodeFacts

pytestmark = pytest.mark.regression
FABRIC_1 = "00000000-0000-0000-0000-000000000001"
FABRIC_1_PARTITIONED = f"partitions, not faults: fabric {FABRIC_1} (18 nodes in 2 domains)"
NO_FAULTS = {"degradedNodes": 0, "unknownNodes": 0, "splitDomains": 0, "smallDomains": 0}


def trays(
    rack: int,
    count: int = 18,
    *,
    first: int = 0,
    domain: str = "",
    state: str = "ok",
    chassis: str = "",
    gpus: int = 4,
    **labels: str,
) -> list[NodeFacts]:
    """Trays of a rack, whose chassis and fabric have its number."""
    domain = domain or fabric(rack)
    return gpu_nodes(
        f"r{rack}-t",
        count,
        {"rack": f"r{rack}", NVLINK_DOMAIN: domain, GPUS: str(gpus), **labels},
        first=first,
        chassis=chassis or f"c{rack}",
        state=state,
    )


def tray(rack: int, number: int, **described: Any) -> NodeFacts:
    """One tray of a rack."""
    (node,) = trays(rack, 1, first=number, **described)
    return node


def in_domain(
    name: str, domain: str, count: int = 1, chassis: str = "", gpus: int = 8, **labels: str
) -> list[NodeFacts]:
    """Machines in an NVLink domain."""
    described = {
        NVLINK_DOMAIN: domain,
        GPUS: str(gpus),
        **labels,
    }
    return gpu_nodes(name, count, described, chassis=chassis)


def small_domains(history: History) -> list[dict[str, Any]] | None:
    small: list[dict[str, Any]] | None = history.status["fabric"].get("small")
    return small


def split_domains(history: History) -> list[dict[str, Any]] | None:
    splits: list[dict[str, Any]] | None = history.status["fabric"].get("splits")
    return splits


def small(number: int, gpus: int, usual: int) -> dict[str, Any]:
    """How the status says that a fabric has fewer GPUs than its siblings."""
    return {"name": fabric(number), "gpus": gpus, "usual": usual}


def split_chassis(rack: int) -> dict[str, Any]:
    """How the status says that the trays of a rack are in two domains."""
    return {"by": "chassis", "name": f"c{rack}", "domains": 2, "nodes": 18}


FABRIC_1_SPLIT = {"by": "fabric", "name": FABRIC_1, "domains": 2, "nodes": 18}

ALL_HEALTHY = ("True", "AllHealthy")
DOMAINS_SPLIT = ("False", "DomainsSplit")
DOMAINS_SMALL = ("False", "DomainsSmall")
NODES_DEGRADED = ("False", "NodesDegraded")
NODES_UNKNOWN = ("False", "NodesUnknown")


def faults(history: History) -> dict[str, Any]:
    """What the status says of fabrics."""
    counted: dict[str, Any] = history.status["fabric"]
    return counted


def verdict(history: History) -> tuple[str, str]:
    """Status and reason of FabricHealthy."""
    return history.verdict("FabricHealthy")


def message_of(history: History) -> str:
    """The message of FabricHealthy."""
    return history.message("FabricHealthy")


def test_sound_racks_and_lone_machines_are_healthy(history: History) -> None:
    lone_0 = gpu_node("hgx-0", {"rack": "r9"}, chassis="own-0")
    lone_1 = gpu_node("hgx-1", {"rack": "r9"}, chassis="own-1")
    history.look(
        [
            *trays(1),
            *trays(2),
            lone_0,
            lone_1,
        ]
    )
    assert faults(history) == NO_FAULTS
    assert "degradedDomains" not in history.level("rack")
    assert verdict(history) == ALL_HEALTHY


# Splits: one fabric in two cliques

CLIQUE_2 = fabric(1, clique=2)


def test_sound_nodes_of_one_fabric_in_two_cliques_are_partitioned(history: History) -> None:
    history.look(
        [
            *trays(1, 9),
            *trays(1, 9, first=9, domain=CLIQUE_2),
            *trays(2),
        ]
    )
    assert faults(history) == NO_FAULTS
    assert verdict(history) == ALL_HEALTHY
    message = message_of(history)
    assert message.endswith(f"broken; {FABRIC_1_PARTITIONED}")


def test_fabric_in_two_cliques_is_split_where_nodes_are_degraded(history: History) -> None:
    degraded = trays(1, 5, first=9, domain=CLIQUE_2, state="degraded")
    rest = trays(1, 4, first=14, domain=CLIQUE_2)
    history.look(
        [
            *trays(1, 9),
            *degraded,
            *rest,
            *trays(2),
        ]
    )
    assert split_domains(history) == [FABRIC_1_SPLIT]
    assert verdict(history) == DOMAINS_SPLIT
    expected = f"1 NVLink domain is split: fabric {FABRIC_1} (18 nodes in 2 domains)"
    assert expected in message_of(history)


def test_sound_node_alone_in_a_clique_is_a_partition(history: History) -> None:
    history.look(
        [
            *trays(1, 17),
            tray(1, 17, domain=CLIQUE_2),
            *trays(2),
        ]
    )
    assert faults(history) == NO_FAULTS
    assert verdict(history) == ALL_HEALTHY
    message = message_of(history)
    assert message.endswith(FABRIC_1_PARTITIONED)


def test_degraded_node_alone_in_a_clique_splits_its_fabric(history: History) -> None:
    history.look(
        [
            *trays(1, 17),
            tray(1, 17, domain=CLIQUE_2, state="degraded"),
            *trays(2),
        ]
    )
    assert split_domains(history) == [FABRIC_1_SPLIT]
    assert verdict(history) == DOMAINS_SPLIT


def test_unknown_node_alone_in_a_clique_makes_no_split(history: History) -> None:
    """A node that does not answer keeps its labels."""
    history.look(
        [
            *trays(1, 17),
            tray(1, 17, domain=CLIQUE_2, state="unknown"),
            *trays(2),
        ]
    )
    assert faults(history) == {**NO_FAULTS, "unknownNodes": 1}
    assert verdict(history) == NODES_UNKNOWN


# Splits: one chassis in two domains


def test_tray_that_fell_out_of_its_rack_is_found_by_the_chassis(history: History) -> None:
    """The agent makes a node whose fabric failed a domain of its own: the clique alone would not show it."""
    history.look(
        [
            *trays(1, 17),
            tray(1, 17, domain="r1-t17", state="degraded"),
            *trays(2),
        ]
    )
    assert faults(history) == {
        "degradedNodes": 1,
        "unknownNodes": 0,
        "splitDomains": 1,
        "smallDomains": 1,
        "splits": [split_chassis(1)],
        "small": [small(1, gpus=68, usual=72)],
    }
    assert verdict(history) == DOMAINS_SPLIT
    message = message_of(history)
    assert "chassis c1 (18 nodes in 2 domains)" in message
    assert (
        "1 node is degraded: r1-t17; see the annotation gpu.topology/matrix of each for the reason; 1 NVLink domain is"
    ) in message
    assert f"1 NVLink domain is smaller than its siblings: {FABRIC_1}.1 (68 GPUs, usual 72)" in message
    # The topology is as ready as it was.
    assert history.condition("Ready")["status"] == "Unknown"
    assert history.message("Ready") == "Published: No level is in effect yet, so nothing is published"


def test_one_fabric_over_two_chassis_is_whole(history: History) -> None:
    """NVL36x2."""
    history.look(
        [
            *trays(1, 9),
            *trays(2, 9, domain=fabric(1)),
        ]
    )
    assert split_domains(history) is None
    assert small_domains(history) is None
    assert verdict(history) == ALL_HEALTHY


@pytest.mark.parametrize("trays_of_second", [pytest.param(9, id="half"), pytest.param(1, id="one")])
def test_several_fabrics_by_design_in_one_chassis_are_partitions(history: History, trays_of_second: int) -> None:
    trays_of_first = 18 - trays_of_second
    second = trays(1, trays_of_second, first=trays_of_first, domain=fabric(7))
    history.look(
        [
            *trays(1, trays_of_first),
            *second,
        ]
    )
    assert split_domains(history) is None
    assert small_domains(history) is None
    assert verdict(history) == ALL_HEALTHY
    expected = "partitions, not faults: chassis c1 (18 nodes in 2 domains)"
    message = message_of(history)
    assert message.endswith(expected)


def test_partitions_stay_partitions_whatever_fails_in_other_chassis(history: History) -> None:
    second = trays(1, 8, first=9, domain=fabric(7))
    without_fabric = tray(
        1,
        17,
        domain="r1-t17",
    )
    degraded = gpu_node(
        "r9-t0",
        {
            "rack": "r9",
            NVLINK_DOMAIN: "r9-t0",
            GPUS: "4",
        },
        chassis="c9",
        state="degraded",
    )
    history.look(
        [
            *trays(1, 9),
            *second,
            without_fabric,
            degraded,
        ]
    )
    assert split_domains(history) is None
    assert small_domains(history) is None
    assert verdict(history) == NODES_DEGRADED
    expected = "partitions, not faults: chassis c1 (18 nodes in 3 domains)"
    message = message_of(history)
    assert message.endswith(expected)


def test_degraded_trays_alone_in_a_fabric_split_their_chassis(history: History) -> None:
    lost_of_1 = tray(1, 17, domain=fabric(7), state="degraded")
    lost_of_2 = tray(2, 17, domain=fabric(8), state="degraded")
    history.look(
        [
            *trays(1, 17),
            lost_of_1,
            *trays(2, 17),
            lost_of_2,
        ]
    )
    assert split_domains(history) == [split_chassis(1), split_chassis(2)]
    assert verdict(history) == DOMAINS_SPLIT
    expected = "2 NVLink domains are split: chassis c1 (18 nodes in 2 domains), chassis c2"
    assert expected in message_of(history)


def test_many_partitions_are_five_and_a_number(history: History) -> None:
    nodes = []
    for number in range(6):
        chassis = f"c{number + 1}"
        nodes += in_domain(
            f"a{number}-",
            fabric(11 + 2 * number),
            count=2,
            chassis=chassis,
        )
        nodes += in_domain(
            f"b{number}-",
            fabric(12 + 2 * number),
            count=2,
            chassis=chassis,
        )
    history.look(nodes)
    assert verdict(history) == ALL_HEALTHY
    message = message_of(history)
    assert message.endswith("chassis c5 (4 nodes in 2 domains) and 1 more")


# Small domains


def test_tray_that_lost_a_gpu_makes_its_domain_small(history: History) -> None:
    history.look(
        [
            *trays(1, 17),
            tray(1, 17, gpus=3, state="degraded"),
            *trays(2),
            *trays(3),
        ]
    )
    assert split_domains(history) is None
    assert small_domains(history) == [small(1, gpus=71, usual=72)]
    assert verdict(history) == NODES_DEGRADED


def test_siblings_of_a_domain_are_those_of_its_block(history: History) -> None:
    half_racks = [
        *trays(11, 9, block="halves"),
        *trays(12, 9, block="halves"),
        *trays(13, 9, block="halves"),
    ]
    history.look(
        [
            *half_racks,
            *trays(1),
            *trays(2),
            *trays(3, 17),
        ]
    )
    assert split_domains(history) is None
    assert small_domains(history) == [small(3, gpus=68, usual=72)]
    assert verdict(history) == DOMAINS_SMALL


def test_domains_without_siblings_nearby_are_all_compared(history: History) -> None:
    history.look(
        [
            *trays(1, block="b1"),
            *trays(2, block="b2"),
            *trays(3, 10, block="b3"),
        ]
    )
    assert split_domains(history) is None
    assert small_domains(history) == [
        small(
            3,
            gpus=40,
            usual=72,
        )
    ]
    assert verdict(history) == DOMAINS_SMALL


def test_many_small_domains_are_five_and_a_number(history: History) -> None:
    nodes = []
    for number in range(21, 27):
        nodes += in_domain(
            f"s{number}-",
            fabric(number),
            chassis=f"c{number}",
            gpus=4,
        )
    for number in range(31, 38):
        nodes += in_domain(
            f"b{number}-",
            fabric(number),
            count=2,
            chassis=f"c{number}",
            gpus=4,
        )
    history.look(nodes)
    assert verdict(history) == DOMAINS_SMALL
    expected = "6 NVLink domains are smaller than their siblings: * and 1 more"
    assert says(message_of(history), expected)


def test_smallest_domains_come_first(history: History) -> None:
    history.look(
        [
            *trays(1, 17),
            *trays(2, 16),
            *trays(3),
            *trays(4),
            *trays(5),
        ]
    )
    assert split_domains(history) is None
    assert small_domains(history) == [
        small(2, gpus=64, usual=72),
        small(1, gpus=68, usual=72),
    ]
    assert verdict(history) == DOMAINS_SMALL
    assert "2 NVLink domains are smaller" in message_of(history)


def test_domain_alone_is_compared_with_none(history: History) -> None:
    history.look(trays(1, 10))
    assert split_domains(history) is None
    assert small_domains(history) is None
    assert verdict(history) == ALL_HEALTHY


def test_domains_where_levels_do_not_nest_still_have_siblings(history: History) -> None:
    elsewhere = tray(1, 0, block="elsewhere")
    history.look(
        [
            elsewhere,
            *trays(1, 17, first=1),
            *trays(2),
            *trays(3, 16),
        ]
    )
    assert split_domains(history) is None
    assert small_domains(history) == [
        small(
            3,
            gpus=64,
            usual=72,
        )
    ]
    assert verdict(history) == DOMAINS_SMALL


def test_domains_are_compared_with_all_where_theirs_is_no_level(history: History) -> None:
    history.spec = {"levels": [{"domain": "rack", "key": RACK}]}
    history.look(
        [
            *in_domain("a", fabric(1), count=2, rack="r1"),
            *in_domain("b", fabric(2), count=2, rack="r1"),
            *in_domain("c", fabric(3), rack="r2"),
            *in_domain("d", fabric(4), rack="r2"),
        ]
    )
    assert small_domains(history) == [
        small(3, gpus=8, usual=16),
        small(4, gpus=8, usual=16),
    ]


def test_usual_size_is_what_most_siblings_have_and_not_the_largest(history: History) -> None:
    history.look(
        [
            *in_domain("a", fabric(1), count=2),
            *in_domain("b", fabric(2)),
            *in_domain("c", fabric(3)),
        ]
    )
    assert split_domains(history) is None
    assert small_domains(history) is None


def test_domain_that_lacks_most_gpus_comes_first(history: History) -> None:
    first_rack = [
        *in_domain("a", fabric(1), count=2, block="b1", rack="r1"),
        *in_domain("b", fabric(2), count=2, block="b1", rack="r1"),
        *in_domain("c", fabric(3), block="b1", rack="r1", gpus=1),
    ]
    second_rack = [
        *in_domain("d", fabric(4), count=5, block="b2", rack="r2"),
        *in_domain("e", fabric(5), count=5, block="b2", rack="r2"),
        *in_domain("f", fabric(6), count=2, block="b2", rack="r2"),
    ]
    history.look([*first_rack, *second_rack])
    assert small_domains(history) == [
        small(6, gpus=16, usual=40),
        small(3, gpus=1, usual=16),
    ]
    assert says(message_of(history), "*(16 GPUs, usual 40), *(1 GPU, usual 16)")


def test_domains_of_racks_named_as_their_nodes_are_compared_with_all(history: History) -> None:
    large = gpu_node(
        "a",
        {"rack": "a", NVLINK_DOMAIN: fabric(1)},
    )
    small_one = gpu_node(
        "b",
        {"rack": "b", NVLINK_DOMAIN: fabric(2), GPUS: "4"},
    )
    history.look([large, small_one])
    assert small_domains(history) == [small(2, gpus=4, usual=8)]


def test_domain_is_compared_with_siblings_however_many_racks_have_one(history: History) -> None:
    history.look(
        [
            *in_domain("a", fabric(1), count=2, rack="r1"),
            *in_domain("b", fabric(2), count=2, rack="r1"),
            *in_domain("c", fabric(3), rack="r1"),
            *in_domain("d", fabric(4), rack="r2"),
            *in_domain("e", fabric(5), rack="r3"),
            *in_domain("f", fabric(6), rack="r4"),
            *in_domain("g", fabric(7), rack="r5"),
        ]
    )
    assert small_domains(history) == [small(3, gpus=8, usual=16)]


# Degraded and unknown nodes


def test_unknown_node_is_counted_and_comes_last(history: History) -> None:
    history.look([*trays(1), gpu_node("n1", state="unknown")])
    assert faults(history)["unknownNodes"] == 1
    assert verdict(history) == NODES_UNKNOWN
    assert message_of(history) == (
        "the hardware of 1 node does not answer; list: kubectl get nodes -l gpu.topology/state=unknown"
    )


def test_unknown_nodes_are_counted(history: History) -> None:
    history.look(gpu_nodes("n", 2, state="unknown"))
    assert verdict(history) == NODES_UNKNOWN
    assert says(message_of(history), "the hardware of 2 nodes do not answer; list: *")


def degraded(prefix: str, count: int, **labels: str | None) -> list[NodeFacts]:
    return gpu_nodes(prefix, count, labels, state="degraded")


def test_degraded_nodes_are_counted_by_domain_and_lone_ones_have_no_name(history: History) -> None:
    history.look(
        [
            *degraded("a", 3, rack="r0"),
            *degraded("b", 2, rack="r1"),
            gpu_node("n5", {"rack": "lone"}, state="degraded"),
            gpu_node("ok0", {"rack": "r0"}),
            gpu_node("ok1", {"rack": "r1"}),
            gpu_node("ok2", {"rack": "r2"}),
        ]
    )
    racks = history.level("rack")
    hosts = history.level("host")
    assert racks["degradedDomains"] == 3
    assert racks["degraded"] == [
        {"name": "r0", "nodes": 3},
        {"name": "r1", "nodes": 2},
    ]
    assert hosts["degradedDomains"] == 6
    assert "degraded" not in hosts
    assert verdict(history) == NODES_DEGRADED
    expected = "6 nodes are degraded: a0, a1, a2, b0, b1, n5; see the annotation"
    assert expected in message_of(history)


def test_degraded_racks_of_one_name_in_two_blocks_are_two(history: History) -> None:
    history.look(
        [
            *degraded("a", 3, rack="r", block="b0"),
            *degraded("b", 3, rack="r", block="b1"),
        ]
    )
    assert history.level("rack")["degraded"] == [
        {
            "name": "z/b0/r",
            "nodes": 3,
        },
        {
            "name": "z/b1/r",
            "nodes": 3,
        },
    ]


def test_degraded_racks_are_sorted_by_nodes_and_then_by_name(history: History) -> None:
    """Of racks that nest in several blocks the value is enough."""
    history.look(
        [
            *degraded("a", 2, rack="r1", block="b0"),
            *degraded("b", 3, rack="r3", block="b1"),
            *degraded("c", 3, rack="r2", block="b1"),
        ]
    )
    assert history.level("rack")["degraded"] == [
        {"name": "r2", "nodes": 3},
        {"name": "r3", "nodes": 3},
        {"name": "r1", "nodes": 2},
    ]


def test_degraded_nodes_that_lack_a_level_are_counted_at_the_next(history: History) -> None:
    """They have no name there where levels do not nest."""
    history.spec = {
        "levels": [
            {
                "domain": "block",
                "key": BLOCK,
            },
            {"domain": "rack", "key": RACK},
        ]
    }
    sound = [
        *gpu_nodes(
            "n",
            2,
            {"block": "b0"},
        ),
        *gpu_nodes(
            "x",
            2,
            {"block": "b1"},
        ),
    ]
    history.look([*sound, *degraded("c", 3, block=None)])
    assert history.level("rack")["degraded"] == [{"name": "/r", "nodes": 3}]
    assert "degradedDomains" not in history.level("block")


def test_many_degraded_nodes_are_ten_and_a_number(history: History) -> None:
    history.look(degraded("d", 12))
    assert verdict(history) == NODES_DEGRADED
    expected = "12 nodes are degraded: d0, d1, d10, d11, d2, d3, d4, d5, d6, d7 and 2 more; see the annotation*"
    assert says(message_of(history), expected)
