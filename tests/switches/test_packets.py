"""Real packet sockets on veth pairs: each NIC is heard, and nothing else."""

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.api import wait_until
from tests.support.lldp import frame, of_switch
from tests.support.programs import lacking
from tests.support.publishing import Time
from toposcope.switches.lldp import GROUPS
from toposcope.switches.packets import FRAMES_PER_SECOND, LldpSockets

FLOOD = 5000
"""More frames than any receive buffer holds."""
LEAF = of_switch("leaf-01", "b8:59:9f:00:00:01", "Ethernet1/3")
OTHERS = [
    frame(group="ffffffffffff"),
    frame(group="020000000009"),
    frame(group="0180c2000002"),
    frame(group="0180c300000e"),
    LEAF[:12] + b"\x08\x00" + LEAF[14:],
    LEAF[:12] + b"\x81\x00\x00\x05\x88\xcc" + LEAF[14:],
    LEAF[:13],
]
"""Not to one of LLDP's groups, of another EtherType, with a VLAN tag, or cut."""


def ip(*commands: str) -> None:
    program = shutil.which("ip") or "ip"
    batch = "\n".join(commands)
    subprocess.run(
        [program, "-batch", "-"],
        input=batch.encode(),
        check=True,
    )


def is_up(netdev: str) -> bool:
    state = Path(f"/sys/class/net/{netdev}/operstate").read_text()
    return state.strip() == "up"


def remove(netdev: str) -> None:
    """Remove a pair, if it is still there."""
    program = shutil.which("ip") or "ip"
    subprocess.run(
        [program, "link", "del", netdev],
        capture_output=True,
        check=False,
    )


class Cables:
    """Pairs of interfaces: a NIC, and what is at the other end of its cable."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._far: dict[str, socket.socket] = {}

    def plug(self, nic: str) -> str:
        """A new pair that is up; its name on this side."""
        near = f"ts{os.getpid()}{nic}"
        far = f"{near}x"
        ip(
            f"link add {near} type veth peer name {far}",
            f"link set {far} up",
            f"link set {near} up",
        )
        self._stack.callback(remove, near)
        for end in (near, far):
            wait_until(lambda end=end: is_up(end), "the cable has a carrier")  # type: ignore[misc]
        self._far[near] = self._sender(far)
        return near

    def unplug(self, near: str) -> None:
        """Remove a pair."""
        self._far.pop(near).close()
        ip(f"link del {near}")

    def say(self, near: str, *frames: bytes, times: int = 1) -> None:
        """Send frames from the far end."""
        for _ in range(times):
            for octets in frames:
                self._send(self._far[near], octets)

    def say_ourselves(self, near: str, octets: bytes) -> None:
        """Send a frame from this end."""
        self._send(self._sender(near), octets)

    def close(self) -> None:
        self._stack.close()

    def _sender(self, netdev: str) -> socket.socket:
        raw_socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        sender = self._stack.enter_context(raw_socket)
        sender.bind((netdev, 0))
        return sender

    def _send(self, sender: socket.socket, octets: bytes) -> None:
        with contextlib.suppress(BlockingIOError):  # the queue is full: that is a flood too
            sender.send(octets)


@pytest.fixture
def cables() -> Iterator[Cables]:
    if os.geteuid() or not shutil.which("ip"):
        lacking("FABRIC", "needs root and iproute2")
    with contextlib.closing(Cables()) as found:
        yield found


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def receiver(cables: Cables, clock: Time) -> Iterator[LldpSockets]:
    _ = cables  # it needs the same rights
    with contextlib.closing(LldpSockets(clock)) as found:
        yield found


def heard(receiver: LldpSockets, count: int) -> list[tuple[str, bytes]]:
    """All frames, once at least this number has arrived; those of one cable arrive in order."""
    found: list[tuple[str, bytes]] = []

    def arrived() -> bool:
        found.extend(receiver.frames())
        return len(found) >= count

    wait_until(arrived, "the frames have arrived")
    return found


@pytest.mark.regression
def test_pod_that_floods_its_own_interface_drowns_no_switch(cables: Cables, receiver: LldpSockets) -> None:
    first = cables.plug("a")
    second = cables.plug("b")
    pod = cables.plug("pod")
    receiver.join([first, second])
    of_the_pod = of_switch("pod", "b8:59:9f:00:00:02", "eth0")
    cables.say(pod, of_the_pod, times=FLOOD)
    cables.say(first, LEAF)
    cables.say(second, LEAF)
    frames = sorted(heard(receiver, 2))
    assert frames == [(first, LEAF), (second, LEAF)]


@pytest.mark.regression
def test_switch_that_floods_its_port_drowns_no_other(cables: Cables, receiver: LldpSockets, clock: Time) -> None:
    loud = cables.plug("a")
    quiet = cables.plug("b")
    receiver.join([loud, quiet])
    cables.say(loud, LEAF, times=FLOOD)
    cables.say(quiet, LEAF)
    frames = sorted(heard(receiver, FRAMES_PER_SECOND + 1))
    assert frames == [
        *[(loud, LEAF)] * FRAMES_PER_SECOND,
        (quiet, LEAF),
    ]
    assert list(receiver.frames()) == []

    clock.seconds += 0.5
    in_half_a_second = FRAMES_PER_SECOND // 2
    frames = heard(receiver, in_half_a_second)
    assert frames == [(loud, LEAF)] * in_half_a_second

    clock.seconds += 3600
    frames = list(receiver.frames())
    assert len(frames) <= FRAMES_PER_SECOND


@pytest.mark.parametrize("group", GROUPS)
def test_each_group_of_lldp_is_heard(cables: Cables, receiver: LldpSockets, group: bytes) -> None:
    nic = cables.plug("a")
    receiver.join([nic])
    to_group = group + LEAF[6:]
    cables.say(nic, to_group)
    assert heard(receiver, 1) == [(nic, to_group)]


def test_nothing_else_is_heard(cables: Cables, receiver: LldpSockets) -> None:
    nic = cables.plug("a")
    receiver.join([nic])
    for octets in OTHERS:
        with contextlib.suppress(OSError):  # too short to be sent at all
            cables.say(nic, octets)
    ours = of_switch("ourselves", "b8:59:9f:00:00:02", "eth0")
    cables.say_ourselves(nic, ours)
    cables.say(nic, LEAF)
    assert heard(receiver, 1) == [(nic, LEAF)]


def test_frames_of_others_leave_no_mark_before_the_filter_is_there(cables: Cables, receiver: LldpSockets) -> None:
    """The kernel's own counters: nothing was received, and so nothing dropped, but the frames that we want."""
    nic = cables.plug("a")
    receiver.join([nic])
    cables.say(nic, OTHERS[0], times=FLOOD)
    cables.say(nic, LEAF)
    assert heard(receiver, 1) == [(nic, LEAF)]
    assert statistics(receiver) == (1, 0)


