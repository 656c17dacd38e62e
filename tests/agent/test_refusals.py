"""NVML refuses an answer: what it would have said is unknown, never zero, and only the GPU that refuses is named."""

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import pynvml
import pytest
from tests.support.machines import changed, discovered, every_profile, probed
from tests.support.simulated_node import SimulatedNode
from toposcope.agent.describe import Description, describe
from toposcope.agent.discover import discover
from toposcope.agent.labels import labels_for
from toposcope.agent.nvidia_labels import MANAGER, wanted_labels
from toposcope.api.label_keys import PREFIX, REFERENCE
from toposcope.hardware.topology import Fabric, State
from toposcope.simulator.faults import CallFault, MachineFaults
from toposcope.simulator.machine import Machine
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile

LOST: Final = pynvml.NVML_ERROR_GPU_IS_LOST
RESET_REQUIRED: Final = 16
NOT_SUPPORTED: Final = pynvml.NVML_ERROR_NOT_SUPPORTED
UNKNOWN: Final = pynvml.NVML_ERROR_UNKNOWN

IDENTITY: Final = ("nvmlDeviceGetHandleByIndex", "nvmlDeviceGetPciInfo")
"""Without these a GPU is not in NVML."""
FACTS: Final = (
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetName",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetNvLinkRemotePciInfo",
    "nvmlDeviceGetNvLinkVersion",
    "nvmlDeviceGetNvLinkRemoteDeviceType",
    "nvmlDeviceGetModuleId",
    "nvmlDeviceGetNumaNodeId",
    "nvmlDeviceGetPlatformInfo",
    "nvmlDeviceGetTopologyCommonAncestor",
)
FABRIC: Final = ("nvmlDeviceGetGpuFabricInfo", "nvmlDeviceGetGpuFabricInfoV")
LINK_COUNT: Final = 91
LOST_GPU: Final = 4


def refused(*calls: str, gpu: int, code: int) -> MachineFaults:
    """One GPU that answers these calls with an NVML error."""
    faults = []
    for call in calls:
        faults.append(CallFault(call=call, gpu=gpu, error=code))
    return MachineFaults(calls=tuple(faults))


def refused_fields(*fields: int, gpu: int | None, code: int = NOT_SUPPORTED) -> tuple[CallFault, ...]:
    """A GPU, or every one, that answers these fields with an NVML error of their own."""
    faults = []
    for field in fields:
        fault = CallFault(
            call="nvmlDeviceGetFieldValues",
            field=field,
            gpu=gpu,
            error=code,
        )
        faults.append(fault)
    return tuple(faults)


def refused_links(*fields: int, gpu: int | None, code: int = UNKNOWN) -> MachineFaults:
    """A GPU, or every one, that refuses these fields and to say which links are up."""
    link_state = CallFault(
        call="nvmlDeviceGetNvLinkState",
        gpu=gpu,
        error=code,
    )
    fields_of_gpu = refused_fields(*fields, gpu=gpu, code=code)
    return MachineFaults(calls=(*fields_of_gpu, link_state))


def refused_fields_and_links(gpu: int) -> MachineFaults:
    """A GPU that refuses every field, and to say which links are up."""
    return refused(
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetNvLinkState",
        gpu=gpu,
        code=UNKNOWN,
    )


def described(machine: Machine, folder: Path, faults: MachineFaults | None = None) -> Description:
    """The machine at first sight."""
    raw = probed(machine, folder, faults)
    return describe(raw, "n1")


def labels(description: Description) -> dict[str, str]:
    short = {}
    for key, value in description.labels.by_key.items():
        short[key.removeprefix(PREFIX)] = str(value)
    return short


def unknown_labels(description: Description) -> set[str]:
    """Labels that keep their values, keys without their prefix."""
    return {key.removeprefix(PREFIX) for key in description.labels.unknown}


def names_only(gpu: int, machine: Machine, reasons: tuple[str, ...]) -> bool:
    """Whether every reason is about this GPU: by its index, its address, or both."""
    address = machine.gpus[gpu].function.address
    names = (
        f"GPU {gpu}",
        f"GPU {address}",
        f"GPU {gpu} ({address})",
    )
    starts: list[str] = []
    for name in names:
        starts.append(f"{name}: ")
        starts.append(f"{name} is ")
    for reason in reasons:
        if not reason.startswith(tuple(starts)):
            return False
    return True


# The property: every profile, one GPU that refuses


def subsets(seed: str) -> Iterator[tuple[str, ...]]:
    """Each call alone, some pairs, and some larger sets."""
    for call in FACTS:
        yield (call,)
    rng = random.Random(seed)
    pairs = list(combinations(FACTS, 2))
    yield from rng.sample(pairs, 5)
    for size in (5, len(FACTS)):
        yield tuple(rng.sample(FACTS, size))


