"""What the agent finds on shipped, recorded and broken machines, through simulated NVML and sysfs."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.machines import changed, discovered, probed, recorded_machines
from toposcope.agent.describe import describe
from toposcope.agent.labels import labels_for
from toposcope.api.label_keys import PREFIX
from toposcope.api.label_values import is_label_value
from toposcope.hardware.topology import Fabric, GpuFabric, Interconnect, LinkEnd, NodeTopology, State
from toposcope.simulator.capture import machine_from_capture
from toposcope.simulator.faults import CallFault, MachineFaults
from toposcope.simulator.machine import FabricRegistration as FabricAnswer
from toposcope.simulator.profile import load_profile, profile_names

TRAY = "gb200-nvl72-tray"
CLIQUE = "6a8ab8c1-24e4-4fd1-9d5c-0d9f3fd6a1b2.32766"
FUNCTION_NOT_FOUND = 13
OLDEST_DRIVER = "470.256.02"
"""It has no fields 164 and 165, no fabric, no module and no C2C."""


class Finder:
    """Discovers shipped machines, each in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, profile: str, faults: MachineFaults | None = None, driver: str | None = None) -> NodeTopology:
        machine = load_profile(profile)
        if driver:
            machine = replace(machine, driver=driver)
        folder = self._folder / profile
        return discovered(machine, folder, faults)


@pytest.fixture
def find(tmp_path: Path) -> Finder:
    return Finder(tmp_path)


def labels_of(topology: NodeTopology) -> dict[str, str]:
    """Its labels on a Node `n1`, keys without their prefix."""
    labels = labels_for(topology, "n1")
    short = {}
    for key, value in labels.by_key.items():
        short[key.removeprefix(PREFIX)] = value
    return short


def unknown_labels_of(topology: NodeTopology) -> set[str]:
    """Labels that keep their values, keys without their prefix."""
    labels = labels_for(topology, "n1")
    return {key.removeprefix(PREFIX) for key in labels.unknown}


def failing_call(call: str, error: int, gpu: int | None = None) -> MachineFaults:
    fault = CallFault(call=call, error=error, gpu=gpu)
    return MachineFaults(calls=(fault,))


@pytest.mark.parametrize(("others", "label"), [(3, "NVIDIA-H200"), (5, "NVIDIA-H100-NVL")])
def test_product_label_of_a_mixed_node_is_that_of_most_gpus(find: Finder, others: int, label: str) -> None:
    topology = find("dgx-h200")
    gpus = [gpu._replace(product="NVIDIA H100 NVL") for gpu in topology.gpus[:others]]
    mixed = topology._replace(gpus=(*gpus, *topology.gpus[others:]))

    assert labels_of(mixed)["gpu-product"] == label


# Whole machines

