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
from toposcope.api.label_keys import PREFIX, REFERENCE
from toposcope.hardware.topology import NodeTopology, State
from toposcope.simulator.faults import Faults
from toposcope.simulator.machine import Machine
from toposcope.simulator.profile import load_profile

ALL_DOWN = dict.fromkeys(range(8), "all")


def label(topology: NodeTopology, key: str) -> str | None:
    return labels_for(topology, "n1").known.get(PREFIX + key)


def look(node: Machine, folder: Path, before: Description | None = None, faults: Faults | None = None) -> Description:
    """One look at the machine, with the baseline of an earlier one."""
    past = before.annotations[REFERENCE] if before else None
    return describe(probed(node, folder, faults), "n1", past)


def reasons(description: Description) -> tuple[str, ...]:
    assert description.topology
    return description.topology.reasons


# Every link that a board wires is expected at first sight


@pytest.mark.parametrize(
    ("product", "architecture", "gpus", "links"),
    [
        (A100, "ampere", 8, 12),
        ("NVIDIA A100-SXM4-40GB", "ampere", 16, 12),
        ("NVIDIA A800-SXM4-80GB", "ampere", 8, 8),
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
        ("Tesla V100-SXM3-32GB", "volta", 16, 6),
    ],
)
def test_a_dead_link_of_a_board_is_a_fault_at_first_sight(
    product: str, architecture: str, gpus: int, links: int, tmp_path: Path
) -> None:
    node = machine(tmp_path, product, gpus, architecture=architecture, nvlink={"switched": links, "inactive": {2: [0]}})
    topology = discovered(node, tmp_path)
    assert topology.reasons == (f"GPU 2: {links - 1} of {links} NVLinks active",)
    assert topology.state is State.DEGRADED


@pytest.mark.regression
@pytest.mark.parametrize("product", ["NVIDIA H20", "NVIDIA H20-3e", H200, H100, "NVIDIA B200", "NVIDIA H800"])
def test_a_board_with_every_link_down_at_first_sight_is_degraded(product: str, tmp_path: Path) -> None:
    links = 8 if product == "NVIDIA H800" else 18
    node = machine(tmp_path, product, 8, nvlink={"switched": links, "inactive": ALL_DOWN})
    topology = discovered(node, tmp_path)
    assert topology.reasons == tuple(f"GPU {gpu}: 0 of {links} NVLinks active" for gpu in range(8))


def test_a_switch_that_is_missing_costs_all_gpus_of_a_whole_board(tmp_path: Path) -> None:
    node = machine(tmp_path, H200, 8, nvlink={"switched": 14, "links": 18}, switches=3)
    topology = discovered(node, tmp_path)
    assert topology.reasons == tuple(f"GPU {gpu}: 14 of 18 NVLinks active" for gpu in range(8))
    assert (label(topology, "nvswitches"), label(topology, "nvlink-bandwidth")) == ("3", "371")


def test_seven_gpus_of_a_board_of_eight_should_have_all_links(tmp_path: Path) -> None:
    node = machine(tmp_path, H100, 7, nvlink={"switched": 18, "inactive": {6: "all"}}, switches=4)
    assert discovered(node, tmp_path).reasons == ("GPU 6: 0 of 18 NVLinks active",)


# Boards of four, without switches


@pytest.mark.parametrize(("product", "architecture", "each"), [(A100, "ampere", 4), (H100, "hopper", 6)])
def test_a_board_of_four_has_links_from_each_gpu_to_each(
    product: str, architecture: str, each: int, tmp_path: Path
) -> None:
    whole = machine(tmp_path, product, 4, architecture=architecture, nvlink={"pairs": mesh(4, each)})
    assert discovered(whole, tmp_path / "whole").state is State.OK
    broken = discovered(whole, tmp_path / "broken", Faults(links_down={1: frozenset({0})}))
    assert broken.reasons == (
        f"GPU 0: {3 * each - 1} of {3 * each} NVLinks active",
        f"GPU 1: {3 * each - 1} of {3 * each} NVLinks active",
    )


def test_a_board_of_four_with_every_link_down_is_degraded(tmp_path: Path) -> None:
    down = dict.fromkeys(range(4), "all")
    node = machine(tmp_path, A100, 4, architecture="ampere", nvlink={"pairs": mesh(4, 4), "inactive": down})
    assert len(discovered(node, tmp_path).reasons) == 4