@pytest.mark.regression
@pytest.mark.parametrize("code", [NOT_SUPPORTED, UNKNOWN])
@pytest.mark.parametrize("profile", every_profile())
def test_label_is_right_or_unknown_whatever_one_gpu_refuses(profile: str, code: int, tmp_path: Path) -> None:
    machine = load_profile(profile)
    whole = described(machine, tmp_path)
    right = labels(whole)
    baseline = whole.annotations[REFERENCE]
    gpu = random.Random(profile).randrange(len(machine.gpus))
    for calls in subsets(profile):
        raw = probed(machine, tmp_path, refused(*calls, gpu=gpu, code=code))
        for past in (None, baseline):
            found = describe(raw, "n1", past)
            assert found.topology, calls
            reasons = found.topology.reasons
            assert names_only(gpu, machine, reasons), (calls, reasons)

            present = labels(found)
            assert present.items() <= right.items(), (calls, past is None)
            missing = right.keys() - present.keys()
            lost = missing - unknown_labels(found)
            assert lost <= {"chassis", "tray", "slot"}, calls


@pytest.mark.parametrize("code", [LOST, RESET_REQUIRED])
@pytest.mark.parametrize("profile", every_profile())
def test_gpu_that_says_once_that_it_is_lost_is_the_only_fault(profile: str, code: int, tmp_path: Path) -> None:
    machine = load_profile(profile)
    whole = described(machine, tmp_path)
    baseline = whole.annotations[REFERENCE]
    gpu = random.Random(profile).randrange(len(machine.gpus))
    text = str(pynvml.NVMLError(code))
    address = machine.gpus[gpu].function.address
    for call in FACTS:
        if not is_asked_of(machine, call, tmp_path):
            continue
        raw = probed(machine, tmp_path, refused(call, gpu=gpu, code=code))
        for other in raw.gpus:
            assert other.index != gpu, call
        if not raw.gpus:
            continue  # the only one
        for past in (None, baseline):
            found = describe(raw, "n1", past)
            assert found.topology
            assert found.topology.reasons == (f"GPU {gpu} ({address}): {text}",), call
            assert found.topology.state is State.DEGRADED
            assert labels(found)["gpus"] == str(len(machine.gpus) - 1)


def is_asked_of(machine: Machine, call: str, folder: Path) -> bool:
    """Whether a probe of the machine makes this call for a GPU alone, and believes its error."""
    if call == "nvmlDeviceGetTopologyCommonAncestor":
        return False  # of a pair of GPUs
    lost = CallFault(call=call, error=LOST)
    raw = probed(machine, folder, MachineFaults(calls=(lost,)))
    return raw.gpus == ()


@pytest.mark.parametrize("call", IDENTITY)
@pytest.mark.parametrize("profile", ["dgx1-v100", "hgx-a100-4", "gb200-nvl72-tray", "rtx3090-2-nvlink", "l40s-4"])
def test_gpu_without_handle_or_address_is_named_by_the_bus(profile: str, call: str, tmp_path: Path) -> None:
    machine = load_profile(profile)
    whole = described(machine, tmp_path)
    baseline = whole.annotations[REFERENCE]
    refusal = refused(call, gpu=1, code=UNKNOWN)
    for past in (None, baseline):
        raw = probed(machine, tmp_path, refusal)
        found = describe(raw, "n1", past)
        assert found.topology
        reasons = found.topology.reasons
        assert names_only(1, machine, reasons)
        assert len(reasons) == 1


# The number of links


@pytest.mark.regression
@pytest.mark.parametrize("code", [NOT_SUPPORTED, UNKNOWN])
@pytest.mark.parametrize("profile", ["dgx-h200", "dgx1-v100", "hgx-b200-8", "power9-v100", "h100-nvl-2"])
def test_links_are_counted_where_the_driver_refuses_their_number(profile: str, code: int, tmp_path: Path) -> None:
    machine = load_profile(profile)
    whole = described(machine, tmp_path)
    without_number = refused_fields(91, gpu=None, code=code)
    found = described(machine, tmp_path, MachineFaults(calls=without_number))
    assert labels(found) == labels(whole)


