"""Real neighbours: lldpd as the switches' own, at the other end of veth pairs, and the InfiniBand of ibsim."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.api import NODES, ApiUnderTest, node, wait_until
from tests.support.cluster import History, gpu_node
from tests.support.programs import lacking
from toposcope.api.label_keys import SWITCHES
from toposcope.hardware.leaves import rails_text
from toposcope.hardware.neighbours import Neighbour, parse_neighbours
from toposcope.hardware.rails import Rail, Switch, parse_rails
from toposcope.switches.hearing import Hearing
from toposcope.switches.lldp import decode
from toposcope.switches.packets import LldpSockets

pytestmark = pytest.mark.slow

LEAVES, HOSTS = 8, 64
LEAF_OF: dict[str, Callable[[int, int], int]] = {
    "rail-optimised": lambda _host, rail: rail,
    "two-tier": lambda host, _rail: host // 8,
}
"""By the kind of fabric: the leaf where the cable of a host's rail belongs."""
MISCABLED = {(3, 2): (20, 5), (20, 5): (3, 2), (40, 0): (41, 1), (41, 1): (40, 0)}
"""Host and rail to those whose cable its leaf got; the last two share a leaf in one of the fabrics."""
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
        lacking("FABRIC", what)


def ip(commands: str, *flags: str) -> None:
    subprocess.run([shutil.which("ip") or "ip", *flags, "-batch", "-"], input=commands.encode(), check=True)


def up(name: str) -> list[str]:
    """Interfaces of a network namespace that have a carrier."""
    command = [shutil.which("ip") or "ip", "-n", name, "-br", "link"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [line for line in lines if line.split()[1] == "UP"]


class Programs(contextlib.ExitStack):
    """Programs that end with a test."""

    def start(self, *command: str, **options: Any) -> "subprocess.Popen[bytes]":
        process = self.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, **options))
        self.callback(process.terminate)
        return process


def cables(kind: str) -> dict[str, tuple[int, str]]:
    """By interface of a host: the leaf at the other end, and the port there."""
    ends = {(host, rail): MISCABLED.get((host, rail), (host, rail)) for host in range(HOSTS) for rail in range(LEAVES)}
    return {
        f"{NIC}{kind[0]}{host}-{rail}": (LEAF_OF[kind](*at), "p{}-{}".format(*at)) for (host, rail), at in ends.items()
    }


@pytest.fixture(scope="module", params=LEAF_OF)
def fabric(request: pytest.FixtureRequest) -> Iterator[str]:
    """Leaf switches, each a network namespace with lldpd, cabled to interfaces `...<host>-<rail>` of this machine."""
    need(os.geteuid() == 0 and shutil.which("ip") and shutil.which("lldpd"), "needs root, iproute2 and lldpd")
    names = [f"toposcope-{os.getpid()}-{request.param[0]}{leaf}" for leaf in range(LEAVES)]
    wired = cables(request.param)
    links = [f"link add {nic} up type veth peer name {port} netns {names[leaf]}" for nic, (leaf, port) in wired.items()]
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)  # lldpd gives its rights up
    with Programs() as programs:
        programs.callback(shutil.rmtree, folder)
        programs.callback(ip, "\n".join(f"netns del {name}" for name in names))  # and with them all links
        ip("\n".join([f"netns add {name}" for name in names] + links))
        for number, name in enumerate(names):
            ip("\n".join(f"link set {port} up" for leaf, port in wired.values() if leaf == number), "-n", name)
            # lldpd now and then misses for ever a port whose carrier comes while it starts.
            wait_until(lambda name=name: len(up(name)) == HOSTS, "all ports of a leaf have a carrier")  # type: ignore[misc]
            (folder / name).write_text(_SAY.format(f"leaf-{number}"))
            flags = ("-d", "-u", str(folder / f"{name}.s"), "-O", str(folder / name))
            Path("/run/lldpd").mkdir(exist_ok=True)  # where it locks itself up
            programs.start("ip", "netns", "exec", name, "lldpd", *flags, **QUIET)
        yield request.param


def test_every_cable_is_found_and_those_in_the_wrong_leaf_and_no_others_are_called_miscabled(fabric: str) -> None:
    hearing, wired = Hearing(), cables(fabric)
    with contextlib.closing(LldpSockets()) as receiver:
        receiver.join(wired)

        def all_are_heard() -> bool:
            while frames := [*receiver.frames()]:
                for netdev, frame in frames:
                    hearing.take(netdev, decode(frame), 0.0)
            return all(hearing.neighbour(netdev, 1.0) for netdev in wired)

        wait_until(all_are_heard, "every leaf speaks on every port", 120)
    found = {netdev: leaf for netdev in wired if (leaf := hearing.neighbour(netdev, 1.0))}
    ends = {netdev: (leaf.switch, leaf.port) for netdev, leaf in found.items()}
    assert ends == {netdev: (f"leaf-{leaf}", port) for netdev, (leaf, port) in wired.items()}
    assert len({leaf.id for leaf in found.values()}) == LEAVES
    history, nodes = History(), []
    for host in range(HOSTS):
        ours = [found[f"{NIC}{fabric[0]}{host}-{rail}"] for rail in range(LEAVES)]
        rails = [Rail(f"mlx5_{rail}", leaf.switch, leaf.id, leaf.port) for rail, leaf in enumerate(ours)]
        node, known = gpu_node(f"n{host}"), [rail for rail in parse_rails(rails_text(rails)) if rail]
        switches = tuple([Switch(rail.switch, rail.id) for rail in known])
        traits, ports = node.traits._replace(switches=switches), tuple([(rail.nic, rail.port) for rail in known])
        nodes.append(replace(node, traits=traits, ports=ports))
    history.look(nodes)
    told = {(cable.node, cable.nic, cable.port) for cable in history.look(nodes, after=601.0).rails.miscabled}
    assert told == {
        (f"n{host}", f"mlx5_{rail}", "p{}-{}".format(*at))
        for (host, rail), at in MISCABLED.items()
        if LEAF_OF[fabric](host, rail) != LEAF_OF[fabric](*at)
    }


