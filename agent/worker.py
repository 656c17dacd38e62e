"""The process that holds NVML: probes when told to, and says before each step what it is about to ask.

NVML can hang for minutes or take its process down with it (one lost GPU has done both), so nothing else lives here.
Between probes it listens to NVML's events.
"""

import os
import select
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from agent.events import EventWatch
from agent.frames import Broken, Message, receive, send
from agent.nvml import Nvml
from agent.probe import probe
from agent.raw import RawNode
from agent.runtime import CONTROL_DEVICE, RUNTIME_VARIABLES
from agent.sysfs import Sysfs

_LISTEN_SECONDS: Final = 2.0
"""How long one wait for NVML events lasts, and how much later than asked a probe may begin for that."""


def work(parent: socket.socket, open_nvml: Callable[[], Any], sysfs: Path, announce: Callable[[str], None]) -> None:
    """Answer probe requests until the parent is gone, or until NVML failed as a whole. `announce` hears each step.

    A process in which NVML did not start, or no longer counts GPUs, is not used again: the library is never unloaded,
    so only a new process notices a driver that was installed or upgraded meanwhile.
    """
    try:
        nvml = Nvml(open_nvml(), announce)
        tree = Sysfs(sysfs)
        events = EventWatch(nvml)
        started = nvml.start()
        while receive(parent, timeout=None):
            raw = probe(nvml, tree, started, container_facts())
            final = any(fault.index is None for fault in raw.faults)
            send(parent, Message(result=msgspec.Raw(msgspec.json.encode(raw)), final=final))
            if final:
                return
            _listen(parent, events)
    except Broken:
        return


def _listen(parent: socket.socket, events: EventWatch) -> None:
    """Wait for the next request, and report what NVML's events tell until then."""
    while not select.select([parent], [], [], 0)[0]:
        if not events.arm():
            return
        happened = events.wait(_LISTEN_SECONDS)
        if happened:
            send(parent, Message(event=happened))
            return  # the probe that follows tells the rest; a storm of XIDs must not become a storm of probes


def container_facts(environ: Mapping[str, str] = os.environ, dev: Path = Path("/dev")) -> tuple[tuple[str, str], ...]:
    """What the NVIDIA runtime gave this container, and what it was asked for: see `agent.runtime`."""
    facts = [(name, environ[name]) for name in RUNTIME_VARIABLES if name in environ]
    return (*facts, (CONTROL_DEVICE, "present" if (dev / CONTROL_DEVICE).exists() else "absent"))


def decode(result: msgspec.Raw) -> RawNode:
    """A worker's result. Raises msgspec.ValidationError for anything that no probe can have sent."""
    return msgspec.json.decode(result, type=RawNode)
