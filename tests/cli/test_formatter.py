import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.formatter import Formatter, columns


@pytest.mark.parametrize("told", ["120", "0", "-5", "wide", "", "²"])
def test_the_width_is_what_the_standard_library_says(told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", told)
    assert columns() == shutil.get_terminal_size().columns


def test_a_terminal_is_asked_for_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(os, "get_terminal_size", lambda _descriptor: os.terminal_size((57, 20)))
    assert columns() == 57


def test_help_looks_as_the_standard_library_lays_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    texts = []
    for formatter in (Formatter, argparse.HelpFormatter):
        parser = argparse.ArgumentParser(prog="toposcope agent", formatter_class=formatter)
        parser.add_argument("--interval", type=float, metavar="SECONDS", help="time between probes; " * 5)
        texts.append(parser.format_help())
    assert texts[0] == texts[1]


def test_a_command_line_is_read_without_archive_formats() -> None:
    program = (
        "import sys, argparse, cli.agent\n"
        "from cli.formatter import Formatter\n"
        "parser = argparse.ArgumentParser(formatter_class=Formatter)\n"
        "cli.agent.add_arguments(parser)\n"
        "parser.parse_args(['--once'])\n"
        "print(*sorted({'shutil', 'zlib', 'bz2', 'lzma'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert done.stdout == "\n"
