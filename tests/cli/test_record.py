import json
import os
import signal
from collections.abc import Callable
from datetime import date
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pynvml
import pytest
import yaml
from tests.cli.conftest import Command
from tests.support.machines import every_profile
from tests.support.paths import ROOT
from tests.support.sysfs_trees import machine_of
from toposcope.agent.discover import discover
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.nvml.supervisor import ProbeError
from toposcope.agent.probe import probe
from toposcope.agent.raw import RawNode
from toposcope.agent.sysfs import Sysfs
from toposcope.cli.hardware import ProbeSource
from toposcope.cli.recording import record
from toposcope.cli.recording.nvml import RecordingNvml, calls_in
from toposcope.cli.recording.standins import StandIns
from toposcope.cli.recording.sysfs import recorded_sysfs
from toposcope.simulator.machine import Machine, with_identity
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile
from toposcope.simulator.recording import (
    Call,
    Entry,
    Fields,
    File,
    Filled,
    Folder,
    Handle,
    Link,
    Raised,
    RecordedDevice,
    RecordingError,
    Reference,
    ReplayedNvml,
    Silence,
    StructMemory,
    Value,
    load_recording,
    write_recorded_sysfs,
)
from toposcope.simulator.sysfs import write_sysfs

TODAY = date(2025, 1, 31)
NODE = "node-of-ours-7"


def tick() -> Callable[[], int]:
    return count(step=1500).__next__


def recorded(machine: Machine, folder: Path, faults: str = "{}") -> tuple[RawNode, Path]:
    """What the probe saw while it was recorded, and the recording."""
    sysfs = folder / "sys"
    write_sysfs(machine, sysfs)
    faults_file = folder / "faults.yaml"
    faults_file.write_text(faults)

    def start() -> SimulatedNvml:
        return SimulatedNvml(machine, faults_file=faults_file)

    source = ProbeSource(start, sysfs, is_simulated=True)
    file = folder / "recording.json"
    raw = record(source, file, TODAY, tick())
    return raw, file


def recording_of(profile: str, folder: Path) -> Path:
    """The recording of a machine without faults."""
    machine = load_profile(profile)
    _, file = recorded(machine, folder)
    return file


def replayed(file: Path, folder: Path) -> RawNode:
    recording = load_recording(file)
    write_recorded_sysfs(recording, folder)
    nvml = Nvml(ReplayedNvml(recording))
    return probe(nvml, Sysfs(folder), nvml.start())


def anonymous(raw: RawNode) -> RawNode:
    """The same node with its identities numbered in the order in which they turn up: equal stays equal."""
    numbers: dict[object, str] = {}

    def number(identity: str | None) -> Any:
        is_zero = not (identity or "").strip("0:")
        if is_zero:
            return identity
        following = len(numbers) + 1
        return numbers.setdefault(identity, f"{following:032x}")

    gpus = []
    for gpu in raw.gpus:
        uuid = number(gpu.uuid)
        fabric, platform = gpu.fabric, gpu.platform
        if fabric:
            fabric = fabric._replace(uuid=number(fabric.uuid))
        if platform:
            platform = platform._replace(chassis=number(platform.chassis))
        gpus.append(gpu._replace(uuid=uuid, fabric=fabric, platform=platform))
    nics = []
    for nic in raw.nics:
        guid = number(nic.guid)
        nics.append(nic._replace(guid=guid))
    return raw._replace(gpus=tuple(gpus), nics=tuple(nics), container=())


def identities(machine: Machine) -> set[str]:
    """Everything that must not be found in a recording of the machine, as text and as hexadecimal bytes."""
    found = {machine.name}
    for gpu in machine.gpus:
        found.add(gpu.uuid)
        found.add(gpu.uuid.removeprefix("GPU-"))
        found.add(gpu.serial or gpu.uuid)
        found.update(gpu.mig or ())
        if gpu.fabric and gpu.fabric.cluster_uuid.int:
            cluster = gpu.fabric.cluster_uuid
            found |= {str(cluster), cluster.hex}
        if gpu.platform:
            chassis = gpu.platform.chassis
            found |= {chassis, chassis.encode().hex()}
            found.add(gpu.platform.ib_guid.hex())
    for nic in machine.nics:
        guid = f"{nic.node_guid:016x}"
        quarters = [guid[i : i + 4] for i in range(0, 16, 4)]
        found |= {guid, ":".join(quarters)}
    return found


