"""Print shell completion: eval "$(toposcope completion bash)", the same for zsh, toposcope
completion fish | source.

Put the line into the shell's startup file. kubectl completes `kubectl toposcope` by itself if
the program `kubectl_complete-toposcope` is on PATH.
"""  # noqa: D205 - a paragraph of --help

import argparse
import importlib
import io
import os
import shlex
import sys
from typing import TYPE_CHECKING, Final

from toposcope.cli import COMMANDS, module_of
from toposcope.cli.command import run_command
from toposcope.cli.errors import EXIT_OK
from toposcope.text import escaped

if TYPE_CHECKING:
    from toposcope.cli.terminal import Screen

SHELLS: Final = ("bash", "zsh", "fish")
_PROGRAM: Final = "toposcope"
_NO_FILES: Final = ":4"
"""What kubectl calls ShellCompDirectiveNoFileComp."""
_FILES: Final = ":0"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the argument of `toposcope completion`."""
    parser.add_argument(
        "shell", choices=SHELLS, metavar="SHELL", help=f"one of {', '.join(SHELLS)}"
    )


def run(_parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Print the shell's code."""
    from argcomplete.shell_integration import shellcode  # noqa: PLC0415 - the agent does without

    def show(screen: "Screen") -> int:
        screen.show(shellcode([_PROGRAM], shell=arguments.shell).splitlines())
        return EXIT_OK

    return run_command("completion", argparse.Namespace(no_pager=True), show)


def complete() -> None:
    """Answer a shell that has set argcomplete's environment, and exit."""
    import argcomplete  # noqa: PLC0415 - as above

    parser = _parser_for(os.environ.get("COMP_LINE", ""))
    argcomplete.autocomplete(parser, always_complete_options="long")


def _parser_for(line: str) -> argparse.ArgumentParser:
    """A parser of the whole program; of the commands, only that of the line is loaded."""
    parser = argparse.ArgumentParser(prog=_PROGRAM)
    parser.add_argument("--version", action="store_true")
    subparsers = parser.add_subparsers()
    words = line.split()
    for name, text in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=text)
        if name in words[1:2]:
            importlib.import_module(module_of(name)).add_arguments(subparser)
    return parser


def kubectl() -> int:
    """The program `kubectl_complete-toposcope`: one candidate per line, then a directive."""
    import argcomplete  # noqa: PLC0415 - as above
    from argcomplete.completers import SuppressCompleter  # noqa: PLC0415 - as above

    *typed, last = sys.argv[1:] or [""]
    line = f"{shlex.join([_PROGRAM, *typed])} {last}"
    os.environ["_ARGCOMPLETE"] = "1"
    os.environ["_ARGCOMPLETE_IFS"] = "\n"
    os.environ["COMP_LINE"] = line
    os.environ["COMP_POINT"] = str(len(line.encode()))
    output = io.StringIO()
    argcomplete.autocomplete(
        _parser_for(line),
        always_complete_options="long",
        exit_method=_stay,
        output_stream=output,
        default_completer=SuppressCompleter(),
    )
    candidates = output.getvalue().split()
    for candidate in candidates:
        print(escaped(candidate))
    print(_NO_FILES if candidates else _FILES)
    return 0


def _stay(_code: int = 0) -> None:
    """Return after completing, where argcomplete exits."""
