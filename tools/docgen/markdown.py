"""Tables in Markdown."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a bar or a line break in a cell would end it."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["|" + "|".join(f" {_cell(text)} " if text else " " for text in row) + "|" for row in rows]
    return "\n".join(lines)


def code(text: str) -> str:
    """As code."""
    return f"`{text}`"


def listed(texts: Iterable[str]) -> str:
    """Each as code, with commas between."""
    return ", ".join(map(code, texts))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")
