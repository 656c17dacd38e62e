"""The man page toposcope(1), from the parsers of the commands; the wheel installs it."""

import argparse
import importlib

from tools.docgen.tables import form, meaning
from toposcope import __version__
from toposcope.cli import COMMANDS, module_of


def page() -> str:
    """The page in roff's macros for man pages."""
    lines = [
        f'.TH TOPOSCOPE 1 "" "Toposcope {__version__}" "User Commands"',
        ".SH NAME",
        "toposcope \\- GPU topology discovery for Kubernetes",
        ".SH SYNOPSIS",
        ".B toposcope",
        "COMMAND [FLAGS]",
        ".br",
        ".B kubectl toposcope",
        "COMMAND [FLAGS]",
        ".SH EXIT STATUS",
        "0: nothing was found. 1: a problem was found. 2: wrong usage, or no answer.",
        ".SH COMMANDS",
    ]
    for name, summary in COMMANDS.items():
        command = importlib.import_module(module_of(name))
        parser = argparse.ArgumentParser(add_help=False)
        command.add_arguments(parser)
        lines += [f".SS {name}", _roff(" ".join((command.__doc__ or summary).split()))]
        for action in parser._actions:  # noqa: SLF001 - argparse has no public list of what a parser takes
            if action.help != argparse.SUPPRESS:
                lines += [".TP", ".B " + _roff(form(action).replace("`", "")), _roff(meaning(action))]
    return "\n".join(lines) + "\n"


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + escaped if escaped.startswith((".", "'")) else escaped
