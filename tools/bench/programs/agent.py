"""`toposcope agent` as it runs in a pod, except for the hardware: NVML's answers come from a tape."""

import argparse
import functools
import os
from pathlib import Path
from typing import Any

from toposcope.agent.gc_tuning import loading


def main() -> int:
    """Run the agent; `BENCH_TAPE` names the tape."""
    with loading():  # as toposcope.cli.main and toposcope.cli.agent do
        from toposcope.agent.nvml.supervisor import ProbeProcess  # noqa: PLC0415 - see above
        from toposcope.agent.options import options  # noqa: PLC0415 - same
        from toposcope.cli.agent import add_arguments  # noqa: PLC0415 - same
    tape = Path(os.environ["BENCH_TAPE"])
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    arguments = parser.parse_args()
    chosen = options(parser, arguments)
    with ProbeProcess(functools.partial(_open, tape), arguments.sysfs) as probe:
        with loading():
            from toposcope.agent.run import run  # noqa: PLC0415 - after the fork, as in toposcope.cli.agent
            from toposcope.kube.config import load  # noqa: PLC0415 - same
        load.__defaults__ = (os.environ, Path(os.environ["BENCH_ACCOUNT"]), None)
        return run(chosen, probe)


def _open(tape: Path) -> Any:
    """The tape, loaded in the worker and nowhere else, as `gateway.open_pynvml` loads the binding."""
    from tools.bench.replay import Replay  # noqa: PLC0415 - see above

    return Replay(tape)
