"""Real neighbours: lldpd as the switches' own, at the other end of veth pairs, and the InfiniBand of ibsim."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.api import NODES, ApiUnderTest, node, wait_until
from tests.support.cluster import History, gpu_node
from tests.support.programs import lacking
from toposcope.api.label_keys import SWITCHES
from toposcope.hardware.leaves import rails_text
from toposcope.hardware.neighbours import Neighbour, parse_neighbours
from toposcope.hardware.rails import LeafSwitch, Rail, parse_rails
from toposcope.hierarchy.node import NodeFacts
from toposcope.switches.hearing import Hearing
from toposcope.switches.lldp import decode
from toposcope.switches.packets import LldpSockets

pytestmark = pytest.mark.slow

LEAVES = 8
HOSTS = 64
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
    program = shutil.which("ip") or "ip"
    subprocess.run(
        [program, *flags, "-batch", "-"],
        input=commands.encode(),
        check=True,
    )


def up(name: str) -> list[str]:
    """Interfaces of a network namespace that have a carrier."""
    program = shutil.which("ip") or "ip"
    shown = subprocess.run(
        [program, "-n", name, "-br", "link"],
        check=True,
        capture_output=True,
        text=True,
    )
    interfaces = []
    for line in shown.stdout.splitlines():
        _name, state, *_address = line.split()
        if state == "UP":
            interfaces.append(line)
    return interfaces


class Programs(contextlib.ExitStack):
    """Programs that end with a test."""

    def start(self, *command: str, **options: Any) -> "subprocess.Popen[bytes]":
        program = subprocess.Popen(command, stdin=subprocess.PIPE, **options)
        process = self.enter_context(program)
        self.callback(process.terminate)
        return process


@dataclass(frozen=True)
class Cable:
    """The other end of a host's cable."""

    leaf: int
    port: str


def interface(kind: str, host: int, rail: int) -> str:
    """A host's interface on this machine."""
    return f"{NIC}{kind[0]}{host}-{rail}"


def cable_of(kind: str, host: int, rail: int) -> Cable:
    """Where a host's rail really ends."""
    place = (host, rail)
    host, rail = MISCABLED.get(place, place)
    leaf_of = LEAF_OF[kind]
    leaf = leaf_of(host, rail)
    return Cable(leaf, f"p{host}-{rail}")


def cables(kind: str) -> dict[str, Cable]:
    """All cables by interface."""
    ends = {}
    for host in range(HOSTS):
        for rail in range(LEAVES):
            ends[interface(kind, host, rail)] = cable_of(kind, host, rail)
    return ends


def miscabled(kind: str) -> set[tuple[str, str, str]]:
    """Node, NIC and port of each cable in another leaf than it belongs to."""
    wrong = set()
    for host, rail in MISCABLED:
        cable = cable_of(kind, host, rail)
        if cable.leaf != LEAF_OF[kind](host, rail):
            wrong.add((f"n{host}", f"mlx5_{rail}", cable.port))
    return wrong


@dataclass
class Leaf:
    """A leaf switch: a network namespace, and the ports in it."""

    number: int
    namespace: str
    ports: list[str]


def leaves_of(kind: str) -> list[Leaf]:
    leaves = []
    for number in range(LEAVES):
        namespace = f"toposcope-{os.getpid()}-{kind[0]}{number}"
        leaves.append(Leaf(number, namespace, []))
    for cable in cables(kind).values():
        leaves[cable.leaf].ports.append(cable.port)
    return leaves


def plug_all(kind: str, leaves: list[Leaf]) -> None:
    """Make the namespaces, and the cables from this machine into them."""
    commands = [f"netns add {leaf.namespace}" for leaf in leaves]
    for nic, cable in cables(kind).items():
        namespace = leaves[cable.leaf].namespace
        commands.append(f"link add {nic} up type veth peer name {cable.port} netns {namespace}")
    ip("\n".join(commands))


def unplug_all(leaves: list[Leaf]) -> None:
    """Remove the namespaces, and with them all links."""
    ip("\n".join(f"netns del {leaf.namespace}" for leaf in leaves))


def switch_on(leaf: Leaf, programs: Programs, folder: Path) -> None:
    """Start a leaf's lldpd once all its ports have a carrier."""
    namespace = leaf.namespace
    commands = [f"link set {port} up" for port in leaf.ports]
    ip("\n".join(commands), "-n", namespace)
    # lldpd now and then misses for ever a port whose carrier comes while it starts.
    wait_until(lambda: len(up(namespace)) == HOSTS, "all ports have a carrier")
    configuration = folder / namespace
    configuration.write_text(_SAY.format(f"leaf-{leaf.number}"))
    programs.start(
        "ip",
        "netns",
        "exec",
        namespace,
        "lldpd",
        "-d",
        "-u",
        str(folder / f"{namespace}.s"),
        "-O",
        str(configuration),
        **QUIET,
    )


