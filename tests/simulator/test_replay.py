"""Replaying: answers in their order, errors as they were, and no tree that leaves its folder."""

from ctypes import byref
from pathlib import Path

import pynvml
import pytest
from toposcope.simulator import recording as form
from toposcope.simulator.recording import File, Folder, Link

GPU = form.Handle("gpu:0")


def recording(*calls: form.Call, sysfs: tuple[form.Entry, ...] = ()) -> form.Recording:
    return form.Recording(
        toposcope="0.1.0",
        pynvml="13.580.126",
        date="2025-01-31",
        driver=None,
        simulated=True,
        calls=list(calls),
        sysfs=list(sysfs),
    )


def replay(*answers: form.Answer, name: str = "nvmlAny") -> form.ReplayedNvml:
    """A machine that was asked one question, once or several times."""
    calls = []
    for answer in answers:
        calls.append(form.Call(name, ["gpu:0"], answer))
    return form.ReplayedNvml(recording(*calls))


def test_question_asked_again_gets_the_next_answer_and_the_last_one_stays() -> None:
    nvml = replay(
        form.Value(1),
        form.Value("two"),
        form.Value([3, 4]),
    )
    assert nvml.nvmlAny(GPU) == 1
    assert nvml.nvmlAny(GPU) == "two"
    for _ in range(3):
        assert nvml.nvmlAny(GPU) == [3, 4]


def test_struct_is_answered_from_its_memory() -> None:
    memory = b"0000:1B:00.0".ljust(68, b"\0")
    nvml = replay(form.StructMemory("nvmlPciInfo_t", memory.hex()))
    pci = nvml.nvmlAny(GPU)
    assert type(pci) is pynvml.nvmlPciInfo_t
    assert pci.busIdLegacy == "0000:1B:00.0"


def test_device_is_answered_as_a_handle() -> None:
    nvml = replay(form.RecordedDevice("gpu:0"))
    assert nvml.nvmlAny(GPU) == GPU


def test_field_is_answered_with_value_and_status() -> None:
    recorded = form.FieldValue(
        field=165,
        scope=7,
        value=1 << 40 | 9,
        type=3,
        status=2,
    )
    nvml = replay(form.Fields([recorded]))
    (entry,) = nvml.nvmlAny(GPU)
    assert entry.fieldId == 165
    assert entry.scopeId == 7
    assert entry.valueType == 3
    assert entry.nvmlReturn == 2
    assert entry.value.ullVal == 1 << 40 | 9
    assert entry.value.uiVal == 9


def test_struct_passed_by_reference_is_filled() -> None:
    content = bytes(range(40))
    memory = form.StructMemory("c_nvmlGpuFabricInfo_v3_t", content.hex())
    filled = form.Filled(memory, 0)
    version = pynvml.nvmlGpuFabricInfo_v3
    asked = form.Reference("c_nvmlGpuFabricInfo_v3_t", version)
    call = form.Call("nvmlAny", ["gpu:0", asked], filled)
    nvml = form.ReplayedNvml(recording(call))

    info = pynvml.c_nvmlGpuFabricInfo_v3_t()
    code = nvml.nvmlAny(GPU, byref(info))
    assert code == 0
    assert bytes(info) == content

    other = pynvml.c_nvmlGpuFabricInfo_v2_t()
    with pytest.raises(form.RecordingError, match="c_nvmlGpuFabricInfo_v2_t"):
        nvml.nvmlAny(GPU, byref(other))


