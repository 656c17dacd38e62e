"""The process that holds NVML: probes when told to, and says before each step what it is about to ask.

NVML can hang for minutes or take its process down with it (one lost GPU has done both), so nothing else lives here,
and nothing is loaded that a probe does not need. Between probes it listens to NVML's events.
"""

import json
import os
import select
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from toposcope.agent.gc_tuning import loading
from toposcope.agent.nvml.events import EventWatch
from toposcope.agent.nvml.frames import Frame, FrameError, Kind, receive, send
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.probe import probe
from toposcope.agent.raw import RawNode
from toposcope.agent.runtime import CONTROL_DEVICE, RUNTIME_VARIABLES
from toposcope.agent.sysfs import Sysfs

_LISTEN_SECONDS: Final = 2.0
"""How long one wait for NVML events lasts, and how much later than asked a probe may begin for that."""


def work(parent: socket.socket, open_nvml: Callable[[], Any], sysfs: Path, announce: Callable[[str], None]) -> None:
    """Answer probe requests until the parent is gone, or until NVML failed as a whole. `announce` hears each step.

    A process in which NVML did not start, or no longer counts GPUs, is not used again: the library is never unloaded,
    so only a new process notices a driver that was installed or upgraded meanwhile.
    """
    try:
        announce("load the NVML binding")
        with loading():
            nvml = Nvml(open_nvml(), announce)
        tree = Sysfs(sysfs)
        events = EventWatch(nvml)
        announce("wait")
        receive(parent, timeout=None)
        started = nvml.start()  # not before somebody wants to know: it wakes GPUs that nobody uses
        while True:
            raw = probe(nvml, tree, started, container_facts())
            final = any(fault.index is None for fault in raw.faults)
            send(parent, Frame(Kind.LAST if final else Kind.RESULT, encode(raw)))
            if final:
                return
            announce("wait for events")
            _listen(parent, events)
            receive(parent, timeout=None)
    except FrameError:
        return


def _listen(parent: socket.socket, events: EventWatch) -> None:
    """Wait for the next request, and report what NVML's events tell until then."""
    while not select.select([parent], [], [], 0)[0]:
        if not events.arm():
            return
        happened = events.wait(_LISTEN_SECONDS)
        if happened:
            send(parent, Frame(Kind.EVENT, happened.encode(errors="replace")))
            return  # the probe that follows tells the rest; a storm of XIDs must not become a storm of probes


def container_facts(environ: Mapping[str, str] = os.environ, dev: Path = Path("/dev")) -> tuple[tuple[str, str], ...]:
    """What the NVIDIA runtime gave this container, and what it was asked for: see `toposcope.agent.runtime`."""
    facts = [(name, environ[name]) for name in RUNTIME_VARIABLES if name in environ]
    return (*facts, (CONTROL_DEVICE, "present" if (dev / CONTROL_DEVICE).exists() else "absent"))


def encode(raw: RawNode) -> bytes:
    """A probe's result as JSON arrays; a byte in a file name that is not UTF-8 becomes a question mark."""
    return json.dumps(raw, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
