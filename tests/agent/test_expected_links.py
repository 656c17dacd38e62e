"""Which NVLinks a GPU should have: by its board and by the node's baseline, never because a peer has more."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.boards import A100, H100, H200, machine, mesh
from tests.support.machines import changed, discovered, probed
from toposcope.agent.describe import Description, describe
from toposcope.agent.labels import labels_for
from toposcope.agent.raw import RawGpu, RawLink
from toposcope.api.label_keys import PREFIX, REFERENCE
from toposcope.hardware.topology import NodeTopology, State
from toposcope.simulator.faults import MachineFaults
from toposcope.simulator.machine import Machine
from toposcope.simulator.profile import load_profile

V100 = "Tesla V100-SXM2-16GB"
V100_OF_DGX2 = "Tesla V100-SXM3-32GB"
A800 = "NVIDIA A800-SXM4-80GB"
A100_CARD = "NVIDIA A100 80GB PCIe"
ARCHITECTURES = {
    A100: "ampere",
    A800: "ampere",
    V100_OF_DGX2: "volta",
    H100: "hopper",
    H200: "hopper",
}


class Bench:
    """Builds machines in a folder and looks at them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def build(self, product: str, gpus: int, **fields: Any) -> Machine:
        """A machine of one product, as in `tests.support.boards.machine`."""
        return machine(self.folder, product, gpus, **fields)

    def find(self, node: Machine, faults: MachineFaults | None = None) -> NodeTopology:
        """What the agent finds at first sight."""
        return discovered(node, self.folder, faults)

    def look(
        self, node: Machine, faults: MachineFaults | None = None, *, after: Description | None = None
    ) -> Description:
        """One look at the machine, with the baseline of an earlier one."""
        baseline = after.annotations[REFERENCE] if after else None
        raw = probed(node, self.folder, faults)
        return describe(raw, "n1", baseline)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def all_down(gpus: int) -> dict[int, str]:
    """All links of the first `gpus` GPUs are down."""
    return dict.fromkeys(range(gpus), "all")


def label(topology: NodeTopology, key: str) -> str | None:
    labels = labels_for(topology, "n1")
    return labels.by_key.get(PREFIX + key)


def dead_links(gpu: int, *links: int) -> MachineFaults:
    return MachineFaults(links_down={gpu: frozenset(links)})


def reasons(description: Description) -> tuple[str, ...]:
    assert description.topology
    return description.topology.reasons


def assert_ok(topology: NodeTopology) -> None:
    """Nothing is wrong with it."""
    assert topology.reasons == ()
    assert topology.state is State.OK


# Every link that a board wires is expected at first sight


@pytest.mark.parametrize(
    ("product", "architecture", "gpus", "links"),
    [
        (A100, "ampere", 8, 12),
        ("NVIDIA A100-SXM4-40GB", "ampere", 16, 12),
        (A800, "ampere", 8, 8),
        (H100, "hopper", 8, 18),
        ("NVIDIA H100 64GB HBM2", "hopper", 8, 18),
        (H200, "hopper", 8, 18),
        ("NVIDIA H20", "hopper", 8, 18),
        ("NVIDIA H20-3e", "hopper", 8, 18),
        ("NVIDIA H800", "hopper", 8, 8),
        ("NVIDIA B200", "blackwell", 8, 18),
        ("NVIDIA B300 SXM6 AC", "blackwell", 8, 18),
        ("NVIDIA GB200", "blackwell", 4, 18),
        ("NVIDIA GB300", "blackwell", 4, 18),
        (V100_OF_DGX2, "volta", 16, 6),
    ],
)
def test_dead_link_of_a_board_is_a_fault_at_first_sight(
    product: str, architecture: str, gpus: int, links: int, bench: Bench
) -> None:
    node = bench.build(
        product,
        gpus,
        architecture=architecture,
        nvlink={"switched": links, "inactive": {2: [0]}},
    )
    topology = bench.find(node)
    assert topology.reasons == (f"GPU 2: {links - 1} of {links} NVLinks active",)
    assert topology.state is State.DEGRADED