def test_links_to_a_gpu_that_is_missing_are_not_missed_beside_it(tmp_path: Path) -> None:
    node = machine(tmp_path, A100, 4, architecture="ampere", nvlink={"pairs": mesh(4, 4)})
    missing = Faults(vanished=frozenset({3}))
    address = node.gpus[3].function.address
    first = look(node, tmp_path, faults=missing)
    assert reasons(first) == (f"GPU {address} is on the PCI bus but not in NVML",)
    whole = look(node, tmp_path)
    assert reasons(look(node, tmp_path, before=whole, faults=missing)) == reasons(first)


# MIG: A100 trains the links of a GPU off, later products do not


@pytest.mark.regression
@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_mig_mode_on_a100_turns_the_links_of_its_gpus_off(count: int, tmp_path: Path) -> None:
    mig = dict.fromkeys(range(count), 7)
    off = dict.fromkeys(range(count), "all")
    node = machine(
        tmp_path, A100, 8, architecture="ampere", nvlink={"switched": 12, "inactive": off}, switches=6, mig=mig
    )
    topology = discovered(node, tmp_path)
    assert (topology.state, topology.reasons) == (State.OK, ())
    assert label(topology, "nvlink-domain-size") == str(max(8 - count, 1))
    assert label(topology, "nvlink-domains") == str(count + (count < 8))
    assert label(topology, "nvlink-links") == ("12" if count < 8 else "0")


def test_mig_mode_that_comes_and_goes_on_a100_is_no_fault_and_a_dead_link_after_it_is(tmp_path: Path) -> None:
    plain = machine(tmp_path, A100, 8, architecture="ampere", nvlink={"switched": 12}, switches=6)
    off = Faults(links_down={3: "all"})
    with_mig = replace(plain, gpus=tuple(replace(g, mig=("MIG-a",)) if i == 3 else g for i, g in enumerate(plain.gpus)))
    before = look(plain, tmp_path)
    during = look(with_mig, tmp_path, before=before, faults=off)
    after = look(plain, tmp_path, before=during)
    broken = look(plain, tmp_path, before=after, faults=Faults(links_down={3: frozenset({1})}))
    assert [reasons(step) for step in (before, during, after)] == [(), (), ()]
    assert reasons(broken) == ("GPU 3: 11 of 12 NVLinks active",)


def test_mig_mode_on_a_board_of_four_costs_the_others_their_links_to_it(tmp_path: Path) -> None:
    plain = machine(tmp_path, A100, 4, architecture="ampere", nvlink={"pairs": mesh(4, 4)})
    with_mig = changed(plain, mig=("MIG-a", "MIG-b"))
    off = Faults(links_down={0: "all"})
    assert reasons(look(with_mig, tmp_path, faults=off)) == ()
    assert reasons(look(with_mig, tmp_path, before=look(plain, tmp_path), faults=off)) == ()
    more = Faults(links_down={0: "all", 1: frozenset({5})})
    found = look(with_mig, tmp_path, before=look(plain, tmp_path), faults=more)
    assert reasons(found) == ("GPU 1: 7 of 8 NVLinks active", "GPU 2: 7 of 8 NVLinks active")


@pytest.mark.parametrize(
    ("product", "architecture"), [(H100, "hopper"), (H200, "hopper"), ("NVIDIA B200", "blackwell")]
)
def test_later_products_keep_their_links_in_mig_mode(product: str, architecture: str, tmp_path: Path) -> None:
    node = machine(
        tmp_path,
        product,
        8,
        architecture=architecture,
        nvlink={"switched": 18, "inactive": {0: "all"}},
        switches=4,
        mig={0: 7},
    )
    assert discovered(node, tmp_path).reasons == ("GPU 0: 0 of 18 NVLinks active",)


# Virtual machines: a part of the GPUs has a part of the links


@pytest.mark.regression
@pytest.mark.parametrize(
    ("product", "architecture", "gpus", "switches", "links"),
    [
        (A100, "ampere", 8, 6, 12),
        (A100, "ampere", 4, 3, 6),
        (A100, "ampere", 4, 0, 6),
        (A100, "ampere", 2, 1, 2),
        (A100, "ampere", 2, 0, 2),
        ("NVIDIA A800-SXM4-80GB", "ampere", 4, 3, 4),
        ("Tesla V100-SXM3-32GB", "volta", 4, 3, 3),
        ("Tesla V100-SXM3-32GB", "volta", 2, 1, 1),
        (H100, "hopper", 4, 2, 9),
        (H100, "hopper", 4, 0, 9),
        (H200, "hopper", 2, 0, 5),
    ],
)
def test_a_vm_with_a_part_of_a_board_is_whole(
    product: str, architecture: str, gpus: int, switches: int, links: int, tmp_path: Path
) -> None:
    full = 12 if architecture == "ampere" else 18
    node = machine(
        tmp_path, product, gpus, architecture=architecture, nvlink={"switched": links, "links": full}, switches=switches
    )
    topology = discovered(node, tmp_path / "whole")
    assert (topology.state, topology.reasons) == (State.OK, ())
    assert label(topology, "nvlink-links") == str(links)