LABELS = {
    "dgx-h200": {
        "fabric": "not-supported",
        "gpu-product": "NVIDIA-H200",
        "gpus": "8",
        "gpus-per-numa": "4-4",
        "interconnect": "nvswitch",
        "numa-nodes": "2",
        "nvlink-bandwidth": "478",
        "nvlink-domain": "n1",
        "nvlink-domain-size": "8",
        "nvlink-domains": "1",
        "nvlink-links": "18",
        "nvlink-version": "4.0",
        "nvswitches": "4",
        "rail-aligned": "true",
        "shape": "c36b93f002",
        "state": "ok",
    },
    "l40s-4": {
        "fabric": "not-supported",
        "gpu-product": "NVIDIA-L40S",
        "gpus": "4",
        "gpus-per-numa": "2-2",
        "interconnect": "pcie",
        "numa-nodes": "2",
        "nvlink-domain": "n1",
        "nvlink-domain-size": "1",
        "nvlink-domains": "4",
        "nvlink-links": "0",
        "nvswitches": "0",
        "rail-aligned": "false",
        "shape": "bb99cb8082",
        "state": "ok",
    },
    "dgx1-v100": {
        "fabric": "not-supported",
        "gpu-product": "Tesla-V100-SXM2-16GB",
        "gpus": "8",
        "gpus-per-numa": "4-4",
        "interconnect": "nvlink",
        "numa-nodes": "2",
        "nvlink-bandwidth": "154",
        "nvlink-domain": "n1",
        "nvlink-domain-size": "8",
        "nvlink-domains": "1",
        "nvlink-links": "6",
        "nvlink-version": "2.2",
        "nvswitches": "0",
        "rail-aligned": "false",
        "shape": "5307132a60",
        "state": "ok",
    },
    "dgx-a100": {
        "fabric": "not-supported",
        "gpu-product": "NVIDIA-A100-SXM4-40GB",
        "gpus": "8",
        "gpus-per-numa": "0-2-0-2-0-2-0-2",
        "interconnect": "nvswitch",
        "numa-nodes": "8",
        "nvlink-bandwidth": "300",
        "nvlink-domain": "n1",
        "nvlink-domain-size": "8",
        "nvlink-domains": "1",
        "nvlink-links": "12",
        "nvlink-version": "3.1",
        "nvswitches": "6",
        "rail-aligned": "true",
        "shape": "dc658f5cd3",
        "state": "ok",
    },
    "t4-1": {
        "fabric": "not-supported",
        "gpu-product": "Tesla-T4",
        "gpus": "1",
        "gpus-per-numa": "1",
        "interconnect": "none",
        "numa-nodes": "1",
        "nvlink-domain": "n1",
        "nvlink-domain-size": "1",
        "nvlink-domains": "1",
        "nvlink-links": "0",
        "nvswitches": "0",
        "rail-aligned": "false",
        "shape": "ac83a02dcd",
        "state": "ok",
    },
    "power9-v100": {
        "fabric": "not-supported",
        "gpu-product": "Tesla-V100-SXM2-16GB",
        "gpus": "2",
        "gpus-per-numa": "1-1",
        "interconnect": "pcie",
        "numa-nodes": "2",
        "nvlink-domain": "n1",
        "nvlink-domain-size": "1",
        "nvlink-domains": "2",
        "nvlink-links": "0",
        "nvswitches": "0",
        "rail-aligned": "false",
        "shape": "f7f19388a8",
        "state": "ok",
    },
    "rtx3090-2-nvlink": {
        "fabric": "not-supported",
        "gpu-product": "NVIDIA-GeForce-RTX-3090",
        "gpus": "2",
        "gpus-per-numa": "2",
        "interconnect": "nvlink",
        "numa-nodes": "1",
        "nvlink-bandwidth": "56",
        "nvlink-domain": "n1",
        "nvlink-domain-size": "2",
        "nvlink-domains": "1",
        "nvlink-links": "4",
        "nvlink-version": "3.1",
        "nvswitches": "0",
        "rail-aligned": "false",
        "shape": "157ab3f74c",
        "state": "ok",
    },
    "dgx2": {
        "fabric": "not-supported",
        "gpu-product": "Tesla-V100-SXM3-32GB",
        "gpus": "16",
        "gpus-per-numa": "8-8",
        "interconnect": "nvswitch",
        "numa-nodes": "2",
        "nvlink-bandwidth": "154",
        "nvlink-domain": "n1",
        "nvlink-domain-size": "16",
        "nvlink-domains": "1",
        "nvlink-links": "6",
        "nvlink-version": "2.2",
        "nvswitches": "12",
        "rail-aligned": "false",
        "shape": "135cee422f",
        "state": "ok",
    },
}


def without_remote_type() -> MachineFaults:
    """A driver that does not tell what is at the other end of a link."""
    return failing_call("nvmlDeviceGetNvLinkRemoteDeviceType", FUNCTION_NOT_FOUND)


def dead_links(gpu: int, *links: int) -> MachineFaults:
    return MachineFaults(links_down={gpu: frozenset(links)})


@pytest.mark.regression
@pytest.mark.parametrize("profile", LABELS)
def test_labels_of_shipped_machine(profile: str, find: Finder) -> None:
    topology = find(profile)
    assert labels_of(topology) == LABELS[profile]


