"""Keep the labels of this node up to date: probe its GPUs and publish the result on its own Node
object.
"""  # noqa: D205 - a paragraph of --help

import argparse

from toposcope.agent.gc_tuning import loading
from toposcope.agent.options import add_arguments as add_agent_arguments
from toposcope.agent.options import options
from toposcope.cli.hardware import HardwareError, add_profile_argument, hardware
from toposcope.cli.streams import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope agent`."""
    add_agent_arguments(parser)
    add_profile_argument(parser)


def run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Run the agent; the program's exit code."""
    chosen = options(parser, arguments)
    try:
        with hardware(arguments, chosen.node_name) as probe:
            with loading():
                from toposcope.agent.run import run as run_agent  # noqa: PLC0415 - after the fork
            return run_agent(chosen, probe)
    except HardwareError as error:
        say(f"toposcope agent: {error}")
        return 1