def test_a_dead_link_in_a_vm_with_a_part_of_a_board_is_a_fault(tmp_path: Path) -> None:
    nvlink = {"switched": 6, "links": 12, "inactive": {1: [0]}}
    node = machine(tmp_path, A100, 4, architecture="ampere", nvlink=nvlink, switches=3)
    assert discovered(node, tmp_path).reasons == ("GPU 1: 5 of 6 NVLinks active",)


def test_in_a_vm_that_sees_no_switch_gpus_of_a_board_differ_only_by_a_fault(tmp_path: Path) -> None:
    node = machine(tmp_path, H100, 4, nvlink={"switched": 18, "inactive": {3: [2]}})
    assert discovered(node, tmp_path).reasons == ("GPU 3: 17 of 18 NVLinks active",)


@pytest.mark.parametrize(("product", "gpus"), [(H100, 1), (H100, 2), (A100, 1), (A100, 2), ("NVIDIA H20", 4)])
def test_gpus_passed_through_without_their_switches_have_no_links(product: str, gpus: int, tmp_path: Path) -> None:
    architecture = "ampere" if product == A100 else "hopper"
    node = machine(tmp_path, product, gpus, architecture=architecture, nvlink={"links": 18})
    topology = discovered(node, tmp_path)
    assert (topology.state, topology.reasons) == (State.OK, ())


def test_four_gpus_of_a_board_of_eight_by_their_places_are_a_part_of_it(tmp_path: Path) -> None:
    node = machine(tmp_path, H100, 4, nvlink={"links": 18}, modules=(5, 6, 7, 8))
    assert discovered(node, tmp_path).state is State.OK


def test_a_single_superchip_has_nothing_to_be_linked_to(tmp_path: Path) -> None:
    node = machine(tmp_path, "NVIDIA GH200 480GB", 1, nvlink={"links": 18})
    assert discovered(node, tmp_path).state is State.OK


# Cards: a bridge joins some, and the others have no dead links


@pytest.mark.regression
@pytest.mark.parametrize(
    ("product", "architecture", "gpus", "pairs"),
    [
        ("NVIDIA GeForce RTX 3090", "ampere", 3, [[0, 1, 4]]),
        ("NVIDIA A40", "ampere", 5, [[0, 1, 4], [3, 4, 4]]),
        ("NVIDIA A30", "ampere", 3, [[1, 2, 4]]),
        ("NVIDIA A100 80GB PCIe", "ampere", 4, [[0, 1, 12]]),
        ("NVIDIA H100 PCIe", "hopper", 3, [[0, 2, 18]]),
        ("NVIDIA H100 NVL", "hopper", 3, [[0, 1, 12]]),
        ("NVIDIA H200 NVL", "hopper", 5, mesh(4, 6)),
        ("NVIDIA H200 NVL", "hopper", 3, [[0, 1, 18]]),
        ("NVIDIA RTX A6000", "ampere", 4, [[0, 2, 4]]),
        ("Quadro RTX 8000", "ampere", 3, [[0, 1, 2]]),
    ],
)
def test_a_card_beside_a_bridge_has_no_dead_links(
    product: str, architecture: str, gpus: int, pairs: list[list[int]], tmp_path: Path
) -> None:
    links = max(sum(count for a, b, count in pairs if gpu in (a, b)) for gpu in range(gpus))
    node = machine(tmp_path, product, gpus, architecture=architecture, nvlink={"pairs": pairs, "links": links})
    topology = discovered(node, tmp_path)
    assert (topology.state, topology.reasons) == (State.OK, ())
    assert [gpu.links_expected for gpu in topology.gpus] == [gpu.links_active for gpu in topology.gpus]


@pytest.mark.parametrize("product", ["NVIDIA L40S", "NVIDIA L4", "Tesla T4", "NVIDIA RTX 6000 Ada Generation"])
def test_a_card_that_can_have_no_bridge_has_no_links(product: str, tmp_path: Path) -> None:
    topology = discovered(machine(tmp_path, product, 4, architecture="ada"), tmp_path)
    assert (topology.state, label(topology, "nvlink-links")) == (State.OK, "0")


