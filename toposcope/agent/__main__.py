"""`python -m agent`: the agent on this machine's own hardware."""

import argparse
import sys

from toposcope.agent.gc_tuning import loading
from toposcope.agent.nvml.gateway import open_pynvml
from toposcope.agent.nvml.supervisor import ProbeProcess
from toposcope.agent.options import add_arguments, options


def main() -> int:
    """Run the agent; the program's exit code."""
    parser = argparse.ArgumentParser(prog="python -m agent", description=__doc__)
    add_arguments(parser)
    arguments = parser.parse_args()
    chosen = options(parser, arguments)
    with ProbeProcess(open_pynvml, arguments.sysfs, has_vf_rails=chosen.vf_rails) as probe:
        with loading():
            from toposcope.agent.run import run  # noqa: PLC0415 - after the fork
        return run(chosen, probe)


if __name__ == "__main__":
    sys.exit(main())
