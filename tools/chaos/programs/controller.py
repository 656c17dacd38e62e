"""`toposcope controller`, on a clock that a run sets."""

import sys

from tools.chaos.programs import clock


def main() -> int:
    """Run the controller."""
    clock.install(sockets=True)
    from toposcope.cli.main import main as toposcope  # noqa: PLC0415 - after the clock

    return toposcope(["controller", *sys.argv[1:]])
