"""Print shell completion: eval "$(toposcope completion bash)", the same for zsh, toposcope completion fish | source.

Put the line into the shell's startup file. kubectl completes `kubectl toposcope` by itself if the program
`kubectl_complete-toposcope` is on PATH.
"""

import argparse
import importlib
import io
import os
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from toposcope.cli import COMMANDS, module_of
from toposcope.cli.command import run_command
from toposcope.cli.errors import EXIT_OK
from toposcope.errors import ToposcopeError
from toposcope.text import escaped

if TYPE_CHECKING:
    from toposcope.cli.terminal import Screen

SHELLS: Final = ("bash", "zsh", "fish")
_PROGRAM: Final = "toposcope"
_NO_FILES: Final = 4
"""What kubectl calls ShellCompDirectiveNoFileComp."""
_FILES: Final = 0


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

    argcomplete.autocomplete(
        parser_for(os.environ.get("COMP_LINE", "")), always_complete_options="long"
    )


def parser_for(line: str) -> argparse.ArgumentParser:
    """A parser of the whole program, with the flags of the command in the line: the others are not loaded."""
    parser = argparse.ArgumentParser(prog=_PROGRAM)
    parser.add_argument("--version", action="store_true")
    subparsers = parser.add_subparsers()
    words = line.split()
    chosen = words[1] if len(words) > 1 else ""
    for name, text in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=text)
        if name == chosen:
            importlib.import_module(module_of(name)).add_arguments(subparser)
    return parser


def candidates(words: Sequence[str]) -> list[str]:
    """Completions of the last word."""
    from argcomplete.completers import SuppressCompleter  # noqa: PLC0415 - as above
    from argcomplete.finders import CompletionFinder  # noqa: PLC0415 - as above

    line = " ".join([_PROGRAM, *map(shlex.quote, words[:-1]), *words[-1:]])
    output = io.StringIO()
    environ = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line.encode())),
    }
    before = dict(os.environ)
    os.environ.update(environ)
    try:
        CompletionFinder()(
            parser_for(line),
            always_complete_options="long",
            exit_method=_completed,
            output_stream=output,
            default_completer=SuppressCompleter(),
        )
    except _CompletedError:
        pass
    finally:
        os.environ.clear()
        os.environ.update(before)
    return [word.strip() for word in output.getvalue().split("\n") if word.strip()]


class _CompletedError(ToposcopeError):
    """argcomplete is done."""


def _completed(_code: int = 0) -> None:
    raise _CompletedError


def kubectl() -> int:
    """The program `kubectl_complete-toposcope`: one candidate per line, then a directive to kubectl."""
    words = sys.argv[1:]
    words_found = candidates(words or [""])
    print(
        "".join(f"{escaped(word)}\n" for word in words_found)
        + f":{_NO_FILES if words_found else _FILES}"
    )
    return 0
