"""Shipped, recorded and broken machines, through simulated NVML and sysfs."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tests.support.machines import discovered, probed, recorded_machines
from tests.support.tables import each_row
from toposcope.agent.describe import describe
from toposcope.agent.labels import labels_for
from toposcope.api.label_keys import PREFIX
from toposcope.simulator.capture import machine_from_capture
from toposcope.simulator.faults import CallFault, Faults
from toposcope.simulator.machine import Fabric as FabricAnswer
from toposcope.simulator.machine import Machine
from toposcope.simulator.profile import load_profile, profile_names
from toposcope.topology.hardware import Fabric, Interconnect, State
from toposcope.topology.label_values import is_label_value


def labels(machine: Machine, folder: Path, faults: Faults | None = None, node: str = "n1") -> dict[str, str]:
    known = labels_for(discovered(machine, folder, faults), node).known
    return {key.removeprefix(PREFIX): value for key, value in known.items()}


class Shipped(msgspec.Struct, forbid_unknown_fields=True):
    profile: str
    labels: dict[str, str]


@each_row("node_labels.yaml", Shipped, ids=lambda row: row.profile)
def test_labels_of_shipped_machines(row: Shipped, tmp_path: Path) -> None:
    known = labels(load_profile(row.profile), tmp_path)
    assert {key: known.get(key, "") for key in row.labels} == row.labels


@pytest.mark.parametrize("profile", profile_names())
def test_every_shipped_machine_is_ok_and_every_label_valid(profile: str, tmp_path: Path) -> None:
    topology = discovered(load_profile(profile), tmp_path)
    assert (topology.state, topology.reasons) == (State.OK, ())
    known = labels_for(topology, "a-node").known
    assert all(is_label_value(value) for value in known.values())
    assert f"{PREFIX}nvlink-domain" in known


def test_a_gb200_tray_is_in_its_racks_clique(tmp_path: Path) -> None:
    machine = load_profile("gb200-nvl72-tray")
    topology = discovered(machine, tmp_path)
    assert topology.fabric is Fabric.COMPLETED
    uuid, _, clique = (topology.clique or "").rpartition(".")
    assert (len(uuid), clique) == (36, "32766")
    assert topology.interconnect is Interconnect.NVSWITCH
    assert topology.nvswitches is None  # they sit in other trays
    known = labels(machine, tmp_path)
    assert known["nvlink-domain"] == topology.clique
    assert (known["numa-nodes"], known["gpus-per-numa"]) == ("2", "2-2")  # of 34, most without CPUs


def test_a_lost_gpu_is_named_by_its_address(tmp_path: Path) -> None:
    machine = load_profile("dgx-h200")
    for faults in (Faults(lost=frozenset({3})), Faults(vanished=frozenset({3}))):
        topology = discovered(machine, tmp_path, faults)
        address = machine.gpus[3].function.address
        assert topology.reasons == (f"GPU {address} is on the PCI bus but not in NVML",)
        assert topology.state is State.DEGRADED
        assert labels_for(topology, "n1").known[f"{PREFIX}gpus"] == "7"


def test_a_dead_link_makes_the_node_degraded_and_says_where(tmp_path: Path) -> None:
    topology = discovered(load_profile("dgx-h200"), tmp_path, Faults(links_down={3: frozenset({5})}))
    assert topology.reasons == ("GPU 3: 17 of 18 NVLinks active",)
    assert topology.matrix.cells[3][0] == "NV17"
    assert topology.matrix.cells[0][1] == "NV18"


def test_a_gpu_thrown_out_of_the_fabric_is_its_own_domain(tmp_path: Path) -> None:
    """As recorded on an 8-GPU B200: one GPU with NODE and SYS to all others."""
    topology = discovered(load_profile("hgx-b200-8"), tmp_path, Faults(links_down={2: None}))
    assert [len(domain) for domain in topology.nvlink_domains] == [7, 1]
    assert set(topology.matrix.cells[2][:8]) == {"X", "NODE", "SYS"}
    assert topology.reasons == ("GPU 2: 0 of 18 NVLinks active",)
    # What a job on the largest domain can count on has not changed.
    assert labels_for(topology, "n1").known[f"{PREFIX}nvlink-links"] == "18"


@pytest.mark.parametrize("state", [1, 2])
def test_while_the_fabric_registers_the_domain_is_not_known(state: int, tmp_path: Path) -> None:
    topology = discovered(load_profile("gb200-nvl72-tray"), tmp_path, Faults(fabric={1: {"state": state}}))
    assert (topology.fabric, topology.state) == (Fabric.IN_PROGRESS, State.UNKNOWN)
    assert topology.reasons == ("GPU 1: still registering with the NVLink fabric",)
    made = labels_for(topology, "n1")
    assert made.unknown == {f"{PREFIX}nvlink-domain"}
    assert f"{PREFIX}nvlink-domain" not in made.known


@pytest.mark.parametrize(
    ("fabric", "words"),
    [
        ({1: {"clique": 7}}, "in 2 fabric cliques"),
        ({1: {"status": 999}}, "GPU 1: fabric registration ended with NVML status 999"),
        ({1: {"state": 0}}, "GPU 1: not in the NVLink fabric that other GPUs of this node are in"),
    ],
)
def test_gpus_that_disagree_are_a_fault_and_no_clique(
    fabric: dict[int, dict[str, int]], words: str, tmp_path: Path
) -> None:
    topology = discovered(load_profile("gb200-nvl72-tray"), tmp_path, Faults(fabric=fabric))
    assert (topology.fabric, topology.clique, topology.state) == (Fabric.FAILED, None, State.DEGRADED)
    assert any(words in reason for reason in topology.reasons), topology.reasons
    # NVLink ends at this node then, and the node says so.
    assert labels_for(topology, "n1").known[f"{PREFIX}nvlink-domain"] == "n1"


@pytest.mark.parametrize("status", [0, 999])
def test_completed_with_a_zero_uuid_is_no_fabric(status: int, tmp_path: Path) -> None:
    """HGX boards without multi-node NVLink answer so (torchcomms#1385, torchcomms#936)."""
    machine = load_profile("dgx-h200")
    gpus = tuple(replace(gpu, fabric=FabricAnswer(state=3, status=status)) for gpu in machine.gpus)
    topology = discovered(replace(machine, gpus=gpus), tmp_path)
    assert (topology.fabric, topology.state) == (Fabric.NOT_SUPPORTED, State.OK)


@pytest.mark.parametrize("driver", ["470.256.02", "525.60.13", "535.104.05", "550.54.15", "580.95.05"])
def test_older_drivers_give_the_same_matrix(driver: str, tmp_path: Path) -> None:
    machine = load_profile("dgx-a100")
    newest = discovered(machine, tmp_path).matrix
    assert discovered(replace(machine, driver=driver), tmp_path).matrix == newest


def test_nvml_that_does_not_start_says_what_to_do_and_which_gpus_wait(tmp_path: Path) -> None:
    machine = load_profile("l40s-4")
    description = describe(probed(machine, tmp_path, Faults(init_error=999)), "n1")
    assert "restart" in description.problem
    assert machine.gpus[0].function.address in description.problem
    assert description.labels.known == {f"{PREFIX}state": "unknown"}
    assert f"{PREFIX}gpus" in description.labels.unknown


def test_one_failing_call_costs_only_its_own_fact(tmp_path: Path) -> None:
    faults = Faults(calls=(CallFault("nvmlDeviceGetName", outcome=999),))
    known = labels(load_profile("dgx-h200"), tmp_path, faults)
    assert "gpu-product" not in known
    assert (known["gpus"], known["nvlink-links"]) == ("8", "18")


RECORDED = recorded_machines()


@pytest.mark.parametrize("name", RECORDED)
def test_the_discovered_matrix_is_the_recorded_one(name: str, tmp_path: Path) -> None:
    recorded = RECORDED[name]
    topology = discovered(machine_from_capture(recorded.text, name), tmp_path)
    names = (*(f"GPU{gpu.index}" for gpu in topology.gpus), *(nic.name for nic in topology.nics))
    # Drivers that name columns after the NICs list them in the order of their discovery.
    assert names == recorded.devices if recorded.numbered else set(names) == set(recorded.devices)
    cells = {(a, b): topology.matrix.cells[i][j] for i, a in enumerate(names) for j, b in enumerate(names)}
    assert cells == recorded.cells