@pytest.mark.regression
@pytest.mark.parametrize(
    ("product", "links"),
    [
        ("NVIDIA H20", 18),
        ("NVIDIA H20-3e", 18),
        (H200, 18),
        (H100, 18),
        ("NVIDIA B200", 18),
        ("NVIDIA H800", 8),
    ],
)
def test_board_with_every_link_down_at_first_sight_is_degraded(product: str, links: int, bench: Bench) -> None:
    nvlink = {"switched": links, "inactive": all_down(8)}
    node = bench.build(product, 8, nvlink=nvlink)
    topology = bench.find(node)
    assert len(topology.reasons) == 8
    for gpu, reason in enumerate(topology.reasons):
        assert reason == f"GPU {gpu}: 0 of {links} NVLinks active"


def test_missing_switch_costs_all_gpus_of_a_whole_board(bench: Bench) -> None:
    nvlink = {"switched": 14, "links": 18}
    node = bench.build(H200, 8, nvlink=nvlink, switches=3)
    topology = bench.find(node)
    assert len(topology.reasons) == 8
    for gpu, reason in enumerate(topology.reasons):
        assert reason == f"GPU {gpu}: 14 of 18 NVLinks active"
    assert label(topology, "nvswitches") == "3"
    assert label(topology, "nvlink-bandwidth") == "371"


def test_seven_gpus_of_a_board_of_eight_should_have_all_links(bench: Bench) -> None:
    nvlink = {"switched": 18, "inactive": {6: "all"}}
    node = bench.build(H100, 7, nvlink=nvlink, switches=4)
    topology = bench.find(node)
    assert topology.reasons == ("GPU 6: 0 of 18 NVLinks active",)


# Boards of four, without switches


def board_of_four(bench: Bench, **nvlink: Any) -> Machine:
    """Four A100, each with four links to each other one."""
    return bench.build(
        A100,
        4,
        architecture="ampere",
        nvlink={"pairs": mesh(4, 4), **nvlink},
    )


@pytest.mark.parametrize(
    ("product", "architecture", "to_each", "links"),
    [
        (A100, "ampere", 4, 12),
        (H100, "hopper", 6, 18),
    ],
)
def test_board_of_four_has_links_from_each_gpu_to_each(
    product: str, architecture: str, to_each: int, links: int, bench: Bench
) -> None:
    node = bench.build(
        product,
        4,
        architecture=architecture,
        nvlink={"pairs": mesh(4, to_each)},
    )
    whole = bench.find(node)
    assert_ok(whole)

    broken = bench.find(node, dead_links(1, 0))
    assert broken.reasons == (
        f"GPU 0: {links - 1} of {links} NVLinks active",
        f"GPU 1: {links - 1} of {links} NVLinks active",
    )


def test_board_of_four_with_every_link_down_is_degraded(bench: Bench) -> None:
    node = board_of_four(bench, inactive=all_down(4))
    topology = bench.find(node)
    assert len(topology.reasons) == 4
    assert topology.state is State.DEGRADED


def test_links_to_a_missing_gpu_are_not_missed_beside_it(bench: Bench) -> None:
    node = board_of_four(bench)
    missing = MachineFaults(vanished=frozenset({3}))
    address = node.gpus[3].function.address
    expected = (f"GPU {address} is on the PCI bus but not in NVML",)
    at_first_sight = bench.look(node, missing)
    assert reasons(at_first_sight) == expected

    whole = bench.look(node)
    later = bench.look(node, missing, after=whole)
    assert reasons(later) == expected


# MIG: A100 trains the links of a GPU off, later products do not


@pytest.mark.regression
@pytest.mark.parametrize(
    ("with_mig", "domain_size", "domains", "links"),
    [
        (1, "7", "2", "12"),
        (2, "6", "3", "12"),
        (5, "3", "6", "12"),
        (8, "1", "8", "0"),
    ],
)
def test_mig_mode_on_a100_turns_the_links_of_its_gpus_off(
    with_mig: int, domain_size: str, domains: str, links: str, bench: Bench
) -> None:
    node = bench.build(
        A100,
        8,
        architecture="ampere",
        nvlink={"switched": 12, "inactive": all_down(with_mig)},
        switches=6,
        mig=dict.fromkeys(range(with_mig), 7),
    )
    topology = bench.find(node)
    assert_ok(topology)
    assert label(topology, "nvlink-domain-size") == domain_size
    assert label(topology, "nvlink-domains") == domains
    assert label(topology, "nvlink-links") == links


