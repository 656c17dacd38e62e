"""Probe machines as an agent does, each with a worker of its own: lines of `TABLE SYSFS` in, lines of a RawNode out."""

import os
import sys
from pathlib import Path

from toposcope.agent.nvml.gateway import open_pynvml
from toposcope.agent.nvml.supervisor import ProbeError, ProbeProcess
from toposcope.agent.raw import encode

for line in sys.stdin:
    os.environ["NVML_TABLE"], sysfs = line.split()
    with ProbeProcess(open_pynvml, Path(sysfs)) as process:
        try:
            answer = encode(process.probe()).decode()
        except ProbeError as error:
            answer = str(error)
    print(answer, flush=True)  # noqa: T201 - what it is for