@pytest.mark.parametrize("profile", profile_names())
def test_every_shipped_machine_is_ok_and_every_label_valid(profile: str, find: Finder) -> None:
    topology = find(profile)
    assert topology.state is State.OK
    assert topology.reasons == ()

    labels = labels_of(topology)
    assert "nvlink-domain" in labels
    for key, value in labels.items():
        assert is_label_value(value), key


RECORDED = recorded_machines()


@pytest.mark.parametrize("name", RECORDED)
def test_discovered_matrix_is_the_recorded_one(name: str, tmp_path: Path) -> None:
    recorded = RECORDED[name]
    machine = machine_from_capture(recorded.text, name)
    topology = discovered(machine, tmp_path)
    names = [f"GPU{gpu.index}" for gpu in topology.gpus]
    names += [nic.name for nic in topology.nics]
    if recorded.is_numbered:
        assert tuple(names) == recorded.devices
    else:  # drivers that name columns after the NICs list them in the order of their discovery
        assert set(names) == set(recorded.devices)

    cells = {}
    for row_name, row in zip(names, topology.matrix.cells, strict=True):
        for column_name, cell in zip(names, row, strict=True):
            cells[row_name, column_name] = cell
    assert cells == recorded.cells


# GPUs


@pytest.mark.regression
@pytest.mark.parametrize(
    "error",
    [
        pytest.param(4, id="no-permission"),
        pytest.param(8, id="insufficient-power"),
        pytest.param(11, id="interrupt"),
        pytest.param(15, id="lost"),
        pytest.param(999, id="unknown"),
    ],
)
def test_index_without_handle_costs_only_that_gpu(error: int, find: Finder) -> None:
    no_handle = failing_call("nvmlDeviceGetHandleByIndex", error, gpu=3)
    topology = find("dgx-h200", no_handle)
    assert topology.state is State.DEGRADED
    indexes = [gpu.index for gpu in topology.gpus]
    assert indexes == [0, 1, 2, 4, 5, 6, 7]


@pytest.mark.regression
def test_lost_gpu_is_named_by_its_address(find: Finder) -> None:
    lost = MachineFaults(lost=frozenset({3}))
    topology = find("dgx-h200", lost)
    labels = labels_of(topology)
    assert topology.state is State.DEGRADED
    assert topology.reasons == ("GPU 0000:61:00.0 is on the PCI bus but not in NVML: GPU is lost",)
    assert labels["gpus"] == "7"


@pytest.mark.regression
def test_gpu_that_has_left_nvml_is_named_by_its_address(find: Finder) -> None:
    vanished = MachineFaults(vanished=frozenset({3}))
    topology = find("dgx-h200", vanished)
    labels = labels_of(topology)
    assert topology.state is State.DEGRADED
    assert topology.reasons == ("GPU 0000:61:00.0 is on the PCI bus but not in NVML",)
    assert labels["gpus"] == "7"


@pytest.mark.regression
def test_failing_call_costs_only_its_own_fact(find: Finder) -> None:
    nameless = failing_call("nvmlDeviceGetName", 999)
    topology = find("dgx-h200", nameless)
    labels = labels_of(topology)
    assert "gpu-product" not in labels
    assert labels["gpus"] == "8"
    assert labels["nvlink-links"] == "18"


@pytest.mark.regression
def test_geforce_without_serial_or_module_is_ok(find: Finder) -> None:
    topology = find("rtx4090-8")
    assert len(topology.gpus) == 8
    assert topology.state is State.OK


@pytest.mark.regression
def test_unknown_architecture_is_none_and_not_a_number(tmp_path: Path) -> None:
    machine = changed(load_profile("dgx-h200"), architecture=None)  # NVML answers 0xffffffff
    first, *others = discovered(machine, tmp_path).gpus
    assert first.architecture is None
    assert len(others) == 7
    for gpu in others:
        assert gpu.architecture == "hopper"


@pytest.mark.regression
def test_memory_node_of_a_gpu_is_not_the_node_of_its_cpus(find: Finder) -> None:
    nodes = []
    for gpu in find(TRAY).gpus:
        nodes.append((gpu.numa, gpu.memory_numa))
    assert nodes == [
        (0, 2),
        (0, 10),
        (1, 18),
        (1, 26),
    ]


