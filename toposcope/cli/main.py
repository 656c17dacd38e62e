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
_WITH_VALUE: Final = frozenset(
    {
        "--kubeconfig",
        "--context",
        "--request-timeout",
        "--from",
        "--from-limit",
        "--config",
        "--namespace",
        "-n",
        "--output",
        "-o",
    }
)
"""Options of many commands that may stand before the command, as kubectl's do."""
_WITHOUT_VALUE: Final = frozenset({"--no-pager"})


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
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "_ARGCOMPLETE" in os.environ:
        from toposcope.cli.completion import complete  # noqa: PLC0415 - only for completion

        complete()

    called = "toposcope"
    if arguments is None:
        _, _, program = sys.argv[0].rpartition("/")
        if program == _PLUGIN:
            called = "kubectl toposcope"

    words = _command_first(words)
    if words and words[0] in COMMANDS:
        return _run_command(called, words)
    return _overview(called, words)


def _run_command(called: str, words: Sequence[str]) -> int:
    """Run the command that is the first of the words."""
    import argparse  # noqa: PLC0415 - after the agent's fork: see toposcope.agent.nvml.process
    import importlib  # noqa: PLC0415 - same

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


def _overview(called: str, words: Sequence[str]) -> int:
    """Print the help that lists the commands; words that are no command are an error."""
    import argparse  # noqa: PLC0415 - as above

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
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="one of the commands below")
    parsed, unknown = parser.parse_known_args(words)
    commands = [word for word in words if word in COMMANDS]
    if unknown and commands:
        flag = unknown[0]
        parser.error(f"{flag} has to follow the command: {called} {commands[0]} {flag}")
    if parsed.command:
        parser.error(_no_command(parsed.command, called))
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    parser.print_help()
    return 2


def _command_first(words: list[str]) -> list[str]:
    """The words with the options that stand before the command moved behind it."""
    count = 0
    while count < len(words):
        option, equals, _ = words[count].partition("=")
        if option in _WITH_VALUE:
            count += 1 if equals else 2
        elif option in _WITHOUT_VALUE:
            count += 1
        else:
            break
    if not count or words[count : count + 1] == []:
        return words
    return [words[count], *words[:count], *words[count + 1 :]]


def _no_command(word: str, called: str) -> str:
    """The error of a word that is no command, with the closest one."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for an error

    close = get_close_matches(word, COMMANDS, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"all commands: {called} --help"
    return f"{word!r} is not a command; {hint}"


if __name__ == "__main__":
    sys.exit(main())
