"""`toposcope agent` as it runs in a pod, except for the hardware: NVML's answers come from a tape."""

import argparse
import os
from pathlib import Path

from agent.isolation import ProbeProcess
from agent.options import options
from agent.run import run
from bench.replay import Replay
from cli.agent import add_arguments
from kube.config import load


def main() -> int:
    """Run the agent; `BENCH_TAPE` names the tape."""
    load.__defaults__ = (os.environ, Path(os.environ["BENCH_ACCOUNT"]))
    tape = Path(os.environ["BENCH_TAPE"])
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    arguments = parser.parse_args()
    chosen = options(parser, arguments)
    with ProbeProcess(lambda: Replay(tape), arguments.sysfs) as probe:
        return run(chosen, probe)