def test_struct_that_is_filled_with_another_is_refused() -> None:
    memory = form.StructMemory("nvmlPciInfo_t", bytes(68).hex())
    asked = form.Reference("c_nvmlGpuFabricInfo_t")
    filled = form.Filled(memory, 0)
    call = form.Call("nvmlAny", [asked], filled)
    nvml = form.ReplayedNvml(recording(call))
    info = pynvml.c_nvmlGpuFabricInfo_t()
    with pytest.raises(form.RecordingError, match="recorded as the answer to a call with c_nvmlGpuFabricInfo_t"):
        nvml.nvmlAny(byref(info))


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        pytest.param(
            form.Raised("NVMLError", 15, "GPU is lost"),
            type(pynvml.NVMLError(15)),
            id="known-code",
        ),
        pytest.param(
            form.Raised("NVMLError", 77, "a code that the binding does not know"),
            pynvml.NVMLError,
            id="unknown-code",
        ),
        pytest.param(
            form.Raised("UnicodeDecodeError", 0, "invalid start byte"),
            UnicodeDecodeError,
            id="no-text",
        ),
        pytest.param(
            form.Raised("NVMLLibraryMismatchError", 0, "two versions"),
            pynvml.NVMLLibraryMismatchError,
            id="two-versions",
        ),
    ],
)
def test_errors_keep_class_code_and_text(raised: form.Raised, kind: type[Exception]) -> None:
    nvml = replay(raised)
    with pytest.raises(kind, match=raised.text) as error:
        nvml.nvmlAny(GPU)
    code = getattr(error.value, "value", raised.code)
    assert code == raised.code


def test_question_that_was_never_asked_is_named() -> None:
    nvml = replay(form.Value(1))
    assert nvml.nvmlPciInfo_t is pynvml.nvmlPciInfo_t
    with pytest.raises(pynvml.NVMLError_NotSupported):  # nothing ever happens
        nvml.nvmlEventSetCreate()
    assert not hasattr(nvml, "nvmlDeviceGetSerial")  # as in a binding that lacks it
    with pytest.raises(AttributeError, match="no call of nvmlDeviceGetSerial"):
        nvml.nvmlDeviceGetSerial(GPU)
    other_gpu = form.Handle("gpu:1")
    with pytest.raises(form.RecordingError, match=r'no answer to \["nvmlAny",\["gpu:1"\]\]'):
        nvml.nvmlAny(other_gpu)


def test_question_without_an_answer_is_refused() -> None:
    nvml = replay(form.Silence())
    with pytest.raises(form.RecordingError, match="hung or crashed"):
        nvml.nvmlAny(GPU)


@pytest.mark.parametrize(
    ("struct", "message"),
    [
        pytest.param("c_nvmlNew_t", "c_nvmlNew_t: the installed nvidia-ml-py does not have it", id="unknown"),
        pytest.param("nvmlInit", "nvmlInit: the installed nvidia-ml-py does not have it", id="function"),
        pytest.param("nvmlPciInfo_t", "nvmlPciInfo_t: 1 bytes recorded, it has 68", id="another-size"),
    ],
)
def test_struct_that_does_not_fit_is_refused(struct: str, message: str) -> None:
    nvml = replay(form.StructMemory(struct, "00"))
    with pytest.raises(form.RecordingError, match=message):
        nvml.nvmlAny(GPU)


ANSWERS: list[form.Answer] = [
    form.Value(None),
    form.RecordedDevice("gpu:0"),
    form.StructMemory("nvmlPciInfo_t", "00ff"),
    form.Filled(form.StructMemory("nvmlPciInfo_t", ""), None),
    form.Fields([form.FieldValue(1, 2, 3, 4, 5)]),
    form.Raised("NVMLError", 3, "Not Supported"),
    form.Silence(),
]
"""One of each kind."""


def test_recording_survives_its_file() -> None:
    calls = []
    for answer in ANSWERS:
        info = form.Reference("nvmlPciInfo_t", 5)
        arguments: list[form.Argument] = [0, "gpu:0", [91, (165, 3)], info]
        calls.append(form.Call("nvmlAny", arguments, answer, 1.25))
    tree = (
        File("a", "text"),
        Folder("b", ["c"]),
        Link("d", "b/c"),
    )
    whole = recording(*calls, sysfs=tree)

    content = form.encode(whole)

    assert form.decode(content, "file") == whole
    assert form.is_recording(content)
    lines = content.splitlines()
    assert len(lines) == 8 + 7 + 3 + 2 + 2  # a line each for facts, calls, paths, and their brackets


# The tree


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"name: toposcope-recording/1\n", id="yaml"),
        pytest.param(b'{"name": "t4-1"}', id="json"),
    ],
)
def test_profile_is_no_recording(content: bytes) -> None:
    assert not form.is_recording(content)


