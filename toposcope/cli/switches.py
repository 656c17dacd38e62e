"""Record on this node which switch and port each NIC is cabled to, by LLDP or InfiniBand's first
hop.
"""  # noqa: D205 - a paragraph of --help

import argparse
import os
from pathlib import Path

from toposcope.telemetry.logs import FORMATS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope switches`."""
    parser.add_argument(
        "--node-name",
        default=os.environ.get("NODE_NAME"),
        help="this node's name; default: $NODE_NAME",
    )
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="default: the pod's service account, $KUBECONFIG, ~/.kube/config",
    )
    parser.add_argument(
        "--interval",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="time between checks of the ports; default: 30",
    )
    parser.add_argument(
        "--sysfs",
        type=Path,
        default=Path("/sys"),
        metavar="DIR",
        help="where the kernel's sysfs is; default: /sys",
    )
    parser.add_argument("--log-format", choices=FORMATS, default="text", help="default: text")


def run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Run the program; its exit code."""
    if not arguments.node_name:
        parser.error(
            "which node? pass --node-name NAME or set NODE_NAME (in a pod: fieldRef spec.nodeName)"
        )
    if not arguments.interval > 0:
        parser.error(f"--interval {arguments.interval:g}: must be more than 0 seconds")

    from toposcope.switches.run import run as run_switches  # noqa: PLC0415 - few commands need it

    return run_switches(**vars(arguments))
