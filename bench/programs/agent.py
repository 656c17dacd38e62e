"""`toposcope agent` as it runs in a pod, except for the hardware: NVML's answers come from a tape."""

import argparse
import functools
import os
from pathlib import Path
from typing import Any

from agent.loading import loading


def main() -> int:
    """Run the agent; `BENCH_TAPE` names the tape."""
    with loading():  # as cli.main and cli.agent do
        from agent.isolation import ProbeProcess  # noqa: PLC0415 - see above
        from agent.options import options  # noqa: PLC0415 - same
        from cli.agent import add_arguments  # noqa: PLC0415 - same
    tape = Path(os.environ["BENCH_TAPE"])
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    arguments = parser.parse_args()
    chosen = options(parser, arguments)
    with ProbeProcess(functools.partial(_open, tape), arguments.sysfs) as probe:
        with loading():
            from agent.run import run  # noqa: PLC0415 - after the fork, as in cli.agent
            from kube.config import load  # noqa: PLC0415 - same
        load.__defaults__ = (os.environ, Path(os.environ["BENCH_ACCOUNT"]), None)
        return run(chosen, probe)


def _open(tape: Path) -> Any:
    """The tape, loaded in the worker and nowhere else, as `agent.nvml.open_pynvml` loads the binding."""
    from bench.replay import Replay  # noqa: PLC0415 - see above

    return Replay(tape)
