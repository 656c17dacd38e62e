"""Print what makes a shell complete commands and flags: eval "$(toposcope completion bash)".

zsh takes the same line, fish `toposcope completion fish | source`; put it into the shell's start-up file. kubectl
completes `kubectl toposcope` by itself where the program `kubectl_complete-toposcope` is on PATH.
"""

import argparse
import importlib
import io
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from toposcope.errors import ToposcopeError

if TYPE_CHECKING:
    from toposcope.cli.terminal import Screen

SHELLS: Final = ("bash", "zsh", "fish")
_PROGRAM: Final = "toposcope"
_NO_FILES: Final = 4
"""What kubectl calls ShellCompDirectiveNoFileComp."""
_FILES: Final = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the argument of `toposcope completion`."""
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"one of {', '.join(SHELLS)}")


def run(_parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Print the shell's own words."""
    from argcomplete.shell_integration import shellcode  # noqa: PLC0415 - only completion needs it

    from toposcope.cli.looking import WELL, answer  # noqa: PLC0415 - a shell that completes asks for less

    def say(screen: "Screen") -> int:
        screen.show(shellcode([_PROGRAM], shell=arguments.shell).splitlines())
        return WELL

    return answer("completion", argparse.Namespace(no_pager=True), say)


def complete(commands: Mapping[str, str]) -> None:
    """Answer the shell that has set argcomplete's environment, and end the process."""
    import argcomplete  # noqa: PLC0415 - as above

    argcomplete.autocomplete(parser_for(os.environ.get("COMP_LINE", ""), commands), always_complete_options="long")


def parser_for(line: str, commands: Mapping[str, str]) -> argparse.ArgumentParser:
    """A parser of the whole program, with the flags of the command that stands in the line: others stay unloaded."""
    parser = argparse.ArgumentParser(prog=_PROGRAM)
    parser.add_argument("--version", action="store_true")
    subparsers = parser.add_subparsers()
    words = line.split()
    chosen = words[1] if len(words) > 1 else ""
    for name, text in commands.items():
        subparser = subparsers.add_parser(name, help=text)
        if name == chosen:
            importlib.import_module(f"toposcope.cli.{name}").add_arguments(subparser)
    return parser


def candidates(words: Sequence[str], commands: Mapping[str, str]) -> list[str]:
    """What could stand in the place of the last word."""
    from argcomplete.completers import SuppressCompleter  # noqa: PLC0415 - as above
    from argcomplete.finders import CompletionFinder  # noqa: PLC0415 - as above

    line = " ".join([_PROGRAM, *map(shlex.quote, words[:-1]), *words[-1:]])
    found = io.StringIO()
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_LINE": line, "COMP_POINT": str(len(line.encode()))}
    before = dict(os.environ)
    os.environ.update(asked)
    try:
        CompletionFinder()(
            parser_for(line, commands),
            always_complete_options="long",
            exit_method=_over,
            output_stream=found,
            default_completer=SuppressCompleter(),
        )
    except _CompletedError:
        pass
    finally:
        os.environ.clear()
        os.environ.update(before)
    return [word.strip() for word in found.getvalue().split("\n") if word.strip()]


class _CompletedError(ToposcopeError):
    """argcomplete has said what it has to say."""


def _over(_code: int = 0) -> None:
    raise _CompletedError


def kubectl() -> int:
    """The program `kubectl_complete-toposcope`: candidates one a line, then what kubectl shall do besides."""
    from toposcope.cli.main import COMMANDS  # noqa: PLC0415 - main loads this module

    words = sys.argv[1:]
    found = candidates(words or [""], COMMANDS)
    print("".join(f"{word}\n" for word in found) + f":{_NO_FILES if found else _FILES}")
    return 0
