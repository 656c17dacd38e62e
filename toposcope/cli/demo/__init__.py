"""Simulate a cluster of real machines and watch everything work together; needs no GPU and no
cluster.

An embedded API server, the real agent for each of 30 simulated nodes and the real controller
run as separate processes and talk over HTTP. Then the rack label is removed from every node,
and comes back.
"""  # noqa: D205 - a paragraph of --help

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from toposcope.cli.demo.processes import Processes
from toposcope.cli.demo.scenes import Demo, DemoError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope demo`."""
    parser.add_argument(
        "--keep", action="store_true", help="leave the cluster running until Ctrl-C, for kubectl"
    )
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="where to write its kubeconfig; default: a temporary file",
    )


def run(_parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Play the demo; 1 when a scene fails."""
    console = Console(highlight=False, emoji=False, markup=False)
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that `finally` ends the processes
    with tempfile.TemporaryDirectory(prefix="toposcope-demo-") as folder:
        kubeconfig = arguments.kubeconfig or Path(folder) / "kubeconfig"
        with Processes(Path(folder)) as processes:
            demo = Demo(console, processes, kubeconfig)
            try:
                demo.play()
                elapsed = time.monotonic() - began
                demo.say(f"Done in {elapsed:.0f} s.", style="bold")
                if arguments.keep:
                    demo.keep()
                demo.say_path()
            except DemoError as error:
                console.print(f"toposcope demo: {error}", style="bold red")
                console.print(processes.last_words(), style="dim")
                return 1
            except KeyboardInterrupt:
                console.print()

    return 0
