"""What is asked of the switch at the other end of an InfiniBand cable, and what it is called."""

import errno
import os
import socket
from collections.abc import Iterator

import pytest
from toposcope.switches import infiniband
from toposcope.switches.infiniband import MadError, _ask, switch_name

DESCRIPTION_BYTES = 64
NODE_DESCRIPTION = 0x10
NODE_INFO = 0x11
HEADER_BYTES = 64
"""Of the kernel's, before each MAD."""


@pytest.fixture
def ends() -> Iterator[tuple[int, socket.socket]]:
    """A descriptor that keeps packets apart, as the kernel's does, and its other end."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with near, far:
        yield near.fileno(), far


def answer(
    attribute: int, data: bytes = b"", *, transaction: int | None = None, status: int = 0, failed: int = 0
) -> bytes:
    """A directed-route SMP with its header; places as in the specification, 14.2.1.2."""
    header = bytearray(HEADER_BYTES)
    header[4:8] = failed.to_bytes(4, "little")
    smp = bytearray(256)
    smp[4:6] = status.to_bytes(2, "big")
    smp[8:12] = b"\xab\xcd\0\x01"  # the kernel's part of the id
    smp[12:16] = (attribute if transaction is None else transaction).to_bytes(4, "big")
    smp[16:18] = attribute.to_bytes(2, "big")
    smp[64:128] = data.ljust(64, b"\0")
    return bytes(header + smp)


def test_request_goes_one_hop_beyond_its_port(ends: tuple[int, socket.socket]) -> None:
    descriptor, far = ends
    far.send(answer(NODE_INFO, b"info"))
    assert _ask(descriptor, 7, 2, NODE_INFO) == b"info".ljust(64, b"\0")
    request = far.recv(1024)
    smp = request[HEADER_BYTES:]
    assert len(smp) == 256
    assert request[:4] == (7).to_bytes(4, "little")
    assert smp[:8] == bytes((1, 0x81, 1, 1, 0, 0, 0, 1))
    assert smp[16:18] == NODE_INFO.to_bytes(2, "big")
    assert smp[32:36] == b"\xff\xff\xff\xff"
    assert smp[128:192] == bytes((0, 2)).ljust(64, b"\0")


def test_late_answer_to_another_request_is_passed_over(ends: tuple[int, socket.socket]) -> None:
    descriptor, far = ends
    far.send(answer(NODE_INFO, b"late"))
    far.send(answer(NODE_DESCRIPTION, b"other", transaction=NODE_INFO))
    far.send(answer(NODE_DESCRIPTION, b"leaf-01", status=0x8000))
    assert _ask(descriptor, 0, 1, NODE_DESCRIPTION) == b"leaf-01".ljust(64, b"\0")


@pytest.mark.parametrize(
    ("packet", "message"),
    [
        pytest.param(answer(NODE_INFO)[:-1], "the answer is cut off", id="cut-off"),
        pytest.param(
            answer(NODE_INFO, failed=errno.ETIMEDOUT), f"no answer: {os.strerror(errno.ETIMEDOUT)}", id="kernel-gave-up"
        ),
        pytest.param(answer(NODE_INFO, status=0x800C), "it answers with status 0xc", id="status"),
    ],
)
def test_answer_that_is_none_says_why(ends: tuple[int, socket.socket], packet: bytes, message: str) -> None:
    descriptor, far = ends
    far.send(packet)
    with pytest.raises(MadError) as caught:
        _ask(descriptor, 0, 1, NODE_INFO)
    assert str(caught.value) == message


def test_no_answer_within_its_time_is_an_error(
    ends: tuple[int, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(infiniband, "_PATIENCE_MS", 1)
    with pytest.raises(MadError, match=f"no answer: {os.strerror(errno.ETIMEDOUT)}"):
        _ask(ends[0], 0, 1, NODE_INFO)


def test_device_that_takes_no_mads_is_an_error_and_is_closed(ends: tuple[int, socket.socket]) -> None:
    taken = os.dup(ends[0])
    with pytest.raises(OSError, match="ioctl"):
        infiniband.neighbour("/dev/umad0", 1, lambda _device, _flags: taken)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(taken)


@pytest.mark.regression
@pytest.mark.parametrize(
    ("described", "name"),
    [
        pytest.param("MF0;leaf-01:MQM9700/U1", "leaf-01", id="one-chip"),
        pytest.param("MF0;leaf-01:MQM9700/U2", "leaf-01/U2", id="second-chip-of-a-box"),
        pytest.param("MF0;core:CS8500/L07/U1", "core/L07", id="chip-of-a-director"),
        pytest.param("MF0;core:CS8500/L07/U2", "core/L07/U2", id="second-chip-of-a-line-card"),
        pytest.param("Quantum Mellanox Technologies", "Quantum Mellanox Technologies", id="unmanaged"),
    ],
)
def test_switch_is_named_by_its_description(described: str, name: str) -> None:
    text = described.encode()
    description = text.ljust(DESCRIPTION_BYTES, b"\0")
    assert switch_name(description) == name
