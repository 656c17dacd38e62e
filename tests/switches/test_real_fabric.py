"""Real neighbours: lldpd as the switches' own, at the other end of veth pairs, and the InfiniBand of ibsim."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import NODES, ApiUnderTest, node, wait_until
from toposcope.api.label_keys import SWITCHES
from toposcope.switches.hearing import Hearing
from toposcope.switches.lldp import decode
from toposcope.switches.packets import LldpSocket
from toposcope.topology.neighbours import Neighbour, parse_neighbours

LEAVES, HOSTS = 8, 16
MISCABLED = {(3, 2): (5, 3), (5, 3): (3, 2), (9, 0): (9, 1), (9, 1): (9, 0)}
"""Host and rail to those whose cable its leaf got."""
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
NIC = os.environ.get("PYTEST_XDIST_WORKER", "t") + "n"
UMAD2SIM = next(Path("/usr/lib").glob("*/umad2sim/libumad2sim.so"), None)
_SAY = """
configure lldp tx-interval 1
configure system capabilities enabled bridge
configure system hostname {}
"""


def need(there: object, what: str) -> None:
    if not there:
        if os.environ.get("TOPOSCOPE_REQUIRE_FABRIC") == "1":
            pytest.fail(what, pytrace=False)
        pytest.skip(what)


def ip(commands: str, *flags: str) -> None:
    subprocess.run([shutil.which("ip") or "ip", *flags, "-batch", "-"], input=commands.encode(), check=True)


class Programs(contextlib.ExitStack):
    """Programs that end with a test."""

    def start(self, *command: str, **options: Any) -> "subprocess.Popen[bytes]":
        process = self.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, **options))
        self.callback(process.terminate)
        return process


@pytest.fixture(scope="module")
def leaves() -> Iterator[list[str]]:
    """Leaf switches, each a network namespace with lldpd, cabled to interfaces `...<host>-<rail>` of this machine."""
    need(os.geteuid() == 0 and shutil.which("ip") and shutil.which("lldpd"), "needs root, iproute2 and lldpd")
    names = [f"toposcope-{os.getpid()}-{leaf}" for leaf in range(LEAVES)]
    links = []
    for host in range(HOSTS):
        for rail in range(LEAVES):
            at, leaf = MISCABLED.get((host, rail), (host, rail))
            links.append(f"link add {NIC}{host}-{rail} up type veth peer name swp{at} netns {names[leaf]}")
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)  # lldpd gives its rights up
    setup = [f"netns add {name}" for name in names] + links
    with Programs() as programs:
        programs.callback(shutil.rmtree, folder)
        programs.callback(ip, "\n".join(f"netns del {name}" for name in names))  # and with them all links
        ip("\n".join(setup))
        for number, name in enumerate(names, 1):
            ip("\n".join(f"link set swp{host} up" for host in range(HOSTS)), "-n", name)
            (folder / name).write_text(_SAY.format(f"leaf-{number}"))
            flags = ("-d", "-u", str(folder / f"{name}.s"), "-O", str(folder / name))
            Path("/run/lldpd").mkdir(exist_ok=True)  # where it locks itself up
            programs.start("ip", "netns", "exec", name, "lldpd", *flags, **QUIET)
        yield names


def expected(host: int, rail: int) -> tuple[str, str]:
    at, leaf = MISCABLED.get((host, rail), (host, rail))
    return f"leaf-{leaf + 1}", f"swp{at}"


def test_every_cable_of_a_rail_optimised_fabric_is_found_also_where_it_is_wrong(leaves: list[str]) -> None:
    hearing = Hearing()
    cables = {f"{NIC}{host}-{rail}": expected(host, rail) for host in range(HOSTS) for rail in range(LEAVES)}
    with contextlib.closing(LldpSocket()) as receiver:
        receiver.join(cables)

        def all_are_heard() -> bool:
            for netdev, frame in receiver.frames():
                hearing.take(netdev, decode(frame), 0.0)
            return all(hearing.neighbour(netdev, 1.0) for netdev in cables)

        wait_until(all_are_heard, "every leaf speaks on every port", 60)
    found = {netdev: hearing.neighbour(netdev, 1.0) for netdev in cables}
    assert {netdev: (leaf.switch, leaf.port) for netdev, leaf in found.items() if leaf} == cables
    assert len({leaf.id for leaf in found.values() if leaf}) == len(leaves)


def test_the_program_writes_them_and_says_when_a_leaf_leaves(
    leaves: list[str], api: ApiUnderTest, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    host, rails = 3, (1, 2)
    for rail in rails:
        folder = tmp_path / f"class/infiniband/mlx5_{rail}"
        for name, text in (("ports/1/link_layer", "Ethernet"), ("device/vendor", "0x15b3")):
            (folder / name).parent.mkdir(parents=True)
            (folder / name).write_text(text)
        (folder / f"device/net/{NIC}{host}-{rail}").mkdir(parents=True)
    (tmp_path / "class/net").symlink_to("/sys/class/net")
    api.create(NODES, node("n1", labels={"leaves": str(len(leaves))}))
    flags = ("--node-name=n1", f"--kubeconfig={api.kubeconfig}", f"--sysfs={tmp_path}", "--interval=0.5")
    programs = Programs()
    request.addfinalizer(programs.close)
    program = programs.start(sys.executable, "-m", "toposcope.cli.main", "switches", *flags)

    def neighbours() -> dict[str, Neighbour | None]:
        text = api.get(f"{NODES}/n1")["metadata"].get("annotations", {}).get(SWITCHES)
        return parse_neighbours(text) if text else {}

    wait_until(lambda: all(neighbours().values()) and len(neighbours()) == len(rails), "both are written", 60)
    found = neighbours()
    assert {nic: leaf and (leaf.switch, leaf.port) for nic, leaf in found.items()} == {
        f"mlx5_{rail}": expected(host, rail) for rail in rails
    }
    ip(f"link set {NIC}{host}-2 down")
    wait_until(lambda: neighbours()["mlx5_2"] is None, "a port without a link has no neighbour", 90)
    assert neighbours()["mlx5_1"] == found["mlx5_1"]
    program.terminate()
    assert program.wait(30) == 0


NET = """
Switch 8 "MF0;leaf-1:MQM9700/U1"
[1] "gpu-1"[1]
[7] "gpu-2"[1]
[8] "leaf-2"[8]

