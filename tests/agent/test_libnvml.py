"""NVIDIA's binding on a library in C, found as an agent finds the driver's: each machine is what the simulation says.

The library is tools/libnvml/nvml.c. Whoever changes a struct, a version or a function's name in one of the two
descriptions of NVML, the simulated one in Python or this one, finds them at odds here.
"""

import _ctypes
import contextlib
import ctypes
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import psutil
import pynvml
import pytest
from tests.support.machines import changed, every_profile, probed
from tests.support.paths import ROOT
from tests.support.programs import nvml_in_c
from tools.libnvml.build import environment, lines_of, write_table
from toposcope.agent.describe import describe
from toposcope.agent.fabric import registration
from toposcope.agent.nvml.channel import REQUEST
from toposcope.agent.nvml.gateway import GARBAGE, Nvml, open_pynvml
from toposcope.agent.nvml.supervisor import ProbeError, ProbeProcess
from toposcope.agent.probe import probe
from toposcope.agent.raw import RawFabric, RawNode, decode
from toposcope.agent.sysfs import Sysfs
from toposcope.simulator.faults import CallFault, MachineFaults
from toposcope.simulator.machine import Machine
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile
from toposcope.simulator.recording import ReplayedNvml, load_recording, write_recorded_sysfs
from toposcope.simulator.sysfs import write_sysfs

H200 = "dgx-h200"
TRAY = "gb200-nvl72-tray"
MESH = "dgx1-v100"
A100 = "dgx-a100"
FOREVER = 3600.0
MINUTE = 60.0
RECORDINGS = sorted((ROOT / "tests" / "recordings").glob("*.json"))
Probe = Callable[[Path, Path], RawNode]


def simulated(machine: Machine | str, faults: MachineFaults | None = None) -> SimulatedNvml:
    module = SimulatedNvml(load_profile(machine) if isinstance(machine, str) else machine)
    module.faults = faults or MachineFaults()
    return module


