"""The same interpreter after every NVML call of one probe: no Python process can look at GPUs and weigh less."""

import os
from pathlib import Path

from agent.nvml import Nvml
from agent.probe import probe
from agent.sysfs import Sysfs
from bench.programs import interpreter
from bench.replay import Replay


def main() -> int:
    """Probe once."""
    nvml = Nvml(Replay(Path(os.environ["BENCH_TAPE"])))
    probe(nvml, Sysfs(Path(os.environ["BENCH_SYSFS"])), nvml.start())
    return interpreter.main()
