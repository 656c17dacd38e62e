"""The process that holds NVML: probes on request, and announces before each step what it is about to ask.

NVML can hang for minutes or take its process down with it (one lost GPU has done both), so nothing else lives here,
and nothing is loaded that a probe does not need. Between probes it listens to NVML's events.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from toposcope.agent.container_runtime import container_facts
from toposcope.agent.gc_tuning import loading
from toposcope.agent.nvml.channel import EVENT, RESULT, Channel, ChannelError
from toposcope.agent.nvml.events import EventWatch
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.probe import probe
from toposcope.agent.raw import encode
from toposcope.agent.sysfs import Sysfs

_LISTEN_SECONDS: Final = 2.0
"""How long one wait for NVML events lasts; a probe may begin so much later than requested."""


def work(agent: Channel, open_nvml: Callable[[], Any], sysfs: Path) -> None:
    """Answer probe requests until the agent is gone, or until NVML failed as a whole.

    A process in which NVML did not start, or no longer counts GPUs, is not used again: the library is never unloaded,
    so only a new process notices a driver that was installed or upgraded meanwhile.
    """
    try:
        agent.announce("load the NVML binding")
        with loading():
            nvml = Nvml(open_nvml(), agent.announce)
        tree = Sysfs(sysfs)
        events = EventWatch(nvml)
        agent.announce("wait")
        agent.receive()
        started = nvml.start()  # not before the first request: it wakes idle GPUs
        while True:
            raw = probe(nvml, tree, started, container_facts())
            agent.store(encode(raw))
            agent.send(RESULT)
            if raw.down:
                return
            agent.announce("wait for events")
            _listen(agent, events)
            agent.receive()
    except ChannelError:
        return


def _listen(agent: Channel, events: EventWatch) -> None:
    """Report the first of NVML's events, if one comes before the next request."""
    while not agent.wait(0):
        if not events.arm():
            return
        if event := events.wait(_LISTEN_SECONDS):
            agent.send(EVENT, event)
            return  # the probe that follows finds the rest; a storm of XIDs must not become a storm of probes