@pytest.fixture(scope="module", params=LEAF_OF)
def fabric(request: pytest.FixtureRequest) -> Iterator[str]:
    """Leaf switches, each a network namespace with lldpd, cabled to interfaces `...<host>-<rail>` of this machine."""
    need(os.geteuid() == 0 and shutil.which("ip") and shutil.which("lldpd"), "needs root, iproute2 and lldpd")
    kind: str = request.param
    leaves = leaves_of(kind)
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)  # lldpd gives its rights up
    with Programs() as programs:
        programs.callback(shutil.rmtree, folder)
        programs.callback(unplug_all, leaves)
        plug_all(kind, leaves)
        Path("/run/lldpd").mkdir(exist_ok=True)  # where lldpd locks itself up
        for leaf in leaves:
            switch_on(leaf, programs, folder)
        yield kind


def test_cables_in_the_wrong_leaf_and_no_others_are_miscabled(fabric: str) -> None:
    neighbours = hear_all(cables(fabric))
    for netdev, cable in cables(fabric).items():
        neighbour = neighbours[netdev]
        assert neighbour.switch == f"leaf-{cable.leaf}"
        assert neighbour.port == cable.port
    ids = {neighbour.id for neighbour in neighbours.values()}
    assert len(ids) == LEAVES

    history = History()
    nodes = []
    for host in range(HOSTS):
        of_host = []
        for rail in range(LEAVES):
            netdev = interface(fabric, host, rail)
            of_host.append(neighbours[netdev])
        nodes.append(cabled_node(host, of_host))
    history.look(nodes)
    later = history.look(nodes, after=601.0)
    findings = set()
    for miscabled_rail in later.rails.miscabled:
        findings.add((miscabled_rail.node, miscabled_rail.nic, miscabled_rail.port))
    assert findings == miscabled(fabric)


def hear_all(netdevs: Iterable[str]) -> dict[str, Neighbour]:
    """Listen on interfaces until every leaf has spoken there."""
    hearing = Hearing()
    neighbours: dict[str, Neighbour] = {}
    with contextlib.closing(LldpSockets()) as receiver:
        receiver.join(netdevs)

        def all_are_heard() -> bool:
            while frames := [*receiver.frames()]:
                for netdev, frame in frames:
                    hearing.take(netdev, decode(frame), 0.0)
            for netdev in netdevs:
                if neighbour := hearing.neighbour(netdev, 1.0):
                    neighbours[netdev] = neighbour
            return neighbours.keys() >= set(netdevs)

        wait_until(all_are_heard, "every leaf speaks on every port", 120)
    return neighbours


def cabled_node(host: int, leaves: Sequence[Neighbour]) -> NodeFacts:
    """A node as the controller sees it, with a rail to each of these leaves."""
    written = []
    for number, leaf in enumerate(leaves):
        written.append(Rail(f"mlx5_{number}", leaf.switch, leaf.id, leaf.port))
    switches = []
    ports = []
    for rail in parse_rails(rails_text(written)):
        if rail:
            switches.append(LeafSwitch(rail.switch, rail.id))
            ports.append((rail.nic, rail.port))
    node = gpu_node(f"n{host}")
    traits = node.traits._replace(switches=tuple(switches))
    return replace(node, traits=traits, ports=tuple(ports))


