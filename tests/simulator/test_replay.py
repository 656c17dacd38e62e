"""Replaying: answers in their order, errors as they were, and no tree that leaves its folder."""

from ctypes import byref
from pathlib import Path
from typing import Any

import msgspec
import pynvml
import pytest

from tests.support.tables import each_case
from toposcope.simulator.recording import (
    Answer,
    Call,
    Device,
    Entry,
    Fields,
    FieldValue,
    File,
    Filled,
    Folder,
    Handle,
    Link,
    Memory,
    Raised,
    Recording,
    RecordingError,
    Reference,
    Silence,
    Value,
    decode,
    encode,
    is_recording,
)
from toposcope.simulator.replay import ReplayedNvml, write_recorded_sysfs

GPU = Handle("gpu:0")


def recording(*calls: Call, sysfs: tuple[Entry, ...] = ()) -> Recording:
    return Recording(
        toposcope="0.1.0",
        pynvml="13.580.126",
        driver=None,
        date="2025-01-31",
        simulated=True,
        calls=list(calls),
        sysfs=list(sysfs),
    )


def replay(*answers: Answer, name: str = "nvmlAny") -> ReplayedNvml:
    """A machine that was asked one question, once or several times."""
    return ReplayedNvml(recording(*(Call(name, ["gpu:0"], answer) for answer in answers)))


def test_a_question_asked_again_gets_the_next_answer_and_the_last_one_stays() -> None:
    nvml = replay(Value(1), Value("two"), Value([3, 4]))
    assert [nvml.nvmlAny(GPU) for _ in range(5)] == [1, "two", [3, 4], [3, 4], [3, 4]]


def test_every_form_of_answer() -> None:
    pci = replay(Memory("nvmlPciInfo_t", b"0000:1B:00.0".ljust(68, b"\0").hex())).nvmlAny(GPU)
    assert (type(pci), pci.busIdLegacy) == (pynvml.nvmlPciInfo_t, "0000:1B:00.0")
    assert replay(Device("gpu:0")).nvmlAny(GPU) == GPU
    (entry,) = replay(Fields([FieldValue(165, 7, 1 << 40 | 9, 3, 2)])).nvmlAny(GPU)
    assert (entry.fieldId, entry.scopeId, entry.valueType, entry.nvmlReturn) == (165, 7, 3, 2)
    assert (entry.value.ullVal, entry.value.uiVal) == (1 << 40 | 9, 9)


def test_a_struct_passed_by_reference_is_filled() -> None:
    memory = Memory("c_nvmlGpuFabricInfo_v3_t", bytes(range(40)).hex())
    asked = Reference("c_nvmlGpuFabricInfo_v3_t", pynvml.nvmlGpuFabricInfo_v3)
    nvml = ReplayedNvml(recording(Call("nvmlAny", ["gpu:0", asked], Filled(memory, 0))))
    info = pynvml.c_nvmlGpuFabricInfo_v3_t()
    assert nvml.nvmlAny(GPU, byref(info)) == 0
    assert bytes(info) == bytes(range(40))
    with pytest.raises(RecordingError, match="c_nvmlGpuFabricInfo_v2_t"):
        nvml.nvmlAny(GPU, byref(pynvml.c_nvmlGpuFabricInfo_v2_t()))
    filled = Filled(Memory("nvmlPciInfo_t", bytes(68).hex()), 0)
    nvml = ReplayedNvml(recording(Call("nvmlAny", [Reference("c_nvmlGpuFabricInfo_t")], filled)))
    with pytest.raises(RecordingError, match="recorded as the answer to a call with c_nvmlGpuFabricInfo_t"):
        nvml.nvmlAny(byref(pynvml.c_nvmlGpuFabricInfo_t()))


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (Raised("NVMLError", 15, "GPU is lost"), type(pynvml.NVMLError(15))),
        (Raised("NVMLError", 77, "a code that the binding does not know"), pynvml.NVMLError),
        (Raised("UnicodeDecodeError", 0, "invalid start byte"), UnicodeDecodeError),
        (Raised("NVMLLibraryMismatchError", 0, "two versions"), pynvml.NVMLLibraryMismatchError),
    ],
)
def test_errors_keep_class_code_and_text(raised: Raised, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=raised.text) as error:
        replay(raised).nvmlAny(GPU)
    assert getattr(error.value, "value", raised.code) == raised.code


def test_what_was_never_asked_is_named() -> None:
    nvml = replay(Value(1))
    assert nvml.nvmlPciInfo_t is pynvml.nvmlPciInfo_t
    with pytest.raises(pynvml.NVMLError_NotSupported):  # nothing ever happens
        nvml.nvmlEventSetCreate()
    assert not hasattr(nvml, "nvmlDeviceGetSerial")  # as in a binding that lacks it
    with pytest.raises(AttributeError, match="no call of nvmlDeviceGetSerial"):
        nvml.nvmlDeviceGetSerial(GPU)
    with pytest.raises(RecordingError, match=r'no answer to \["nvmlAny",\["gpu:1"\]\]'):
        nvml.nvmlAny(Handle("gpu:1"))
    with pytest.raises(RecordingError, match="hung or crashed"):
        replay(Silence()).nvmlAny(GPU)


@each_case("simulator.yaml")
def test_a_struct_that_does_not_fit_is_refused(struct: str, words: str) -> None:
    with pytest.raises(RecordingError, match=words):
        replay(Memory(struct, "00")).nvmlAny(GPU)


def test_a_recording_survives_its_file() -> None:
    calls = [
        Call("nvmlAny", [0, "gpu:0", [91, (165, 3)], Reference("nvmlPciInfo_t", 5)], answer, 1.25)
        for answer in (
            Value(None),
            Device("gpu:0"),
            Memory("nvmlPciInfo_t", "00ff"),
            Filled(Memory("nvmlPciInfo_t", ""), None),
            Fields([FieldValue(1, 2, 3, 4, 5)]),
            Raised("NVMLError", 3, "Not Supported"),
            Silence(),
        )
    ]
    whole = recording(*calls, sysfs=(File("a", "text"), Folder("b", ["c"]), Link("d", "b/c")))
    content = encode(whole)
    assert decode(content, "file") == whole
    assert is_recording(content)
    assert len(content.splitlines()) == 8 + 7 + 3 + 2 + 2  # a line each for facts, calls, paths, and their brackets
    assert not is_recording(b"name: toposcope-recording/1\n")
    assert not is_recording(b'{"name": "t4-1"}')


# The tree


def write(folder: Path, *entries: Entry) -> Path:
    write_recorded_sysfs(recording(sysfs=entries), folder / "sys")
    return folder / "sys"


@each_case("simulator.yaml")
def test_a_tree_that_would_leave_its_folder_is_refused_before_anything_is_written(
    entries: list[Any], tmp_path: Path
) -> None:
    with pytest.raises(RecordingError, match="sysfs: "):
        write(tmp_path, *msgspec.convert(entries, list[Entry]))
    assert list(tmp_path.iterdir()) == []