def revealed(machine: Machine, file: Path) -> list[str]:
    """The identities of the machine that its recording does not hide."""
    text = file.read_text().lower()
    return [identity for identity in identities(machine) if identity.lower() in text]


@pytest.mark.parametrize("profile", every_profile())
def test_recording_of_every_profile_tells_what_the_machine_told(profile: str, tmp_path: Path) -> None:
    machine = with_identity(load_profile(profile), NODE)
    seen, file = recorded(machine, tmp_path)
    again = replayed(file, tmp_path / "again")
    assert anonymous(again) == anonymous(seen)
    assert discover(anonymous(again)) == discover(anonymous(seen))
    assert revealed(machine, file) == []


@pytest.mark.parametrize(
    ("profile", "faults"),
    [
        pytest.param("dgx-h200", "lost: [2]", id="lost-gpu"),
        pytest.param("dgx-h200", "vanished: [5]", id="vanished-gpu"),
        pytest.param("dgx-h200", "links_down: {0: [3, 4], 1: all}", id="links-down"),
        pytest.param("dgx-h200", "init_error: 12", id="no-library"),
        pytest.param("dgx-h200", "init_error: 9", id="no-driver"),
        pytest.param(
            "dgx-h200",
            "calls: [{call: nvmlDeviceGetUUID, error: 3}, {call: nvmlDeviceGetFieldValues, gpu: 1, error: 3}]",
            id="uuid-and-fields",
        ),
        pytest.param(
            "dgx-h200", "calls: [{call: nvmlDeviceGetTopologyCommonAncestor, error: 3}]", id="common-ancestor"
        ),
        pytest.param(
            "dgx-h200",
            "calls: [{call: nvmlDeviceGetGpuFabricInfoV, error: 25}, {call: nvmlDeviceGetCount, error: 999}]",
            id="fabric-and-count",
        ),
        pytest.param(
            "gb200-nvl72-tray",
            "fabric: {0: {state: 2}, 1: {status: 15}, 2: {health_mask: 1, health_summary: 2}}",
            id="sick-fabric",
        ),
        pytest.param("gb200-nvl72-tray", "calls: [{call: nvmlDeviceGetGpuFabricInfoV, error: 77}]", id="fabric-error"),
        pytest.param("gb200-nvl72-tray", "calls: [{call: nvmlDeviceGetPlatformInfo, error: 25}]", id="platform-error"),
    ],
)
def test_recording_of_a_broken_machine_is_as_broken(profile: str, faults: str, tmp_path: Path) -> None:
    machine = with_identity(load_profile(profile), NODE)
    seen, file = recorded(machine, tmp_path, faults)
    again = replayed(file, tmp_path / "again")
    assert anonymous(again) == anonymous(seen)
    assert revealed(machine, file) == []


def test_file_says_who_recorded_what_and_when(tmp_path: Path) -> None:
    file = recording_of("t4-1", tmp_path)
    document = json.loads(file.read_text())
    assert list(document) == [
        "schema",
        "toposcope",
        "pynvml",
        "driver",
        "date",
        "simulated",
        "calls",
        "sysfs",
    ]
    assert document["schema"] == "toposcope-recording/1"
    assert document["driver"] == load_profile("t4-1").driver
    assert document["date"] == "2025-01-31"
    assert document["simulated"] is True
    assert document["calls"][0] == {
        "name": "nvmlInit",
        "arguments": [],
        "answer": {"kind": "value", "value": None},
        "us": 1.5,
    }
    handle, pci = document["calls"][3:5]
    assert handle["answer"] == {"kind": "device", "name": "gpu:0"}
    assert pci["arguments"] == ["gpu:0"]
    assert pci["answer"]["type"] == "nvmlPciInfo_t"