def test_mig_mode_on_a100_that_comes_and_goes_is_no_fault(bench: Bench) -> None:
    plain = bench.build(
        A100,
        8,
        architecture="ampere",
        nvlink={"switched": 12},
        switches=6,
    )
    with_mig = changed(plain, mig=("MIG-a",))
    links_off = MachineFaults(links_down={0: "all"})
    before = bench.look(plain)
    assert reasons(before) == ()
    during = bench.look(with_mig, links_off, after=before)
    assert reasons(during) == ()
    after = bench.look(plain, after=during)
    assert reasons(after) == ()

    broken = bench.look(plain, dead_links(0, 1), after=after)
    assert reasons(broken) == ("GPU 0: 11 of 12 NVLinks active",)


def test_mig_mode_on_a_board_of_four_costs_the_others_links_to_it(bench: Bench) -> None:
    plain = board_of_four(bench)
    with_mig = changed(plain, mig=("MIG-a", "MIG-b"))
    off = MachineFaults(links_down={0: "all"})
    whole = bench.look(plain)
    at_first_sight = bench.look(with_mig, off)
    assert reasons(at_first_sight) == ()
    later = bench.look(with_mig, off, after=whole)
    assert reasons(later) == ()

    one_more = MachineFaults(links_down={0: "all", 1: frozenset({5})})
    broken = bench.look(with_mig, one_more, after=whole)
    assert reasons(broken) == (
        "GPU 1: 7 of 8 NVLinks active",
        "GPU 2: 7 of 8 NVLinks active",
    )


@pytest.mark.parametrize(
    ("product", "architecture"),
    [
        (H100, "hopper"),
        (H200, "hopper"),
        ("NVIDIA B200", "blackwell"),
    ],
)
def test_later_products_keep_their_links_in_mig_mode(product: str, architecture: str, bench: Bench) -> None:
    node = bench.build(
        product,
        8,
        architecture=architecture,
        nvlink={"switched": 18, "inactive": {0: "all"}},
        switches=4,
        mig={0: 7},
    )
    topology = bench.find(node)
    assert topology.reasons == ("GPU 0: 0 of 18 NVLinks active",)


# Virtual machines: a part of the GPUs has a part of the links


@pytest.mark.regression
@pytest.mark.parametrize(
    ("product", "gpus", "switches", "links"),
    [
        (A100, 8, 6, 12),
        (A100, 4, 3, 6),
        (A100, 4, 0, 6),
        (A100, 2, 1, 2),
        (A100, 2, 0, 2),
        (A800, 4, 3, 4),
        (V100_OF_DGX2, 4, 3, 3),
        (V100_OF_DGX2, 2, 1, 1),
        (H100, 4, 2, 9),
        (H100, 4, 0, 9),
        (H200, 2, 0, 5),
    ],
)
def test_vm_with_a_part_of_a_board_is_whole(product: str, gpus: int, switches: int, links: int, bench: Bench) -> None:
    architecture = ARCHITECTURES[product]
    links_of_gpu = 12 if architecture == "ampere" else 18
    node = bench.build(
        product,
        gpus,
        architecture=architecture,
        nvlink={"switched": links, "links": links_of_gpu},
        switches=switches,
    )
    topology = bench.find(node)
    assert_ok(topology)
    assert label(topology, "nvlink-links") == str(links)


def test_dead_link_in_a_vm_with_a_part_of_a_board_is_a_fault(bench: Bench) -> None:
    node = bench.build(
        A100,
        4,
        architecture="ampere",
        nvlink={"switched": 6, "links": 12, "inactive": {1: [0]}},
        switches=3,
    )
    topology = bench.find(node)
    assert topology.reasons == ("GPU 1: 5 of 6 NVLinks active",)


def test_gpus_of_a_vm_that_sees_no_switch_differ_only_by_a_fault(bench: Bench) -> None:
    nvlink = {"switched": 18, "inactive": {3: [2]}}
    node = bench.build(H100, 4, nvlink=nvlink)
    topology = bench.find(node)
    assert topology.reasons == ("GPU 3: 17 of 18 NVLinks active",)


