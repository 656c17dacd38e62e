"""Commands and flags, from the parsers that read them."""

import argparse
import importlib

from tools.docgen.markdown import code, table
from toposcope.cli.main import COMMANDS


def overview() -> str:
    """Every command with its line of `toposcope --help`."""
    return table(["command", ""], ([f"[`toposcope {name}`](#{name})", text] for name, text in COMMANDS.items()))


def flags() -> str:
    """A section for each command: what it does and all that it takes."""
    return "\n\n".join(_section(name) for name in COMMANDS)


def _section(name: str) -> str:
    command = importlib.import_module(f"toposcope.cli.{name}")
    parser = argparse.ArgumentParser(prog=f"toposcope {name}", add_help=False)
    command.add_arguments(parser)
    text = " ".join((command.__doc__ or COMMANDS[name]).split())
    actions = parser._actions  # noqa: SLF001 - argparse has no public list of what a parser takes
    rows = [[_form(action), _help(action)] for action in actions if action.help != argparse.SUPPRESS]
    return f"### {name}\n\n{text}" + ("\n\n" + table(["takes", "meaning"], rows) if rows else "")


def _form(action: argparse.Action) -> str:
    """As in a usage line: `-l KEY=VALUE`, `--all`, `TOPOLOGY`."""
    metavar = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    if isinstance(metavar, tuple):
        metavar = " ".join(metavar)
    if not action.option_strings:
        return code(metavar)
    value = "" if action.nargs == 0 else f" {metavar}"
    return ", ".join(code(option + value) for option in action.option_strings)


def _help(action: argparse.Action) -> str:
    text = (action.help or "") % vars(action)
    return text + (" (required)" if action.required and action.option_strings else "")