Switch 8 "leaf-2"
[3] "gpu-1"[2]
[8] "MF0;leaf-1:MQM9700/U1"[8]

Hca 3 "gpu-1"
[1] "MF0;leaf-1:MQM9700/U1"[1]
[2] "leaf-2"[3]

Hca 2 "gpu-2"
[1] "MF0;leaf-1:MQM9700/U1"[7]
[2] "gpu-3"[1]

Hca 1 "gpu-3"
[1] "gpu-2"[2]
"""
ASK = """
import ctypes, os
from toposcope.switches.infiniband import MadError, neighbour
ctypes.CDLL("libibumad.so.3").umad_open_port(None, 0)  # umad2sim takes the form of the header from it
def opened(device, flags):  # os.open calls what umad2sim does not replace
    return ctypes.CDLL(None).open(device.encode(), flags)
for port in 1, 2, 3:
    try:
        found = neighbour("/dev/infiniband/umad0", port, opened)
        print(found and (found.switch, found.port, found.by, found.id[-1]))
    except MadError as error:
        print(error)
"""


def test_the_first_hop_of_infiniband(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    need(UMAD2SIM and shutil.which("ibsim"), "needs Debian's ibsim-utils")
    (tmp_path / "net").write_text(NET)
    name = {**os.environ, "IBSIM_SOCKNAME": f"toposcope-{os.getpid()}"}
    programs = Programs()
    request.addfinalizer(programs.close)
    programs.start("ibsim", "-s", str(tmp_path / "net"), env=name, **QUIET)
    said = {}

    def answered(host: str) -> bool:
        preloaded = {**name, "LD_PRELOAD": str(UMAD2SIM), "SIM_HOST": host, "PYTHONPATH": str(Path.cwd())}
        asked = subprocess.run(
            [sys.executable, "-c", ASK], env=preloaded, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        said[host] = asked.stdout.splitlines()
        return asked.returncode == 0

    for host in ("gpu-1", "gpu-2"):
        wait_until(lambda host=host: answered(host), "ibsim answers", 30)  # type: ignore[misc]
    lost = "no answer: Connection timed out"
    assert said["gpu-1"] == ["('leaf-1', '1', 'infiniband', '0')", "('leaf-2', '3', 'infiniband', '1')", lost]
    assert said["gpu-2"][:2] == ["('leaf-1', '7', 'infiniband', '0')", "None"]