def test_recording_a_replayed_recording_changes_nothing(tmp_path: Path) -> None:
    file = recording_of("gb200-nvl72-tray", tmp_path)
    first = load_recording(file)
    sysfs = tmp_path / "replayed"
    write_recorded_sysfs(first, sysfs)
    source = ProbeSource(lambda: ReplayedNvml(first), sysfs, is_simulated=True)

    second = tmp_path / "second.json"
    record(source, second, TODAY, tick())
    assert load_recording(second) == first


def test_crash_leaves_a_recording_up_to_the_call_that_crashed(tmp_path: Path) -> None:
    machine = load_profile("l40s-4")
    sysfs = tmp_path / "sys"
    write_sysfs(machine, sysfs)
    faults_file = tmp_path / "faults.yaml"
    faults_file.write_text("calls: [{call: nvmlDeviceGetName, gpu: 1, crash: true}]")

    def crash() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def crashing() -> SimulatedNvml:
        return SimulatedNvml(machine, faults_file=faults_file, crash=crash)

    file = tmp_path / "recording.json"
    source = ProbeSource(crashing, sysfs, is_simulated=True)
    with pytest.raises(ProbeError, match="SIGKILL in step: identity of GPU 1"):
        record(source, file, TODAY)
    recording = load_recording(file)
    assert recording.calls[-1] == Call("nvmlDeviceGetName", ["gpu:1"], Silence())
    answers = [call.answer for call in recording.calls]
    assert RecordedDevice("gpu:1") in answers
    with pytest.raises(RecordingError, match=r'never answered \["nvmlDeviceGetName",\["gpu:1"\]\]'):
        replayed(file, tmp_path / "again")


def test_journal_that_ends_within_a_line_is_good_up_to_there() -> None:
    whole = b'{"name":"nvmlInit","arguments":[],"answer":{"kind":"silence"}}\n'
    calls = calls_in(whole + whole[:20])
    assert calls == [Call("nvmlInit", [], Silence())]


class Module:
    """A binding with answers of every form."""

    NVMLError = pynvml.NVMLError
    NVMLLibraryMismatchError = pynvml.NVMLLibraryMismatchError
    NVML_CONSTANT = 7

    def nvmlGarbled(self) -> str:  # noqa: N802
        return b"\xff serial".decode()

    def nvmlMismatch(self) -> None:  # noqa: N802
        raise pynvml.NVMLLibraryMismatchError("two versions")

    def nvmlOddity(self) -> object:  # noqa: N802
        return object()


def listening(lines: list[bytes]) -> RecordingNvml:
    return RecordingNvml(Module(), lines.append, tick())


def test_errors_that_are_not_of_nvml_are_recorded_and_raised_again() -> None:
    lines: list[bytes] = []
    nvml = listening(lines)
    assert nvml.NVML_CONSTANT == 7
    with pytest.raises(UnicodeDecodeError):
        nvml.nvmlGarbled()
    with pytest.raises(pynvml.NVMLLibraryMismatchError):
        nvml.nvmlMismatch()
    garbled, mismatch = calls_in(b"".join(lines))
    assert garbled.answer == Raised("UnicodeDecodeError", 0, "invalid start byte")  # and not the bytes
    assert mismatch.answer == Raised("NVMLLibraryMismatchError", 0, "two versions")


def test_answer_of_an_unknown_type_is_refused_by_name() -> None:
    nvml = listening([])
    with pytest.raises(TypeError, match="nvmlOddity answered a object"):
        nvml.nvmlOddity()
    nvml = listening([])
    with pytest.raises(RecordingError, match="an argument of type bytes"):
        nvml.nvmlOddity(b"0000:01:00.0")


def test_recording_has_no_events() -> None:
    lines: list[bytes] = []
    with pytest.raises(pynvml.NVMLError_NotSupported):
        listening(lines).nvmlEventSetCreate()
    assert lines == []