def statistics(receiver: LldpSockets) -> tuple[int, int]:
    """PACKET_STATISTICS: frames received and dropped since it was last read."""
    (fileno,) = receiver.filenos()
    with socket.socket(fileno=os.dup(fileno)) as same:
        octets = same.getsockopt(263, 6, 8)
    received = int.from_bytes(octets[:4], "little")
    dropped = int.from_bytes(octets[4:], "little")
    return received, dropped


def test_interface_that_was_replaced_is_heard_again(cables: Cables, receiver: LldpSockets) -> None:
    nic = cables.plug("a")
    receiver.join([nic])
    cables.unplug(nic)
    receiver.join([nic])
    assert receiver.filenos() == []
    assert list(receiver.frames()) == []
    assert cables.plug("a") == nic
    receiver.join([nic])
    cables.say(nic, LEAF)
    assert heard(receiver, 1) == [(nic, LEAF)]


def test_interface_that_was_down_is_heard_again(cables: Cables, receiver: LldpSockets) -> None:
    nic = cables.plug("a")
    receiver.join([nic])
    ip(f"link set {nic} down")
    assert list(receiver.frames()) == []
    ip(f"link set {nic} up")

    def is_heard() -> bool:
        cables.say(nic, LEAF)
        return (nic, LEAF) in receiver.frames()

    wait_until(is_heard, "the interface is heard")


def test_interface_that_is_no_longer_a_nic_is_not_heard(cables: Cables, receiver: LldpSockets) -> None:
    first = cables.plug("a")
    second = cables.plug("b")
    receiver.join([first, second])
    receiver.join([second])
    cables.say(first, LEAF)
    cables.say(second, LEAF)
    assert heard(receiver, 1) == [(second, LEAF)]


def test_missing_interface_is_logged_once(
    receiver: LldpSockets, cables: Cables, caplog: pytest.LogCaptureFixture
) -> None:
    nic = cables.plug("a")
    for _ in range(3):
        receiver.join(["missing0", nic])
    assert caplog.messages == ["missing0: cannot listen: there is no such interface"]
    cables.say(nic, LEAF)
    assert heard(receiver, 1) == [(nic, LEAF)]
