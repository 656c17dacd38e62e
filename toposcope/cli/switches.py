"""Record on this node which switch and port each NIC is cabled to, by LLDP or InfiniBand's first
hop.
"""  # noqa: D205 - a paragraph of --help

import argparse

from toposcope.agent.options import add_node_arguments, add_sysfs_argument, check_node_arguments
from toposcope.telemetry.logs import FORMATS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope switches`."""
    add_node_arguments(parser)
    parser.add_argument(
        "--interval",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="time between checks of the ports; default: 30",
    )
    add_sysfs_argument(parser)
    parser.add_argument("--log-format", choices=FORMATS, default="text", help="default: text")


def run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Run the program; its exit code."""
    check_node_arguments(parser, arguments)
    from toposcope.switches.run import run as run_switches  # noqa: PLC0415 - few commands need it

    return run_switches(**vars(arguments))