def test_board_without_fields_has_its_links_and_no_speed(tmp_path: Path) -> None:
    machine = load_profile("dgx-h200")
    without_fields = CallFault(call="nvmlDeviceGetFieldValues", error=UNKNOWN)
    found = described(machine, tmp_path, MachineFaults(calls=(without_fields,)))
    assert found.topology
    assert found.topology.reasons == ()
    assert found.topology.state is State.OK
    present = labels(found)
    assert present["nvlink-links"] == "18"
    assert "nvlink-bandwidth" not in present
    assert "nvlink-bandwidth" in unknown_labels(found)


class CountsNone(SimulatedNvml):
    """A driver that answers 0 to the number of links, by which it means that it does not support the question."""

    def nvmlDeviceGetFieldValues(self, handle: Any, fields: list[Any]) -> Any:  # noqa: N802 - NVML's name
        values = super().nvmlDeviceGetFieldValues(handle, fields)
        for entry in values:
            if entry.fieldId == LINK_COUNT:
                entry.nvmlReturn = pynvml.NVML_SUCCESS
                entry.value.uiVal = 0
        return values


def test_link_count_of_zero_is_ignored_where_links_answer(tmp_path: Path) -> None:
    topology = discovered(load_profile("dgx-h200"), tmp_path, kind=CountsNone)
    assert len(topology.gpus) == 8
    for gpu in topology.gpus:
        assert gpu.links_active == 18


def test_link_count_of_zero_is_believed_where_no_link_answers(tmp_path: Path) -> None:
    topology = discovered(load_profile("l40s-4"), tmp_path, kind=CountsNone)
    assert len(topology.gpus) == 4
    for gpu in topology.gpus:
        assert gpu.links == ()


def test_gpu_silent_about_its_links_is_no_fault_and_labels_stay(tmp_path: Path) -> None:
    machine = load_profile("dgx-h200")
    silent = refused_links(91, gpu=5)
    found = described(machine, tmp_path, silent)
    assert found.topology
    assert found.topology.state is State.OK
    assert found.topology.reasons == (
        "GPU 5: NVML does not say which NVLinks are up, so the NVLink labels keep their values",
    )
    unknown = unknown_labels(found)
    assert "nvlink-links" in unknown
    assert "shape" in unknown
    assert labels(found)["gpus"] == "8"


def test_sentence_about_the_node_says_no_unknown_value(tmp_path: Path) -> None:
    machine = load_profile("dgx-h200")
    all_silent = refused_links(91, gpu=None)
    sentence = described(machine, tmp_path, all_silent).sentence
    assert sentence.startswith("8 GPUs, interconnect unknown, fabric not-supported, shape unknown, state ok; ")
    assert "; GPUs 0, 1, 2, 3, 4, 5, 6, 7: NVML does not say which NVLinks are up" in sentence


def test_bridged_card_that_denies_its_links_is_not_believed(tmp_path: Path) -> None:
    """The other card of the bridge has links to it."""
    denial = refused_links(91, gpu=1, code=NOT_SUPPORTED)
    found = described(load_profile("rtx3090-2-nvlink"), tmp_path, denial)
    assert found.topology
    assert found.topology.state is State.OK
    assert "nvlink-links" not in labels(found)


def test_links_on_whose_state_nothing_is_said_are_not_dead(tmp_path: Path) -> None:
    machine = load_profile("dgx-h200")
    silent = refused_links(165, gpu=2)
    topology = discovered(machine, tmp_path, silent)
    assert topology.state is State.OK
    assert not topology.gpus[2].links_known


def test_unknown_facts_do_not_become_the_baseline(tmp_path: Path) -> None:
    machine = load_profile("dgx-h200")
    faults = refused(
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetNvLinkState",
        "nvmlDeviceGetTopologyCommonAncestor",
        gpu=5,
        code=UNKNOWN,
    )
    whole = probed(machine, tmp_path)
    refusing = probed(machine, tmp_path, faults)
    at_first_sight = describe(whole, "n1")
    baseline = at_first_sight.annotations[REFERENCE]
    later = describe(refusing, "n1", baseline)
    assert later.annotations[REFERENCE] == baseline

    first = describe(refusing, "n1")
    healed = describe(whole, "n1", first.annotations[REFERENCE])
    assert healed.annotations[REFERENCE] == baseline


def test_card_without_a_name_does_not_give_the_node_another_product(tmp_path: Path) -> None:
    """Two cards of two products, one of which has lost its name: the other is not the node's product for that."""
    machine = load_profile("l40s-4")
    first, second, *_others = machine.gpus
    another = replace(second, name="NVIDIA L4")
    mixed = replace(machine, gpus=(first, another))
    nameless = refused("nvmlDeviceGetName", gpu=0, code=UNKNOWN)
    found = described(mixed, tmp_path, nameless)
    assert "gpu-product" not in labels(found)
    assert "gpu-product" in unknown_labels(found)


