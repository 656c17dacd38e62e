"""Replaying: answers in their order, errors as they were, and no tree that leaves its folder."""

from ctypes import byref
from pathlib import Path
from typing import Any

import msgspec
import pynvml
import pytest
from tests.support.tables import each_case
from toposcope.simulator import recording as form

GPU = form.Handle("gpu:0")


def recording(*calls: form.Call, sysfs: tuple[form.Entry, ...] = ()) -> form.Recording:
    about = {"toposcope": "0.1.0", "pynvml": "13.580.126", "date": "2025-01-31"}
    return form.Recording(**about, driver=None, simulated=True, calls=list(calls), sysfs=list(sysfs))


def replay(*answers: form.Answer, name: str = "nvmlAny") -> form.ReplayedNvml:
    """A machine that was asked one question, once or several times."""
    return form.ReplayedNvml(recording(*(form.Call(name, ["gpu:0"], answer) for answer in answers)))


def test_a_question_asked_again_gets_the_next_answer_and_the_last_one_stays() -> None:
    nvml = replay(form.Value(1), form.Value("two"), form.Value([3, 4]))
    assert [nvml.nvmlAny(GPU) for _ in range(5)] == [1, "two", [3, 4], [3, 4], [3, 4]]


def test_every_form_of_answer() -> None:
    pci = replay(form.Memory("nvmlPciInfo_t", b"0000:1B:00.0".ljust(68, b"\0").hex())).nvmlAny(GPU)
    assert (type(pci), pci.busIdLegacy) == (pynvml.nvmlPciInfo_t, "0000:1B:00.0")
    assert replay(form.Device("gpu:0")).nvmlAny(GPU) == GPU
    (entry,) = replay(form.Fields([form.FieldValue(165, 7, 1 << 40 | 9, 3, 2)])).nvmlAny(GPU)
    assert (entry.fieldId, entry.scopeId, entry.valueType, entry.nvmlReturn) == (165, 7, 3, 2)
    assert (entry.value.ullVal, entry.value.uiVal) == (1 << 40 | 9, 9)


def test_a_struct_passed_by_reference_is_filled() -> None:
    memory = form.Memory("c_nvmlGpuFabricInfo_v3_t", bytes(range(40)).hex())
    asked = form.Reference("c_nvmlGpuFabricInfo_v3_t", pynvml.nvmlGpuFabricInfo_v3)
    nvml = form.ReplayedNvml(recording(form.Call("nvmlAny", ["gpu:0", asked], form.Filled(memory, 0))))
    info = pynvml.c_nvmlGpuFabricInfo_v3_t()
    assert nvml.nvmlAny(GPU, byref(info)) == 0
    assert bytes(info) == bytes(range(40))
    with pytest.raises(form.RecordingError, match="c_nvmlGpuFabricInfo_v2_t"):
        nvml.nvmlAny(GPU, byref(pynvml.c_nvmlGpuFabricInfo_v2_t()))
    filled = form.Filled(form.Memory("nvmlPciInfo_t", bytes(68).hex()), 0)
    nvml = form.ReplayedNvml(recording(form.Call("nvmlAny", [form.Reference("c_nvmlGpuFabricInfo_t")], filled)))
    with pytest.raises(form.RecordingError, match="recorded as the answer to a call with c_nvmlGpuFabricInfo_t"):
        nvml.nvmlAny(byref(pynvml.c_nvmlGpuFabricInfo_t()))


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (form.Raised("NVMLError", 15, "GPU is lost"), type(pynvml.NVMLError(15))),
        (form.Raised("NVMLError", 77, "a code that the binding does not know"), pynvml.NVMLError),
        (form.Raised("UnicodeDecodeError", 0, "invalid start byte"), UnicodeDecodeError),
        (form.Raised("NVMLLibraryMismatchError", 0, "two versions"), pynvml.NVMLLibraryMismatchError),
    ],
)
def test_errors_keep_class_code_and_text(raised: form.Raised, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=raised.text) as error:
        replay(raised).nvmlAny(GPU)
    assert getattr(error.value, "value", raised.code) == raised.code


def test_what_was_never_asked_is_named() -> None:
    nvml = replay(form.Value(1))
    assert nvml.nvmlPciInfo_t is pynvml.nvmlPciInfo_t
    with pytest.raises(pynvml.NVMLError_NotSupported):  # nothing ever happens
        nvml.nvmlEventSetCreate()
    assert not hasattr(nvml, "nvmlDeviceGetSerial")  # as in a binding that lacks it
    with pytest.raises(AttributeError, match="no call of nvmlDeviceGetSerial"):
        nvml.nvmlDeviceGetSerial(GPU)
    with pytest.raises(form.RecordingError, match=r'no answer to \["nvmlAny",\["gpu:1"\]\]'):
        nvml.nvmlAny(form.Handle("gpu:1"))
    with pytest.raises(form.RecordingError, match="hung or crashed"):
        replay(form.Silence()).nvmlAny(GPU)


@each_case("simulator.yaml")
def test_a_struct_that_does_not_fit_is_refused(struct: str, words: str) -> None:
    with pytest.raises(form.RecordingError, match=words):
        replay(form.Memory(struct, "00")).nvmlAny(GPU)


def test_a_recording_survives_its_file() -> None:
    calls = [
        form.Call("nvmlAny", [0, "gpu:0", [91, (165, 3)], form.Reference("nvmlPciInfo_t", 5)], answer, 1.25)
        for answer in (
            form.Value(None),
            form.Device("gpu:0"),
            form.Memory("nvmlPciInfo_t", "00ff"),
            form.Filled(form.Memory("nvmlPciInfo_t", ""), None),
            form.Fields([form.FieldValue(1, 2, 3, 4, 5)]),
            form.Raised("NVMLError", 3, "Not Supported"),
            form.Silence(),
        )
    ]
    whole = recording(*calls, sysfs=(form.File("a", "text"), form.Folder("b", ["c"]), form.Link("d", "b/c")))
    content = form.encode(whole)
    assert form.decode(content, "file") == whole
    assert form.is_recording(content)
    assert len(content.splitlines()) == 8 + 7 + 3 + 2 + 2  # a line each for facts, calls, paths, and their brackets
    assert not form.is_recording(b"name: toposcope-recording/1\n")
    assert not form.is_recording(b'{"name": "t4-1"}')


# The tree


def write(folder: Path, *entries: form.Entry) -> Path:
    form.write_recorded_sysfs(recording(sysfs=entries), folder / "sys")
    return folder / "sys"


@each_case("simulator.yaml")
def test_a_tree_that_would_leave_its_folder_is_refused_before_anything_is_written(
    entries: list[Any], tmp_path: Path
) -> None:
    with pytest.raises(form.RecordingError, match="sysfs: "):
        write(tmp_path, *msgspec.convert(entries, list[form.Entry]))
    assert list(tmp_path.iterdir()) == []