def test_a_bridge_that_came_off_is_a_fault_against_the_past(tmp_path: Path) -> None:
    node = machine(tmp_path, "NVIDIA A40", 4, architecture="ampere", nvlink={"pairs": [[0, 1, 4], [2, 3, 4]]})
    off = Faults(links_down={2: "all"})
    before = look(node, tmp_path)
    assert reasons(look(node, tmp_path, faults=off)) == ()
    assert reasons(look(node, tmp_path, before=before, faults=off)) == (
        "GPU 2: 0 of 4 NVLinks active",
        "GPU 3: 0 of 4 NVLinks active",
    )


def test_a_link_that_one_end_shows_and_the_other_does_not_is_a_fault_there(tmp_path: Path) -> None:
    """A link has two ends: what one GPU has to another, that one should have too."""
    node = machine(tmp_path, "NVIDIA RTX A6000", 3, architecture="ampere", nvlink={"pairs": [[0, 1, 4]], "links": 4})
    raw = probed(node, tmp_path)
    first, second, third = raw.gpus
    dead = second.links[3]._replace(state=0)
    one_sided = raw._replace(gpus=(first, second._replace(links=(*second.links[:3], dead)), third))
    found = describe(one_sided, "n1")
    assert reasons(found) == ("GPU 1: 3 of 4 NVLinks active",)


# V100 and P100: a cube mesh of eight wires all links, smaller machines are built in several ways


def test_a_cube_mesh_of_eight_wires_all_links(tmp_path: Path) -> None:
    topology = discovered(load_profile("dgx1-v100"), tmp_path, Faults(links_down={0: frozenset({0})}))
    assert topology.reasons == ("GPU 0: 5 of 6 NVLinks active", "GPU 1: 5 of 6 NVLinks active")


def test_four_v100_of_a_cube_mesh_have_fewer_links_and_not_equally_many(tmp_path: Path) -> None:
    """As a cloud lets half of such a machine."""
    pairs = [[0, 1, 1], [0, 2, 1], [0, 3, 2], [1, 2, 2], [1, 3, 1], [2, 3, 2]]
    node = machine(tmp_path, "Tesla V100-SXM2-16GB", 4, architecture="volta", nvlink={"pairs": pairs, "links": 6})
    topology = discovered(node, tmp_path)
    assert (topology.state, topology.reasons) == (State.OK, ())


def test_a_power9_socket_of_three_has_two_links_to_each_neighbour(tmp_path: Path) -> None:
    pairs = [*mesh(3, 2), [3, 4, 2], [3, 5, 2], [4, 5, 2]]
    node = machine(tmp_path, "Tesla V100-SXM2-16GB", 6, architecture="volta", nvlink={"pairs": pairs, "cpu": 2})
    topology = discovered(node, tmp_path)
    assert (topology.state, label(topology, "nvlink-links")) == (State.OK, "4")


@pytest.mark.regression
def test_peers_of_a_lost_gpu_in_a_cube_mesh_are_not_blamed(tmp_path: Path) -> None:
    node = load_profile("dgx1-v100")
    lost = Faults(vanished=frozenset({0}))
    address = node.gpus[0].function.address
    for before in (None, look(node, tmp_path)):
        found = look(node, tmp_path, before=before, faults=lost)
        assert reasons(found) == (f"GPU {address} is on the PCI bus but not in NVML",)


# Mixed machines


def test_each_product_of_a_mixed_machine_is_measured_by_its_own_board(tmp_path: Path) -> None:
    node = machine(tmp_path, A100, 3, architecture="ampere", nvlink={"pairs": [[0, 1, 4]], "links": 12})
    first, second, third = node.gpus
    card = "NVIDIA A100 80GB PCIe"
    mixed = replace(node, gpus=(replace(first, name=card), replace(second, name=card), third))
    topology = discovered(mixed, tmp_path)
    assert topology.reasons == ()


def test_a_legacy_card_beside_a_board_changes_nothing_of_the_board(tmp_path: Path) -> None:
    node = machine(tmp_path, H200, 9, nvlink={"switched": 18, "inactive": {8: "all"}}, switches=4)
    *board, card = node.gpus
    mixed = replace(node, gpus=(*board, replace(card, name="NVIDIA RTX A400", links=())))
    topology = discovered(mixed, tmp_path, Faults(links_down={3: frozenset({2})}))
    assert topology.reasons == ("GPU 3: 17 of 18 NVLinks active",)


# Links that lead nowhere


Change = Callable[[Any], Any]


def far_ends(node: Machine, folder: Path, change: Change) -> NodeTopology:
    """The machine if its links ended elsewhere: `change` gets GPU and link."""
    raw = probed(node, folder)
    gpus = tuple(gpu._replace(links=tuple(change(gpu)(link) for link in gpu.links)) for gpu in raw.gpus)
    found = describe(raw._replace(gpus=gpus), "n1").topology
    assert found
    return found