def write(folder: Path, *entries: form.Entry) -> Path:
    root = folder / "sys"
    whole = recording(sysfs=entries)
    form.write_recorded_sysfs(whole, root)
    return root


def test_tree_has_files_folders_links_and_names_that_nobody_followed(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        Link("bus/pci/devices/0000:01:00.0", "../../../devices/pci0000:00/0000:01:00.0"),
        Folder("bus/pci/devices", ["0000:01:00.0", "0000:02:00.0"]),
        File("devices/pci0000:00/0000:01:00.0/vendor", "0x10de"),
        Folder("devices/pci0000:00/0000:01:00.0", ["vendor"]),
        Link("devices/pci0000:00/0000:01:00.0/driver", "../../../bus/pci/drivers/nvidia"),
        Link("devices/pci0000:00/0000:01:00.0/infiniband/mlx5_0/device", "../.."),
        Folder("module/nvidia", []),
    )
    listed = root / "bus/pci/devices"
    vendor = listed / "0000:01:00.0/vendor"
    assert vendor.read_text() == "0x10de\n"
    names = sorted(path.name for path in listed.iterdir())
    assert names == ["0000:01:00.0", "0000:02:00.0"]

    device = root / "devices/pci0000:00/0000:01:00.0"
    driver = device / "driver"
    assert driver.readlink() == Path("../../../bus/pci/drivers/nvidia")
    device_of_nic = device / "infiniband/mlx5_0/device"
    assert device_of_nic.resolve() == device.resolve()
    module = root / "module/nvidia"
    assert module.is_dir()


def assert_refused(folder: Path, *entries: form.Entry) -> None:
    """Before anything is written."""
    with pytest.raises(form.RecordingError, match="sysfs: "):
        write(folder, *entries)
    written = list(folder.iterdir())
    assert written == []


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("../escaped", id="parent"),
        pytest.param("/escaped", id="absolute"),
        pytest.param("a/../../escaped", id="parent-inside"),
        pytest.param("a//b", id="empty-part"),
        pytest.param("", id="empty"),
        pytest.param("a\0b", id="null-byte"),
    ],
)
def test_file_that_would_leave_the_tree_is_refused(path: str, tmp_path: Path) -> None:
    assert_refused(tmp_path, File(path, "x"))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("../../escaped", id="parent"),
        pytest.param("b/c", id="path"),
        pytest.param("..", id="dots"),
    ],
)
def test_name_in_a_folder_that_would_leave_it_is_refused(name: str, tmp_path: Path) -> None:
    assert_refused(tmp_path, Folder("a", [name]))


def test_folder_above_the_tree_is_refused(tmp_path: Path) -> None:
    assert_refused(tmp_path, Folder("..", []))


@pytest.mark.parametrize(
    ("path", "target"),
    [
        pytest.param("a", "..", id="dots"),
        pytest.param("a", "../escaped", id="parent"),
        pytest.param("a/b", "../../escaped", id="parent-of-a-folder"),
        pytest.param("a", "/etc", id="absolute"),
        pytest.param("a", "", id="empty"),
        pytest.param("a", "b/../../escaped", id="parent-inside"),
        pytest.param("../a", "b", id="link-outside"),
    ],
)
def test_link_that_would_leave_the_tree_is_refused(path: str, target: str, tmp_path: Path) -> None:
    assert_refused(tmp_path, Link(path, target))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(Link("a", "b"), File("a/escaped", "x"), id="file-below-a-link"),
        pytest.param(Link("a", "b"), Folder("a", []), id="folder-at-a-link"),
        pytest.param(Link("a", "b"), Link("a/c", "../d"), id="link-below-a-link"),
        pytest.param(File("a", "x"), File("a/b", "x"), id="file-below-a-file"),
        pytest.param(File("a", "x"), File("a", "y"), id="file-at-a-file"),
        pytest.param(File("a", "x"), Link("a", "b"), id="link-at-a-file"),
    ],
)
def test_two_entries_in_one_place_are_refused(first: form.Entry, second: form.Entry, tmp_path: Path) -> None:
    assert_refused(tmp_path, first, second)
