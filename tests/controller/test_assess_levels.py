"""Which levels nodes have, which nodes lack one, and which have no agent."""

import pytest
from tests.support.cluster import BLOCK, RACK, ZONE, History, gpu_node, gpu_nodes
from tests.support.tables import says
from toposcope.api.label_keys import GPU_PRODUCT, GPUS, NVLINK_DOMAIN

pytestmark = pytest.mark.regression
FULL = "zone > block > rack > nvlink-domain > host"
NO_RACK = {"rack": None}
NO_AGENT = {GPUS: None, NVLINK_DOMAIN: None}
FOUR = gpu_nodes("n", 4)
NODES_MISS_LEVELS = ("False", "NodesMissingLevels")
ALL_COVERED = ("True", "AllNodesCovered")
WITHOUT_AGENT = ("False", "NodesWithoutLabels")
IMPLAUSIBLE = ("False", "ImplausibleLabels")


def verdict(history: History) -> tuple[str, str]:
    """Status and reason of LevelsCovered."""
    return history.verdict("LevelsCovered")


def message_of(history: History) -> str:
    """The message of LevelsCovered."""
    return history.message("LevelsCovered")


def agents(history: History) -> tuple[str, str]:
    """Status and reason of AgentsReporting."""
    return history.verdict("AgentsReporting")


def agents_message(history: History) -> str:
    """The message of AgentsReporting."""
    return history.message("AgentsReporting")


def test_new_cluster_needs_no_configuration(history: History) -> None:
    found = history.look(FOUR)
    assert found.effective.path == FULL
    assert history.status["nodes"] == 4
    assert history.status["gpus"] == 32
    assert "hints" not in history.status

    assert history.verdict("TopologyLevelsAvailable") == ("True", "AllTopologyLevelsAvailable")
    assert history.message("TopologyLevelsAvailable") == (
        "All required topology levels are available in the cluster topology"
    )
    assert verdict(history) == ALL_COVERED
    assert message_of(history) == "All 4 nodes carry every level: zone > block > rack > nvlink-domain > host"
    assert history.verdict("AgentsReporting") == ("True", "AllAgentsReport")
    assert agents_message(history) == "Every node with GPUs carries the labels of an agent"
    assert history.verdict("HierarchyConsistent") == ("True", "LevelsNest")
    assert history.message("HierarchyConsistent") == "Every domain lies within one domain of the level above"
    assert history.verdict("FabricHealthy") == ("True", "AllHealthy")
    assert history.message("FabricHealthy") == "No node is degraded and no NVLink domain is broken"
    assert history.verdict("RailsConsistent") == ("Unknown", "NoRails")


def test_gpus_of_identical_machines_are_counted_each(history: History) -> None:
    history.look(gpu_nodes("n", 4, {NVLINK_DOMAIN: None}))
    assert history.status["gpus"] == 32


def test_levels_of_the_spec_keep_their_order(history: History) -> None:
    """Real racks span blocks, and the order is the admin's."""
    history.spec = {
        "levels": [
            {"domain": "rack", "key": RACK},
            {"domain": "zone", "key": ZONE},
        ]
    }
    found = history.look(FOUR)
    assert found.effective.path == "rack > zone"


def test_node_is_selected_by_its_own_name(history: History) -> None:
    by_name = {"kubernetes.io/hostname": "n1"}
    history.spec = {"nodeSelector": {"matchLabels": by_name}}
    history.look(FOUR)
    assert history.status["nodes"] == 1


def test_bad_spec_publishes_nothing_and_still_reports(history: History) -> None:
    upper_case = {"domain": "Rack", "key": RACK}
    history.spec = {"levels": [upper_case]}
    found = history.look(FOUR)
    assert found.publishable is None
    assert found.bindable is None
    assert history.status["nodes"] == 4


def test_level_of_few_nodes_must_be_on_all(history: History) -> None:
    history.look(
        [
            *gpu_nodes("n", 7),
            gpu_node("n7", NO_RACK),
        ]
    )
    assert verdict(history) == NODES_MISS_LEVELS
    assert message_of(history) == (
        "'rack' (cloud.google.com/gce-topology-subblock) is on 7 of 8 nodes and not a level, because all 8 must carry "
        "it (spec.minCoveragePercent 95); lacking: n7; label it, or lower the percentage to have schedulers skip it"
    )


def test_level_of_many_nodes_must_be_on_a_share(history: History) -> None:
    history.look(
        [
            *gpu_nodes("n", 20),
            *gpu_nodes("x", 5, NO_RACK),
        ]
    )
    assert verdict(history) == NODES_MISS_LEVELS
    assert says(
        message_of(history),
        "*on 20 of 25 nodes and not a level, because at least 24 must carry it*"
        "lacking: x0, x1, x2, x3, x4; label them, or*",
    )