def struct(name: str, **members: bytes) -> StructMemory:
    kind = getattr(pynvml, name)
    size = pynvml.sizeof(kind)
    content = bytearray(size)
    for member, value in members.items():
        start = getattr(kind, member).offset
        end = start + len(value)
        content[start:end] = value
    return StructMemory(name, content.hex())


def member(call: Call, name: str) -> bytes:
    assert isinstance(call.answer, Filled)
    memory = call.answer.struct
    kind = getattr(pynvml, memory.type)
    place = getattr(kind, name)
    end = place.offset + place.size
    content = bytes.fromhex(memory.bytes)
    return content[place.offset : end]


def filled(memory: StructMemory) -> Call:
    answer = Filled(memory, 0)
    return Call("nvmlAny", ["gpu:0", Reference(memory.type)], answer)


@pytest.mark.parametrize("version", ["", "_v2", "_v3", "_v4"])
def test_cluster_uuids_keep_zero_equality_and_difference(version: str) -> None:
    name = f"c_nvmlGpuFabricInfo{version}_t"
    if not hasattr(pynvml, name):
        pytest.skip(f"this binding has no {name}")
    stand_ins = StandIns()

    def stand_in(uuid: bytes) -> bytes:
        call = filled(struct(name, clusterUuid=uuid))
        return member(stand_ins.call(call), "clusterUuid")

    zero = stand_in(bytes(16))
    one = stand_in(b"\0" + b"A" * 15)
    other = stand_in(b"B" * 16)
    same = stand_in(b"\0" + b"A" * 15)
    assert zero == bytes(16)
    assert one == same != other
    assert zero not in (one, other)


def test_chassis_and_port_keep_their_form() -> None:
    stand_ins = StandIns()
    tray = struct(
        "c_nvmlPlatformInfo_v2_t",
        chassisSerialNumber=b"18210\0\0junk",
        ibGuid=b"\xfe\x80",
        slotNumber=b"\7",
    )
    call = stand_ins.call(filled(tray))
    assert member(call, "chassisSerialNumber") == b"00001".ljust(16, b"\0")
    assert member(call, "ibGuid") == (1).to_bytes(16, "big")
    assert member(call, "slotNumber") == b"\7"
    nothing = filled(struct("c_nvmlPlatformInfo_v1_t"))
    assert stand_ins.call(nothing) == nothing


def test_text_is_replaced_unless_it_is_known_to_be_harmless() -> None:
    stand_ins = StandIns()

    def text(function: str, value: str) -> Any:
        call = Call(function, ["gpu:0"], Value(value))
        answer = stand_ins.call(call).answer
        assert isinstance(answer, Value)
        return answer.value

    assert text("nvmlDeviceGetName", "NVIDIA H200") == "NVIDIA H200"
    assert text("nvmlDeviceGetSerial", "1654922006536") == "0000000000001"
    assert text("nvmlOfTheFuture", "B-77") == "0002"
    first = text("nvmlDeviceGetUUID", "GPU-c2b6c1a4-6e1f-4d2b-8f6a-0a1b2c3d4e5f")
    assert first == "GPU-00000000-0000-4000-8000-000000000001"
    mig = text("nvmlDeviceGetUUID", "MIG-GPU-C2B6C1A4-6E1F-4D2B-8F6A-0A1B2C3D4E5F/1/0")
    assert mig == f"MIG-{first}/1/0"
    zero = text("nvmlDeviceGetUUID", "GPU-00000000-0000-0000-0000-000000000000")
    assert zero.strip("GPU-0") == ""
    assert text("nvmlDeviceGetSerial", "") == ""


def test_unknown_struct_is_refused() -> None:
    call = filled(StructMemory("c_nvmlNew_t", "00"))
    stand_ins = StandIns()
    with pytest.raises(RecordingError, match="nvmlAny answers with c_nvmlNew_t, and nobody said"):
        stand_ins.call(call)


