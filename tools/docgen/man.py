"""The man page toposcope(1), from the parsers of the commands; the wheel installs it."""

from tools.docgen.tables import command, form, meaning
from toposcope import __version__
from toposcope.cli import COMMANDS


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
    for name in COMMANDS:
        text, actions = command(name)
        lines += [f".SS {name}", _roff(text)]
        for action in actions:
            lines += [".TP", ".B " + _roff(form(action).replace("`", "")), _roff(meaning(action))]
    return "\n".join(lines) + "\n"


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + escaped if escaped.startswith((".", "'")) else escaped
