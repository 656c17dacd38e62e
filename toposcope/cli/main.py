"""`toposcope`: finds the subcommand and runs it."""

import os
import sys
from collections.abc import Sequence
from typing import Final

from toposcope import __version__
from toposcope.agent.gc_tuning import loading
from toposcope.cli import COMMANDS, module_of
from toposcope.cli.streams import flushed, open_all

_PLUGIN: Final = "kubectl-toposcope"
"""The name under which kubectl finds this program."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns the exit code (0 OK, 1 a problem was found, 2 wrong usage)."""
    open_all()
    if arguments is None and sys.argv[1:2] == ["agent"]:  # a program of its own, without threads
        from toposcope.agent.nvml.process import fork_early  # noqa: PLC0415 - no other command does

        fork_early()

    try:
        return flushed(_run(arguments))
    except SystemExit as end:  # help and wrong usage
        raise SystemExit(flushed(end.code) if isinstance(end.code, int) else end.code) from None


def _run(arguments: Sequence[str] | None) -> int:
    import argparse  # noqa: PLC0415 - after the agent's fork: see toposcope.agent.nvml.process
    import importlib  # noqa: PLC0415 - same

    words = list(sys.argv[1:] if arguments is None else arguments)
    if "_ARGCOMPLETE" in os.environ:
        from toposcope.cli.completion import complete  # noqa: PLC0415 - only for completion

        complete()

    called = "toposcope"
    if arguments is None:
        _, _, program = sys.argv[0].rpartition("/")
        if program == _PLUGIN:
            called = "kubectl toposcope"

    if words and words[0] in COMMANDS:
        name = words[0]
        # Only the chosen command is imported: the agent must not pay for the demo's libraries.
        with loading():
            command = importlib.import_module(module_of(name))
        # The image is built without docstrings.
        about = command.__doc__ or COMMANDS[name]
        parser = argparse.ArgumentParser(prog=f"{called} {name}", description=about)
        command.add_arguments(parser)
        parsed = parser.parse_args(words[1:])
        code: int = command.run(parser, parsed)
        return code

    epilog = "commands:\n"
    for name, text in COMMANDS.items():
        epilog += f"  {name:<12}{text}\n"
    parser = argparse.ArgumentParser(
        prog=called,
        description="GPU topology discovery for Kubernetes.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage=f"{called} COMMAND [FLAGS]   ({called} COMMAND --help for more)",
    )
    parser.add_argument("--version", action="version", version=f"toposcope {__version__}")
    parser.add_argument(
        "command", nargs="?", choices=COMMANDS, metavar="COMMAND", help="one of the commands below"
    )
    parser.parse_args(words)
    parser.print_help()
    return 2


if __name__ == "__main__":
    sys.exit(main())