def test_files_are_replaced_unless_they_are_known_to_be_harmless() -> None:
    stand_ins = StandIns()
    vm = "devices/VMBUS:00/47505500-0001-0001-3130-444531303244/pci0001:00/0001:00:00.0"
    stand_in = vm.replace("47505500-0001-0001-3130-444531303244", "00000000-0000-4000-8000-000000000001")
    replacements: list[tuple[Entry, Entry]] = [
        (File(f"{vm}/vendor", "0x10de"), File(f"{stand_in}/vendor", "0x10de")),
        (File("d/node_guid", "b83f:d203:00d2:c1a6"), File("d/node_guid", "0000:0000:0000:0001")),
        (File("d/node_guid", "0000:0000:0000:0000"), File("d/node_guid", "0000:0000:0000:0000")),
        (File("d/serial", "MT2242"), File("d/serial", "000001")),
        (File("d/vpd", f"V3={'8b' * 16}\nSMDL=SW_MNG"), File("d/vpd", f"V3={2:032}\nSMDL=SW_MNG")),
        (File("d/vpd", "SMDL=SW_MNG"), File("d/vpd", "SMDL=SW_MNG")),
        (File("d/vpd", "SN=MT2242X00001"), File("d/vpd", "")),
        (Link("bus/a", f"../{vm}"), Link("bus/a", f"../{stand_in}")),
        (Folder(vm, ["class"]), Folder(stand_in, ["class"])),
    ]
    for before, after in replacements:
        assert stand_ins.entry(before) == after


def test_link_out_of_the_tree_is_left_out(tmp_path: Path) -> None:
    sysfs = tmp_path / "sys"
    write_sysfs(load_profile("t4-1"), sysfs)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "vendor").write_text("0x10de\n")
    link = sysfs / "bus/pci/devices/0000:ff:00.0"
    link.symlink_to("../../../../elsewhere")

    paths = [entry.path for entry in recorded_sysfs(sysfs)]
    assert "bus/pci/devices" in paths
    for path in paths:
        assert "ff:00.0" not in path
        assert "elsewhere" not in path


# The command


@pytest.fixture
def discover_command(toposcope: Command) -> Command:
    return partial(toposcope, "discover --node-name", NODE)


def test_recording_and_replay_print_what_discover_prints(tmp_path: Path, discover_command: Command) -> None:
    file = str(tmp_path / "recording.json")
    plain = discover_command("--profile dgx-h200")
    recording = discover_command(f"--profile dgx-h200 --record {file}")
    replay = discover_command(f"--profile {file}")
    assert plain.out == recording.out == replay.out
    assert recording.err.startswith(f"recorded {file}: ")
    assert " NVML calls, " in recording.err
    assert replay.err.startswith("note: recorded on a simulated machine on ")
    assert list(tmp_path.iterdir()) == [tmp_path / "recording.json"]  # nothing unfinished beside it


def test_captured_matrix_can_be_recorded(tmp_path: Path, discover_command: Command) -> None:
    capture = tmp_path / "topo.txt"
    capture.write_text("\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n")
    file = tmp_path / "recording.json"
    printed = discover_command(f"--capture {capture} -o matrix --record {file}")
    assert "NV4" in printed.out
    again = discover_command(f"--profile {file} -o matrix")
    assert again.out == printed.out


def test_machine_without_nvml_is_recorded_too(tmp_path: Path, discover_command: Command) -> None:
    """A user whose driver is broken has most reason to send a recording."""
    file = tmp_path / "recording.json"
    faults = tmp_path / "faults.yaml"
    faults.write_text("init_error: 12")
    error = discover_command(f"--profile l40s-4 --faults {faults} --record {file}", code=1).err
    assert "1 NVML calls, 1 of them answered with an error" in error
    assert load_recording(file).driver is None
    again = discover_command(f"--profile {file}", code=1).err
    _, _, rest = error.partition("\n")
    _, _, rest_again = again.partition("\n")
    assert rest == rest_again
    assert "driver unknown" in again


def test_file_that_cannot_be_written_is_named(tmp_path: Path, discover_command: Command) -> None:
    file = tmp_path / "no/such/folder.json"
    error = discover_command(f"--profile t4-1 --record {file}", code=1).err
    assert "--record" in error
    assert "No such file or directory" in error


