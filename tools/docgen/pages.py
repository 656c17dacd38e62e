"""What of docs/ is generated: pictures, and parts of pages. A part stands between two comments; the rest is by hand."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tools.docgen import commands, diagrams, fields, labels, levels, metrics

DOCS: Final = Path(__file__).parents[2] / "docs"

PARTS: Final[Mapping[str, Mapping[str, Callable[[], str]]]] = {
    "labels.md": {"labels": labels.labels, "annotations": labels.annotations},
    "metrics.md": {"agent": metrics.agent, "topologies": metrics.topologies, "work": metrics.work},
    "levels.md": {"catalogue": levels.catalogue, "retired": levels.retired, "mistaken": levels.mistaken},
    "commands.md": {"commands": commands.overview, "flags": commands.flags},
    "fields.md": {"spec": fields.spec, "status": fields.status},
}
"""Page to its generated parts."""


class MissingMarkError(Exception):
    """A page lost the comments between which a part of it is written."""


def put(page: str, part: str, text: str) -> str:
    """The page with `text` as its part of that name.

    Raises MissingMarkError when the page has not exactly one place for it.
    """
    begin, end = f"<!-- generated: {part} (make reference) -->", f"<!-- end: {part} -->"
    pattern = re.compile(f"({re.escape(begin)}\n).*?({re.escape(end)}\n)", re.DOTALL)
    found, places = pattern.subn(lambda match: f"{match[1]}\n{text.strip()}\n\n{match[2]}", page)
    if places != 1:
        raise MissingMarkError(f"the part {part!r} wants {begin!r} and {end!r} once on its page, found {places} times")
    return found


def outdated() -> dict[str, str]:
    """The pages and pictures that are not what the code says, each as it should be."""
    pictures = {f"diagrams/{name}": draw() for name, draw in diagrams.PICTURES.items()}
    found = {name: text for name, text in pictures.items() if not _is(DOCS / name, text)}
    for name, parts in PARTS.items():
        page = text = (DOCS / name).read_text(encoding="utf-8")
        for part, write in parts.items():
            text = put(text, part, write())
        if text != page:
            found[name] = text
    return found


def _is(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text