@pytest.mark.parametrize("fabric", ["rail-optimised"], indirect=True)
def test_the_program_writes_them_and_says_when_a_leaf_leaves(
    fabric: str, api: ApiUnderTest, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    host, rails = 3, (1, 2)
    for rail in rails:
        folder = tmp_path / f"class/infiniband/mlx5_{rail}"
        for name, text in (("ports/1/link_layer", "Ethernet"), ("device/vendor", "0x15b3")):
            (folder / name).parent.mkdir(parents=True)
            (folder / name).write_text(text)
        (folder / f"device/net/{NIC}r{host}-{rail}").mkdir(parents=True)
    (tmp_path / "class/net").symlink_to("/sys/class/net")
    api.create(NODES, node("n1", labels={"fabric": fabric}))
    flags = ("--node-name=n1", f"--kubeconfig={api.kubeconfig}", f"--sysfs={tmp_path}", "--interval=0.5")
    programs = Programs()
    request.addfinalizer(programs.close)
    program = programs.start(sys.executable, "-m", "toposcope.cli.main", "switches", *flags)

    def neighbours() -> dict[str, Neighbour | None]:
        text = api.get(f"{NODES}/n1")["metadata"].get("annotations", {}).get(SWITCHES)
        return parse_neighbours(text) if text else {}

    wait_until(lambda: all(neighbours().values()) and len(neighbours()) == len(rails), "both are written", 60)
    found = neighbours()
    ends = {rail: cables(fabric)[f"{NIC}r{host}-{rail}"] for rail in rails}
    assert {nic: leaf and (leaf.switch, leaf.port) for nic, leaf in found.items()} == {
        f"mlx5_{rail}": (f"leaf-{leaf}", port) for rail, (leaf, port) in ends.items()
    }
    ip(f"link set {NIC}r{host}-2 down")
    wait_until(lambda: neighbours()["mlx5_2"] is None, "a port without a link has no neighbour", 90)
    assert neighbours()["mlx5_1"] == found["mlx5_1"]
    program.terminate()
    assert program.wait(30) == 0


def described(leaf: int) -> str:
    """A switch by itself, or a chip of the last two's box."""
    return f"MF0;leaf-{leaf}:MQM9700/U1" if leaf < LEAVES - 2 else f"MF0;leaf:CS8500/L{leaf}/U{leaf - LEAVES + 3}"


def fat_tree() -> str:
    """Leaves with eight hosts each, all of them below two spines; one more host has another at its second port."""
    lines: list[str] = []
    for leaf in range(LEAVES):
        lines += ["", f'Switch 40 "{described(leaf)}"', *(f'[{39 + i}] "spine-{i}"[{leaf + 1}]' for i in (0, 1))]
        lines += [f'[{host % 8 + 1}] "gpu-{host}"[1]' for host in range(HOSTS) if host // 8 == leaf]
    for i in (0, 1):
        lines += ["", f'Switch 40 "spine-{i}"']
        lines += [f'[{leaf + 1}] "{described(leaf)}"[{39 + i}]' for leaf in range(LEAVES)]
    for host in range(HOSTS):
        lines += ["", f'Hca 3 "gpu-{host}"', f'[1] "{described(host // 8)}"[{host % 8 + 1}]']
        lines += ['[2] "back"[1]'] if host == 0 else []
    return "\n".join([*lines, "", 'Hca 1 "back"', '[1] "gpu-0"[2]', ""])


NO_CABLE = "no answer: Connection timed out"
ASK = """
import ctypes, os
from toposcope.switches.infiniband import MadError, neighbour
ctypes.CDLL("libibumad.so.3").umad_open_port(None, 0)  # umad2sim takes the form of the header from it
def opened(device, flags):  # os.open calls what umad2sim does not replace
    return ctypes.CDLL(None).open(device.encode(), flags)
for port in 1, 2, 3:
    try:
        found = neighbour("/dev/infiniband/umad0", port, opened)
        print(found and (found.switch, found.port, found.by))
    except MadError as error:
        print(error)
"""


def test_the_first_hop_of_infiniband(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    need(UMAD2SIM and shutil.which("ibsim"), "needs Debian's ibsim-utils")
    (tmp_path / "net").write_text(fat_tree())
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

    for host in range(0, HOSTS, 9):
        wait_until(lambda host=host: answered(f"gpu-{host}"), "ibsim answers", 30)  # type: ignore[misc]
        first, second, third = said[f"gpu-{host}"]
        name_of = {LEAVES - 2: "leaf/L6", LEAVES - 1: "leaf/L7/U2"}.get(host // 8, f"leaf-{host // 8}")
        assert first == str((name_of, str(host % 8 + 1), "infiniband"))
        assert (second, third) == ("None" if host == 0 else NO_CABLE, NO_CABLE)
