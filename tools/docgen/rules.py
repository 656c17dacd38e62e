"""Tables of the rules of `toposcope check`, of `rules.toml`."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from tools.docgen.tables import listed
from tools.figures import markdown

RULES: Final = Path(__file__).parent / "rules.toml"


@cache
def tables() -> Mapping[str, Mapping[str, str]]:
    """Each table by its name: rules, with blanks between them, to what they demand."""
    text = RULES.read_text(encoding="utf-8")
    return tomllib.loads(text)


def documented() -> set[str]:
    """The rules of all tables; a `*` at the end of one stands for the rest of a name."""
    names: set[str] = set()
    for table in tables().values():
        for rules in table:
            each = rules.split()
            names.update(each)
    return names


def table(name: str) -> str:
    """One table in Markdown."""
    head = ["rule", "what it demands"]
    rows = []
    demands = tables()[name]
    for rules, demand in demands.items():
        names = rules.split()
        row = [listed(names), demand]
        rows.append(row)
    return markdown(head, rows)