@pytest.mark.parametrize("fabric", ["rail-optimised"], indirect=True)
def test_program_writes_neighbours_and_notices_a_leaf_that_leaves(
    fabric: str, api: ApiUnderTest, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    host = 3
    for rail in (1, 2):
        write_nic(tmp_path / f"class/infiniband/mlx5_{rail}", interface(fabric, host, rail))
    (tmp_path / "class/net").symlink_to("/sys/class/net")
    api.create(NODES, node("n1", labels={"fabric": fabric}))
    programs = Programs()
    request.addfinalizer(programs.close)
    program = programs.start(
        sys.executable,
        "-m",
        "toposcope.cli.main",
        "switches",
        "--node-name=n1",
        f"--kubeconfig={api.kubeconfig}",
        f"--sysfs={tmp_path}",
        "--interval=0.5",
    )

    def neighbours() -> dict[str, Neighbour | None]:
        metadata = api.get(f"{NODES}/n1")["metadata"]
        text = metadata.get("annotations", {}).get(SWITCHES)
        return parse_neighbours(text) if text else {}

    def both_are_written() -> bool:
        written = neighbours()
        return len(written) == 2 and all(written.values())

    wait_until(both_are_written, "both are written", 60)
    before = neighbours()
    for rail in (1, 2):
        neighbour = before[f"mlx5_{rail}"]
        cable = cable_of(fabric, host, rail)
        assert neighbour
        assert neighbour.switch == f"leaf-{cable.leaf}"
        assert neighbour.port == cable.port

    ip(f"link set {interface(fabric, host, 2)} down")
    wait_until(lambda: neighbours()["mlx5_2"] is None, "a port without a link has no neighbour", 90)
    after = neighbours()
    assert after["mlx5_1"] == before["mlx5_1"]
    program.terminate()
    assert program.wait(30) == 0


def write_nic(folder: Path, netdev: str) -> None:
    """An RDMA device of sysfs with one Ethernet port and this interface."""
    port = folder / "ports/1"
    port.mkdir(parents=True)
    (port / "link_layer").write_text("Ethernet")
    device = folder / "device"
    (device / "net" / netdev).mkdir(parents=True)
    (device / "vendor").write_text("0x15b3")


def described(leaf: int) -> str:
    """A switch by itself, or a chip of the last two's box."""
    if leaf < LEAVES - 2:
        return f"MF0;leaf-{leaf}:MQM9700/U1"
    chip = leaf - LEAVES + 3
    return f"MF0;leaf:CS8500/L{leaf}/U{chip}"


def leaf_lines(leaf: int) -> list[str]:
    """A leaf with eight hosts below both spines."""
    lines = ["", f'Switch 40 "{described(leaf)}"']
    for spine in (0, 1):
        lines.append(f'[{39 + spine}] "spine-{spine}"[{leaf + 1}]')
    for port in range(1, 9):
        host = 8 * leaf + port - 1
        lines.append(f'[{port}] "gpu-{host}"[1]')
    return lines


def spine_lines(spine: int) -> list[str]:
    """A spine above all leaves."""
    lines = ["", f'Switch 40 "spine-{spine}"']
    for leaf in range(LEAVES):
        lines.append(f'[{leaf + 1}] "{described(leaf)}"[{39 + spine}]')
    return lines


def host_lines(host: int) -> list[str]:
    """A host below its leaf; the first has another host at its second port."""
    leaf, position = divmod(host, 8)
    lines = ["", f'Hca 3 "gpu-{host}"']
    lines.append(f'[1] "{described(leaf)}"[{position + 1}]')
    if host == 0:
        lines.append('[2] "back"[1]')
    return lines


def fat_tree() -> str:
    """Leaves with eight hosts each, all of them below two spines; one more host has another at its second port."""
    lines: list[str] = []
    for leaf in range(LEAVES):
        lines += leaf_lines(leaf)
    for spine in (0, 1):
        lines += spine_lines(spine)
    for host in range(HOSTS):
        lines += host_lines(host)
    lines += ["", 'Hca 1 "back"', '[1] "gpu-0"[2]', ""]
    return "\n".join(lines)


CHIPS = {6: "leaf/L6", 7: "leaf/L7/U2"}
"""What the leaves are called that are chips of one box."""
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


def test_first_hop_of_infiniband_is_asked_of_the_fabric(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    need(UMAD2SIM and shutil.which("ibsim"), "needs Debian's ibsim-utils")
    net = tmp_path / "net"
    net.write_text(fat_tree())
    name = {**os.environ, "IBSIM_SOCKNAME": f"toposcope-{os.getpid()}"}
    programs = Programs()
    request.addfinalizer(programs.close)
    programs.start("ibsim", "-s", str(net), env=name, **QUIET)
    answers: dict[str, list[str]] = {}

    def answered(host: str) -> bool:
        preloaded = {
            **name,
            "LD_PRELOAD": str(UMAD2SIM),
            "SIM_HOST": host,
            "PYTHONPATH": str(Path.cwd()),
        }
        asked = subprocess.run(
            [sys.executable, "-c", ASK],
            env=preloaded,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        answers[host] = asked.stdout.splitlines()
        return asked.returncode == 0

    for host in range(0, HOSTS, 9):
        wait_until(lambda host=host: answered(f"gpu-{host}"), "ibsim answers", 30)  # type: ignore[misc]
        first, second, third = answers[f"gpu-{host}"]
        leaf, position = divmod(host, 8)
        switch = CHIPS.get(leaf, f"leaf-{leaf}")
        assert first == str((switch, str(position + 1), "infiniband"))
        assert second == ("None" if host == 0 else NO_CABLE)
        assert third == NO_CABLE
