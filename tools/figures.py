"""Measured tables in docs/figures/*.json.

What measures writes them; tools.docgen puts them on pages.
"""

import json
import os
import platform
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

FOLDER: Final = Path(__file__).parents[1] / "docs" / "figures"

Rows = Sequence[Sequence[str]]
"""Rows of cells, the first is the head."""


class Table(NamedTuple):
    """The table of one subject, and the run that it is from."""

    measured: str
    """Date and machine."""
    command: str
    head: list[str]
    rows: list[list[str]]


def machine() -> str:
    """Today's date and this machine: CPUs, kernel, Python and how its interpreter was built."""
    now = datetime.now(UTC)
    parts = [
        f"{now:%Y-%m-%d}",
        f"{os.cpu_count()} CPUs ({_cpu_model()})",
        f"Linux {platform.release()}",
        f"Python {platform.python_version()} ({_build()})",
    ]
    return ", ".join(parts)


def _cpu_model() -> str:
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("model name"):
            return line.partition(": ")[2]
    return platform.machine()


def _build() -> str:
    """With which optimizations the interpreter was built; that of the image has both."""
    configured = sysconfig.get_config_var("CONFIG_ARGS") or ""
    flags = {
        "PGO": "--enable-optimizations",
        "LTO": "--with-lto",
    }
    names = []
    for name, flag in flags.items():
        if flag in configured:
            names.append(name)

    if not names:
        return "without PGO and LTO"
    return " and ".join(names)


def command(target: str) -> str:
    """How to make this run again, as a call of make."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--write"]
    if not arguments:
        return f"make {target}"
    return f'make {target} ARGS="{" ".join(arguments)}"'


def read(page: str) -> dict[str, Table]:
    """The tables that were measured last, by subject.

    `page` is the name of a page of docs/ without its suffix.
    """
    return {
        subject: Table(**table)
        for subject, table in json.loads(_file(page).read_text(encoding="utf-8")).items()
    }


def write(page: str, target: str, tables: Mapping[str, Rows]) -> None:
    """Replace the tables of these subjects with those of this run, and keep the others."""
    file = _file(page)
    all_tables = read(page) if file.exists() else {}
    for subject, (head, *rows) in tables.items():
        all_tables[subject] = Table(
            measured=machine(),
            command=command(target),
            head=list(head),
            rows=[list(row) for row in rows],
        )
    FOLDER.mkdir(exist_ok=True)
    content = ",\n".join(_lines(all_tables))
    file.write_text("{\n" + content + "\n}\n", encoding="utf-8")


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; a bar or a line break in a cell would end it."""
    titles = " | ".join(head)
    lines = [
        f"| {titles} |",
        "|" + "---|" * len(head),
    ]
    for row in rows:
        line = "|"
        for text in row:
            cell = " "
            if text:
                cell = f" {_cell(text)} "
            line += cell + "|"
        lines.append(line)
    return "\n".join(lines)


def part(page: str, *subjects: str) -> str:
    """The tables of some subjects as Markdown.

    Neighbours with the same columns share a table. The runs follow.
    """
    known = read(page)
    tables = [known[subject] for subject in subjects]
    parts = []
    for head, group in groupby(tables, lambda table: table.head):
        rows: list[list[str]] = []
        for table in group:
            rows += table.rows
        text = markdown(head, rows)
        parts.append(text)

    return "\n\n".join([*parts, *runs(tables)])


def runs(tables: Iterable[Table]) -> list[str]:
    """What made the tables, each run once, in small print."""
    lines = []
    for table in tables:
        line = f"<small>`{table.command}`, {table.measured}</small>"
        if line not in lines:
            lines.append(line)
    return lines


def _file(page: str) -> Path:
    return FOLDER / f"{page}.json"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def _lines(tables: dict[str, Table]) -> Iterable[str]:
    """A row of a table a line, so that a new run reads well as a diff."""
    for subject, table in tables.items():
        about = {
            "measured": table.measured,
            "command": table.command,
            "head": table.head,
        }
        opened = json.dumps(about)[:-1]
        lines = [json.dumps(row, ensure_ascii=False) for row in table.rows]
        rows = ",\n  ".join(lines)
        name = json.dumps(subject)
        yield f'{name}: {opened}, "rows": [\n  {rows}\n]}}'