@pytest.fixture(scope="module")
def through_c() -> Iterator[Probe]:
    """Probes a machine, given by its table and sysfs, in an agent that found the library through its environment."""
    command = [sys.executable, "-m", "tests.support.nvml_prober"]
    given = os.environ | environment(nvml_in_c(), Path(os.devnull))
    with subprocess.Popen(command, env=given, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as prober:
        assert prober.stdin
        assert prober.stdout
        ask, answers = prober.stdin, prober.stdout

        def through(table: Path, sysfs: Path) -> RawNode:
            print(table, sysfs, file=ask, flush=True)
            answer = answers.readline()
            assert answer.startswith("["), answer
            return decode(answer.encode())._replace(container=())

        yield through
        ask.close()


def assert_same_through_c(
    through_c: Probe, folder: Path, machine: Machine, faults: MachineFaults | None = None
) -> None:
    lines = lines_of(simulated(machine, faults))
    write_table(folder / "table", lines)
    expected = probed(machine, folder, faults)
    raw = through_c(folder / "table", folder / "sys")
    assert raw == expected


@pytest.mark.parametrize("profile", every_profile())
def test_machine_is_the_same_through_c(profile: str, through_c: Probe, tmp_path: Path) -> None:
    assert_same_through_c(through_c, tmp_path, load_profile(profile))


@pytest.mark.parametrize("driver", ["470.1", "525.1", "550.1", None])
def test_tray_with_a_driver_is_the_same_through_c(driver: str | None, through_c: Probe, tmp_path: Path) -> None:
    machine = replace(load_profile(TRAY), driver=driver)
    assert_same_through_c(through_c, tmp_path, machine)


def test_odd_bytes_are_the_same_through_c(through_c: Probe, tmp_path: Path) -> None:
    """Zeros within a cluster's UUID, and bytes from 0x80 up: not the text that the binding takes some of them for."""
    tray = load_profile(TRAY)
    fabric = tray.gpus[0].fabric
    platform = tray.gpus[0].platform
    assert fabric
    assert platform
    odd_uuid = UUID(bytes=b"\x00\xff\x00" + bytes(12) + b"\x80")
    machine = changed(
        tray,
        fabric=replace(fabric, cluster_uuid=odd_uuid),
        platform=replace(platform, slot=200, tray=0),
    )
    assert_same_through_c(through_c, tmp_path, machine)


def test_mig_devices_are_the_same_through_c(through_c: Probe, tmp_path: Path) -> None:
    machine = changed(load_profile(A100), mig=("MIG-a", "MIG-b"))
    assert_same_through_c(through_c, tmp_path, machine)


@pytest.mark.parametrize(
    ("profile", "faults"),
    [
        pytest.param(MESH, MachineFaults(lost=frozenset({2})), id="lost"),
        pytest.param(MESH, MachineFaults(vanished=frozenset({2})), id="vanished"),
        pytest.param(A100, MachineFaults(links_down={0: "all", 3: frozenset({1, 7})}), id="links-down"),
        pytest.param(TRAY, MachineFaults(fabric={0: {"state": 2}, 1: {"clique": 7, "health_mask": 1}}), id="fabric"),
        pytest.param(
            H200, MachineFaults(calls=(CallFault("nvmlDeviceGetPciInfo", 4, gpu=1),)), id="no-permission-for-a-gpu"
        ),
        pytest.param("t4-1", MachineFaults(init_error=4), id="init-fails-with-4"),
        pytest.param("t4-1", MachineFaults(init_error=9), id="init-fails-with-9"),
        pytest.param("t4-1", MachineFaults(init_error=15), id="init-fails-with-15"),
        pytest.param("t4-1", MachineFaults(init_error=18), id="init-fails-with-18"),
        pytest.param("t4-1", MachineFaults(init_error=999), id="init-fails-with-999"),
    ],
)
def test_broken_machine_is_the_same_through_c(
    profile: str, faults: MachineFaults, through_c: Probe, tmp_path: Path
) -> None:
    machine = load_profile(profile)
    assert_same_through_c(through_c, tmp_path, machine, faults)


@pytest.mark.parametrize("file", RECORDINGS, ids=[file.stem for file in RECORDINGS])
def test_recording_is_the_same_through_c_as_replayed(file: Path, through_c: Probe, tmp_path: Path) -> None:
    table = tmp_path / "table"
    sysfs = tmp_path / "sys"
    recording = load_recording(file)
    write_recorded_sysfs(recording, sysfs)
    write_table(table, lines_of(recording))
    nvml = Nvml(ReplayedNvml(recording))
    expected = probe(nvml, Sysfs(sysfs), nvml.start())
    raw = through_c(table, sysfs)
    assert raw == expected


@pytest.mark.skipif(not hasattr(pynvml, "c_nvmlGpuFabricInfo_v4_t"), reason="this binding knows one clique a GPU")
@pytest.mark.parametrize(
    ("cliques", "clique"),
    [
        pytest.param(((0, 7),), 7, id="memory-access-alone"),
        pytest.param(((0, 7), (0, 9), (1, 3)), 7, id="the-first-of-two"),
        pytest.param(((1, 3), (2, 4)), None, id="other-kinds"),
        pytest.param((), None, id="none"),
    ],
)
def test_clique_for_memory_access_counts(
    cliques: tuple[tuple[int, int], ...], clique: int | None, through_c: Probe, tmp_path: Path
) -> None:
    table = tmp_path / "table"
    uuid = "6a8ab8c124e44fd19d5c0d9f3fd6a1b2"
    pairs = " ".join(f"{kind} {number}" for kind, number in cliques)
    newest = f"nvmlDeviceGetGpuFabricInfo_v4 0 = 0 {uuid} 0 {len(cliques)} 3 426 1 {pairs}"
    lines = lines_of(simulated(TRAY))
    write_table(table, lines, newest)
    raw = through_c(table, tmp_path / "nothing")
    fabric = raw.gpus[0].fabric
    assert fabric == RawFabric(
        state=3,
        status=0,
        uuid=uuid,
        clique=clique,
        cliques=cliques,
        health_mask=426,
        health_summary=1,
    )
    registered = registration(fabric)
    assert registered.clique == clique
    assert registered.cliques == cliques


def test_gpu_that_a_line_loses_is_lost_as_in_the_simulation(through_c: Probe, tmp_path: Path) -> None:
    table = tmp_path / "table"
    sysfs = tmp_path / "sys"
    machine = load_profile(H200)
    lines = lines_of(simulated(machine))
    write_table(table, lines, "nvmlDeviceGetHandleByIndex_v2 2 = 15")
    raw = through_c(table, sysfs)
    assert raw != probed(machine, tmp_path)

    lost = MachineFaults(lost=frozenset({2}))
    expected = probed(machine, tmp_path, lost)
    raw = through_c(table, sysfs)
    assert raw == expected


def questions_of_a_gpu() -> dict[str, str]:
    """Of all questions about GPU 0 the first of each kind: of links, pairs and layouts one will do, but each field."""
    questions: dict[str, str] = {}
    for line in lines_of(simulated(TRAY)):
        question, _, _answer = line.partition(" = ")
        symbol, *arguments = question.split()
        if arguments[:1] != ["0"] or "Handle" in symbol:
            continue
        kind = symbol
        if "FieldValues" in symbol:
            kind = " ".join([symbol, *arguments[1:2]])
        questions.setdefault(kind, question)
    return questions


@pytest.mark.regression
@pytest.mark.parametrize("question", questions_of_a_gpu().values())
def test_garbage_about_a_gpu_costs_only_that_gpu(question: str, through_c: Probe, tmp_path: Path) -> None:
    """What has all bits set: text that is none, an address that is none, counts of four billion."""
    table = tmp_path / "table"
    machine = load_profile(TRAY)
    _first, *expected = probed(machine, tmp_path).gpus
    lines = lines_of(simulated(machine))
    write_table(table, lines, f"{question} = garbage")
    raw = through_c(table, tmp_path / "sys")
    others = [gpu for gpu in raw.gpus if gpu.index]
    assert others == expected
    assert raw.down is None
    assert not describe(raw, "node").problem


@pytest.mark.regression
@pytest.mark.parametrize(
    ("question", "things"),
    [
        pytest.param("nvmlDeviceGetFieldValues 0 91 0", "NVLinks", id="nvlinks"),
        pytest.param("nvmlDeviceGetFieldValues 0 170 0", "C2C links", id="c2c-links"),
        pytest.param("nvmlDeviceGetMaxMigDeviceCount 0", "MIG slots", id="mig-slots"),
    ],
)
def test_gpu_that_counts_wrong_is_not_believed(question: str, things: str, through_c: Probe, tmp_path: Path) -> None:
    table = tmp_path / "table"
    machine = changed(load_profile(TRAY), mig=("MIG-a",))
    lines = lines_of(simulated(machine))
    write_table(table, lines, f"{question} = garbage")
    raw = through_c(table, tmp_path / "nothing")
    indexes = [gpu.index for gpu in raw.gpus]
    assert indexes == [1, 2, 3]
    (fault,) = raw.faults
    assert fault.code == GARBAGE
    assert fault.index == 0
    assert fault.text == f"NVML reports 4294967295 {things}, more than a machine can have"


class Agent:
    """An agent's end of a worker that was started afresh: only a new program finds a library by its environment."""

    def __init__(self, folder: Path, machine: Machine | str = H200, *, events: bool = False) -> None:
        module = simulated(machine)
        self.lines: list[str] = []
        for line in lines_of(module):
            if events or "EventTypes" not in line:
                self.lines.append(line)
        self.table = folder / "table"
        self.break_by()
        write_sysfs(module.machine, folder / "sys")
        self.process = ProbeProcess(open_pynvml, folder / "sys")
        self.process.close()

    def break_by(self, *lines: str) -> None:
        """Add to the machine's own lines; none mends it."""
        write_table(self.table, self.lines, *lines)

    def probe(self) -> RawNode:
        return self.process.probe()

    def fault(self) -> int:
        """The code of the one fault that a probe meets."""
        (fault,) = self.probe().faults
        return fault.code

    def assert_whole(self) -> None:
        """The next probe finds all GPUs."""
        raw = self.probe()
        assert len(raw.gpus) == 8

    def refused(self, seconds: float = FOREVER) -> ProbeError:
        """Why a probe has no result, one step of which may take so long."""
        self.process._step_seconds = seconds
        with pytest.raises(ProbeError) as refused:
            self.process.probe()
        self.process._step_seconds = FOREVER
        return refused.value


Start = Callable[..., Agent]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    for name, value in environment(nvml_in_c(), tmp_path / "table").items():
        monkeypatch.setenv(name, value)
    with contextlib.ExitStack() as stack:

        def make(machine: Machine | str = H200, *, events: bool = False) -> Agent:
            agent = Agent(tmp_path, machine, events=events)
            stack.enter_context(agent.process)
            return agent

        yield make


@pytest.fixture
def wake() -> Iterator[socket.socket]:
    """A socket that never becomes readable."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours


@pytest.mark.parametrize(
    ("question", "step"),
    [
        pytest.param("nvmlInitWithFlags", "nvmlInit", id="init"),
        pytest.param("nvmlDeviceGetNvLinkVersion 7 17", "NVLinks of GPU 7", id="links"),
        pytest.param("nvmlDeviceGetTopologyCommonAncestor 6 7", "PCI ancestors", id="ancestors"),
    ],
)
def test_aborting_library_is_named_and_the_next_probe_works(question: str, step: str, start: Start) -> None:
    agent = start()
    agent.break_by(f"{question} = abort")
    refusal = agent.refused()
    assert refusal.reason == "crash"
    assert str(refusal) == f"the probe's process was killed by SIGABRT in step: {step}"

    agent.break_by()
    agent.assert_whole()


def test_hanging_library_is_named_killed_and_the_next_probe_works(start: Start) -> None:
    agent = start()
    whole = agent.probe()
    worker = agent.process._worker
    assert worker
    agent.break_by("nvmlDeviceGetHandleByIndex_v2 2 = hang")  # in a process that has the library long since
    worker.channel.send(REQUEST)
    while "GPU 2" not in worker.channel.step()[1]:
        os.sched_yield()
    refusal = agent.refused(seconds=0.05)
    assert refusal.reason == "hang"
    assert str(refusal) == "no answer within 0.05 s in step: nvmlDeviceGetHandleByIndex GPU 2"
    assert agent.process.worker is None
    assert not psutil.pid_exists(worker.pid)
    agent.break_by()
    assert agent.probe() == whole


def test_remembered_answers_are_asked_again_each_tenth_time_or_on_change(start: Start) -> None:
    agent = start()
    whole = agent.probe()
    agent.break_by("nvmlDeviceGetNvLinkRemoteDeviceType 0 0 = 0 255")
    for _probe in range(9):
        assert agent.probe() == whole
    assert agent.probe() != whole

    agent.break_by()
    assert agent.probe() != whole
    agent.break_by("nvmlDeviceGetFieldValues 1 165 0 = 0 1 0")
    changed = agent.probe()
    assert changed.gpus[0] == whole.gpus[0]
    assert changed.gpus[1].links[0].state == 0


@pytest.mark.regression
def test_impossible_count_ends_the_process_that_saw_it(start: Start) -> None:
    agent = start()
    agent.break_by("nvmlDeviceGetCount_v2 = garbage")
    raw = agent.probe()
    assert raw.down
    assert raw.down.text == "NVML reports 4294967295 GPUs, more than a machine can have"
    assert agent.process.worker is None

    agent.break_by()
    agent.assert_whole()


def test_library_that_comes_later_is_found(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = start()
    driver = tmp_path / "driver"
    driver.mkdir()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver))
    raw = agent.probe()
    (fault,) = raw.faults
    assert fault.code == 12
    assert fault.text == "NVML Shared Library Not Found"
    assert len(raw.gpu_functions) == 8  # sysfs answers all the same

    library = nvml_in_c() / "libnvidia-ml.so.1"
    shutil.copy(library, driver)
    agent.assert_whole()


def test_upgraded_driver_is_found_by_a_new_process(start: Start) -> None:
    """The library in a running process never recovers from it."""
    agent = start()
    before = agent.probe()
    assert before.driver == "570.86.15"

    agent.break_by("nvmlSystemGetDriverVersion = 0 580.95.05")
    assert agent.fault() == 18
    after = agent.probe()
    assert after.driver == "580.95.05"


def test_driver_that_is_unloaded_and_comes_back_is_noticed(start: Start) -> None:
    agent = start()
    agent.probe()
    agent.table.unlink()
    assert agent.fault() == 9
    assert agent.fault() == 9  # of nvmlInit, in a new process

    agent.break_by()
    agent.assert_whole()


def test_xid_wakes_the_agent_and_a_lost_gpu_ends_events_until_a_probe(start: Start, wake: socket.socket) -> None:
    """The driver is one that refuses all types of event for those that it does not know."""
    machine = replace(load_profile(H200), driver="535.104.05")
    agent = start(machine, events=True)
    whole = agent.probe()
    xid = "nvmlEventSetWait_v2 = 0 3 8 79"
    agent.break_by(xid)
    assert agent.process.wait(MINUTE, wake) == "XID 79 on GPU 3"

    agent.break_by(xid)
    assert agent.process.wait(0.2, wake) == ""  # nobody listens until the next probe: a storm of XIDs is one wake
    assert agent.probe() == whole
    assert agent.process.wait(MINUTE, wake) == "XID 79 on GPU 3"  # the one that came meanwhile
    assert agent.probe() == whole

    agent.break_by("nvmlDeviceGetHandleByIndex_v2 1 = 15")
    assert agent.process.wait(MINUTE, wake) == "NVML's events ended: GPU is lost"
    raw = agent.probe()
    indexes = [gpu.index for gpu in raw.gpus]
    assert indexes == [0, 2, 3, 4, 5, 6, 7]

    agent.break_by(xid)
    assert agent.process.wait(MINUTE, wake) == "XID 79 on GPU 3"  # through a new set
    assert agent.probe() == whole


@pytest.fixture
def nvml() -> Iterator[ctypes.CDLL]:
    """In this process, which must not keep it: the loader would give it to whoever asks for the driver's later."""
    loaded = ctypes.CDLL(str(nvml_in_c() / "libnvidia-ml.so.1"))
    yield loaded
    _ctypes.dlclose(loaded._handle)


@pytest.mark.parametrize(
    ("symbol", "struct"),
    [
        pytest.param("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfo_v2_t", id="fabric-2"),
        pytest.param("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfo_v3_t", id="fabric-3"),
        pytest.param("nvmlDeviceGetPlatformInfo", "c_nvmlPlatformInfo_v1_t", id="platform-1"),
        pytest.param("nvmlDeviceGetPlatformInfo", "c_nvmlPlatformInfo_v2_t", id="platform-2"),
    ],
)
def test_struct_of_another_version_is_refused_and_left_as_it_was(
    nvml: ctypes.CDLL, symbol: str, struct: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "table"
    version: int = getattr(pynvml, struct)().version
    lines = [
        "nvmlInitWithFlags = 0",
        "nvmlDeviceGetHandleByIndex_v2 0 = 0",
        f"{symbol} 0 {version} = garbage",
    ]
    write_table(table, lines)
    monkeypatch.setenv("NVML_TABLE", str(table))
    device = ctypes.c_void_p()
    assert nvml.nvmlInitWithFlags(0) == 0
    assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0

    size = version & 0xFFFFFF
    of_a_later_struct = version + (7 << 24)
    for wrong in (0, version - 1, version + 1, of_a_later_struct):
        memory = wrong.to_bytes(4, sys.byteorder) + bytes(size)
        given = ctypes.create_string_buffer(memory, len(memory))
        answer = nvml[symbol](device, given)
        assert answer == pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
        assert given.raw == memory

    memory = version.to_bytes(4, sys.byteorder) + bytes(size)
    given = ctypes.create_string_buffer(memory, size + 4)
    answer = nvml[symbol](device, given)
    assert answer == pynvml.NVML_SUCCESS
    assert given.raw == b"\xff" * size + bytes(4)  # to its last byte and no further
    nvml.nvmlShutdown()
