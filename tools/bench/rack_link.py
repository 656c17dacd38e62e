"""A link between two bridges that delays every frame: `python -m tools.bench.rack_link A B`.

Not every kernel has netem. A frame that leaves bridge A comes out at bridge B a millisecond later,
and the other way round. The rate is limited by `tc` on both ends (see `rings`).
"""

import contextlib
import fcntl
import os
import select
import struct
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final

DELAY_SECONDS: Final = 0.001
FRAME_BYTES: Final = 65_535
MTU_BYTES: Final = 60_000
"""Large, because each frame costs this process some time."""
READY: Final = "ready"
_TUNSETIFF: Final = 0x400454CA
_TAP_WITHOUT_HEADER: Final = 0x1002
_IP: Final = "/usr/sbin/ip"
_TC: Final = "/usr/sbin/tc"


@dataclass(frozen=True)
class DelayedFrame:
    """A frame, and when it comes out (monotonic seconds)."""

    due: float
    content: bytes


@dataclass
class LinkEnd:
    """One end of the link: a device on a bridge, and the frames on their way to it."""

    device: int
    arriving: deque[DelayedFrame] = field(default_factory=deque)

    def deliver(self, now: float) -> None:
        """Hand over the frames that are due; what the device doesn't take is lost."""
        while self.arriving and self.arriving[0].due <= now:
            frame = self.arriving.popleft()
            with contextlib.suppress(OSError):
                os.write(self.device, frame.content)


def open_end(bridge: str) -> LinkEnd:
    """A new device on the bridge, limited to 1 Gbit/s. Raises OSError or CalledProcessError."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    name = f"link-{bridge}"
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH", name.encode(), _TAP_WITHOUT_HEADER))
    up = [_IP, "link", "set", name, "mtu", str(MTU_BYTES), "master", bridge, "up"]
    subprocess.run(up, check=True)
    limit = ["rate", "1gbit", "burst", "256kb", "latency", "50ms"]
    subprocess.run([_TC, "qdisc", "add", "dev", name, "root", "tbf", *limit], check=True)
    return LinkEnd(device)


def forward(first: LinkEnd, second: LinkEnd) -> None:
    """Carry frames both ways for ever."""
    peers = {first.device: second, second.device: first}
    while True:
        readable, _, _ = select.select(list(peers), [], [], _wait(first, second))
        now = time.monotonic()
        for device in readable:
            frame = os.read(device, FRAME_BYTES)
            peers[device].arriving.append(DelayedFrame(now + DELAY_SECONDS, frame))
        first.deliver(now)
        second.deliver(now)


def _wait(first: LinkEnd, second: LinkEnd) -> float | None:
    """Seconds until the next frame is due; None if there is none on its way."""
    now = time.monotonic()
    waits = []
    for end in (first, second):
        if end.arriving:
            waits.append(max(0.0, end.arriving[0].due - now))
    return min(waits, default=None)


def main() -> None:
    """Join two bridges of this network namespace, and say when that is done."""
    first, second = sys.argv[1:]
    ends = open_end(first), open_end(second)
    print(READY, flush=True)
    forward(*ends)


if __name__ == "__main__":
    main()