@pytest.mark.parametrize(
    ("product", "architecture", "gpus"),
    [
        (H100, "hopper", 1),
        (H100, "hopper", 2),
        (A100, "ampere", 1),
        (A100, "ampere", 2),
        ("NVIDIA H20", "hopper", 4),
    ],
)
def test_gpus_passed_through_without_their_switches_have_no_links(
    product: str, architecture: str, gpus: int, bench: Bench
) -> None:
    node = bench.build(
        product,
        gpus,
        architecture=architecture,
        nvlink={"links": 18},
    )
    topology = bench.find(node)
    assert_ok(topology)


def test_four_gpus_of_a_board_of_eight_are_a_part_of_it_by_their_places(bench: Bench) -> None:
    node = bench.build(
        H100,
        4,
        nvlink={"links": 18},
        modules=(5, 6, 7, 8),
    )
    topology = bench.find(node)
    assert_ok(topology)


def test_single_superchip_has_nothing_to_be_linked_to(bench: Bench) -> None:
    node = bench.build("NVIDIA GH200 480GB", 1, nvlink={"links": 18})
    topology = bench.find(node)
    assert_ok(topology)


# Cards: a bridge joins some, and the others have no dead links


@pytest.mark.regression
@pytest.mark.parametrize(
    ("product", "architecture", "gpus", "pairs"),
    [
        ("NVIDIA GeForce RTX 3090", "ampere", 3, [[0, 1, 4]]),
        ("NVIDIA A40", "ampere", 5, [[0, 1, 4], [3, 4, 4]]),
        ("NVIDIA A30", "ampere", 3, [[1, 2, 4]]),
        (A100_CARD, "ampere", 4, [[0, 1, 12]]),
        ("NVIDIA H100 PCIe", "hopper", 3, [[0, 2, 18]]),
        ("NVIDIA H100 NVL", "hopper", 3, [[0, 1, 12]]),
        ("NVIDIA H200 NVL", "hopper", 5, mesh(4, 6)),
        ("NVIDIA H200 NVL", "hopper", 3, [[0, 1, 18]]),
        ("NVIDIA RTX A6000", "ampere", 4, [[0, 2, 4]]),
        ("Quadro RTX 8000", "ampere", 3, [[0, 1, 2]]),
    ],
)
def test_card_beside_a_bridge_has_no_dead_links(
    product: str, architecture: str, gpus: int, pairs: list[list[int]], bench: Bench
) -> None:
    wired = [0] * gpus
    for a, b, links in pairs:
        wired[a] += links
        wired[b] += links
    node = bench.build(
        product,
        gpus,
        architecture=architecture,
        nvlink={"pairs": pairs, "links": max(wired)},
    )
    topology = bench.find(node)
    assert_ok(topology)
    for gpu in topology.gpus:
        assert gpu.links_expected == gpu.links_active


@pytest.mark.parametrize("product", ["NVIDIA L40S", "NVIDIA L4", "Tesla T4", "NVIDIA RTX 6000 Ada Generation"])
def test_card_that_can_have_no_bridge_has_no_links(product: str, bench: Bench) -> None:
    node = bench.build(product, 4, architecture="ada")
    topology = bench.find(node)
    assert_ok(topology)
    assert label(topology, "nvlink-links") == "0"


def test_bridge_that_came_off_is_a_fault_against_the_past(bench: Bench) -> None:
    node = bench.build(
        "NVIDIA A40",
        4,
        architecture="ampere",
        nvlink={"pairs": [[0, 1, 4], [2, 3, 4]]},
    )
    off = MachineFaults(links_down={2: "all"})
    before = bench.look(node)
    at_first_sight = bench.look(node, off)
    assert reasons(at_first_sight) == ()

    later = bench.look(node, off, after=before)
    assert reasons(later) == (
        "GPU 2: 0 of 4 NVLinks active",
        "GPU 3: 0 of 4 NVLinks active",
    )


def test_link_that_only_one_end_shows_is_a_fault_of_the_other(bench: Bench) -> None:
    """A link has two ends: what one GPU has to another, that one should have too."""
    node = bench.build(
        "NVIDIA RTX A6000",
        3,
        architecture="ampere",
        nvlink={"pairs": [[0, 1, 4]], "links": 4},
    )
    raw = probed(node, bench.folder)
    first, second, third = raw.gpus
    dead = second.links[3]._replace(state=0)
    half_dead = second._replace(links=(*second.links[:3], dead))
    raw = raw._replace(gpus=(first, half_dead, third))
    description = describe(raw, "n1")
    assert reasons(description) == ("GPU 1: 3 of 4 NVLinks active",)