@pytest.mark.regression
def test_board_has_no_memory_nodes(find: Finder) -> None:
    topology = find("dgx-h200")
    assert len(topology.gpus) == 8
    for gpu in topology.gpus:
        assert gpu.memory_numa is None


@pytest.mark.regression
def test_mig_is_unknown_before_ampere(find: Finder) -> None:
    topology = find("t4-1")
    (gpu,) = topology.gpus
    assert gpu.mig is None


def test_nvml_that_does_not_start_names_advice_and_gpus(tmp_path: Path) -> None:
    machine = load_profile("l40s-4")
    raw = probed(machine, tmp_path, MachineFaults(init_error=999))
    description = describe(raw, "n1")
    labels = description.labels
    assert "restart" in description.problem
    assert machine.gpus[0].function.address in description.problem
    assert labels.by_key == {f"{PREFIX}state": "unknown"}
    assert f"{PREFIX}gpus" in labels.unknown


# NVLinks


@pytest.mark.regression
def test_number_of_links_comes_from_the_driver(find: Finder) -> None:
    """The binding knows of more."""
    topology = find("dgx-h200")
    assert len(topology.gpus) == 8
    for gpu in topology.gpus:
        assert len(gpu.links) == 18
    levels = topology.pci_levels
    assert topology.matrix.cells[1][0] == "NV18"
    assert levels.nvml[1][0] == "NODE"
    assert levels.sysfs[1][0] == "NODE"


@pytest.mark.regression
def test_product_without_nvlinks_has_no_links(find: Finder) -> None:
    topology = find("l40s-4")
    assert len(topology.gpus) == 4
    for gpu in topology.gpus:
        assert gpu.links == ()


@pytest.mark.regression
def test_links_that_are_present_but_down_are_no_nvlink(find: Finder) -> None:
    """As those of an A100 card without a bridge."""
    topology = find("gh200")
    (gpu,) = topology.gpus
    assert len(gpu.links) == 18
    assert gpu.links_active == 0


@pytest.mark.regression
def test_loose_bridge_is_no_nvlink(find: Finder) -> None:
    loose = MachineFaults(links_down={0: "all"})
    topology = find("rtx3090-2-nvlink", loose)
    first = topology.gpus[0]
    assert topology.interconnect is Interconnect.PCIE
    assert first.nvlink_version is None
    assert first.link_mbps is None


@pytest.mark.regression
def test_gpu_of_unknown_wiring_is_compared_with_its_peers(find: Finder) -> None:
    """A V100 board may have fewer links wired than the GPU has."""
    topology = find("dgx1-v100", dead_links(0, 0))
    assert topology.reasons == (
        "GPU 0: 5 of 6 NVLinks active",
        "GPU 1: 5 of 6 NVLinks active",
    )
    assert len(topology.gpus) == 8
    for gpu in topology.gpus:
        assert gpu.links_expected == 6


@pytest.mark.regression
@pytest.mark.parametrize(
    ("profile", "version"),
    [
        ("dgx1-v100", "2.2"),
        ("dgx-a100", "3.1"),  # for which an A100 answers 5
        ("rtx3090-2-nvlink", "3.1"),
        ("dgx-h200", "4.0"),
        (TRAY, "5.0"),
    ],
)
def test_nvlink_version_is_an_enum(profile: str, version: str, find: Finder) -> None:
    topology = find(profile)
    assert topology.gpus
    for gpu in topology.gpus:
        assert gpu.nvlink_version == version


@pytest.mark.regression
def test_c2c_links_are_counted_and_are_no_nvlinks(find: Finder) -> None:
    topology = find(TRAY)
    assert len(topology.gpus) == 4
    for gpu in topology.gpus:
        assert gpu.c2c_links == 10


@pytest.mark.regression
@pytest.mark.parametrize(
    ("profile", "cell"),
    [pytest.param("dgx-a100", "NV12", id="eight-gpus"), pytest.param("dgx2", "NV6", id="sixteen-gpus")],
)
def test_switch_without_remote_type_is_known_by_its_address(profile: str, cell: str, find: Finder) -> None:
    topology = find(profile, without_remote_type())
    first = topology.gpus[0]
    assert topology.matrix.cells[1][0] == cell
    assert first.links
    for link in first.links:
        assert link.remote is LinkEnd.NVSWITCH


