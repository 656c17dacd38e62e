import argparse
import io
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command, Write
from tests.support.pages import expected_page
from tests.support.paths import FIXTURES
from toposcope.agent.annotation import LIMIT_BYTES
from toposcope.cli.hardware import ProbeSource, source
from toposcope.simulator.profile import load_profile, profile_names
from toposcope.simulator.sysfs import write_sysfs

MATRIX = (FIXTURES / "topo.txt").read_bytes()


@pytest.fixture
def discover(toposcope: Command) -> Command:
    return partial(toposcope, "discover --node-name n1")


@pytest.mark.parametrize("profile", profile_names())
def test_json_of_every_shipped_profile(profile: str, discover: Command) -> None:
    found = discover(f"--profile {profile} -o json").json
    size = len(found["devices"])
    gpus, nics = found["gpus"], found["nics"]
    assert size == len(gpus) + len(nics)
    for number, row in enumerate(found["matrix"]):
        assert len(row) == size
        assert row[number] == "X"
    for part in ("annotations", "state", "reasons", "pci_levels", "numa"):
        assert part in found
    labels, annotations = found["labels"], found["annotations"]
    assert labels["gpu.topology/gpus"] == str(len(gpus))
    assert len(annotations["gpu.topology/matrix"]) <= LIMIT_BYTES


def test_yaml_says_the_same_as_json(discover: Command) -> None:
    as_json = discover("--profile l40s-4 -o json").json
    assert discover("--profile l40s-4 -o yaml").yaml == as_json


def test_matrix_from_standard_input(monkeypatch: pytest.MonkeyPatch, discover: Command) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(MATRIX)))
    out = discover("--capture - -o labels")
    assert "gpu.topology/interconnect=nvlink" in out.out
    assert "gpu.topology/gpus-per-numa=1-1" in out.out
    assert "gpu-product" not in out.out  # a matrix does not say
    assert "note: GPU names unknown" in out.err


def test_machine_without_driver_says_what_to_try(tmp_path: Path, discover: Command) -> None:
    write_sysfs(load_profile("t4-1"), tmp_path / "sys")
    error = discover(f"--sysfs {tmp_path / 'sys'}", code=1).err
    for words in ("libnvidia-ml.so.1", "GPUs on the PCI bus: 0000:", "--profile", "--capture"):
        assert words in error


def test_machine_without_gpu_says_what_to_try(tmp_path: Path, discover: Command) -> None:
    (tmp_path / "bus" / "pci" / "devices").mkdir(parents=True)
    error = discover(f"--sysfs {tmp_path}", code=1).err
    for words in ("no NVIDIA GPU on this machine", "--profile", "--capture"):
        assert words in error


# Simulated machines


@pytest.mark.regression
def test_tray_for_scripts_has_all_that_its_hardware_tells(discover: Command) -> None:
    found = discover("--profile gb200-nvl72-tray -o json").json
    gpu = found["gpus"][1]
    assert gpu["architecture"] == "blackwell"
    assert gpu["module"] == 1
    assert gpu["mig"] is False
    assert gpu["c2c_links"] == 10
    assert gpu["numa"] == 0
    assert gpu["memory_numa"] == 10
    assert gpu["path"][0] == "pci0009:00"
    assert gpu["links"][17] == {
        "link": 17,
        "state": "active",
        "version": "5.0",
        "mbps": 53125,
        "remote": "nvswitch",
        "remote_pci": None,
    }
    assert gpu["fabric"] == "completed"
    assert gpu["links_expected"] == 18
    assert gpu["registration"] == {
        "cluster_uuid": "6a8ab8c1-24e4-4fd1-9d5c-0d9f3fd6a1b2",
        "clique": 32766,
        "cliques": [[0, 32766]],
        "status": 0,
        "health": [],
        "summary": "healthy",
    }
    nic = found["nics"][2]
    assert nic["name"] == "mlx5_2"
    assert nic["numa"] is None
    assert nic["guid"] == "071c:5374:df39:4d3f"
    assert nic["pci"] == "0006:01:00.0"
    assert nic["path"] == ["pci0006:00", "0006:00:01.0", "0006:01:00.0"]
    assert nic["ports"] == [{"number": 1, "link_layer": "Ethernet", "state": "ACTIVE"}]
    assert found["platform"] == {
        "chassis": "1821025193108",
        "slot": 1,
        "tray": 0,
        "host": 1,
    }


@pytest.mark.regression
def test_tray_for_scripts_is_linked_and_ok(discover: Command) -> None:
    found = discover("--profile gb200-nvl72-tray -o json").json
    assert found["matrix"][1][0] == "NV18"
    by_nvml = found["pci_levels"]["nvml"]
    by_sysfs = found["pci_levels"]["sysfs"]
    assert by_nvml[1][0] == "NODE"
    assert by_sysfs[1][0] == "NODE"
    assert by_sysfs[7][6] == "PIX"
    last_numa = found["numa"][33]
    assert last_numa["distances"] == [*[40] * 33, 10]
    assert found["gpus_expected"] == 4
    assert found["state"] == "ok"
    assert found["reasons"] == []
    assert found["disputes"] == []


@pytest.mark.regression
def test_machine_with_faults_is_degraded_for_scripts(discover: Command, write: Write) -> None:
    write("faults.yaml", "{links_down: {1: [3]}, vanished: [7]}")
    found = discover("--profile dgx-h200 --faults faults.yaml -o json").json
    assert found["gpus_expected"] == 8
    assert found["labels"]["gpu.topology/gpus"] == "7"
    assert found["state"] == "degraded"
    assert found["reasons"][1] == "GPU 1: 17 of 18 NVLinks active"
    assert found["gpus"][1]["links"][3]["state"] == "inactive"


