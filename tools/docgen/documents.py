"""The table of what commands print with `-o json`, of `documents.toml`."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tools.docgen.tables import code
from tools.figures import markdown

DOCUMENTS: Final = Path(__file__).parent / "documents.toml"


def documents() -> Mapping[str, str]:
    """Each command to the fields of its document."""
    text = DOCUMENTS.read_text(encoding="utf-8")
    return tomllib.loads(text)


def table() -> str:
    """The documents in Markdown."""
    head = ["command", "document"]
    rows = []
    for command, fields in documents().items():
        row = [code(command), fields]
        rows.append(row)
    return markdown(head, rows)