@pytest.mark.regression
def test_link_without_remote_type_that_leads_to_no_switch_is_unknown(find: Finder) -> None:
    topology = find("power9-v100", without_remote_type())
    assert topology.matrix.cells[1][0] == "SYS"
    ends = [link.remote for link in topology.gpus[0].links]
    assert ends == [
        LinkEnd.UNKNOWN,
        LinkEnd.UNKNOWN,
        LinkEnd.UNKNOWN,
        None,
        None,
        None,
    ]


@pytest.mark.regression
def test_links_to_a_cpu_make_no_nv_cell(find: Finder) -> None:
    topology = find("power9-v100")
    first, second = topology.gpus
    assert first.links_active == 3
    assert second.links_active == 3
    assert topology.matrix.cells[1][0] == "SYS"
    assert topology.interconnect is Interconnect.PCIE


@pytest.mark.regression
def test_dead_link_makes_the_node_degraded_and_says_where(find: Finder) -> None:
    topology = find("dgx-h200", dead_links(3, 5))
    cells = topology.matrix.cells
    assert topology.reasons == ("GPU 3: 17 of 18 NVLinks active",)
    assert cells[3][0] == "NV17"
    assert cells[0][1] == "NV18"


@pytest.mark.regression
def test_gpu_with_fewer_links_counts_through_switches(find: Finder) -> None:
    topology = find("dgx-h200", dead_links(1, 0, 1, 2))
    cells = topology.matrix.cells
    assert cells[1][0] == "NV15"
    assert cells[2][0] == "NV18"


@pytest.mark.regression
def test_gpu_thrown_out_of_the_fabric_is_its_own_domain(find: Finder) -> None:
    """As recorded on an 8-GPU B200."""
    thrown_out = MachineFaults(links_down={2: "all"})
    topology = find("hgx-b200-8", thrown_out)
    most, alone = topology.nvlink_domains
    assert most == (0, 1, 3, 4, 5, 6, 7)
    assert alone == (2,)
    column = [row[2] for row in topology.matrix.cells]
    assert " ".join(column[:8]) == "NODE NODE X NODE SYS SYS SYS SYS"
    assert " ".join(column[8:]) == "NODE NODE PXB NODE SYS SYS SYS SYS NODE NODE SYS SYS"
    assert topology.reasons == ("GPU 2: 0 of 18 NVLinks active",)
    # What a job on the largest domain can count on has not changed.
    labels = labels_of(topology)
    assert labels["nvlink-links"] == "18"


# Drivers: matrix and labels are those of the newest


def assert_as_newest(topology: NodeTopology, profile: str, find: Finder) -> None:
    newest = find(profile)
    assert topology.matrix == newest.matrix
    assert labels_for(topology, "n1") == labels_for(newest, "n1")


@pytest.mark.regression
@pytest.mark.parametrize(
    "profile",
    [
        pytest.param("dgx1-v100", id="mesh"),
        pytest.param("dgx2", id="sixteen-gpus"),
        pytest.param("dgx-a100", id="switches"),
        pytest.param("power9-v100", id="links-to-cpus"),
        pytest.param("rtx3090-2-nvlink", id="bridge"),
    ],
)
def test_oldest_driver_gives_the_same_labels(profile: str, find: Finder) -> None:
    topology = find(profile, driver=OLDEST_DRIVER)
    assert_as_newest(topology, profile, find)
    assert topology.state is State.OK
    assert topology.gpus[0].module is None


@pytest.mark.regression
@pytest.mark.parametrize("driver", ["525.60.13", "535.104.05", "550.54.15", "580.95.05"])
def test_driver_gives_the_same_labels(driver: str, find: Finder) -> None:
    topology = find("dgx-a100", driver=driver)
    assert_as_newest(topology, "dgx-a100", find)


