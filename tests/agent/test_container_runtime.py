"""Containers that got nothing or too little of the driver: which setting is missing, and whether a restart helps.

And nodes that have no GPUs to give.
"""

import logging
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.support.simulated_node import SimulatedNode
from toposcope.agent.container_runtime import advice, container_facts, withheld
from toposcope.agent.describe import describe
from toposcope.agent.raw import RawFault, RawNode, RawPci
from toposcope.agent.sysfs import Sysfs
from toposcope.api import label_keys
from toposcope.simulator.faults import MachineFaults
from toposcope.simulator.profile import load_profile
from toposcope.simulator.sysfs import write_sysfs

GPU = RawPci("0000:01:00.0", ("pci0000:00", "0000:01:00.0"), 0, "", None)
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
DRIVER_NOT_LOADED = 9
LIBRARY_NOT_FOUND = 12


@pytest.fixture
def single_gpu(tmp_path: Path) -> SimulatedNode:
    return SimulatedNode.of("t4-1", tmp_path)


def failed(code: int = 12, *, loaded: bool = True, bus: bool = True, gpus: int = 1, **container: str) -> RawNode:
    return RawNode(
        driver=None,
        gpus=(),
        faults=(RawFault(code, "NVML failed"),),
        ancestors=(),
        gpu_functions=(GPU,) * gpus,
        switch_functions=(),
        nics=(),
        numa=(),
        is_bus_visible=bus,
        is_module_loaded=loaded,
        container=tuple(container.items()),
    )


@pytest.mark.parametrize(
    ("nvml_error", "container", "words"),
    [
        pytest.param(12, {}, "NVIDIA_VISIBLE_DEVICES is 'not set': set it to all", id="devices-not-set"),
        pytest.param(12, {VISIBLE: "void"}, "NVIDIA_VISIBLE_DEVICES is 'void'", id="devices-void"),
        pytest.param(12, {VISIBLE: "all", CAPABILITIES: "compute"}, "'compute': add utility", id="no-utility"),
        pytest.param(
            12, {VISIBLE: "all", CAPABILITIES: "compute,utility"}, "runtimeClassName: nvidia", id="no-runtime-class"
        ),
        pytest.param(12, {VISIBLE: "all"}, "runtimeClassName: nvidia", id="no-runtime-class-nor-capabilities"),
        pytest.param(12, {VISIBLE: "all"}, "GKE and Bottlerocket have their own", id="clouds-with-their-own"),
        pytest.param(
            12, {VISIBLE: "/var/run/nvidia-container-devices"}, "must be a mount of /dev/null", id="devices-by-mounts"
        ),
        pytest.param(9, {"nvidiactl": "absent"}, "no /dev/nvidiactl", id="no-device-node"),
        pytest.param(999, {"nvidiactl": "absent", VISIBLE: "all"}, "no /dev/nvidiactl", id="unknown-no-device-node"),
        pytest.param(999, {"nvidiactl": "present"}, "lost its device nodes", id="lost-device-nodes"),
        pytest.param(18, {}, "reboot the node", id="version-mismatch"),
        pytest.param(4, {}, "permission", id="no-permission"),
        pytest.param(15, {}, "fell off the bus", id="gpu-lost"),
        pytest.param(77, {}, "nvidia-smi", id="another-error"),
    ],
)
def test_advice_names_the_missing_setting(nvml_error: int, container: dict[str, str], words: str) -> None:
    raw = failed(nvml_error)._replace(container=tuple(container.items()))
    assert words in advice(nvml_error, raw)


@pytest.mark.parametrize(
    ("nvml_error", "words"),
    [
        pytest.param(12, "install the NVIDIA driver", id="not-installed"),
        pytest.param(9, "modprobe nvidia", id="not-loaded"),
    ],
)
def test_advice_without_kernel_module_is_about_the_driver(nvml_error: int, words: str) -> None:
    assert words in advice(nvml_error, failed(nvml_error, loaded=False))


