"""How `--help` is laid out: as argparse does it, but for what that costs where nobody asks for help."""

import argparse
import os
import sys
from typing import Final

_COLUMNS: Final = 80
"""Where there is no terminal."""
_MARGIN: Final = 2


class Formatter(argparse.HelpFormatter):
    """As wide as the terminal.

    argparse makes a formatter for each flag that is declared, and asks `shutil` how wide a terminal is: that brings
    every format of archives along, a twentieth of an agent's start.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=columns() - _MARGIN)


def columns() -> int:
    """What `shutil.get_terminal_size` answers: `$COLUMNS`, else the terminal's width, else 80."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told):
        return int(told)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or _COLUMNS  # type: ignore[union-attr]  # or it has none
    except (AttributeError, ValueError, OSError):  # no output, a closed one, no terminal
        return _COLUMNS
