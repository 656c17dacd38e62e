"""Keep ClusterTopologies up to date: infer levels from node labels, watch them, publish what
schedulers read.
"""  # noqa: D205 - a paragraph of --help

import argparse

from toposcope.controller.options import add_arguments, options
from toposcope.controller.run import run as run_controller

__all__ = ["add_arguments", "run"]


def run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Run the controller; the program's exit code."""
    return run_controller(options(parser, arguments))