def test_nodes_that_lack_a_level_are_named(history: History) -> None:
    history.look(
        [
            *gpu_nodes("n", 40),
            gpu_node("x1", NO_RACK),
            gpu_node("x2", NO_RACK),
        ]
    )
    assert verdict(history) == NODES_MISS_LEVELS
    expected = "2 of 42 nodes lack level 'rack' (cloud.google.com/gce-topology-subblock): x1, x2*"
    assert says(message_of(history), expected)


def test_many_nodes_that_lack_a_level_are_ten_and_a_number(history: History) -> None:
    history.look(
        [
            *gpu_nodes("n", 380),
            *gpu_nodes("x", 12, NO_RACK),
        ]
    )
    assert verdict(history) == NODES_MISS_LEVELS
    expected = "*: x0, x1, x10, x11, x2, x3, x4, x5, x6, x7 and 2 more; *"
    assert says(message_of(history), expected)


def test_of_two_labels_that_are_no_level_the_more_common_is_told(history: History) -> None:
    other_key = gpu_node("m", {"rack": None, "topology.gpustack.ai/rack": "r"})
    history.look(
        [
            *gpu_nodes("n", 6),
            other_key,
            gpu_node("x", NO_RACK),
        ]
    )
    assert verdict(history) == NODES_MISS_LEVELS
    expected = "'rack' (cloud.google.com/gce-topology-subblock) is on 6 of 8 nodes and not a level, *"
    assert says(message_of(history), expected)


def test_label_that_names_no_place_on_any_node_is_not_told(history: History) -> None:
    history.look(gpu_nodes("n", 8, {"rack": "no-topology"}))
    assert verdict(history) == ALL_COVERED
    assert message_of(history) == "All 8 nodes carry every level: zone > block > nvlink-domain > host"


def test_two_labels_that_are_no_levels_are_both_told(history: History) -> None:
    history.look(
        [
            *gpu_nodes("n", 7),
            gpu_node("n7", {"block": None, "rack": None}),
        ]
    )
    assert verdict(history) == NODES_MISS_LEVELS
    assert says(
        message_of(history),
        "'block' *; 'rack' *lacking: n7; label it, or lower the percentage to have schedulers skip it",
    )


def test_three_labels_that_are_no_levels_are_two_and_a_number(history: History) -> None:
    history.look(
        [
            *gpu_nodes("n", 7),
            gpu_node("n7", {"zone": None, "block": None, "rack": None}),
        ]
    )
    assert verdict(history) == NODES_MISS_LEVELS
    assert says(message_of(history), "*skip it; and 1 more such labels: toposcope levels")


def test_placeholder_of_a_label_too_few_carry_is_told(history: History) -> None:
    history.look(
        [
            *gpu_nodes("n", 7),
            gpu_node("n7", {"rack": "no-topology"}),
        ]
    )
    assert verdict(history) == NODES_MISS_LEVELS
    expected = "*lacking: n7 (1 with the placeholder 'no-topology'); label it*"
    assert says(message_of(history), expected)


def test_label_of_a_minority_names_ten_nodes_and_a_number(history: History) -> None:
    history.look(
        [
            *gpu_nodes("n", 30, NO_RACK),
            *gpu_nodes("x", 12),
        ]
    )
    assert verdict(history) == ALL_COVERED
    assert says(
        message_of(history),
        "All 42 nodes carry every level: zone > block > nvlink-domain > host; "
        "'rack' *because only 12 of 42 nodes carry it: "
        "x0, x1, x10, x11, x2, x3, x4, x5, x6, x7 and 2 more",
    )


def test_only_node_carries_every_level(history: History) -> None:
    history.look([gpu_node("n")])
    assert verdict(history) == ALL_COVERED
    assert message_of(history) == "The only node carries every level: zone > block > rack > nvlink-domain > host"


def test_label_of_a_minority_is_told_but_no_gap(history: History) -> None:
    history.look(
        [
            *gpu_nodes("n", 3, NO_RACK),
            gpu_node("n9"),
        ]
    )
    assert verdict(history) == ALL_COVERED
    expected = "*'rack' (cloud.google.com/gce-topology-subblock) is not a level, because only 1 of 4 nodes carry it: n9"
    assert says(message_of(history), expected)


@pytest.mark.parametrize(
    ("labels_without_rack", "status"),
    [
        pytest.param({GPU_PRODUCT: "NVIDIA-L40S"}, "True", id="other-product"),
        pytest.param({GPU_PRODUCT: "NVIDIA-H100"}, "False", id="same-product"),
        pytest.param({}, "False", id="unknown-product"),
    ],
)
def test_product_without_racks_is_a_segment_and_no_gap(
    history: History, labels_without_rack: dict[str, str], status: str
) -> None:
    with_rack = gpu_nodes("n", 4, {GPU_PRODUCT: "NVIDIA-H100"})
    without_rack = gpu_nodes("x", 4, {"rack": None, **labels_without_rack})
    history.look([*with_rack, *without_rack])
    assert history.condition("LevelsCovered")["status"] == status