# Lost GPUs, and the fabric of a board that has none


def lost_but_answering(gpu: int, code: int = LOST) -> MachineFaults:
    """A handle that a process holds for long still answers name, address and UUID (leptonai/gpud#604)."""
    calls = list(FACTS)
    calls.remove("nvmlDeviceGetUUID")
    calls.remove("nvmlDeviceGetName")
    return refused(*calls, *FABRIC, gpu=gpu, code=code)


@pytest.mark.regression
@pytest.mark.parametrize(
    ("profile", "driver", "fabric"),
    [
        pytest.param("hgx-h100-8", "535.183.01", "not-supported", id="board-with-535"),
        pytest.param("dgx-h200", "580.95.05", "not-supported", id="board-with-580"),
        pytest.param("l40s-4", "515.105.01", "not-supported", id="cards-with-515"),
        pytest.param("dgx1-v100", "470.256.02", "not-supported", id="mesh-with-470"),
        pytest.param("gb200-nvl72-tray", "580.95.05", "completed", id="tray-with-580"),
    ],
)
def test_lost_gpu_that_still_answers_is_one_fault(profile: str, driver: str, fabric: str, tmp_path: Path) -> None:
    machine = replace(load_profile(profile), driver=driver)
    found = described(machine, tmp_path, lost_but_answering(3))
    address = machine.gpus[3].function.address
    assert found.topology
    assert found.topology.reasons == (f"GPU 3 ({address}): GPU is lost",)

    present = labels(found)
    assert present["gpus"] == str(len(machine.gpus) - 1)
    assert present["state"] == "degraded"
    assert present["fabric"] == fabric
    assert found.expected == len(machine.gpus)


def test_gpu_that_needs_a_reset_is_one_fault(tmp_path: Path) -> None:
    needs_reset = lost_but_answering(6, RESET_REQUIRED)
    topology = discovered(load_profile("dgx-a100"), tmp_path, needs_reset)
    (reason,) = topology.reasons
    assert reason.startswith("GPU 6 (")
    assert reason.endswith("GPU requires restart")


class FieldsSayLost(SimulatedNvml):
    """A call that succeeds as a whole, with "GPU is lost" as the status of each field."""

    def nvmlDeviceGetFieldValues(self, handle: Any, fields: list[Any]) -> Any:  # noqa: N802 - NVML's name
        values = super().nvmlDeviceGetFieldValues(handle, fields)
        if handle.gpu == LOST_GPU:
            for entry in values:
                entry.nvmlReturn = LOST
                entry.value.uiVal = 0
        return values


def test_gpu_whose_fields_say_lost_is_lost(tmp_path: Path) -> None:
    machine = load_profile("dgx-h200")
    found = discovered(machine, tmp_path, kind=FieldsSayLost)
    address = machine.gpus[LOST_GPU].function.address
    assert found.reasons == (f"GPU {LOST_GPU} ({address}): GPU is lost",)


def test_two_lost_gpus_are_two_faults(tmp_path: Path) -> None:
    first_lost = lost_but_answering(0)
    last_lost = lost_but_answering(7)
    both = MachineFaults(calls=(*first_lost.calls, *last_lost.calls))
    topology = discovered(load_profile("dgx1-v100"), tmp_path, both)
    first, second = topology.reasons
    assert first.startswith("GPU 0 (")
    assert second.startswith("GPU 7 (")


@pytest.mark.parametrize("call", IDENTITY)
def test_gpu_lost_before_nvml_gives_its_address_is_called_lost(call: str, tmp_path: Path) -> None:
    machine = load_profile("dgx-h200")
    lost = refused(call, gpu=3, code=LOST)
    topology = discovered(machine, tmp_path, lost)
    address = machine.gpus[3].function.address
    assert topology.reasons == (f"GPU {address} is on the PCI bus but not in NVML: GPU is lost",)


def test_lost_and_excluded_gpus_cannot_be_told_apart(tmp_path: Path) -> None:
    machine = load_profile("dgx-h200")
    faults = MachineFaults(lost=frozenset({3}), vanished=frozenset({5}))
    topology = discovered(machine, tmp_path, faults)
    assert len(topology.reasons) == 2
    for reason in topology.reasons:
        assert reason.endswith(" is on the PCI bus but not in NVML")


def test_without_sysfs_a_lost_gpu_is_named_by_what_nvml_says(tmp_path: Path) -> None:
    machine = load_profile("dgx-h200")
    raw = probed(machine, tmp_path, lost_but_answering(4))
    without_sysfs = raw._replace(
        gpu_functions=(),
        switch_functions=(),
        is_bus_visible=False,
    )
    topology = discover(without_sysfs)
    address = machine.gpus[4].function.address
    assert topology.reasons == (f"GPU 4 ({address}): GPU is lost",)