@pytest.mark.regression
def test_sysfs_rule_decides_without_nvmls_ancestor(find: Finder) -> None:
    no_ancestor = failing_call("nvmlDeviceGetTopologyCommonAncestor", 3)
    topology = find("l40s-4", no_ancestor)
    assert_as_newest(topology, "l40s-4", find)
    second_row = topology.pci_levels.nvml[1]
    assert second_row == (None, "X", None, None)


# Fabric


@pytest.mark.regression
def test_tray_is_in_the_clique_of_its_rack(find: Finder) -> None:
    """Its switches are in other trays."""
    topology = find(TRAY)
    labels = labels_of(topology)
    assert topology.fabric is Fabric.COMPLETED
    assert topology.clique == CLIQUE
    assert topology.interconnect is Interconnect.NVSWITCH
    assert topology.nvswitches is None
    assert labels["nvlink-domain"] == CLIQUE


@pytest.mark.regression
@pytest.mark.parametrize("driver", ["525.60.13", "550.54.15", "580.95.05"])
def test_tray_is_in_its_clique_by_the_layout_of_each_driver(driver: str, find: Finder) -> None:
    topology = find(TRAY, driver=driver)
    assert topology.fabric is Fabric.COMPLETED
    assert topology.clique == CLIQUE


@pytest.mark.regression
@pytest.mark.parametrize("state", [pytest.param(1, id="before"), pytest.param(2, id="while")])
def test_domain_is_unknown_until_the_fabric_is_registered(state: int, find: Finder) -> None:
    registering = MachineFaults(fabric={1: {"state": state}})
    topology = find(TRAY, registering)
    assert topology.fabric is Fabric.IN_PROGRESS
    assert topology.state is State.UNKNOWN
    assert topology.reasons == ("GPU 1: still registering with the NVLink fabric",)
    assert "nvlink-domain" not in labels_of(topology)
    assert unknown_labels_of(topology) == {"nvlink-domain"}


@pytest.mark.regression
def test_lost_gpu_may_hold_up_the_registration_of_others(find: Finder) -> None:
    faults = MachineFaults(
        lost=frozenset({3}),
        fabric={
            0: {"state": 2},
            1: {"state": 2},
            2: {"state": 2},
        },
    )
    topology = find(TRAY, faults)
    assert topology.fabric is Fabric.IN_PROGRESS
    assert topology.state is State.UNKNOWN
    assert len(topology.gpus) == 3
    for gpu in topology.gpus:
        assert gpu.fabric is GpuFabric.IN_PROGRESS
    first_reason = topology.reasons[0]
    assert first_reason == "GPU 0019:01:00.0 is on the PCI bus but not in NVML: GPU is lost"


@pytest.mark.regression
def test_failing_fabric_call_is_a_fault_and_not_the_absence_of_a_fabric(find: Finder) -> None:
    no_answer = failing_call("nvmlDeviceGetGpuFabricInfoV", 999, gpu=2)
    topology = find(TRAY, no_answer)
    assert topology.fabric is Fabric.FAILED
    assert topology.gpus[2].fabric is GpuFabric.FAILED
    assert topology.reasons == ("GPU 2: fabric query failed: Unknown Error",)


@pytest.mark.regression
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(
            {"clique": 7},
            f"the GPUs of this node are in 2 fabric cliques: {CLIQUE}, {CLIQUE.partition('.')[0]}.7",
            id="two-cliques",
        ),
        pytest.param(
            {"status": 999}, "GPU 1: fabric registration ended with NVML status 999", id="failed-registration"
        ),
        pytest.param(
            {"state": 0}, "GPU 1: not in the NVLink fabric that other GPUs of this node are in", id="no-fabric"
        ),
    ],
)
def test_gpus_that_disagree_are_in_no_clique(answer: dict[str, int], reason: str, find: Finder) -> None:
    """NVLink ends at the node then."""
    faults = MachineFaults(fabric={1: answer})  # type: ignore[dict-item]  # the names of fields
    topology = find(TRAY, faults)
    labels = labels_of(topology)
    assert topology.fabric is Fabric.FAILED
    assert topology.clique is None
    assert topology.state is State.DEGRADED
    assert topology.reasons == (reason,)
    assert labels["nvlink-domain"] == "n1"