# V100 and P100: a cube mesh of eight wires all links, smaller machines are built in several ways


def test_cube_mesh_of_eight_wires_all_links(bench: Bench) -> None:
    node = load_profile("dgx1-v100")
    topology = bench.find(node, dead_links(0, 0))
    assert topology.reasons == (
        "GPU 0: 5 of 6 NVLinks active",
        "GPU 1: 5 of 6 NVLinks active",
    )


HALF_A_CUBE_MESH = [[0, 1, 1], [0, 2, 1], [0, 3, 2], [1, 2, 2], [1, 3, 1], [2, 3, 2]]


def test_half_of_a_cube_mesh_has_fewer_links_and_not_equally_many(bench: Bench) -> None:
    """As a cloud lets half of such a machine."""
    node = bench.build(
        V100,
        4,
        architecture="volta",
        nvlink={"pairs": HALF_A_CUBE_MESH, "links": 6},
    )
    topology = bench.find(node)
    assert_ok(topology)


def test_power9_socket_of_three_has_two_links_to_each_neighbour(bench: Bench) -> None:
    pairs = [
        *mesh(3, 2),
        [3, 4, 2],
        [3, 5, 2],
        [4, 5, 2],
    ]
    node = bench.build(
        V100,
        6,
        architecture="volta",
        nvlink={"pairs": pairs, "cpu": 2},
    )
    topology = bench.find(node)
    assert_ok(topology)
    assert label(topology, "nvlink-links") == "4"


@pytest.mark.regression
def test_peers_of_a_lost_gpu_in_a_cube_mesh_are_not_blamed(bench: Bench) -> None:
    node = load_profile("dgx1-v100")
    lost = MachineFaults(vanished=frozenset({0}))
    address = node.gpus[0].function.address
    expected = (f"GPU {address} is on the PCI bus but not in NVML",)
    whole = bench.look(node)
    at_first_sight = bench.look(node, lost)
    assert reasons(at_first_sight) == expected
    later = bench.look(node, lost, after=whole)
    assert reasons(later) == expected


# Mixed machines


def test_each_product_of_a_mixed_machine_is_measured_by_its_own_board(bench: Bench) -> None:
    node = bench.build(
        A100,
        3,
        architecture="ampere",
        nvlink={"pairs": [[0, 1, 4]], "links": 12},
    )
    first, second, third = node.gpus
    mixed = (
        replace(first, name=A100_CARD),
        replace(second, name=A100_CARD),
        third,
    )
    topology = bench.find(replace(node, gpus=mixed))
    assert topology.reasons == ()


def test_legacy_card_beside_a_board_changes_nothing_of_the_board(bench: Bench) -> None:
    nvlink = {"switched": 18, "inactive": {8: "all"}}
    node = bench.build(H200, 9, nvlink=nvlink, switches=4)
    *board, card = node.gpus
    legacy = replace(card, name="NVIDIA RTX A400", links=())
    mixed = replace(node, gpus=(*board, legacy))
    topology = bench.find(mixed, dead_links(3, 2))
    assert topology.reasons == ("GPU 3: 17 of 18 NVLinks active",)


# Links that lead nowhere


Change = Callable[[RawGpu, RawLink], RawLink]


def far_ends(bench: Bench, node: Machine, change: Change) -> NodeTopology:
    """The machine if its links ended elsewhere."""
    raw = probed(node, bench.folder)
    gpus = []
    for gpu in raw.gpus:
        links = [change(gpu, link) for link in gpu.links]
        gpus.append(gpu._replace(links=tuple(links)))
    description = describe(raw._replace(gpus=tuple(gpus)), "n1")
    assert description.topology
    return description.topology


def to_itself(gpu: RawGpu, link: RawLink) -> RawLink:
    return link._replace(remote_pci=gpu.pci)


def last_four_to_itself(gpu: RawGpu, link: RawLink) -> RawLink:
    return to_itself(gpu, link) if link.link >= 8 else link


