"""An agent whose turns come when they are told to: the production loop, worker and client, under a clock of its own.

`BENCH_TAPE` and `BENCH_SYSFS` are the machine; while the file `BENCH_FAULT` is there, what it names is broken. Orders
come as JSON lists on standard input, and each is answered with one line of JSON:

    ["turns", N]   as many turns, one interval apart
    ["look"]       {"rss", "worker", "files", "threads", "sizes"}; `worker` is its process's resident size in bytes
    ["worker"]     the worker's process id
"""

import argparse
import functools
import os
import random
import sys
from pathlib import Path
from typing import Any

from toposcope.agent.gc_tuning import loading
from toposcope.agent.nvml.supervisor import ProbeProcess
from toposcope.agent.options import add_arguments, options

_DOWN = 0
_COUNT = "nvmlDeviceGetCount"
_LINK = "nvmlDeviceGetNvLinkState"


def main() -> int:
    """Serve orders until standard input ends; the flags are the agent's."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    chosen = options(parser, parser.parse_args())
    opener = functools.partial(_open, Path(os.environ["BENCH_TAPE"]), Path(os.environ["BENCH_FAULT"]))
    with ProbeProcess(opener, Path(os.environ["BENCH_SYSFS"])) as probe:
        with loading():
            from tools.bench.agent_day import serve  # noqa: PLC0415 - after the fork, as in toposcope.cli.agent
        return serve(chosen, probe, sys.stdin, random.Random(0))  # noqa: S311 - jitter, not a secret


def _open(tape: Path, fault: Path) -> Any:
    """The tape, with what the file says broken. Made in the worker, where alone the binding may be loaded."""
    from tools.bench.replay import Replay  # noqa: PLC0415 - see above

    class Faulty(Replay):
        """Looks once a probe what is broken."""

        broken = ""

        def nvmlEventSetWait_v2(self, events: Any, _milliseconds: int) -> None:  # noqa: N802 - NVML's name
            """Nothing happens, and soon: a turn must not wait for it."""
            super().nvmlEventSetWait_v2(events, 1)

        def _answer(self, name: str, *arguments: Any) -> Any:
            if name.startswith(_COUNT):
                self.broken = fault.read_text(encoding="ascii") if fault.exists() else ""
            if self.broken == "link" and name == _LINK and arguments[1:] == (0,):
                return _DOWN
            if self.broken == "gpu" and name == _LINK:
                raise self._pynvml.NVMLError(self._pynvml.NVML_ERROR_GPU_IS_LOST)
            return super()._answer(name, *arguments)

    return Faulty(tape)