@pytest.mark.parametrize("status", [0, 999])
def test_completed_with_a_zero_uuid_is_no_fabric(status: int, tmp_path: Path) -> None:
    """HGX boards without multi-node NVLink answer so (torchcomms#1385, torchcomms#936)."""
    machine = load_profile("dgx-h200")
    completed = FabricAnswer(state=3, status=status)
    gpus = []
    for gpu in machine.gpus:
        gpus.append(replace(gpu, fabric=completed))
    machine = replace(machine, gpus=tuple(gpus))
    topology = discovered(machine, tmp_path)
    assert topology.fabric is Fabric.NOT_SUPPORTED
    assert topology.state is State.OK


# PCI, NUMA nodes and NICs


@pytest.mark.regression
def test_two_dies_of_a_board_are_pix(find: Finder) -> None:
    """NVML answers 0 ("internal") for them."""
    topology = find("k80-4")
    by_nvml = topology.pci_levels.nvml
    assert by_nvml[1][0] == "PIX"
    assert topology.matrix.cells[1][0] == "PIX"


@pytest.mark.regression
def test_two_nodes_of_one_socket_are_sys_and_come_in_no_order(find: Finder) -> None:
    """NPS4, sub-NUMA clustering."""
    topology = find("dgx-a100")
    labels = labels_of(topology)
    nodes = [gpu.numa for gpu in topology.gpus]
    assert nodes == [3, 3, 1, 1, 7, 7, 5, 5]
    assert topology.pci_levels.sysfs[2][0] == "SYS"
    assert len(topology.numa) == 8
    assert labels["gpus-per-numa"] == "0-2-0-2-0-2-0-2"
    assert labels["numa-nodes"] == "8"


@pytest.mark.regression
@pytest.mark.parametrize(
    ("profile", "all_nodes", "counted", "gpus_per_numa"),
    [pytest.param(TRAY, 34, "2", "2-2", id="tray"), pytest.param("gh200", 9, "1", "1", id="superchip")],
)
def test_numa_nodes_without_cpus_are_not_counted(
    profile: str,
    all_nodes: int,
    counted: str,
    gpus_per_numa: str,
    find: Finder,
) -> None:
    topology = find(profile)
    labels = labels_of(topology)
    assert len(topology.numa) == all_nodes
    assert labels["numa-nodes"] == counted
    assert labels["gpus-per-numa"] == gpus_per_numa


@pytest.mark.regression
def test_node_numbers_may_have_gaps(find: Finder) -> None:
    topology = find("power9-v100")
    labels = labels_of(topology)
    first, second = topology.numa
    assert first.id == 0
    assert first.cpus == "0-63"
    assert second.id == 8
    assert second.cpus == "64-127"
    assert labels["numa-nodes"] == "2"
    assert labels["gpus-per-numa"] == "1-1"


@pytest.mark.regression
@pytest.mark.parametrize(
    ("profile", "nics"),
    [
        pytest.param("dgx-h200", 12, id="twelve"),
        pytest.param("dgx-a100", 10, id="ten"),
        pytest.param(TRAY, 8, id="eight"),
    ],
)
def test_nics_are_numbered_as_nvidia_smi_numbers_them(profile: str, nics: int, find: Finder) -> None:
    topology = find(profile)
    assert len(topology.nics) == nics
    for number, nic in enumerate(topology.nics):
        assert nic.name == f"mlx5_{number}"


@pytest.mark.regression
def test_row_of_a_nic_has_its_paths_to_gpus_and_nics(find: Finder) -> None:
    topology = find("dgx-h200")
    by_sysfs = topology.pci_levels.sysfs[8]
    levels = [str(level) for level in by_sysfs]
    assert " ".join(levels[:8]) == "PXB NODE NODE NODE SYS SYS SYS SYS"
    assert " ".join(levels[8:]) == "X NODE NODE NODE NODE NODE SYS SYS SYS SYS SYS SYS"
    assert topology.matrix.cells[8] == by_sysfs
