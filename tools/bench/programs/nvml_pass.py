"""The same interpreter after every NVML call of one probe: no Python process can look at GPUs and weigh less."""

import os
from pathlib import Path

from tools.bench.programs import interpreter
from tools.bench.replay import Replay
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.probe import probe
from toposcope.agent.sysfs import Sysfs


def main() -> int:
    """Probe once."""
    nvml = Nvml(Replay(Path(os.environ["BENCH_TAPE"])))
    probe(nvml, Sysfs(Path(os.environ["BENCH_SYSFS"])), nvml.start())
    return interpreter.main()