def test_nodes_that_lack_a_level_are_counted_with_their_gpus(history: History) -> None:
    history.spec = {
        "levels": [
            {"domain": "block", "key": BLOCK},
            {"domain": "rack", "key": RACK},
        ]
    }
    small = gpu_nodes("a", 2, {GPUS: "4", "rack": None})
    without_block = gpu_node("b", {GPUS: "4", "block": None})
    without_both = gpu_node("both", {"rack": None, "block": "no-topology"})
    history.look(
        [
            *gpu_nodes("n", 2),
            *small,
            without_block,
            without_both,
        ]
    )
    assert history.status["nodes"] == 6
    assert history.status["gpus"] == 36
    assert history.status["leftOutNodes"] == 4
    assert history.status["leftOutGpus"] == 20
    history.look(FOUR)
    assert history.status["leftOutNodes"] == 0
    assert history.status["leftOutGpus"] == 0


def test_no_nodes_are_unknown(history: History) -> None:
    history.look([])
    assert "fabric" not in history.status
    for kind in ("LevelsCovered", "HierarchyConsistent", "FabricHealthy"):
        assert history.verdict(kind) == ("Unknown", "NoNodes")
        assert history.message(kind) == "No node is selected, so the levels are unknown"


# Agents

ONE_SILENT = "*1 node has GPUs but no gpu.topology/gpus label: silent*"


@pytest.mark.parametrize(
    "labels",
    [pytest.param(NO_AGENT, id="no-labels"), pytest.param({GPUS: None, NVLINK_DOMAIN: "silent"}, id="a-label-left")],
)
def test_node_without_an_agent_is_named(history: History, labels: dict[str, str | None]) -> None:
    history.look(
        [
            *gpu_nodes("n", 2),
            gpu_node("silent", labels),
        ]
    )
    assert history.status["nodes"] == 2
    assert agents(history) == WITHOUT_AGENT
    assert says(agents_message(history), ONE_SILENT)


def test_node_without_an_agent_where_none_has_one_is_named(history: History) -> None:
    history.look([gpu_node("silent", NO_AGENT)])
    assert agents(history) == WITHOUT_AGENT
    assert says(agents_message(history), ONE_SILENT)


def test_many_nodes_without_an_agent_are_ten_and_a_number(history: History) -> None:
    history.look(
        [
            *gpu_nodes("n", 2),
            *gpu_nodes("s", 12, NO_AGENT),
        ]
    )
    assert agents(history) == WITHOUT_AGENT
    assert says(
        agents_message(history),
        "12 nodes have GPUs but no gpu.topology/gpus label: s0, s1, s10, s11, s2, s3, s4, s5, s6, s7 and 2 more; *",
    )


HUGE_A = gpu_node("a", {GPUS: "9" * 63})
HUGE_B = gpu_node("b", {GPUS: "2147483640"})
NAMED_AS_ITS_COUNT = gpu_node("10000", {GPUS: "10000"})


def test_gpu_counts_that_no_hardware_has_are_not_believed(history: History) -> None:
    largest_believed = gpu_node("9999", {GPUS: "9999"})
    history.look(
        [
            *gpu_nodes("n", 2),
            HUGE_B,
            HUGE_A,
            NAMED_AS_ITS_COUNT,
            largest_believed,
        ]
    )
    assert history.status["gpus"] == 5 * 8 + 9999
    assert agents(history) == IMPLAUSIBLE
    expected = "*3 nodes have a gpu.topology/gpus label that is not a number from 0 to 9999: 10000, a, b;*"
    assert says(agents_message(history), expected)


def test_gpu_counts_that_no_hardware_has_on_all_nodes_are_named(history: History) -> None:
    history.look([HUGE_B, HUGE_A])
    assert agents(history) == IMPLAUSIBLE
    expected = "*2 nodes have *: a, b; the device plugin's count is used; check who wrote it"
    assert says(agents_message(history), expected)


def test_implausible_gpu_counts_come_before_nodes_without_an_agent(history: History) -> None:
    silent = gpu_node("silent", NO_AGENT)
    history.look(
        [
            *gpu_nodes("n", 2),
            HUGE_B,
            HUGE_A,
            NAMED_AS_ITS_COUNT,
            silent,
        ]
    )
    assert agents(history) == IMPLAUSIBLE
    assert says(agents_message(history), "*; 1 node has GPUs but no gpu.topology/gpus label: silent; *")
