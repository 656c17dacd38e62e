"""Which setting is missing when NVML does not start."""

from pathlib import Path

import pytest

from toposcope.agent.describe import describe
from toposcope.agent.nvml.worker import container_facts
from toposcope.agent.raw import RawFault, RawNode, RawPci
from toposcope.agent.runtime import advice, withheld
from toposcope.agent.sysfs import Sysfs
from toposcope.api import label_keys
from toposcope.simulator.profile import load_profile
from toposcope.simulator.sysfs import write_sysfs

GPU = RawPci("0000:01:00.0", ("pci0000:00", "0000:01:00.0"), 0, "", None)


def node(code: int = 12, *, loaded: bool = True, bus: bool = True, gpus: int = 1, **container: str) -> RawNode:
    return RawNode(
        driver=None,
        gpus=(),
        faults=(RawFault(code, "NVML says no"),),
        ancestors=(),
        gpu_functions=(GPU,) * gpus,
        switch_functions=(),
        nics=(),
        numa=(),
        bus_visible=bus,
        module_loaded=loaded,
        container=tuple(container.items()),
    )


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (node(loaded=False), "install the NVIDIA driver"),
        (node(), "NVIDIA_VISIBLE_DEVICES is 'not set': set it to all"),
        (node(NVIDIA_VISIBLE_DEVICES="void"), "NVIDIA_VISIBLE_DEVICES is 'void'"),
        (node(NVIDIA_VISIBLE_DEVICES="all", NVIDIA_DRIVER_CAPABILITIES="compute"), "'compute': add utility"),
        (node(NVIDIA_VISIBLE_DEVICES="all", NVIDIA_DRIVER_CAPABILITIES="compute,utility"), "runtimeClassName: nvidia"),
        (node(NVIDIA_VISIBLE_DEVICES="all"), "runtimeClassName: nvidia"),
        (node(NVIDIA_VISIBLE_DEVICES="all"), "GKE and Bottlerocket have components of their own"),
        (node(NVIDIA_VISIBLE_DEVICES="/var/run/nvidia-container-devices"), "must be a mount of /dev/null"),
        (node(9, nvidiactl="absent"), "no /dev/nvidiactl"),
        (node(999, nvidiactl="absent", NVIDIA_VISIBLE_DEVICES="all"), "no /dev/nvidiactl"),
        (node(999, nvidiactl="present"), "lost its device nodes"),
        (node(9, loaded=False), "modprobe nvidia"),
        (node(18), "reboot the node"),
        (node(4), "permission"),
        (node(15), "fell off the bus"),
        (node(77), "nvidia-smi"),
    ],
)
def test_the_missing_setting_is_named(raw: RawNode, words: str) -> None:
    assert words in advice(raw.faults[0].code, raw)


def test_gpus_that_are_named_by_mounts_are_not_withheld() -> None:
    assert withheld(node(NVIDIA_VISIBLE_DEVICES="0,1")).startswith("NVIDIA_VISIBLE_DEVICES is '0,1'")
    assert withheld(node(NVIDIA_VISIBLE_DEVICES="/var/run/nvidia-container-devices")) == ""


def test_a_bus_that_cannot_be_seen_proves_nothing() -> None:
    found = describe(node(bus=False, gpus=0), "n1")
    assert "sysfs shows no PCI bus" in found.problem
    assert found.expected is None
    assert label_keys.GPUS in found.labels.unknown


def test_what_this_container_was_given(tmp_path: Path) -> None:
    environ = {"NVIDIA_VISIBLE_DEVICES": "all", "HOME": "/"}
    assert container_facts(environ, tmp_path) == (("NVIDIA_VISIBLE_DEVICES", "all"), ("nvidiactl", "absent"))
    (tmp_path / "nvidiactl").touch()
    assert ("nvidiactl", "present") in container_facts({}, tmp_path)


def test_the_kernel_module_is_seen_in_sysfs(tmp_path: Path) -> None:
    write_sysfs(load_profile("t4-1"), tmp_path)
    assert not Sysfs(tmp_path).module_loaded()
    (tmp_path / "module" / "nvidia").mkdir(parents=True)
    assert Sysfs(tmp_path).module_loaded()
    assert Sysfs(tmp_path).bus_visible()
    assert not Sysfs(tmp_path / "module").bus_visible()
