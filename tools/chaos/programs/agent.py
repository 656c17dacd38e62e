"""`toposcope agent`, on a clock that a run sets."""

import sys

from tools.chaos.programs import clock


def main() -> int:
    """Run the agent."""
    clock.install(sockets=False)
    from toposcope.cli.main import main as toposcope  # noqa: PLC0415 - after the clock

    return toposcope(["agent", *sys.argv[1:]])