def test_gpus_named_by_mounts_are_not_withheld() -> None:
    by_number = failed(NVIDIA_VISIBLE_DEVICES="0,1")
    assert withheld(by_number).startswith("NVIDIA_VISIBLE_DEVICES is '0,1'")

    by_mounts = failed(NVIDIA_VISIBLE_DEVICES="/var/run/nvidia-container-devices")
    assert withheld(by_mounts) == ""


def test_invisible_bus_leaves_gpus_unknown() -> None:
    description = describe(failed(bus=False, gpus=0), "n1")
    assert "sysfs shows no PCI bus" in description.problem
    assert description.expected is None
    assert label_keys.GPUS in description.labels.unknown


def test_container_facts_are_settings_and_device_node(tmp_path: Path) -> None:
    environ = {"NVIDIA_VISIBLE_DEVICES": "all", "HOME": "/"}
    without_node = container_facts(environ, str(tmp_path))
    assert without_node == (
        ("NVIDIA_VISIBLE_DEVICES", "all"),
        ("nvidiactl", "absent"),
    )

    (tmp_path / "nvidiactl").touch()
    with_node = container_facts({}, str(tmp_path))
    assert ("nvidiactl", "present") in with_node


def test_sysfs_shows_kernel_module_and_bus(tmp_path: Path) -> None:
    write_sysfs(load_profile("t4-1"), tmp_path)
    sysfs = Sysfs(tmp_path)
    assert not sysfs.is_module_loaded()

    module = tmp_path / "module" / "nvidia"
    module.mkdir(parents=True)
    sysfs = Sysfs(tmp_path)
    assert sysfs.is_module_loaded()
    assert sysfs.is_bus_visible()
    elsewhere = Sysfs(tmp_path / "module")
    assert not elsewhere.is_bus_visible()


def probed_log(node: SimulatedNode, caplog: pytest.LogCaptureFixture) -> str:
    """What the agent logs in its first minute."""
    caplog.set_level(logging.INFO, "agent")
    node.run(minutes=1)
    return "\n".join(record.message for record in caplog.records)