def test_help_says_what_is_replaced_and_what_is_left(discover_command: Command) -> None:
    words = discover_command("--help").out.split()
    text = " ".join(words)
    assert "UUIDs, serial numbers, chassis serials and GUIDs in it are replaced" in text
    assert "Kept: product names" in text


def test_recording_takes_no_faults(tmp_path: Path, discover_command: Command) -> None:
    file = recording_of("t4-1", tmp_path)
    faults = tmp_path / "faults.yaml"
    error = discover_command(f"--profile {file} --faults {faults}", code=1).err
    assert "is a recording, and only profiles can have faults" in error


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        pytest.param(
            "toposcope-recording/1", "toposcope-recording/2", "schema: is 'toposcope-recording/2'", id="schema"
        ),
        pytest.param('"simulated": true', '"simulated": 1', "$.simulated", id="simulated"),
        pytest.param('"kind":"device"', '"kind":"sofa"', "$.calls[3].answer.kind", id="kind"),
        pytest.param('"bytes":"', '"bytes":"zz', "$.calls[4].answer", id="bytes"),
        pytest.param(
            '"name":"nvmlDeviceGetCount"', '"name":"nvmlOther"', "no call of nvmlDeviceGetCount", id="missing-call"
        ),
        pytest.param(
            '"arguments":[0]', '"arguments":[9]', 'no answer to ["nvmlDeviceGetHandleByIndex",[0]]', id="missing-answer"
        ),
        pytest.param('"value":1}', '"value":"one"}', "cannot be replayed", id="value"),
        pytest.param('"path":"bus', '"path":"../bus', "sysfs: ../bus", id="path"),
    ],
)
def test_recording_with_another_text_is_refused(
    old: str, new: str, message: str, tmp_path: Path, discover_command: Command
) -> None:
    file = recording_of("t4-1", tmp_path)
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    error = discover_command(f"--profile {file}", code=1).err
    last_line = error.splitlines()[-1]
    assert last_line.startswith(f"toposcope discover: {file}: ")
    assert message in last_line


@pytest.mark.parametrize("size", [40, 2000])
def test_recording_that_ends_early_is_refused(size: int, tmp_path: Path, discover_command: Command) -> None:
    file = recording_of("t4-1", tmp_path)
    text = file.read_text()
    assert len(text) > size
    file.write_text(text[:size])
    error = discover_command(f"--profile {file}", code=1).err
    last_line = error.splitlines()[-1]
    assert last_line.startswith(f"toposcope discover: {file}: ")
    assert "is damaged" in last_line


def test_profile_in_json_is_still_a_profile(tmp_path: Path, discover_command: Command) -> None:
    shipped = ROOT / "toposcope/simulator/profiles/t4-1.yaml"
    profile = yaml.load(shipped.read_text(), yaml.CSafeLoader)
    file = tmp_path / "profile.json"
    text = json.dumps(profile).replace('{"0":', "{0:")
    file.write_text(text)
    printed = discover_command(f"--profile {file} -o labels")
    assert "gpu.topology/gpus=1" in printed.out


def test_replayed_machine_can_be_probed_again_and_again(tmp_path: Path) -> None:
    seen, file = recorded(load_profile("t4-1"), tmp_path)
    recording = load_recording(file)
    sysfs = tmp_path / "again"
    write_recorded_sysfs(recording, sysfs)
    source = ProbeSource(lambda: ReplayedNvml(recording), sysfs, is_simulated=True)
    with source.probe_process() as process:
        first = process.probe()
        second = process.probe()
    assert first == second
    assert anonymous(first) == anonymous(seen)


def answers_in(file: Path) -> list[Any]:
    recording = load_recording(file)
    return [call.answer for call in recording.calls]


