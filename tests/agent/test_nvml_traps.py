"""What NVML does otherwise than one would think: each test fails when the probe believes it.

Links and fabrics have files of their own: test_nvlink_traps.py, test_fabric.py and test_fabric_traps.py.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pynvml

from tests.support.machines import discovered, probed
from toposcope.agent.describe import describe
from toposcope.agent.labels import labels_for
from toposcope.agent.nvml.events import EventWatch
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.nvml.structs import read_fabric
from toposcope.agent.raw import RawFabric
from toposcope.api import label_keys
from toposcope.simulator.faults import CallFault, Faults
from toposcope.simulator.machine import Machine
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile
from toposcope.topology.hardware import State

H200, TRAY, MESH = "dgx-h200", "gb200-nvl72-tray", "dgx1-v100"
DRIVER_470 = "470.256.02"


def changed(machine: Machine, **facts: Any) -> Machine:
    """The machine with other facts about its first GPU."""
    return replace(machine, gpus=(replace(machine.gpus[0], **facts), *machine.gpus[1:]))


def started(module: SimulatedNvml) -> tuple[Nvml, Any]:
    module.nvmlInit()
    return Nvml(module), module.nvmlDeviceGetHandleByIndex(0)


# Devices


def test_an_index_that_gives_no_handle_costs_that_gpu_alone(tmp_path: Path) -> None:
    for code in (4, 8, 11, 15, 999):  # no permission, power, interrupt, lost, unknown
        faults = Faults(calls=(CallFault("nvmlDeviceGetHandleByIndex", outcome=code, gpu=3),))
        topology = discovered(load_profile(H200), tmp_path, faults)
        assert [gpu.index for gpu in topology.gpus] == [0, 1, 2, 4, 5, 6, 7]
        assert topology.state is State.DEGRADED


def test_gpus_are_known_by_address_though_indices_close_up(tmp_path: Path) -> None:
    machine = load_profile(MESH)
    whole = describe(probed(machine, tmp_path), "n1")
    less = describe(
        probed(machine, tmp_path, Faults(vanished=frozenset({0}))), "n1", whole.annotations[label_keys.REFERENCE]
    )
    assert less.topology
    assert [gpu.index for gpu in less.topology.gpus] == list(range(7))
    # Had the past been kept by index, the GPUs would look as if their paths had changed. The lost one's peers each lost
    # a link or two, as they must in a mesh.
    lost = machine.gpus[0].function.address
    assert less.topology.reasons[0] == f"GPU {lost} is on the PCI bus but not in NVML"
    assert not any(" was " in reason for reason in less.topology.reasons)


def test_a_pci_address_with_eight_digits_and_capitals_is_the_one_in_sysfs(tmp_path: Path) -> None:
    raw = probed(load_profile(H200), tmp_path)
    assert [gpu.pci for gpu in raw.gpus] == [function.address for function in raw.gpu_functions]
    assert any(character in "abcdef" for gpu in raw.gpus for character in gpu.pci)


def test_a_geforce_without_serial_or_module_is_whole(tmp_path: Path) -> None:
    topology = discovered(load_profile("rtx4090-8"), tmp_path)
    assert (len(topology.gpus), topology.state) == (8, State.OK)


def test_an_architecture_that_nobody_knows_is_none_and_not_a_number(tmp_path: Path) -> None:
    machine = changed(load_profile(H200), architecture=None)  # answers 0xffffffff
    assert [gpu.architecture for gpu in discovered(machine, tmp_path).gpus[:2]] == [None, "hopper"]


def test_a_gpus_memory_node_is_not_the_node_of_its_cpus(tmp_path: Path) -> None:
    gpus = discovered(load_profile(TRAY), tmp_path).gpus
    assert [gpu.memory_numa for gpu in gpus] == [2, 10, 18, 26]
    assert [gpu.numa for gpu in gpus] == [0, 0, 1, 1]
    assert {gpu.memory_numa for gpu in discovered(load_profile(H200), tmp_path / "x86").gpus} == {None}


def test_mig_is_asked_of_the_parent(tmp_path: Path) -> None:
    """A MIG device has neither links nor fabric, and counting it would make eight GPUs out of one."""
    machine = load_profile(H200)
    plain = labels_for(discovered(machine, tmp_path / "plain"), "n1")
    machine = changed(machine, mig=("MIG-a", "MIG-b", "MIG-c"))
    topology = discovered(machine, tmp_path / "mig")
    assert labels_for(topology, "n1") == plain
    assert [(gpu.mig, gpu.mig_devices) for gpu in topology.gpus[:2]] == [(True, 3), (False, 0)]
    assert topology.gpus[0].uuid == machine.gpus[0].uuid
    assert discovered(load_profile("t4-1"), tmp_path / "none").gpus[0].mig is None  # before Ampere there is no MIG


# The binding


def test_the_bindings_own_error_is_an_answer_too() -> None:
    """NVMLLibraryMismatchError is no NVMLError."""

    class Mismatched(SimulatedNvml):
        def nvmlInit(self) -> None:  # noqa: N802 - NVML's name
            raise pynvml.NVMLLibraryMismatchError("two versions")

    assert not issubclass(pynvml.NVMLLibraryMismatchError, pynvml.NVMLError)
    refusal = Nvml(Mismatched(load_profile("t4-1"))).start()
    assert refusal is not None
    assert "two versions" in refusal.text


def test_a_name_that_is_no_text_costs_the_name_alone(tmp_path: Path) -> None:
    class Garbled(SimulatedNvml):
        def nvmlDeviceGetName(self, handle: Any) -> str:  # noqa: N802 - NVML's name
            del handle
            return b"NVIDIA \xff".decode()

    topology = discovered(load_profile("l40s-4"), tmp_path, kind=Garbled)
    assert [gpu.product for gpu in topology.gpus] == [None] * 4
    assert topology.state is State.OK


def test_a_function_that_the_driver_lacks_is_data() -> None:
    nvml, handle = started(SimulatedNvml(replace(load_profile(H200), driver=DRIVER_470)))
    assert nvml.value("nvmlDeviceGetModuleId", handle) is None
    refusal = read_fabric(nvml, handle)
    assert not isinstance(refusal, RawFabric)
    assert refusal.absent


# Events


def test_only_events_that_a_gpu_has_are_asked_for() -> None:
    """One type that is not supported refuses them all: a driver before 570 would report no XID either."""
    sets = []

    class Counting(SimulatedNvml):
        def nvmlEventSetCreate(self) -> Any:  # noqa: N802 - NVML's name
            sets.append(super().nvmlEventSetCreate())
            return sets[-1]

    module = Counting(replace(load_profile(H200), driver="535.104.05"), wait=lambda _: None)
    module.nvmlInit()
    watch = EventWatch(Nvml(module))
    assert watch.arm()
    assert watch.wait(0.0) == ""  # a timeout is the normal end, and the set stays
    module.faults = Faults(lost=frozenset({1}))
    assert "ended" in watch.wait(0.0)
    module.faults = Faults()
    assert watch.arm()
    assert len(sets) == 2  # a set that a lost GPU ended is of no further use
    assert sets[1].gpus == set(range(8))