def bridged_cards(bench: Bench, gpus: int) -> Machine:
    """A100 cards, each two of which have a bridge of twelve links."""
    pairs = []
    for gpu in range(0, gpus, 2):
        pairs.append([gpu, gpu + 1, 12])
    return bench.build(
        A100_CARD,
        gpus,
        architecture="ampere",
        nvlink={"pairs": pairs},
    )


def assert_no_nvlink(topology: NodeTopology) -> None:
    """Its labels tell of no links."""
    assert label(topology, "nvlink-links") == "0"
    assert label(topology, "nvlink-bandwidth") is None
    assert label(topology, "nvlink-version") is None


@pytest.mark.regression
def test_links_of_a_gpu_to_itself_are_no_bandwidth_and_no_count(bench: Bench) -> None:
    """Azure's NCads A100 v4 (azhpc-images, topology/ncv4-topo.xml): twelve links each, that end at their own GPU."""
    cards = bridged_cards(bench, 4)
    topology = far_ends(bench, cards, to_itself)
    for gpu in topology.gpus:
        assert gpu.links_active == 12
        for link in gpu.links:
            assert link.remote == "self"
    assert_no_nvlink(topology)
    assert label(topology, "interconnect") == "pcie"
    assert label(topology, "nvlink-domain-size") == "1"
    assert topology.state is State.OK


def test_links_to_the_cpu_are_no_bandwidth_and_no_count(bench: Bench) -> None:
    topology = bench.find(load_profile("power9-v100"))
    first, second = topology.gpus
    assert first.links_active == 3
    assert second.links_active == 3
    assert_no_nvlink(topology)


def test_links_to_a_gpu_count_beside_those_to_the_cpu(bench: Bench) -> None:
    """Four P100 on two POWER8 sockets (hwloc, power8gpudistances.xml)."""
    node = bench.build(
        "Tesla P100-SXM2-16GB",
        4,
        architecture="pascal",
        nvlink={"pairs": [[0, 1, 2], [2, 3, 2]], "cpu": 2, "links": 4},
        driver="396.44",
    )
    topology = bench.find(node)
    cells = topology.matrix.cells
    assert cells[0][1] == "NV2"
    assert cells[0][2] == "SYS"
    assert cells[3][2] == "NV2"
    assert label(topology, "nvlink-links") == "2"
    assert label(topology, "nvlink-bandwidth") == "38"
    assert label(topology, "nvlink-domains") == "2"


def test_links_to_a_gpu_count_beside_those_to_itself(bench: Bench) -> None:
    cards = bridged_cards(bench, 2)
    topology = far_ends(bench, cards, last_four_to_itself)
    assert topology.matrix.cells[0][1] == "NV8"
    assert label(topology, "nvlink-links") == "8"
    assert label(topology, "nvlink-bandwidth") == "200"


def test_links_to_a_gpu_that_nvml_does_not_list_do_not_count(bench: Bench) -> None:
    """A VM that got one card of a bridged pair."""
    raw = probed(bridged_cards(bench, 2), bench.folder)
    alone = raw._replace(
        gpus=raw.gpus[:1],
        gpu_functions=raw.gpu_functions[:1],
    )
    topology = describe(alone, "n1").topology
    assert topology
    (gpu,) = topology.gpus
    assert gpu.links_active == 12
    assert_no_nvlink(topology)
    assert topology.state is State.OK


def test_links_between_the_others_count_beside_a_lost_gpu(bench: Bench) -> None:
    raw = probed(board_of_four(bench), bench.folder)
    three = raw._replace(gpus=raw.gpus[:3])
    topology = describe(three, "n1").topology
    assert topology
    assert topology.matrix.cells[0][1] == "NV4"
    assert label(topology, "nvlink-links") == "8"
    assert label(topology, "nvlink-bandwidth") == "200"


def test_links_of_a_single_gpu_to_its_cpu_do_not_count(bench: Bench) -> None:
    node = bench.build(
        V100,
        1,
        architecture="volta",
        nvlink={"cpu": 3, "links": 6},
    )
    topology = bench.find(node)
    assert label(topology, "nvlink-links") == "0"
    assert label(topology, "interconnect") == "none"