@pytest.mark.regression
def test_links_of_a_gpu_to_itself_are_no_bandwidth_and_no_count(tmp_path: Path) -> None:
    """Azure's NCads A100 v4 (azhpc-images, topology/ncv4-topo.xml): twelve links each, that end at their own GPU."""
    pairs = [[0, 1, 12], [2, 3, 12]]
    node = machine(tmp_path, "NVIDIA A100 80GB PCIe", 4, architecture="ampere", nvlink={"pairs": pairs})
    topology = far_ends(node, tmp_path, lambda gpu: lambda link: link._replace(remote_pci=gpu.pci))
    assert [gpu.links_active for gpu in topology.gpus] == [12] * 4
    assert {link.remote for gpu in topology.gpus for link in gpu.links} == {"self"}
    assert [label(topology, key) for key in ("nvlink-links", "nvlink-bandwidth", "nvlink-version")] == ["0", None, None]
    assert (label(topology, "interconnect"), label(topology, "nvlink-domain-size")) == ("pcie", "1")
    assert topology.state is State.OK


def test_links_to_the_cpu_are_no_bandwidth_and_no_count(tmp_path: Path) -> None:
    topology = discovered(load_profile("power9-v100"), tmp_path)
    assert [gpu.links_active for gpu in topology.gpus] == [3, 3]
    assert (label(topology, "nvlink-links"), label(topology, "nvlink-bandwidth")) == ("0", None)


def test_of_links_to_the_cpu_and_to_a_gpu_the_latter_count(tmp_path: Path) -> None:
    """Four P100 on two POWER8 sockets (hwloc, power8gpudistances.xml)."""
    nvlink = {"pairs": [[0, 1, 2], [2, 3, 2]], "cpu": 2, "links": 4}
    node = machine(tmp_path, "Tesla P100-SXM2-16GB", 4, architecture="pascal", nvlink=nvlink, driver="396.44")
    topology = discovered(node, tmp_path)
    assert [topology.matrix.cells[0][1], topology.matrix.cells[0][2], topology.matrix.cells[3][2]] == [
        "NV2",
        "SYS",
        "NV2",
    ]
    assert [label(topology, key) for key in ("nvlink-links", "nvlink-bandwidth", "nvlink-domains")] == ["2", "38", "2"]


def test_of_links_to_itself_and_to_a_gpu_the_latter_count(tmp_path: Path) -> None:
    node = machine(tmp_path, "NVIDIA A100 80GB PCIe", 2, architecture="ampere", nvlink={"pairs": [[0, 1, 12]]})
    half = far_ends(
        node, tmp_path, lambda gpu: lambda link: link._replace(remote_pci=gpu.pci) if link.link >= 8 else link
    )
    assert (half.matrix.cells[0][1], label(half, "nvlink-links"), label(half, "nvlink-bandwidth")) == (
        "NV8",
        "8",
        "200",
    )


def test_links_to_a_gpu_that_nvml_does_not_list_do_not_count(tmp_path: Path) -> None:
    """A VM that got one card of a bridged pair."""
    node = machine(tmp_path, "NVIDIA A100 80GB PCIe", 2, architecture="ampere", nvlink={"pairs": [[0, 1, 12]]})
    raw = probed(node, tmp_path)
    alone = raw._replace(gpus=raw.gpus[:1], gpu_functions=raw.gpu_functions[:1])
    topology = describe(alone, "n1").topology
    assert topology
    assert [gpu.links_active for gpu in topology.gpus] == [12]
    assert [label(topology, key) for key in ("nvlink-links", "nvlink-bandwidth", "nvlink-version")] == ["0", None, None]
    assert topology.state is State.OK


def test_of_a_mesh_with_a_lost_gpu_the_links_between_the_others_count(tmp_path: Path) -> None:
    node = machine(tmp_path, A100, 4, architecture="ampere", nvlink={"pairs": mesh(4, 4)})
    raw = probed(node, tmp_path)
    topology = describe(raw._replace(gpus=raw.gpus[:3]), "n1").topology
    assert topology
    assert topology.matrix.cells[0][1] == "NV4"
    assert (label(topology, "nvlink-links"), label(topology, "nvlink-bandwidth")) == ("8", "200")


def test_a_single_gpu_with_links_to_its_cpu_has_none_that_count(tmp_path: Path) -> None:
    node = machine(tmp_path, "Tesla V100-SXM2-16GB", 1, architecture="volta", nvlink={"cpu": 3, "links": 6})
    topology = discovered(node, tmp_path)
    assert (label(topology, "nvlink-links"), label(topology, "interconnect")) == ("0", "none")
