"""The process that holds NVML.

Probes on request, and announces before each step what it is about to ask. NVML can hang for minutes
or take its process down with it (one lost GPU has done both), so nothing else lives here, and
nothing is loaded that a probe does not need. Between probes it listens to NVML's events.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from toposcope.agent.container_runtime import container_facts
from toposcope.agent.gc_tuning import loading
from toposcope.agent.nvml.channel import EVENT, LISTEN, RESULT, Channel, ChannelError
from toposcope.agent.nvml.events import EventWatch
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.probe import probe
from toposcope.agent.raw import RawNode, encode
from toposcope.agent.sysfs import Sysfs

_LISTEN_SECONDS: Final = 5.0
"""How long one wait for NVML events lasts.

A probe that comes before it is due may begin so much later.
"""
_WHOLE_PROBE_TURNS: Final = 10
"""Everything is asked again after this many probes, and whenever anything changed. In between,
what only a reset or a person changes is not: of 566 calls on eight GPUs 90 are left, and each
goes to the driver."""


def work(agent: Channel, open_nvml: Callable[[], Any], sysfs: str, has_vf_rails: bool) -> None:
    """Answer probe requests until the agent is gone, or until NVML failed as a whole.

    A process in which NVML did not start, or no longer counts GPUs, is not used again: the library
    is never unloaded, so only a new process notices a driver that was installed or upgraded
    meanwhile.
    """
    try:
        agent.announce("load the NVML binding")
        with loading():
            nvml = Nvml(open_nvml(), agent.announce)
        tree = Sysfs(sysfs, has_vf_rails=has_vf_rails)
        events = EventWatch(nvml)
        agent.announce("wait")
        agent.receive()
        started = nvml.start()  # not before the first request: it wakes idle GPUs
        last: RawNode | None = None
        turn = 0
        while True:
            is_whole_probe = turn % _WHOLE_PROBE_TURNS == 0
            if is_whole_probe:
                nvml.forget()
            raw = probe(nvml, tree, started, container_facts())
            if raw != last and not is_whole_probe:
                nvml.forget()  # what was not asked again may have changed too
                raw = probe(nvml, tree, started, container_facts())
                turn = 0
            if raw != last:  # else it is in memory
                agent.store(encode(raw))
            last = raw
            turn += 1
            agent.send(RESULT)
            if raw.down:
                return
            agent.announce("wait for events")
            while (signal := agent.receive())[0] == LISTEN:
                if _listen(agent, events, float(signal[1])):
                    turn = 0
    except ChannelError:
        return


def _listen(agent: Channel, events: EventWatch, until: float) -> bool:
    """Report the first of NVML's events, if one comes by then and before another signal.

    Whether one did.
    """
    while (seconds_left := until - time.monotonic()) > 0 and not agent.wait(0):
        if not events.arm():
            return False
        if event := events.wait(min(seconds_left, _LISTEN_SECONDS)):
            agent.send(EVENT, event)
            # the probe that follows finds the rest; a storm of XIDs must not become a storm of
            # probes
            return True
    return False