def test_handles_are_told_apart_by_name(tmp_path: Path) -> None:
    """MIG devices too: they are devices of their own with the name of their GPU in front."""
    file = recording_of("hgx-h100-8", tmp_path)
    names = []
    for answer in answers_in(file):
        if isinstance(answer, RecordedDevice):
            names.append(answer.name)
    assert names[:8] == [f"gpu:{number}" for number in range(8)]

    nvml = RecordingNvml(MigModule(), lambda _: None, tick())
    gpu = Handle("gpu:3", "real")
    mig_device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 1)
    assert mig_device == Handle("gpu:3/mig:1", ("real", 1))


class MigModule(Module):
    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: object, slot: int) -> object:  # noqa: N802
        return (gpu, slot)


def test_fields_keep_their_own_status(tmp_path: Path) -> None:
    file = recording_of("t4-1", tmp_path)
    answers = [answer for answer in answers_in(file) if isinstance(answer, Fields)]
    first = answers[0]
    status = {field.field: field.status for field in first.fields}
    assert status[91] == pynvml.NVML_ERROR_NOT_SUPPORTED


NVSWITCH_BRIDGE = """
name: bridge
description: two B200 with a NIC each, and a bridge to the NVSwitches
driver: "595.91.07"
numa: {0: "0-47"}
gpus: {count: 2, product: NVIDIA B200, architecture: blackwell, pci_id: 0x2901, mig: {}}
nics:
  - {names: [mlx5_0, mlx5_1], pci_id: 0x1023, data_direct: true}
  - {names: [mlx5_2], pci_id: 0x1021, management: true}
pci:
  - {numa: 0, ports: [mlx5_0, mlx5_1]}
  - {numa: 0, ports: [[mlx5_2, [gpu0], [mlx5_0/dd]]]}
  - {numa: 0, ports: [[[gpu1], [mlx5_1/dd]]]}
nvlink: {version: "5.0", mbps: 53125, switched: 18}
"""


def test_vital_product_data_is_recorded_without_identities(tmp_path: Path) -> None:
    machine = machine_of(NVSWITCH_BRIDGE, tmp_path)
    raw, file = recorded(machine, tmp_path)
    cards = []
    others = []
    for entry in load_recording(file).sysfs:
        if isinstance(entry, File) and "vpd" in entry.path:
            card, _, other = entry.text.partition("\n")
            cards.append(card)
            others.append(other)
    assert len(cards) == 5
    assert sorted(set(cards)) == [f"V3={1:032}", f"V3={2:032}", f"V3={3:032}"]
    assert sorted(others) == ["", "", "", "", "SMDL=SW_MNG"]
    text = file.read_text()
    for nic in raw.nics:
        assert nic.card not in text


def test_machine_replayed_from_vital_product_data_is_the_same(tmp_path: Path) -> None:
    machine = machine_of(NVSWITCH_BRIDGE, tmp_path)
    raw, file = recorded(machine, tmp_path)
    again = replayed(file, tmp_path / "again")
    assert [nic.name for nic in raw.nics] == ["mlx5_0", "mlx5_1"]
    assert [nic.name for nic in again.nics] == ["mlx5_0", "mlx5_1"]
    topology = discover(again)
    assert topology.matrix == discover(raw).matrix
    rails = [gpu.rails for gpu in topology.gpus]
    assert rails == [("mlx5_0",), ("mlx5_1",)]


def test_vital_product_data_that_cannot_be_read_is_not_recorded(tmp_path: Path) -> None:
    text = NVSWITCH_BRIDGE.replace("true}", "true, vpd: false}")
    machine = machine_of(text, tmp_path)
    raw, file = recorded(machine, tmp_path)
    again = replayed(file, tmp_path / "again")
    assert len(again.nics) == len(raw.nics) == 3
    cards = [function.card for function in again.data_direct]
    assert cards == ["", ""]


def test_recording_without_a_function_can_be_replayed(tmp_path: Path) -> None:
    """As one of an earlier version, which did not ask for it."""
    file = recording_of("t4-1", tmp_path)
    kept = []
    for line in file.read_text().splitlines():
        if "nvmlDeviceGetMigMode" not in line:
            kept.append(line)
    file.write_text("\n".join(kept))
    raw = replayed(file, tmp_path / "again")
    assert raw.gpus[0].has_mig is None
