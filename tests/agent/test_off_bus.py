"""GPUs that are not on the PCI bus: NVML lists a Jetson's without an address."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pynvml
import pytest
from tests.support.machines import changed, discovered, probed
from toposcope.agent.collector import AgentCollector
from toposcope.agent.describe import Description, describe
from toposcope.agent.metrics import AgentMetrics
from toposcope.agent.raw import RawNode
from toposcope.api.label_keys import MATRIX, PREFIX, REFERENCE
from toposcope.cli.discover import document
from toposcope.hardware.matrix_annotation import parse
from toposcope.hardware.pci import is_address
from toposcope.simulator.faults import MachineFaults
from toposcope.simulator.machine import Machine, SimulatedNumaNode
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile
from toposcope.simulator.sysfs import write_sysfs


class OffBus(SimulatedNvml):
    """An NVML that gives no PCI address for its GPUs."""

    def nvmlDeviceGetPciInfo(self, _handle: Any) -> Any:  # noqa: N802 - NVML's name
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


class EmptyAddress(SimulatedNvml):
    """An NVML that succeeds without saying an address."""

    def nvmlDeviceGetPciInfo(self, _handle: Any) -> Any:  # noqa: N802 - NVML's name
        return pynvml.nvmlPciInfo_t()


def orin() -> Machine:
    machine = changed(
        load_profile("t4-1"),
        name="Orin (nvgpu)",
        architecture=None,
        links=(),
    )
    only_node = SimulatedNumaNode(0, frozenset(range(12)), 0, (10,))
    return replace(machine, numa_nodes=(only_node,))


def described(folder: Path, kind: type[SimulatedNvml] = OffBus, **change: Any) -> Description:
    """The Jetson as its agent describes it; `change` is what else is different about the answers."""
    raw = raw_node(folder, kind)
    return describe(raw._replace(**change), "jetson-1")


def bus_without_gpus(folder: Path) -> None:
    """Its PCI bus has a bridge, and no GPU."""
    machine = replace(orin(), gpus=())
    write_sysfs(machine, folder / "sys")


def raw_node(folder: Path, kind: type[SimulatedNvml] = OffBus) -> RawNode:
    bus_without_gpus(folder)
    return probed(orin(), folder, kind=kind)


@pytest.mark.regression
@pytest.mark.parametrize("kind", [OffBus, EmptyAddress])
def test_gpu_off_the_bus_is_labelled_as_far_as_nvml_knows_it(kind: type[SimulatedNvml], tmp_path: Path) -> None:
    description = described(tmp_path, kind)
    labels = {}
    for key, value in description.labels.by_key.items():
        labels[key.removeprefix(PREFIX)] = value
    assert labels["gpus"] == "1"
    assert labels["gpu-product"] == "Orin-nvgpu"
    assert labels["nvlink-domain"] == "jetson-1"
    assert labels["numa-nodes"] == "1"
    assert labels["gpus-per-numa"] == "1"
    assert labels["state"] == "ok"


def test_sentence_says_what_is_missing(tmp_path: Path) -> None:
    sentence = described(tmp_path).sentence
    assert sentence.endswith("1 of 1 GPUs (index 0): NVML gives no PCI address, so the PCI path is not known")


def test_no_address_is_made_up(tmp_path: Path) -> None:
    found = described(tmp_path)
    annotation = found.annotations[MATRIX]
    (gpu,) = json.loads(annotation)["gpus"]
    assert "pci" not in gpu
    (device,) = parse(annotation).devices
    assert device.pci == ""
    assert device.title == f"GPU0: {device.name}"

    assert found.topology
    shown = document(found, found.topology)
    assert shown["gpus"][0]["pci"] is None
    assert not is_address(found.topology.gpus[0].pci)


def test_metrics_have_a_series_for_it(tmp_path: Path) -> None:
    metrics = AgentMetrics()
    metrics.description = described(tmp_path)
    gpus = set()
    for family in AgentCollector(metrics).collect():
        for sample in family.samples:
            if "gpu" in sample.labels:
                gpus.add(sample.labels["gpu"])
    assert gpus == {"gpu0"}


def test_its_baseline_is_its_own(tmp_path: Path) -> None:
    first = described(tmp_path)
    baseline = first.annotations[REFERENCE]
    raw = raw_node(tmp_path / "again")
    again = describe(raw, "jetson-1", baseline)
    assert again.labels == first.labels


def test_gpu_without_a_handle_is_no_empty_node(tmp_path: Path) -> None:
    bus_without_gpus(tmp_path)
    lost = MachineFaults(lost=frozenset({0}))
    raw = probed(orin(), tmp_path, lost, kind=OffBus)
    found = describe(raw, "jetson-1")
    assert found.problem.startswith("NVML does not answer")
    assert found.problem.endswith("GPUs on the PCI bus: none")
    assert found.labels.by_key == {f"{PREFIX}state": "unknown"}


def test_jetson_whose_nvml_does_not_start_is_no_empty_node(tmp_path: Path) -> None:
    bus_without_gpus(tmp_path)
    driver = tmp_path / "sys" / "module" / "nvgpu"
    driver.mkdir(parents=True)
    not_found = MachineFaults(init_error=12)
    raw = probed(orin(), tmp_path, not_found, kind=OffBus)
    found = describe(raw, "jetson-1")
    assert found.problem
    assert found.labels.by_key == {f"{PREFIX}state": "unknown"}


class OneWithoutAddress(SimulatedNvml):
    """A driver that does not give the address of one GPU of several."""

    def nvmlDeviceGetPciInfo(self, handle: Any) -> Any:  # noqa: N802 - NVML's name
        if self.nvmlDeviceGetUUID(handle) == self.machine.gpus[2].uuid:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return super().nvmlDeviceGetPciInfo(handle)


def test_gpu_that_the_bus_shows_is_lost_and_not_off_the_bus(tmp_path: Path) -> None:
    machine = load_profile("l40s-4")
    topology = discovered(machine, tmp_path, kind=OneWithoutAddress)
    indexes = [gpu.index for gpu in topology.gpus]
    assert indexes == [0, 1, 3]
    address = machine.gpus[2].function.address
    assert topology.reasons == (f"GPU {address} is on the PCI bus but not in NVML",)


class FirstWithAddress(SimulatedNvml):
    """Only the first GPU has an address."""

    def nvmlDeviceGetPciInfo(self, handle: Any) -> Any:  # noqa: N802 - NVML's name
        if self.nvmlDeviceGetUUID(handle) != self.machine.gpus[0].uuid:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return super().nvmlDeviceGetPciInfo(handle)


def test_card_beside_a_gpu_off_the_bus_has_an_address(tmp_path: Path) -> None:
    cards = load_profile("l40s-4")
    card, off_bus, *_others = cards.gpus
    machine = replace(cards, gpus=(card, off_bus))
    bus = replace(cards, gpus=(card,))
    write_sysfs(bus, tmp_path / "sys")
    topology = discovered(machine, tmp_path, kind=FirstWithAddress)
    first, second = topology.gpus
    assert first.address == card.function.address
    assert second.address is None