def test_gpu_that_comes_back_is_whole_again(tmp_path: Path) -> None:
    machine = load_profile("hgx-a100-4")
    whole = described(machine, tmp_path)
    lost_raw = probed(machine, tmp_path, lost_but_answering(2))
    lost = describe(lost_raw, "n1", whole.annotations[REFERENCE])
    back = probed(machine, tmp_path)
    again = describe(back, "n1", lost.annotations[REFERENCE])
    assert labels(again) == labels(whole)
    assert again.annotations[REFERENCE] == whole.annotations[REFERENCE]


@pytest.mark.parametrize("profile", ["t4-1", "dgx1-v100", "dgx-a100", "l40s-4", "rtx4090-8"])
def test_failing_fabric_query_is_no_fault_where_no_fabric_can_be(profile: str, tmp_path: Path) -> None:
    machine = replace(load_profile(profile), driver="580.95.05")
    calls = []
    for call in FABRIC:
        calls.append(CallFault(call=call, error=UNKNOWN))
    topology = discovered(machine, tmp_path, MachineFaults(calls=tuple(calls)))
    assert topology.fabric is Fabric.NOT_SUPPORTED
    assert topology.reasons == ()
    assert topology.state is State.OK


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        pytest.param(UNKNOWN, "GPU 2: fabric query failed: Unknown Error", id="unknown-error"),
        pytest.param(
            NOT_SUPPORTED,
            "GPU 2: not in the NVLink fabric that other GPUs of this node are in",
            id="not-supported",
        ),
    ],
)
def test_tray_keeps_its_domain_while_a_gpu_is_silent_about_the_fabric(code: int, reason: str, tmp_path: Path) -> None:
    silent = refused(*FABRIC, gpu=2, code=code)
    topology = discovered(load_profile("gb200-nvl72-tray"), tmp_path, silent)
    assert topology.reasons == (reason,)
    assert topology.state is State.DEGRADED
    published = labels_for(topology, "n1")
    assert f"{PREFIX}nvlink-domain" not in published.by_key
    assert f"{PREFIX}nvlink-domain" in published.unknown


@pytest.mark.parametrize("call", ["nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex"])
def test_mig_devices_that_nvml_refuses_to_count_are_unknown(call: str, tmp_path: Path) -> None:
    machine = changed(load_profile("dgx-h200"), mig=("MIG-a", "MIG-b"))
    refusal = refused(call, gpu=0, code=UNKNOWN)
    topology = discovered(machine, tmp_path, refusal)
    first = topology.gpus[0]
    assert first.mig is True
    assert first.mig_devices is None
    assert topology.state is State.OK


def test_metrics_have_no_series_for_what_nvml_refuses_to_say(tmp_path: Path) -> None:
    node = SimulatedNode.of("dgx-h200", tmp_path)
    answering = node.machine.gpus[4].function.address
    silent = node.machine.gpus[5].function.address
    node.faults = refused_fields_and_links(gpu=5)
    node.run(minutes=1)
    for name in ("gpu_nvlinks", "gpu_nvlinks_active", "gpu_nvlink_bandwidth_bytes_per_second"):
        assert node.metric(name, gpu=silent) is None, name
        assert node.metric(name, gpu=answering), name


@pytest.mark.slow
def test_labels_stay_for_hours_while_a_gpu_is_silent_about_its_links(tmp_path: Path) -> None:
    node = SimulatedNode.of("dgx-h200", tmp_path)
    node.run(minutes=2)
    before = node.labels
    node.faults = refused_fields_and_links(gpu=5)
    node.run(hours=2)
    assert node.labels == before
    assert node.state == "ok"


@pytest.mark.regression
def test_labels_under_nvidia_com_stay_too(tmp_path: Path) -> None:
    machine = load_profile("dgx-h200")
    whole = described(machine, tmp_path)
    found = described(machine, tmp_path, refused_fields_and_links(gpu=5))
    assert wanted_labels(found, {}) == {
        "nvidia.com/gpu.count": "8",
        "nvidia.com/gpu.product": "NVIDIA-H200",
    }

    carried = wanted_labels(whole, {})
    owned: dict[str, Any] = {f"f:{key}": {} for key in carried}
    ours = {
        "manager": MANAGER,
        "fieldsV1": {"f:metadata": {"f:labels": owned}},
    }
    metadata = {
        "labels": carried,
        "managedFields": [ours],
    }
    assert wanted_labels(found, metadata) == carried
