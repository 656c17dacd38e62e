"""Containers that got nothing or too little of the driver: which setting is missing, and whether a restart helps.

And nodes that have no GPUs to give.
"""

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.living_agent import Node
from tests.support.tables import each_case
from toposcope.agent.container_runtime import advice, container_facts, withheld
from toposcope.agent.describe import describe
from toposcope.agent.raw import RawFault, RawNode, RawPci
from toposcope.agent.sysfs import Sysfs
from toposcope.api import label_keys
from toposcope.simulator.faults import Faults
from toposcope.simulator.profile import load_profile
from toposcope.simulator.sysfs import write_sysfs

GPU = RawPci("0000:01:00.0", ("pci0000:00", "0000:01:00.0"), 0, "", None)


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
        bus_visible=bus,
        module_loaded=loaded,
        container=tuple(container.items()),
    )


@each_case("tables/agent.yaml")
def test_the_missing_setting_is_named(code: int, loaded: bool, container: dict[str, str], words: str) -> None:
    raw = failed(code, loaded=loaded)._replace(container=tuple(container.items()))
    assert words in advice(code, raw)


def test_gpus_that_are_named_by_mounts_are_not_withheld() -> None:
    assert withheld(failed(NVIDIA_VISIBLE_DEVICES="0,1")).startswith("NVIDIA_VISIBLE_DEVICES is '0,1'")
    assert withheld(failed(NVIDIA_VISIBLE_DEVICES="/var/run/nvidia-container-devices")) == ""


def test_a_bus_that_cannot_be_seen_proves_nothing() -> None:
    description = describe(failed(bus=False, gpus=0), "n1")
    assert "sysfs shows no PCI bus" in description.problem
    assert description.expected is None
    assert label_keys.GPUS in description.labels.unknown


def test_what_this_container_was_given(tmp_path: Path) -> None:
    environ = {"NVIDIA_VISIBLE_DEVICES": "all", "HOME": "/"}
    assert container_facts(environ, str(tmp_path)) == (("NVIDIA_VISIBLE_DEVICES", "all"), ("nvidiactl", "absent"))
    (tmp_path / "nvidiactl").touch()
    assert ("nvidiactl", "present") in container_facts({}, str(tmp_path))


def test_the_kernel_module_is_seen_in_sysfs(tmp_path: Path) -> None:
    write_sysfs(load_profile("t4-1"), tmp_path)
    assert not Sysfs(tmp_path).module_loaded()
    (tmp_path / "module" / "nvidia").mkdir(parents=True)
    assert Sysfs(tmp_path).module_loaded()
    assert Sysfs(tmp_path).bus_visible()
    assert not Sysfs(tmp_path / "module").bus_visible()


@each_case("tables/agent.yaml")
def test_a_container_that_got_too_few_devices_says_which_setting_hides_them(
    devices: str, lost: list[int], words: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node(load_profile("dgx-h200"), tmp_path)
    node.container, node.faults = {"NVIDIA_VISIBLE_DEVICES": devices}, Faults(vanished=frozenset(lost))
    caplog.set_level(logging.INFO, "agent")
    node.live(60)
    logged = "\n".join(record.message for record in caplog.records)
    assert node.machine.gpus[2].function.address in logged
    assert (words in logged) if words else ("NVIDIA_VISIBLE_DEVICES" not in logged)


def test_gpus_that_are_all_gone_from_the_bus_are_not_a_node_without_gpus(tmp_path: Path) -> None:
    whole = Node(load_profile("t4-1"), tmp_path / "whole")
    whole.live(120)
    empty = Node(replace(whole.machine, gpus=()), tmp_path / "empty")
    empty.cluster.labels = dict(whole.cluster.labels)
    empty.cluster.baseline = whole.cluster.baseline
    empty.live(120)
    assert empty.labels == {**whole.labels, "state": "unknown"}
    assert whole.machine.gpus[0].function.address in empty.cluster.writes[-1].problem
    assert "--accept-degraded" in empty.cluster.writes[-1].problem
    accepting = Node(empty.machine, tmp_path / "empty", once=True, accept_degraded=True)
    accepting.cluster.baseline = whole.cluster.baseline
    assert accepting.agent.sync()
    assert accepting.labels == {}
