"""`python -m agent`: the agent on this machine's own hardware."""

import argparse
import sys

from agent.isolation import ProbeProcess
from agent.loading import loading
from agent.nvml import open_pynvml
from agent.options import add_arguments, options


def main() -> int:
    """Run the agent; the program's exit code."""
    parser = argparse.ArgumentParser(prog="python -m agent", description=__doc__)
    add_arguments(parser)
    arguments = parser.parse_args()
    chosen = options(parser, arguments)
    with ProbeProcess(open_pynvml, arguments.sysfs) as probe:
        with loading():
            from agent.run import run  # noqa: PLC0415 - after the fork: see agent.launch
        return run(chosen, probe)


if __name__ == "__main__":
    sys.exit(main())