@pytest.mark.regression
def test_machine_with_faults_is_degraded(discover: Command, write: Write) -> None:
    write("faults.yaml", "links_down: {1: [3]}")
    out = discover("--profile dgx-h200 --faults faults.yaml").out
    assert "NV17" in out
    assert "NIC10: mlx5_10 (0000:" in out
    assert "gpu.topology/state=degraded" in out
    assert "! GPU 1: 17 of 18 NVLinks active" in out


@pytest.mark.regression
def test_labels_of_a_machine_are_their_page(discover: Command) -> None:
    ran = discover("--profile t4-1 -o labels")
    assert ran.out == expected_page("cli/pages/discover-t4-1-labels.txt", ran.out)


@pytest.mark.regression
def test_fault_of_another_type_is_refused_with_its_place(discover: Command, write: Write) -> None:
    write("faults.yaml", "links_down: {0: some}")
    err = discover("--profile t4-1 --faults faults.yaml", code=1).err
    assert ": links_down[...]: 'some' is not a value of this field\n" in err


@pytest.mark.regression
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        pytest.param("--profile dgx-h2000", 1, "dgx-h200", id="misspelt-profile"),
        pytest.param("--profile /no/such/file.yaml", 1, "/no/such/file.yaml", id="missing-profile"),
        pytest.param("--profile list", 1, "gb200-nvl72-tray", id="list-of-profiles"),
        pytest.param("--capture /no/such/file", 1, "No such file", id="missing-capture"),
        pytest.param("--profile t4-1 --capture x", 2, "give --profile or --capture, not both", id="two-machines"),
    ],
)
def test_machine_that_is_not_there_is_an_error(flags: str, code: int, message: str, toposcope: Command) -> None:
    assert message in toposcope(f"discover {flags}", code=code).err


# Pasted matrices


@pytest.mark.regression
def test_pasted_matrix_is_printed_again(discover: Command, write: Write) -> None:
    write(
        "topo.txt",
        """\
                GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity
        GPU0     X      NV4     PIX     0-15    0
        GPU1    NV4      X      SYS     16-31   1
        NIC0    PIX     SYS      X

        NIC Legend:

          NIC0: mlx5_0
        """,
    )
    rows = [line.split() for line in discover("--capture topo.txt -o matrix").out.splitlines()]
    assert [row for row in rows if row] == [
        ["GPU0", "GPU1", "NIC0"],
        ["GPU0", "X", "NV4", "PIX"],
        ["GPU1", "NV4", "X", "SYS"],
        ["NIC0", "PIX", "SYS", "X"],
    ]


@pytest.mark.regression
@pytest.mark.parametrize(
    ("pasted", "named"),
    [
        pytest.param(b"", "GPU0", id="empty"),
        pytest.param(b"hello", "GPU0", id="no-matrix"),
        pytest.param(b"\0\xff\0\xff\0\xff\0\xff", "GPU0", id="binary"),
        pytest.param(b"        GPU0    GPU1\nGPU0     X      NV4\nGPU1    NV5      X\n", "GPU0", id="asymmetric"),
        pytest.param(b"        GPU0    GPU1    NIC0\nGPU0     X      NV4     PIX\n", "GPU1", id="missing-row"),
        pytest.param(b"        GPU0    NIC0\nGPU0     X      FOO\nNIC0    FOO      X\n", "FOO", id="unknown-link"),
    ],
)
def test_text_that_is_no_matrix_is_refused(pasted: bytes, named: str, folder: Path, toposcope: Command) -> None:
    (folder / "topo.txt").write_bytes(pasted)
    ran = toposcope("discover --capture topo.txt", code=1)
    assert ran.out == ""
    assert "toposcope discover: " in ran.err
    assert named in ran.err


RECORDING = Path(__file__).parents[1] / "recordings" / "dgx-h200.json"


def arguments(profile: str | None, capture: str | None = None) -> argparse.Namespace:
    return argparse.Namespace(
        profile=profile,
        faults=None,
        capture=capture,
        sysfs=Path("/sys"),
    )


def reopened(machine: ProbeSource) -> Any:
    """What opens its NVML, as another process gets it."""
    return pickle.loads(pickle.dumps(machine.open_nvml))  # noqa: S301 - pickled on this very line


@pytest.mark.parametrize(
    ("profile", "gpus"), [("t4-1", 1), ("dgx-h200", 8), (str(RECORDING), 8)], ids=["t4", "h200", "recording"]
)
def test_simulated_and_recorded_machines(profile: str, gpus: int) -> None:
    with source(arguments(profile), "node-1") as machine:
        nvml = reopened(machine)()
        nvml.nvmlInit()
        assert nvml.nvmlDeviceGetCount() == gpus


def test_machine_built_from_a_capture(tmp_path: Path) -> None:
    capture = tmp_path / "topo.txt"
    capture.write_text("\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n")
    with source(arguments(None, str(capture)), "node-1") as machine:
        nvml = reopened(machine)()
        nvml.nvmlInit()
        assert nvml.nvmlDeviceGetCount() == 2


def test_source_without_flags_is_this_machine() -> None:
    with source(arguments(None), "node-1") as machine:
        assert reopened(machine) is machine.open_nvml