@pytest.mark.parametrize(
    ("devices", "missing_gpus"),
    [pytest.param("none", range(8), id="none"), pytest.param("0,1", (2, 3), id="two-of-four")],
)
def test_log_names_the_setting_that_hides_devices(
    devices: str, missing_gpus: Iterable[int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = SimulatedNode.of("dgx-h200", tmp_path)
    node.container = {VISIBLE: devices}
    node.faults = MachineFaults(vanished=frozenset(missing_gpus))
    logged = probed_log(node, caplog)
    assert node.machine.gpus[2].function.address in logged
    assert f"NVIDIA_VISIBLE_DEVICES is '{devices}' in this container" in logged


def test_log_blames_no_setting_that_gives_all_devices(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    node = SimulatedNode.of("dgx-h200", tmp_path)
    node.container = {VISIBLE: "all"}
    node.faults = MachineFaults(vanished=frozenset({2}))
    logged = probed_log(node, caplog)
    assert node.machine.gpus[2].function.address in logged
    assert "NVIDIA_VISIBLE_DEVICES" not in logged


# Whether a new container helps


@pytest.mark.regression
@pytest.mark.parametrize(
    "nvml_error",
    [
        pytest.param(12, id="library-not-found"),
        pytest.param(18, id="version-mismatch"),
        pytest.param(4, id="no-permission"),
        pytest.param(999, id="unknown-error"),
    ],
)
def test_nvml_that_stopped_working_asks_for_one_new_container(single_gpu: SimulatedNode, nvml_error: int) -> None:
    single_gpu.loads_kernel_module()
    single_gpu.run(minutes=2)
    single_gpu.driver_fails(nvml_error)
    single_gpu.run(minutes=4)
    assert single_gpu.agent.healthy() == ""  # it may be a driver that is being upgraded
    single_gpu.run(minutes=2)
    assert "NVML worked in this container but no longer starts" in single_gpu.agent.healthy()

    single_gpu.heals()
    single_gpu.run(minutes=1)
    assert single_gpu.agent.healthy() == ""

    restarted = single_gpu.in_new_container()
    restarted.driver_fails(nvml_error)
    restarted.run(hours=1)
    assert restarted.agent.healthy() == ""


@pytest.mark.regression
@pytest.mark.parametrize(
    "nvml_error", [pytest.param(12, id="library-not-found"), pytest.param(9, id="driver-not-loaded")]
)
def test_driver_loaded_after_the_container_asks_for_a_new_one(single_gpu: SimulatedNode, nvml_error: int) -> None:
    single_gpu.unloads_kernel_module()
    single_gpu.driver_fails(nvml_error)
    single_gpu.container = {"nvidiactl": "absent"}
    single_gpu.run(minutes=30)
    assert single_gpu.agent.healthy() == ""

    single_gpu.loads_kernel_module()
    single_gpu.run(minutes=6)
    assert "loaded after this container was created" in single_gpu.agent.healthy()


@pytest.mark.regression
def test_unloaded_driver_asks_for_no_new_container(single_gpu: SimulatedNode) -> None:
    single_gpu.loads_kernel_module()
    single_gpu.run(minutes=2)
    single_gpu.unloads_kernel_module()
    single_gpu.driver_fails(DRIVER_NOT_LOADED)
    single_gpu.run(hours=1)
    assert single_gpu.agent.healthy() == ""


# Nodes that have no GPUs to give


@pytest.mark.regression
@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(MachineFaults(), id="driver-works"),
        pytest.param(MachineFaults(init_error=12), id="no-driver"),
        pytest.param(MachineFaults(init_error=9), id="driver-not-loaded"),
    ],
)
def test_node_without_gpus_gets_no_labels(faults: MachineFaults, tmp_path: Path) -> None:
    node = SimulatedNode.without_gpus(tmp_path)
    node.faults = faults
    node.run(minutes=2)
    assert node.labels == {}
    assert node.agent.ready() == ""
    assert node.agent.healthy() == ""
    assert node.metric("gpus_expected") == 0


T4_LABELS = {
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
}


@pytest.mark.regression
def test_bus_that_cannot_be_seen_does_not_make_gpus_gone(single_gpu: SimulatedNode) -> None:
    single_gpu.run(minutes=2)
    assert single_gpu.labels == T4_LABELS

    single_gpu.driver_fails(DRIVER_NOT_LOADED)
    single_gpu.hides_pci_bus()
    single_gpu.run(minutes=2)
    assert single_gpu.labels == {**T4_LABELS, "state": "unknown"}
    assert "sysfs shows no PCI bus" in single_gpu.problem


@pytest.mark.regression
def test_gpus_passed_through_to_vms_are_ignored(single_gpu: SimulatedNode) -> None:
    single_gpu.hands_gpus_to("vfio-pci")
    single_gpu.run(minutes=2)
    assert single_gpu.labels == {}


@pytest.mark.regression
def test_gpu_that_another_driver_holds_is_named_with_the_driver(single_gpu: SimulatedNode) -> None:
    single_gpu.hands_gpus_to("nouveau")
    single_gpu.driver_fails(LIBRARY_NOT_FOUND)
    single_gpu.run(minutes=2)
    assert "(held by the driver nouveau)" in single_gpu.problem


def test_gpus_all_gone_from_the_bus_are_not_a_node_without_gpus(tmp_path: Path) -> None:
    whole = SimulatedNode.of("t4-1", tmp_path / "whole")
    whole.run(minutes=2)

    empty = SimulatedNode.without_gpus(tmp_path / "empty")
    empty.api.labels = dict(whole.api.labels)
    empty.api.baseline = whole.api.baseline
    empty.run(minutes=2)
    assert empty.labels == {**whole.labels, "state": "unknown"}
    assert whole.machine.gpus[0].function.address in empty.problem
    assert "--accept-degraded" in empty.problem

    accepting = SimulatedNode(empty.machine, tmp_path / "empty", once=True, accept_degraded=True)
    accepting.api.baseline = whole.api.baseline
    assert accepting.agent.sync()
    assert accepting.labels == {}
